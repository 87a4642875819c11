//! Bugs between the ledger's transitions and those who use them.

use steadfast_core::ledger::{Claim, Enforcement, LEASE, Record, Stamp};

use steadfast_core::time::Instant;

use super::Bug;
use crate::event::{Body, Settled};

/// What a claim is asked with.
#[inline]
pub(crate) fn claims(
    bug: Option<Bug>,
    known: Option<&Record<Body>>,
    mut claim: Claim,
    mut now: Stamp,
) -> (Claim, Stamp) {
    match bug {
        Some(Bug::FingerprintNotCompared) => {
            claim.fingerprint = known.map_or(claim.fingerprint, |record| record.fingerprint);
        }
        Some(Bug::LiveLeaseIgnored) if known.is_some() => now.up = now.up.saturating_add(LEASE),
        Some(Bug::DeadLeaseWaitedFor) => now.up = Instant::ZERO,
        Some(Bug::DoubtfulRepeated) => claim.enforcement = Enforcement::Upstream,
        _ => {}
    }
    (claim, now)
}

/// What is handed out as the stored answer.
#[inline]
pub(crate) fn replayed(bug: Option<Bug>, body: Body) -> Body {
    match bug {
        Some(Bug::ReplayAltered) => body + 1,
        _ => body,
    }
}

/// What is stored as the end.
#[inline]
pub(crate) fn settles(bug: Option<Bug>, settled: Settled) -> Settled {
    match (bug, settled) {
        (Some(Bug::UnknownCalledRejected), Settled::Unknown) => Settled::Rejected,
        _ => settled,
    }
}

/// The epoch under which an attempt settles.
#[inline]
pub(crate) fn epoch(bug: Option<Bug>, own: u64, last: u64) -> u64 {
    match bug {
        Some(Bug::StaleEpochSettles) => last,
        _ => own,
    }
}

/// Whether the request leaves before the claim is committed.
#[inline]
pub(crate) fn sends_early(bug: Option<Bug>) -> bool {
    bug == Some(Bug::SentBeforeClaim)
}

/// Whether the caller is told before the settlement is committed.
#[inline]
pub(crate) fn tells_early(bug: Option<Bug>) -> bool {
    bug == Some(Bug::ToldBeforeSettled)
}

/// Whether an owner looks at its own lease before the first byte leaves.
#[inline]
pub(crate) fn minds_its_lease(bug: Option<Bug>) -> bool {
    bug != Some(Bug::SentAfterLease)
}

/// Whether the key is looked up before the transaction that has the effect.
#[inline]
pub(crate) fn checks_apart(bug: Option<Bug>) -> bool {
    bug == Some(Bug::KeyCheckedApart)
}
