//! Effects that misbehave: whatever an author's code does, it undoes itself alone, and no record tells of an effect
//! that did not happen.

use std::sync::{Arc, mpsc};

use steadfast_core::fingerprint::{Key, Scope};
use steadfast_store::{Effect, ExecuteError, Executed, Execution, Ledger, Options, Refusal, StoreError};

const ENDLESS: &str =
    "INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n";

struct Store {
    ledger: Arc<Ledger>,
    _folder: tempfile::TempDir,
}

impl Store {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path().join("l.db"), Options::default()).unwrap();
        ledger
            .prepare(
                "CREATE TABLE t (x UNIQUE);
                 CREATE TABLE parent (id INTEGER PRIMARY KEY);
                 CREATE TABLE child (parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);",
            )
            .unwrap();
        Self { ledger: Arc::new(ledger), _folder: folder }
    }

    fn execution(key: Option<&str>) -> Execution<'static> {
        Execution {
            scope: Scope::local("shop"),
            key: key.map(|key| Key::new(key).unwrap()),
            operation: "charge",
            arguments: b"",
        }
    }

    fn run<F>(&self, key: Option<&str>, effect: F) -> Result<Executed, ExecuteError>
    where
        F: FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal> + Send + 'static,
    {
        self.ledger.execute(Self::execution(key), effect)
    }

    fn rows(&self) -> i64 {
        self.ledger.look(|it| it.query_row("SELECT count(*) FROM t", [], |row| row.get(0))).unwrap()
    }

    fn state(&self, key: &str) -> Option<&'static str> {
        self.ledger.lookup(&Scope::local("shop"), &Key::new(key).unwrap()).unwrap().map(|line| line.state)
    }
}

/// The writer's own statements are known to the connection; an effect must not reach them by their text.
#[test]
fn ruling_12_an_effect_cannot_end_the_transaction_of_others_with_the_writers_own_words() {
    let store = Store::new();
    store.run(Some("first"), |_| Ok(Vec::new())).unwrap();
    for sql in ["COMMIT", "ROLLBACK", "SAVEPOINT job", "RELEASE job", "ROLLBACK TO job"] {
        let refused = store.run(None, move |effect| {
            effect.execute("INSERT INTO t VALUES (1)", [])?;
            effect.execute(sql, [])?;
            Ok(Vec::new())
        });
        let Err(ExecuteError::Refused(refusal)) = refused else { panic!("{sql}: {refused:?}") };
        assert!(refusal.0.contains("not authorized"), "{sql}: {refusal}");
        assert_eq!(store.rows(), 0, "{sql}");
    }
}

/// An interrupted write takes its whole transaction with it; an effect that goes on as if nothing were has no record.
#[test]
fn g7_an_effect_that_hides_its_lost_transaction_leaves_no_record() {
    let store = Store::new();
    store
        .run(None, |effect| Ok(effect.execute("INSERT INTO t VALUES (0)", [])?.to_string().into_bytes()))
        .unwrap();
    for (key, sql) in [("interrupted", ENDLESS), ("rolled back", "INSERT OR ROLLBACK INTO t VALUES (0)")] {
        let hidden = store.run(Some(key), move |effect| {
            effect.execute("INSERT INTO t VALUES (-1)", [])?;
            let _ = effect.execute(sql, []);
            Ok(b"done".to_vec())
        });
        assert!(matches!(hidden, Err(ExecuteError::Store(_))), "{key}: {hidden:?}");
        assert_eq!((store.state(key), store.rows()), (None, 1), "{key}");
        let retried = store.run(Some(key), |_| Ok(b"again".to_vec())).unwrap();
        assert_eq!(retried, Executed { answer: b"again".to_vec(), replayed: false });
    }
}

/// A deferred constraint fails at COMMIT, when nobody can say whose it was.
#[test]
fn ruling_12_a_commit_that_one_effect_spoils_is_told_to_that_one_alone() {
    let store = Store::new();
    let (told, outcomes) = mpsc::channel();
    let (started, begin) = (told.clone(), mpsc::channel::<()>());
    // Holds the writer until the others wait, so that they share a transaction.
    let gate = std::sync::Mutex::new(begin.1);
    store.ledger.execute_then(
        Store::execution(None),
        move |_| {
            let _ = gate.lock().unwrap().recv();
            Ok(Vec::new())
        },
        move |outcome| started.send(("gate", outcome)).unwrap(),
    );
    for name in ["a", "spoils", "b", "c"] {
        let told = told.clone();
        store.ledger.execute_then(
            Store::execution(Some(name)),
            move |effect| {
                effect.execute("INSERT INTO t VALUES (?1)", [name])?;
                if name == "spoils" {
                    effect.execute("INSERT INTO child VALUES (1)", [])?;
                }
                Ok(Vec::new())
            },
            move |outcome| told.send((name, outcome)).unwrap(),
        );
    }
    drop((begin.0, told));
    for (name, outcome) in outcomes {
        let failed = matches!(outcome, Err(ExecuteError::Store(StoreError::Failed(_))));
        assert_eq!((failed, outcome.is_ok()), (name == "spoils", name != "spoils"), "{name}: {outcome:?}");
    }
    assert_eq!((store.rows(), store.state("spoils")), (3, None));
}

/// The last owner of a ledger may be a callback, which runs on the writer's thread: that thread cannot wait for itself.
#[test]
fn a_ledger_may_be_dropped_by_the_last_callback() {
    let Store { ledger, _folder } = Store::new();
    let (told, outcome) = mpsc::channel();
    let (release, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let kept = Arc::clone(&ledger);
    ledger.execute_then(
        Store::execution(None),
        move |_| {
            let _ = wait.lock().unwrap().recv();
            Ok(Vec::new())
        },
        move |executed| {
            drop(kept);
            told.send(executed.is_ok()).unwrap();
        },
    );
    drop(ledger);
    drop(release);
    assert_eq!(outcome.recv(), Ok(true));
}

/// The thread that would have to answer is the one that asks.
#[test]
fn ruling_12_an_effect_that_calls_its_own_ledger_is_refused_and_hangs_nobody() {
    let store = Store::new();
    let inner = Arc::clone(&store.ledger);
    let outcome = store.run(Some("outer"), move |_| {
        let nested = inner.execute(Store::execution(Some("inner")), |_| Ok(Vec::new()));
        assert_eq!(nested, Err(ExecuteError::Store(StoreError::Reentrant)));
        Ok(b"done".to_vec())
    });
    assert_eq!(outcome.map(|it| it.answer), Ok(b"done".to_vec()));
    assert_eq!((store.state("outer"), store.state("inner")), (Some("committed"), None));
}

#[test]
fn g7_an_effect_cannot_touch_or_hide_the_ledgers_own_tables() {
    let store = Store::new();
    store.run(Some("k"), |_| Ok(b"first".to_vec())).unwrap();
    for sql in [
        "DELETE FROM main.steadfast_record",
        "UPDATE \"STEADFAST_record\" SET answer = x'00'",
        "CREATE TEMP TABLE steadfast_record AS SELECT 1",
        "DROP TABLE steadfast_batch",
    ] {
        let refused = store.run(None, move |effect| {
            effect.execute(sql, [])?;
            Ok(Vec::new())
        });
        assert!(matches!(refused, Err(ExecuteError::Refused(_))), "{sql}: {refused:?}");
    }
    let replayed = store.run(Some("k"), |_| Ok(b"second".to_vec())).unwrap();
    assert_eq!((replayed.answer, replayed.replayed), (b"first".to_vec(), true));
}

/// A panic's payload may panic again when it is dropped; the writer goes on.
#[test]
fn ruling_12_a_panic_within_a_panic_ends_that_effect_only() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose, again");
        }
    }
    let store = Store::new();
    let panicked = store.run(None, |_| std::panic::panic_any(Bomb));
    assert_eq!(panicked, Err(ExecuteError::Store(StoreError::Panicked)));
    assert!(store.run(None, |_| Ok(Vec::new())).is_ok());
}
