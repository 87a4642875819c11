//! The ids in use on one hop, and the way of a cancel to the request it names.

use alloc::collections::BTreeMap;

use super::{CancelNotice, Operation};
use crate::hop::{Era, Hop, Transport};
use crate::ids::RequestId;

/// The requests in flight in one direction of one connection (stdio), session (legacy HTTP) or caller.
///
/// `T` is what leads to the exchange: a channel of the task that owns it, or the machine itself in a simulation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InFlight<T> {
    hop: Hop,
    entries: BTreeMap<RequestId, (Operation, T)>,
}

/// An id that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request id {id:?} is still in use on this connection; choose one that was not used before")]
pub struct IdInUse {
    /// The id that was asked for.
    pub id: RequestId,
}

/// Why a cancel leads nowhere. It is counted and never answered (CAN-08, CAN-11, MSG-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unroutable {
    /// No readable `requestId` (LEG-72, CAN-11).
    Malformed,
    /// No such request is in flight: unknown, or finished.
    Unknown,
    /// Posted over Streamable HTTP in the modern era, where ids of different callers may be equal (CAN-18).
    WrongTransport,
    /// It names an `initialize` (LEG-10).
    NotCancellable,
}

impl<T> InFlight<T> {
    /// An empty table for one hop.
    pub const fn new(hop: Hop) -> Self {
        Self { hop, entries: BTreeMap::new() }
    }

    /// Takes `id` for a new request.
    ///
    /// # Errors
    /// The id is taken: by a running request, or by a cancelled one whose handler has not ended yet.
    pub fn open(&mut self, id: RequestId, operation: Operation, to: T) -> Result<(), IdInUse> {
        if self.entries.contains_key(&id) {
            return Err(IdInUse { id });
        }
        self.entries.insert(id, (operation, to));
        Ok(())
    }

    /// Where an incoming `notifications/cancelled` leads.
    ///
    /// # Errors
    /// It leads nowhere, and why.
    pub fn route_cancel(&self, notice: &CancelNotice) -> Result<&T, Unroutable> {
        match (self.hop.transport, self.hop.era) {
            (Transport::Http, Era::Modern) => return Err(Unroutable::WrongTransport),
            (Transport::Stdio, Era::Modern | Era::Legacy) | (Transport::Http, Era::Legacy) => {}
        }
        let CancelNotice::Names { id, .. } = notice else { return Err(Unroutable::Malformed) };
        match self.entries.get(id) {
            None => Err(Unroutable::Unknown),
            Some((Operation::Initialize, _)) => Err(Unroutable::NotCancellable),
            Some((Operation::Ordinary | Operation::Listen | Operation::Probe | Operation::Augmented, to)) => {
                Ok(to)
            }
        }
    }

    /// What leads to a request, for its response.
    pub fn get(&self, id: &RequestId) -> Option<&T> {
        self.entries.get(id).map(|(_, to)| to)
    }

    /// What kind of request has this id.
    pub fn operation(&self, id: &RequestId) -> Option<Operation> {
        self.entries.get(id).map(|(operation, _)| *operation)
    }

    /// Frees an id: the exchange ended, and so did its handler.
    pub fn release(&mut self, id: &RequestId) -> Option<T> {
        self.entries.remove(id).map(|(_, to)| to)
    }

    /// Empties the table, when the connection ended: in the order of the ids.
    pub fn drain(&mut self) -> impl Iterator<Item = (RequestId, T)> + use<T> {
        core::mem::take(&mut self.entries).into_iter().map(|(id, (_, to))| (id, to))
    }

    /// How many ids are in use.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no id is in use.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(id: impl Into<RequestId>) -> CancelNotice {
        CancelNotice::Names { id: id.into(), reason: None }
    }

    #[test]
    fn f010_an_id_in_use_is_refused_and_types_stay_apart() {
        let mut table = InFlight::new(Hop::ALL[0]);
        table.open(1.into(), Operation::Ordinary, 'a').unwrap();
        table.open("1".into(), Operation::Ordinary, 'b').unwrap();
        assert_eq!(table.open(1.into(), Operation::Ordinary, 'c'), Err(IdInUse { id: 1.into() }));
        assert_eq!(table.route_cancel(&names(1)), Ok(&'a'));
        assert_eq!(table.route_cancel(&names("1")), Ok(&'b'));
        table.release(&1.into());
        table.open(1.into(), Operation::Ordinary, 'c').unwrap();
    }

    #[test]
    fn d_03_cancels_that_lead_nowhere_are_told_apart_and_change_nothing() {
        let mut table = InFlight::new(Hop::ALL[0]);
        table.open(1.into(), Operation::Ordinary, ()).unwrap();
        table.open(2.into(), Operation::Initialize, ()).unwrap();
        let before = table.clone();
        assert_eq!(table.route_cancel(&CancelNotice::Malformed), Err(Unroutable::Malformed));
        assert_eq!(table.route_cancel(&names(9)), Err(Unroutable::Unknown));
        assert_eq!(table.route_cancel(&names(2)), Err(Unroutable::NotCancellable));
        assert_eq!(table, before);
    }

    #[test]
    fn can_18_a_cancel_posted_in_the_modern_era_leads_nowhere() {
        for hop in Hop::ALL {
            let mut table = InFlight::new(hop);
            table.open(1.into(), Operation::Ordinary, ()).unwrap();
            let modern_http = hop.transport == Transport::Http && hop.era == Era::Modern;
            let expected = if modern_http { Err(Unroutable::WrongTransport) } else { Ok(&()) };
            assert_eq!(table.route_cancel(&names(1)), expected);
        }
    }
}
