//! What the ledger hands to the writer besides plain transitions: executions, and the renewal of leases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use steadfast_core::ledger::{Claim, Enforcement, Owner, Record, Settlement, Stamp, Verdict};

use super::{Answer, Claimed, ExecuteError, Executed, Intent, Refusal, rows};
use crate::sqlite::{Effect, Job, StoreError, Turn};

/// One execution: claim, count, effect and answer in one transaction.
pub(super) struct ExecutionJob<F> {
    intent: Option<Intent>,
    operation: String,
    owner: Owner,
    effect: F,
    outcome: Option<Result<Executed, ExecuteError>>,
    done: Done,
}

pub(super) type Done = Box<dyn FnOnce(Result<Executed, ExecuteError>) + Send>;

impl<F> ExecutionJob<F>
where
    F: FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal>,
{
    pub(super) const fn new(
        intent: Option<Intent>,
        operation: String,
        owner: Owner,
        effect: F,
        done: Done,
    ) -> Self {
        Self { intent, operation, owner, effect, outcome: None, done }
    }

    fn execute(&mut self, connection: &Connection, now: Stamp) -> Result<Executed, ExecuteError> {
        let Self { intent, operation, effect, .. } = self;
        let mut run = || run_effect(connection, now, operation, effect);
        let Some(intent) = intent else {
            return Ok(Executed { answer: run()?, replayed: false });
        };
        let address = intent.scope.address(&intent.key);
        let row = rows::find(connection, &address).map_err(StoreError::from)?;
        let (id, mut record) = row.map_or((None, None), |row| (Some(row.id), Some(row.record)));
        let claim =
            Claim { fingerprint: intent.fingerprint, owner: self.owner, enforcement: Enforcement::Gateway };
        let (epoch, mut record) = match (Record::claim(&mut record, claim, now), record) {
            (Verdict::Run { epoch, .. }, Some(record)) => (epoch, record),
            (verdict, _) => return without_running(verdict),
        };
        // A local effect has no protocol version: its answer is the author's own.
        let answer = Answer { version: String::new(), bytes: run()? };
        record
            .settle(epoch, Settlement::Committed(answer), now)
            .map_err(|_| StoreError::Damaged("a claim cannot be settled"))?;
        let answer = rows::store(connection, id, intent, &address, &record).map_err(StoreError::from)?;
        Ok(Executed { answer, replayed: false })
    }
}

/// Counts an execution and runs it.
fn run_effect(
    connection: &Connection,
    now: Stamp,
    operation: &str,
    effect: &mut impl FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal>,
) -> Result<Vec<u8>, ExecuteError> {
    let execution = rows::count(connection, operation).map_err(StoreError::from)?;
    let within = Effect::new(connection, execution, now);
    let answer = effect(&within)?;
    // An effect that lost the transaction and says nothing of it: what is written from here on would be stored, and
    // what it wrote is not.
    if within.is_within() { Ok(answer) } else { Err(StoreError::Lost.into()) }
}

impl<F> Job for ExecutionJob<F>
where
    F: FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal> + Send,
{
    fn is_effect(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        match &self.outcome {
            Some(Ok(executed)) => executed.answer.len(),
            Some(Err(_)) | None => 0,
        }
    }

    fn run(&mut self, connection: &Connection, now: Stamp) -> Turn {
        let outcome = self.execute(connection, now);
        let turn = if outcome.is_ok() { Turn::Keep } else { Turn::Undo };
        self.outcome = Some(outcome);
        turn
    }

    fn tell(self: Box<Self>, stored: Result<(), StoreError>) {
        let outcome = match (stored, self.outcome) {
            (Ok(()), Some(outcome)) => outcome,
            (Ok(()), None) => Err(StoreError::Closed.into()),
            // It was undone in any case, so it does not matter whether the rest is stored.
            (Err(StoreError::Doubtful), Some(Err(undone))) => Err(undone),
            (Err(StoreError::Doubtful), _) => Err(ExecuteError::Unknown),
            (Err(error), _) => Err(error.into()),
        };
        (self.done)(outcome);
    }
}

/// What a verdict other than to run means for an effect.
pub(super) fn without_running(verdict: Claimed) -> Result<Executed, ExecuteError> {
    match verdict {
        Verdict::Replay(answer) => Ok(Executed { answer: answer.bytes, replayed: true }),
        Verdict::Mismatch => Err(ExecuteError::Mismatch),
        Verdict::Join | Verdict::JoinTask(_) => Err(ExecuteError::Running),
        Verdict::Unknown | Verdict::Run { .. } => Err(ExecuteError::Unknown),
    }
}

/// The claims that this process holds, by address: their leases are renewed (ruling 10).
#[derive(Clone, Default)]
pub(super) struct Held(Arc<Mutex<BTreeMap<[u8; 32], u64>>>);

impl Held {
    pub(super) fn hold(&self, address: [u8; 32], epoch: u64) {
        self.lock().insert(address, epoch);
    }

    /// Lets a claim go; a later one of the same key stays.
    pub(super) fn let_go(&self, address: &[u8; 32], epoch: u64) {
        let mut held = self.lock();
        if held.get(address) == Some(&epoch) {
            held.remove(address);
        }
    }

    pub(super) fn let_all_go(&self) {
        self.lock().clear();
    }

    /// The next round of renewals, if there is anything to renew.
    pub(super) fn renewal(&self) -> Option<Box<dyn Job>> {
        let held = self.lock().clone();
        if held.is_empty() {
            None
        } else {
            Some(Box::new(Renewal { of: self.clone(), held, over: Vec::new() }))
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<[u8; 32], u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lengthens the leases of the claims that this process holds.
struct Renewal {
    of: Held,
    held: BTreeMap<[u8; 32], u64>,
    over: Vec<([u8; 32], u64)>,
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
        for (address, epoch) in &self.held {
            // What cannot be read or written now is tried again with the next round, well before the lease is over.
            let Ok(row) = rows::find(connection, address) else { continue };
            let renewed = row.and_then(|mut row| row.record.renew(*epoch, now).is_ok().then_some(row));
            if let Some(row) = renewed {
                let _ = rows::update(connection, row.id, &row.record);
            } else {
                self.over.push((*address, *epoch));
            }
        }
        Turn::Keep
    }

    fn tell(self: Box<Self>, _: Result<(), StoreError>) {
        // Whatever became of the transaction: what could not be renewed once never can be.
        for (address, epoch) in &self.over {
            self.of.let_go(address, *epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::fingerprint::{Fingerprint, Key, Scope};
    use steadfast_core::ledger::{LEASE, SettleError};

    use super::*;
    use crate::clock::HandClock;
    use crate::{Ledger, Options};

    struct Store {
        ledger: Ledger,
        clock: HandClock,
        intent: Intent,
        _folder: tempfile::TempDir,
    }

    impl Store {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = HandClock::default();
            let options = Options { clock: Arc::new(clock.clone()), ..Options::default() };
            let ledger = Ledger::open(folder.path().join("l.db"), options).unwrap();
            let intent = Intent {
                scope: Scope::local("shop"),
                key: Key::new("k").unwrap(),
                operation: "charge".into(),
                fingerprint: Fingerprint([1; 32]),
            };
            Self { ledger, clock, intent, _folder: folder }
        }

        fn claim(&self) -> Claimed {
            self.ledger.claim(&self.intent, Enforcement::Upstream).unwrap()
        }

        fn settle(&self, epoch: u64, settlement: Settlement<Answer>) -> Result<(), SettleError> {
            self.ledger.settle(&self.intent.scope, &self.intent.key, epoch, settlement).unwrap()
        }

        /// Half a lease passes, and a round of renewals comes, as the writer's own timer makes it.
        fn half_a_lease(&self) {
            *self.clock.0.lock().unwrap() += LEASE / 2;
            if let Some(renewal) = self.ledger.held.renewal() {
                self.ledger.file.writer.submit(renewal);
            }
            self.ledger.file.change(|_, _| Ok(())).unwrap();
        }

        fn held(&self) -> usize {
            self.ledger.held.lock().len()
        }
    }

    const RUN_1: Claimed = Verdict::Run { epoch: 1, again: false };
    const RUN_2: Claimed = Verdict::Run { epoch: 2, again: true };

    #[test]
    fn ruling_10_a_held_claim_outlives_many_leases_and_is_let_go_with_its_settlement() {
        let store = Store::new();
        assert_eq!(store.claim(), RUN_1);
        for _ in 0..6 {
            store.half_a_lease();
            assert_eq!(store.claim(), Verdict::Join);
        }
        assert_eq!(store.settle(1, Settlement::Unknown), Ok(()));
        assert_eq!(store.held(), 0);
    }

    #[test]
    fn i_10_the_late_settlement_of_an_older_claim_takes_nothing_from_the_newer_ones_lease() {
        let store = Store::new();
        assert_eq!(store.claim(), RUN_1);
        assert_eq!(store.settle(1, Settlement::Unknown), Ok(()));
        assert_eq!(store.claim(), RUN_2);
        let late = store.settle(1, Settlement::Rejected);
        assert_eq!(late, Err(SettleError::Stale { given: 1, last: 2 }));
        for _ in 0..6 {
            store.half_a_lease();
            assert_eq!(store.claim(), Verdict::Join);
        }
    }

    #[test]
    fn i_24_a_claim_that_cannot_be_renewed_is_let_go() {
        let store = Store::new();
        assert_eq!(store.claim(), RUN_1);
        // The process slept through its lease.
        *store.clock.0.lock().unwrap() += LEASE;
        store.half_a_lease();
        assert_eq!(store.held(), 0);
        assert_eq!(store.claim(), RUN_2);
    }
}
