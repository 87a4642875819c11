//! The legacy sessions of an endpoint: found by an id that cannot be guessed and by nobody but their owner, capped in
//! number, ended when nobody uses them (LEG-50…60).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use steadfast_core::task::TaskOwner;
use steadfast_core::time::Instant;

/// What a session of a table can say of itself.
pub(super) trait Use {
    /// Whose it is.
    fn owner(&self) -> &TaskOwner;
    /// Whether it is used without being asked for: a request runs, a stream is open.
    fn is_in_use(&self) -> bool;
}

/// The sessions.
#[derive(Debug)]
pub(super) struct Sessions<S> {
    max: usize,
    idle: Duration,
    entries: HashMap<String, Entry<S>>,
}

#[derive(Debug)]
struct Entry<S> {
    last_used: Instant,
    session: S,
}

/// All sessions are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl<S: Use> Sessions<S> {
    /// Room for `max` sessions, each ended when it was not used for `idle`.
    pub(super) fn new(max: usize, idle: Duration) -> Self {
        Self { max, idle, entries: HashMap::new() }
    }

    /// Takes a session. Where there is no room, one that is idle goes, and is returned: of whoever has the most, the one
    /// that was idle for longest, so that a flood of one principal's takes no place from another's.
    pub(super) fn insert(&mut self, now: Instant, id: String, session: S) -> Result<Option<S>, Full> {
        let mut evicted = None;
        if self.entries.len() >= self.max {
            let mut held: HashMap<&TaskOwner, usize> = HashMap::new();
            for entry in self.entries.values() {
                *held.entry(entry.session.owner()).or_default() += 1;
            }
            let idle = self.entries.iter().filter(|(_, entry)| !entry.session.is_in_use());
            let last = idle
                .min_by_key(|(_, entry)| (Reverse(held[entry.session.owner()]), entry.last_used))
                .map(|(id, _)| id.clone())
                .ok_or(Full)?;
            evicted = self.entries.remove(&last).map(|entry| entry.session);
        }
        self.entries.insert(id, Entry { last_used: now, session });
        Ok(evicted)
    }

    /// The session of this id, if it is the owner who asks (LEG-60). It is used by that.
    pub(super) fn get(&mut self, now: Instant, id: &str, owner: &TaskOwner) -> Option<&S> {
        let idle = self.idle;
        let entry = self.entries.get_mut(id)?;
        if entry.session.owner() != owner || entry.is_over(now, idle) {
            return None;
        }
        entry.last_used = now;
        Some(&entry.session)
    }

    /// Ends the session of this id, if it is the owner who asks.
    pub(super) fn remove(&mut self, id: &str, owner: &TaskOwner) -> Option<S> {
        self.entries.get(id).filter(|entry| entry.session.owner() == owner)?;
        self.entries.remove(id).map(|entry| entry.session)
    }

    /// Ends what was not used for too long, and notes what is in use.
    pub(super) fn sweep(&mut self, now: Instant) -> Vec<S> {
        let idle = self.idle;
        let over = |entry: &mut Entry<S>| {
            if entry.session.is_in_use() {
                entry.last_used = now;
            }
            entry.is_over(now, idle)
        };
        self.entries.extract_if(|_, entry| over(entry)).map(|(_, entry)| entry.session).collect()
    }

    /// Shows all.
    pub(super) fn for_each(&self, show: impl FnMut(&S)) {
        self.entries.values().map(|entry| &entry.session).for_each(show);
    }

    /// Ends all.
    pub(super) fn drain(&mut self) -> Vec<S> {
        self.entries.drain().map(|(_, entry)| entry.session).collect()
    }
}

impl<S: Use> Entry<S> {
    fn is_over(&self, now: Instant, idle: Duration) -> bool {
        now.saturating_since(self.last_used) >= idle && !self.session.is_in_use()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Fake(Rc<Cell<bool>>, TaskOwner);

    impl Fake {
        fn of(principal: &str) -> Self {
            Self(Rc::default(), owner(principal))
        }
    }

    impl Use for Fake {
        fn owner(&self) -> &TaskOwner {
            &self.1
        }

        fn is_in_use(&self) -> bool {
            self.0.get()
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO.saturating_add(Duration::from_secs(seconds))
    }

    fn owner(principal: &str) -> TaskOwner {
        TaskOwner { tenant: "t".into(), principal: principal.into() }
    }

    fn table() -> Sessions<Fake> {
        Sessions::new(2, Duration::from_secs(10))
    }

    fn open(sessions: &mut Sessions<Fake>, now: u64, id: &str) -> Result<Fake, Full> {
        let session = Fake::of("a");
        sessions.insert(at(now), id.into(), session.clone())?;
        Ok(session)
    }

    #[test]
    fn leg_54_a_session_that_nobody_uses_ends() {
        let mut sessions = table();
        let session = open(&mut sessions, 0, "1").unwrap();
        assert!(sessions.get(at(9), "1", &owner("a")).is_some(), "used");
        assert!(sessions.get(at(18), "1", &owner("a")).is_some());
        assert!(sessions.sweep(at(27)).is_empty());
        assert!(sessions.get(at(28), "1", &owner("a")).is_none(), "over, even before it is swept");
        session.0.set(true);
        assert!(sessions.sweep(at(1_000)).is_empty(), "an open stream is use");
        session.0.set(false);
        assert!(sessions.sweep(at(1_009)).is_empty());
        assert_eq!(sessions.sweep(at(1_010)), [session]);
        assert!(sessions.entries.is_empty(), "I-24");
    }

    #[test]
    fn leg_60_nobody_but_its_owner_finds_or_ends_a_session() {
        let mut sessions = table();
        open(&mut sessions, 0, "1").unwrap();
        assert!(sessions.get(at(1), "1", &owner("b")).is_none());
        assert!(sessions.remove("1", &owner("b")).is_none());
        assert!(sessions.get(at(1), "2", &owner("a")).is_none());
        assert!(sessions.remove("1", &owner("a")).is_some());
        assert!(sessions.get(at(1), "1", &owner("a")).is_none());
    }

    #[test]
    fn leg_54_a_full_table_gives_up_what_was_idle_for_longest_and_nothing_that_is_in_use() {
        let mut sessions = table();
        let first = open(&mut sessions, 0, "1").unwrap();
        let second = open(&mut sessions, 1, "2").unwrap();
        sessions.get(at(2), "1", &owner("a")).unwrap();
        let evicted = sessions.insert(at(3), "3".into(), Fake::of("b")).unwrap();
        assert_eq!(evicted, Some(second));
        assert!(sessions.get(at(3), "2", &owner("a")).is_none());
        first.0.set(true);
        open(&mut sessions, 4, "4").unwrap();
        assert!(sessions.get(at(4), "1", &owner("a")).is_some(), "in use");
        sessions.get(at(4), "4", &owner("a")).unwrap().0.set(true);
        assert_eq!(open(&mut sessions, 5, "5"), Err(Full));
    }

    #[test]
    fn f083_a_flood_of_one_principal_takes_no_place_from_another() {
        let mut sessions = Sessions::new(3, Duration::from_secs(10));
        sessions.insert(at(0), "quiet".into(), Fake::of("b")).unwrap();
        for flood in 1..100 {
            sessions.insert(at(0), flood.to_string(), Fake::of("a")).unwrap();
        }
        assert!(sessions.get(at(1), "quiet", &owner("b")).is_some());
    }
}
