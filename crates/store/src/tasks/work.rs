//! The worker's side of a task: it holds it, gives signs of life, and is fenced off once somebody else holds it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use steadfast_core::ledger::Stamp;
use steadfast_core::task::{Effect, Hold, Input, Task};

use super::{TaskFailure, Tasks, rows};
use crate::sqlite::{Job, StoreError, Turn};

/// This process's hold on one task. It is renewed while this value lives; once it is dropped the lease runs out and the
/// task is whose it is that finds it.
pub struct Work {
    tasks: Tasks,
    id: String,
    epoch: u64,
}

/// A task as its worker sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct Seen {
    /// As it is now.
    pub task: Task<String>,
    /// Every answer that it was given so far, by key.
    pub answers: BTreeMap<String, String>,
}

/// A task whose worker was gone, and is now this process.
#[derive(Debug)]
pub struct Taken {
    /// The hold.
    pub work: Work,
    /// What is worked on.
    pub operation: String,
    /// What the first worker left for a successor.
    pub resume: Option<String>,
    /// The task as it was left.
    pub seen: Seen,
}

impl Work {
    pub(super) fn new(tasks: Tasks, id: String, epoch: u64) -> Self {
        tasks.holds.hold(id.clone(), epoch);
        Self { tasks, id, epoch }
    }

    /// The task's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The task as it is now.
    ///
    /// # Errors
    /// It is gone, somebody else holds it, or the file cannot be read.
    pub fn look(&self) -> Result<Seen, TaskFailure> {
        let row = self.tasks.file.look(|connection| rows::find(connection, &self.id))?;
        let row = row.ok_or(TaskFailure::NotFound)?;
        row.hold.check(self.epoch)?;
        Ok(Seen { task: row.task, answers: row.answers })
    }

    /// Lets something happen to the task, and says what came of it and how the task is now. A task that is over stays
    /// as it is.
    ///
    /// # Errors
    /// It is gone, somebody else holds it, it refused, or nothing is stored.
    pub fn handle(&self, input: Input<String>) -> Result<(Effect<String>, Task<String>), TaskFailure> {
        let epoch = self.epoch;
        let bytes = match &input {
            Input::Finish(payload)
            | Input::Fail { error: payload, .. }
            | Input::Expire { error: payload, .. } => payload.len(),
            Input::Ask(payloads) | Input::Answer(payloads) => payloads.values().map(String::len).sum(),
            Input::Report { message } => message.len(),
            Input::Cancel | Input::Checkpoint => 0,
        };
        self.tasks.change_by(bytes, &self.id, move |row, now| {
            row.hold.check(epoch)?;
            Ok(row.task.handle(now.wall, input.clone())?)
        })
    }

    /// Lets the task go, for a successor that need not wait for the lease. Whoever calls it works no more.
    ///
    /// # Errors
    /// It is gone, somebody else holds it, or nothing is stored: then the lease runs out by itself.
    pub fn release(&self) -> Result<(), TaskFailure> {
        let epoch = self.epoch;
        self.tasks.holds.let_go(&self.id, epoch);
        self.tasks.change(&self.id, move |row, now| Ok(row.hold.release(epoch, now)?)).map(drop)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.tasks.holds.let_go(&self.id, self.epoch);
    }
}

impl fmt::Debug for Work {
    /// The id is its caller's, who is found by it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seen({:?}, {} answers)", self.task.status(), self.answers.len())
    }
}

/// The tasks that this process works on, by id: their leases are renewed (ruling 10).
#[derive(Clone, Default)]
pub(crate) struct Holds(Arc<Mutex<BTreeMap<String, u64>>>);

impl Holds {
    fn hold(&self, id: String, epoch: u64) {
        self.lock().insert(id, epoch);
    }

    pub(super) fn contain(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// Lets a hold go; a later one of the same task stays.
    fn let_go(&self, id: &str, epoch: u64) {
        let mut holds = self.lock();
        if holds.get(id) == Some(&epoch) {
            holds.remove(id);
        }
    }

    /// The next round of renewals, if there is anything to renew.
    pub(crate) fn renewal(&self, lease: Duration) -> Option<Box<dyn Job>> {
        let held = self.lock().clone();
        if held.is_empty() {
            None
        } else {
            Some(Box::new(Renewal { of: self.clone(), lease, held, over: Vec::new() }))
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lengthens the leases of the tasks that this process works on.
struct Renewal {
    of: Holds,
    lease: Duration,
    held: BTreeMap<String, u64>,
    over: Vec<(String, u64)>,
}

impl Job for Renewal {
    fn is_effect(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        0
    }

    fn run(&mut self, connection: &Connection, now: Stamp) -> Turn {
        self.over.clear();
        for (id, epoch) in &self.held {
            // What cannot be read or written now is tried again with the next round, well before the lease is over.
            let renew = |hold: &mut Hold| hold.renew(*epoch, self.lease, now).is_ok();
            if let Ok(false) = rows::renew(connection, id, renew) {
                self.over.push((id.clone(), *epoch));
            }
        }
        Turn::Keep
    }

    fn tell(self: Box<Self>, _: Result<(), StoreError>) {
        // Whatever became of the transaction: what somebody else holds, or what is over, never comes back.
        for (id, epoch) in &self.over {
            self.of.let_go(id, *epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::ledger::LEASE;
    use steadfast_core::task::{HoldError, TaskOwner};

    use super::*;
    use crate::clock::HandClock;
    use crate::{Ledger, NewTask, Options};

    struct Store {
        ours: Tasks,
        theirs: Tasks,
        clock: HandClock,
        _folder: tempfile::TempDir,
    }

    impl Store {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = HandClock::default();
            let open = || {
                let options = Options { clock: Arc::new(clock.clone()), ..Options::default() };
                Ledger::open(folder.path().join("t.db"), options).unwrap().tasks()
            };
            Self { ours: open(), theirs: open(), clock, _folder: folder }
        }

        fn create(&self) -> Work {
            let new = NewTask {
                owner: TaskOwner { tenant: "t".into(), principal: "p".into() },
                server: "shop".into(),
                operation: "long_job".into(),
                resume: None,
                ttl: None,
                poll_interval: None,
                max_open: 10,
            };
            self.ours.create(new).unwrap().0
        }

        /// Half a lease passes, and a round of renewals comes, as the writer's own timer makes it.
        fn half_a_lease(&self) {
            *self.clock.0.lock().unwrap() += LEASE / 2;
            if let Some(renewal) = self.ours.holds.renewal(LEASE) {
                self.ours.file.writer.submit(renewal);
            }
            self.ours.file.change(|_, _| Ok(())).unwrap();
        }

        fn held(&self) -> usize {
            self.ours.holds.lock().len()
        }
    }

    #[test]
    fn ruling_10_a_task_is_held_through_many_leases_while_its_worker_lives_and_one_lease_longer() {
        let store = Store::new();
        let work = store.create();
        let id = work.id().to_owned();
        for _ in 0..6 {
            store.half_a_lease();
            assert_eq!(store.theirs.take_over(&id).err(), Some(TaskFailure::Held(HoldError::Live)));
        }
        drop(work);
        store.half_a_lease();
        assert_eq!(store.theirs.take_over(&id).err(), Some(TaskFailure::Held(HoldError::Live)));
        store.half_a_lease();
        assert!(store.theirs.take_over(&id).is_ok());
    }

    #[test]
    fn i_24_what_is_over_or_somebody_elses_is_not_renewed() {
        let store = Store::new();
        let (finished, slept) = (store.create(), store.create());
        finished.handle(Input::Finish("{}".into())).unwrap();
        *store.clock.0.lock().unwrap() += LEASE;
        let _taken = store.theirs.take_over(slept.id()).unwrap();
        store.half_a_lease();
        assert_eq!(store.held(), 0);
    }

    #[test]
    fn i_10_a_late_drop_takes_nothing_from_the_newer_hold_of_the_same_process() {
        let store = Store::new();
        let old = store.create();
        *store.clock.0.lock().unwrap() += LEASE;
        let taken = store.ours.take_over(old.id()).unwrap();
        drop(old);
        for _ in 0..6 {
            store.half_a_lease();
        }
        assert_eq!(store.theirs.take_over(taken.work.id()).err(), Some(TaskFailure::Held(HoldError::Live)));
    }
}
