//! Which process works on a Task: the same rules as for a claim of the ledger (ruling 10).

use core::time::Duration;

use crate::ledger::{Owner, Stamp};
use crate::time::Instant;

/// One process's hold on an unfinished Task. It says nothing of the Task's state, only who may change it as its worker.
///
/// | hold | renew, settle, same epoch | other epoch | take over |
/// |---|---|---|---|
/// | live | taken | refused | refused |
/// | over: its time has passed, or the machine ran anew | taken: its worker lives after all | refused | → live, the next epoch |
///
/// Time alone takes nothing from a worker: it is fenced off by a successor's epoch, and there is none before time is up.
/// So a dead worker's Task is touched only once its hold is over, never at another process's start; a machine that was
/// started anew proves the death of all that ran on it, at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// Which process.
    pub owner: Owner,
    /// In which run of the machine.
    pub boot: u128,
    /// Until when, unless it is renewed.
    pub until: Instant,
    /// Which hold of this Task it is; the first is 1.
    pub epoch: u64,
}

/// Why nothing was taken from a worker, or from a former one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HoldError {
    /// A worker that was taken for dead, or that let the Task go (I-10).
    #[error(
        "the worker of epoch {given} no longer holds this task, the one of epoch {last} does; let it go on"
    )]
    Stale {
        /// The epoch that was given.
        given: u64,
        /// The last one.
        last: u64,
    },
    /// Ruling 10.
    #[error("the worker of this task may be alive; try again once its lease is over")]
    Live,
}

impl Hold {
    /// The first hold of a new Task.
    pub fn begin(owner: Owner, lease: Duration, now: Stamp) -> Self {
        Self { owner, boot: now.boot, until: now.up.saturating_add(lease), epoch: 1 }
    }

    /// Whether its worker can be taken for dead.
    pub fn is_over(&self, now: Stamp) -> bool {
        self.boot != now.boot || now.up >= self.until
    }

    /// Whether a change in the name of this epoch is its worker's.
    ///
    /// # Errors
    /// It is a former worker's.
    pub const fn check(&self, epoch: u64) -> Result<(), HoldError> {
        if epoch == self.epoch { Ok(()) } else { Err(HoldError::Stale { given: epoch, last: self.epoch }) }
    }

    /// A sign of life.
    ///
    /// # Errors
    /// It is a former worker's.
    pub fn renew(&mut self, epoch: u64, lease: Duration, now: Stamp) -> Result<(), HoldError> {
        self.check(epoch)?;
        self.boot = now.boot;
        self.until = now.up.saturating_add(lease);
        Ok(())
    }

    /// Lets go, so that a successor need not wait.
    ///
    /// # Errors
    /// It is a former worker's.
    pub fn release(&mut self, epoch: u64, now: Stamp) -> Result<(), HoldError> {
        self.check(epoch)?;
        self.until = now.up;
        Ok(())
    }

    /// Makes somebody the worker in the place of one that is dead.
    ///
    /// # Errors
    /// It may be alive.
    pub fn take_over(&mut self, owner: Owner, lease: Duration, now: Stamp) -> Result<(), HoldError> {
        if !self.is_over(now) {
            return Err(HoldError::Live);
        }
        *self = Self { epoch: self.epoch.saturating_add(1), ..Self::begin(owner, lease, now) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Wall;

    const LEASE: Duration = Duration::from_secs(30);
    const OURS: Owner = Owner(1);
    const THEIRS: Owner = Owner(2);

    fn at(boot: u128, seconds: u64) -> Stamp {
        Stamp { boot, up: Instant::from_millis(seconds * 1_000), wall: Wall::default() }
    }

    #[test]
    fn ruling_10_a_hold_is_taken_over_when_its_time_is_up_and_not_before() {
        let mut hold = Hold::begin(OURS, LEASE, at(1, 0));
        assert_eq!(hold.take_over(THEIRS, LEASE, at(1, 29)), Err(HoldError::Live));
        hold.renew(1, LEASE, at(1, 29)).unwrap();
        assert_eq!(hold.take_over(THEIRS, LEASE, at(1, 58)), Err(HoldError::Live));
        hold.take_over(THEIRS, LEASE, at(1, 59)).unwrap();
        assert_eq!((hold.owner, hold.epoch), (THEIRS, 2));
        assert_eq!(hold.take_over(OURS, LEASE, at(1, 60)), Err(HoldError::Live), "of two one wins");
    }

    #[test]
    fn ruling_10_a_machine_that_ran_anew_proves_the_death_at_once() {
        let mut hold = Hold::begin(OURS, LEASE, at(1, 1_000));
        // The new run's clock begins at zero, long before the time that was noted.
        hold.take_over(THEIRS, LEASE, at(2, 1)).unwrap();
        assert_eq!((hold.epoch, hold.is_over(at(2, 30)), hold.is_over(at(2, 31))), (2, false, true));
    }

    #[test]
    fn i_10_a_former_worker_changes_nothing_and_a_late_one_without_successor_goes_on() {
        let mut hold = Hold::begin(OURS, LEASE, at(1, 0));
        hold.renew(1, LEASE, at(1, 100)).unwrap();
        assert!(!hold.is_over(at(1, 129)));
        hold.release(1, at(1, 110)).unwrap();
        hold.take_over(THEIRS, LEASE, at(1, 110)).unwrap();
        let before = hold;
        let stale = Err(HoldError::Stale { given: 1, last: 2 });
        assert_eq!(hold.renew(1, LEASE, at(1, 111)), stale);
        assert_eq!(hold.release(1, at(1, 111)), stale);
        assert_eq!(hold.check(1), stale);
        assert_eq!((hold, hold.check(2)), (before, Ok(())));
    }
}
