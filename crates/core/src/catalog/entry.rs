//! One cached entry: how long it is fresh, who fetches it, and what a change notice does to it.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::hints::Sharing;
use crate::time::Instant;

/// What the operator says of caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The longest that anything is fresh, whatever the server says: `catalog_ttl`.
    pub ttl: Duration,
    /// How long after its freshness an entry may serve where its refresh fails, marked: `stale_for`.
    pub stale_for: Duration,
}

impl Policy {
    /// Five minutes fresh, ten more in need (product.md `[defaults]`).
    pub const DEFAULT: Self = Self { ttl: Duration::from_secs(300), stale_for: Duration::from_secs(600) };
}

/// How many fetches change notices may cause in a minute; beyond that the entry serves, marked stale. A server that
/// tells of a change whenever it is asked would be asked for ever (F091).
const NOTICED_A_MINUTE: usize = 6;
const MINUTE: Duration = Duration::from_secs(60);

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held<V> {
    /// As it was received.
    pub value: V,
    /// When.
    pub received: Instant,
    /// From when on it is stale.
    pub expires: Instant,
    /// Who may be served it.
    pub sharing: Sharing,
    /// It is stale because the server said that it has changed.
    noticed: bool,
}

impl<V> Held<V> {
    /// Whether it is fresh: exactly while `now < expires` (CCH-09).
    pub fn is_fresh(&self, now: Instant) -> bool {
        now < self.expires
    }
}

/// What whoever needs the entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Take what is held. It is fresh, or the server tells of changes too often to be asked after each.
    Serve,
    /// Wait for the fetch that is under way: there is one at a time.
    Join,
    /// Fetch it, and say what came of it.
    Fetch(Ticket),
}

/// The right to one fetch. What was fetched under it is fresh only if nothing changed since it was given (I-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    life: u64,
    generation: u64,
    renewed: bool,
}

/// Why a fetch brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failed {
    /// It may work again in a moment; until then what is held may serve.
    Passing,
    /// The server refused: whoever asks may not, or no longer, have it.
    Refused,
}

/// An entry: absent, fresh or stale, and at most one fetch under way.
///
/// | state | needed | changed | fetched | fetch failed |
/// |---|---|---|---|---|
/// | absent | fetch | – | – | – |
/// | fresh | serve | stale | – | – |
/// | stale | fetch | stale | – | – |
/// | … and fetching | join | stale; what comes is stale too | fresh while its time lasts | serve stale, or absent |
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry<V> {
    held: Option<Held<V>>,
    /// How often it was forgotten: what was asked for before is nobody's any more.
    life: u64,
    /// How often it was told to have changed.
    generation: u64,
    fetching: bool,
    /// When notices caused fetches, within the last minute.
    noticed_at: VecDeque<Instant>,
}

impl<V> Default for Entry<V> {
    fn default() -> Self {
        Self { held: None, life: 0, generation: 0, fetching: false, noticed_at: VecDeque::new() }
    }
}

impl<V> Entry<V> {
    /// What is held, fresh or not.
    pub const fn held(&self) -> Option<&Held<V>> {
        self.held.as_ref()
    }

    /// Whether a fetch is under way.
    pub const fn is_fetching(&self) -> bool {
        self.fetching
    }

    /// Somebody needs it (CCH-11). Nothing is ever fetched but for that (CCH-12).
    pub fn need(&mut self, now: Instant) -> Next {
        let noticed = match &self.held {
            Some(held) if held.is_fresh(now) => return Next::Serve,
            Some(held) => held.noticed,
            None => false,
        };
        if self.fetching {
            return Next::Join;
        }
        if noticed {
            self.noticed_at.retain(|at| now < at.saturating_add(MINUTE));
            if self.noticed_at.len() >= NOTICED_A_MINUTE {
                return Next::Serve;
            }
            self.noticed_at.push_back(now);
        }
        self.fetch()
    }

    /// Somebody has reason to doubt what is held, fresh or not (CCH-14).
    pub fn doubt(&mut self) -> Next {
        if self.fetching { Next::Join } else { self.fetch() }
    }

    const fn fetch(&mut self) -> Next {
        self.fetching = true;
        Next::Fetch(Ticket { life: self.life, generation: self.generation, renewed: false })
    }

    /// It changed at the server: stale from now on, and what is being fetched will be too (CCH-19, CCH-20).
    pub fn changed(&mut self, now: Instant) {
        self.generation += 1;
        if let Some(held) = &mut self.held {
            held.expires = held.expires.min(now);
            held.noticed = true;
        }
    }

    /// It is of no use any more: another server answers, or it is for somebody else. What is being fetched is not kept
    /// either, and nobody joins it.
    pub fn forget(&mut self) {
        self.life += 1;
        self.generation += 1;
        self.held = None;
        self.fetching = false;
    }

    /// A fetch under way was overtaken by a change: it stops where it is and begins again under another ticket. Once;
    /// what changes faster than it can be fetched is stale.
    pub fn renew(&self, ticket: Ticket) -> Option<Ticket> {
        let overtaken = ticket.generation != self.generation && !ticket.renewed && ticket.life == self.life;
        overtaken.then_some(Ticket { generation: self.generation, renewed: true, ..ticket })
    }

    /// The fetch brought something, received at `now`. `expires` is what its hints and the policy say. Whether nothing
    /// changed meanwhile: only then is it as new as can be, and worth sharing.
    pub fn fetched(
        &mut self,
        ticket: Ticket,
        now: Instant,
        expires: Instant,
        sharing: Sharing,
        value: V,
    ) -> bool {
        if ticket.life != self.life {
            return false;
        }
        self.fetching = false;
        let overtaken = ticket.generation != self.generation;
        let expires = if overtaken { expires.min(now) } else { expires };
        self.held = Some(Held { value, received: now, expires, sharing, noticed: overtaken });
        !overtaken
    }

    /// The fetch brought nothing. Whether what is held may serve instead, marked stale.
    pub fn failed(&mut self, ticket: Ticket, now: Instant, why: Failed, policy: Policy) -> bool {
        if ticket.life != self.life {
            return false;
        }
        self.fetching = false;
        match why {
            Failed::Passing => {
                let lasts = |held: &Held<V>| now < held.expires.saturating_add(policy.stale_for);
                self.held.as_ref().is_some_and(lasts)
            }
            Failed::Refused => {
                self.held = None;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn fetch(next: Next) -> Ticket {
        match next {
            Next::Fetch(ticket) => ticket,
            Next::Serve | Next::Join => panic!("{next:?}"),
        }
    }

    fn filled(expires: u64) -> Entry<u8> {
        let mut entry = Entry::default();
        let ticket = fetch(entry.need(at(0)));
        entry.fetched(ticket, at(0), at(expires), Sharing::Private, 1);
        entry
    }

    // shows: I-17, CCH-11, CCH-12
    #[test]
    fn cch_09_it_is_fresh_exactly_while_its_time_lasts_and_fetched_again_when_needed() {
        let mut entry = filled(100);
        assert_eq!(entry.need(at(0)), Next::Serve);
        assert_eq!(entry.need(at(99)), Next::Serve);
        assert_eq!(entry.held().map(|held| held.value), Some(1));
        fetch(entry.need(at(100)));
        assert_eq!(entry.need(at(100)), Next::Join, "one at a time");
        fetch(filled(0).need(at(0)));
    }

    // shows: CCH-19, CCH-20
    #[test]
    fn i_18_what_was_fetched_before_a_change_is_never_fresh_after_it() {
        let mut entry = filled(100);
        entry.changed(at(10));
        assert!(!entry.held().unwrap().is_fresh(at(10)));
        let ticket = fetch(entry.need(at(20)));
        entry.changed(at(30));
        assert_eq!(entry.need(at(30)), Next::Join, "and no second one beside it");
        let again = entry.renew(ticket).unwrap();
        entry.changed(at(35));
        assert_eq!(entry.renew(again), None, "once: the server may tell of changes for ever");
        entry.fetched(again, at(40), at(140), Sharing::Private, 2);
        assert!(!entry.held().unwrap().is_fresh(at(40)), "stale at once");
        let ticket = fetch(entry.need(at(50)));
        assert_eq!(entry.renew(ticket), None, "nothing overtook it");
        entry.fetched(ticket, at(60), at(160), Sharing::Private, 3);
        assert!(entry.held().unwrap().is_fresh(at(159)));
    }

    #[test]
    fn cch_14_what_is_stale_serves_where_a_refresh_fails_but_not_for_ever() {
        let policy = Policy { ttl: Duration::from_millis(100), stale_for: Duration::from_millis(50) };
        for (now, serves) in [(100, true), (149, true), (150, false)] {
            let mut entry = filled(100);
            let ticket = fetch(entry.need(at(100)));
            assert_eq!(entry.failed(ticket, at(now), Failed::Passing, policy), serves, "{now}");
            assert!(!entry.held().unwrap().is_fresh(at(now)), "and it is marked");
        }
        let mut entry = filled(100);
        let ticket = fetch(entry.need(at(100)));
        assert!(
            !entry.failed(ticket, at(101), Failed::Refused, policy),
            "F089: a right that is gone takes what it showed"
        );
        assert_eq!(entry.held(), None);
        let mut entry = filled(100);
        fetch(entry.doubt());
        assert_eq!(entry.doubt(), Next::Join);
    }

    #[test]
    fn f091_a_server_that_tells_of_a_change_whenever_it_is_asked_is_asked_a_few_times_a_minute() {
        let mut entry = filled(u64::MAX / 2_000_000);
        let mut fetches = Vec::new();
        for second in 0..120 {
            entry.changed(at(second * 1_000));
            match entry.need(at(second * 1_000)) {
                Next::Fetch(ticket) => {
                    fetches.push(second);
                    let now = at(second * 1_000);
                    entry.fetched(ticket, now, now.saturating_add(MINUTE), Sharing::Private, 2);
                }
                Next::Serve => assert!(!entry.held().unwrap().is_fresh(at(second * 1_000)), "marked"),
                Next::Join => panic!("none is under way"),
            }
        }
        assert_eq!(fetches, [0, 1, 2, 3, 4, 5, 60, 61, 62, 63, 64, 65]);
    }

    #[test]
    fn g10_what_another_server_said_is_forgotten_and_does_not_come_back() {
        let mut entry = filled(100);
        let ticket = fetch(entry.doubt());
        entry.forget();
        assert_eq!(entry.held(), None);
        let other = fetch(entry.need(at(5)));
        assert_eq!(entry.renew(ticket), None);
        assert!(!entry.fetched(ticket, at(10), at(110), Sharing::Public, 2));
        assert!(!entry.failed(ticket, at(10), Failed::Passing, Policy::DEFAULT));
        assert_eq!((entry.held(), entry.is_fetching()), (None, true), "it is nobody's");
        assert!(entry.fetched(other, at(10), at(110), Sharing::Private, 3));
        assert_eq!(entry.held().unwrap().value, 3);
    }
}
