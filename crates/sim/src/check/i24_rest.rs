//! I-24: at rest no timer, slot, map entry, child or lease remains.

use super::Verdict;
use crate::event::{Exchange, Ledger};

#[inline]
pub(super) fn see(event: &Exchange) -> Verdict {
    match *event {
        Exchange::AtRest { timers: 0, ids: 0, handlers: 0 } => Ok(()),
        Exchange::AtRest { timers: 1.., .. } => Err("a machine at rest still wants to be woken"),
        Exchange::AtRest { ids: 1.., .. } => Err("an id is in use at rest"),
        Exchange::AtRest { handlers: 1.., .. } => Err("a handler runs at rest"),
        _ => Ok(()),
    }
}

#[inline]
pub(super) fn see_ledger(event: &Ledger) -> Verdict {
    match *event {
        Ledger::AtRest { locked: true, .. } => Err("a transaction is open at rest"),
        Ledger::AtRest { state: "claimed", .. } => Err("a lease is alive at rest"),
        _ => Ok(()),
    }
}
