//! The ledger on one file: one key, one effect, and nothing told before it is durable.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use steadfast_core::fingerprint::{Key, Scope};
use steadfast_core::ijson::Document;
use steadfast_core::ledger::{
    Enforcement, LEASE, NotUnknown, Resolution, SettleError, Settlement, Stamp, Verdict,
};
use steadfast_core::time::{Instant, Wall};
use steadfast_store::{
    Answer, Clock, ExecuteError, Executed, Execution, Intent, Ledger, LedgerView, OpenError, Options,
    Refusal, StoreError,
};

/// A clock that only a test moves.
#[derive(Default)]
struct HandClock(Mutex<Duration>);

impl HandClock {
    fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for HandClock {
    fn stamp(&self) -> Stamp {
        let since = *self.0.lock().unwrap();
        let wall = Wall::from_unix_millis(1_000_000).saturating_add(since);
        Stamp { boot: 1, up: Instant::ZERO.saturating_add(since), wall }
    }
}

fn open(path: &Path) -> Ledger {
    Ledger::open(path, Options::default()).unwrap()
}

fn hand_clocked(path: &Path) -> (Ledger, Arc<HandClock>) {
    let clock = Arc::new(HandClock::default());
    (Ledger::open(path, Options { clock: clock.clone(), ..Options::default() }).unwrap(), clock)
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Runs an effect that counts itself in the author's own table and answers with its number.
fn run(ledger: &Ledger, with: Option<&str>, arguments: &str) -> Result<Executed, ExecuteError> {
    let execution = Execution {
        scope: Scope::local("shop"),
        key: with.map(key),
        operation: "charge",
        arguments: arguments.as_bytes(),
    };
    ledger.execute(execution, |effect| {
        effect.execute("CREATE TABLE IF NOT EXISTS charge (number INTEGER PRIMARY KEY)", [])?;
        effect.execute("INSERT INTO charge DEFAULT VALUES", [])?;
        let rows: i64 = effect.query("SELECT count(*) FROM charge", [])?.unwrap();
        assert_eq!(rows as u64, effect.execution(), "effect and count are one");
        Ok(rows.to_string().into_bytes())
    })
}

fn answer(executed: Result<Executed, ExecuteError>) -> (String, bool) {
    let executed = executed.unwrap();
    (String::from_utf8(executed.answer).unwrap(), executed.replayed)
}

fn intent(ledger: &Ledger, with: &str, arguments: &str) -> Intent {
    let document = Document::parse(arguments.as_bytes()).unwrap();
    Intent {
        scope: Scope::local("shop"),
        key: key(with),
        operation: "charge".into(),
        fingerprint: ledger.fingerprint("charge", &document),
    }
}

fn stored(bytes: &str) -> Answer {
    Answer { version: "2026-07-28".into(), bytes: bytes.into() }
}

#[test]
fn d_10_without_a_key_the_same_call_twice_runs_twice() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("l.db"));
    assert_eq!(answer(run(&ledger, None, "{}")), ("1".into(), false));
    assert_eq!(answer(run(&ledger, None, "{}")), ("2".into(), false));
}

#[test]
fn d_11_one_key_runs_once_and_other_arguments_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("l.db"));
    assert_eq!(answer(run(&ledger, Some("k"), r#"{"cents":5}"#)), ("1".into(), false));
    assert_eq!(answer(run(&ledger, Some("k"), r#" {"cents": 5.0}"#)), ("1".into(), true));
    assert_eq!(run(&ledger, Some("k"), r#"{"cents":6}"#), Err(ExecuteError::Mismatch));
    assert_eq!(answer(run(&ledger, Some("l"), r#"{"cents":6}"#)), ("2".into(), false));
    let fault = run(&ledger, Some("m"), r#"{"cents":9007199254740993}"#).unwrap_err();
    assert!(fault.to_string().contains("/cents"), "{fault}");
}

#[test]
fn d_13_records_survive_reopening_and_answers_are_fresh_copies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    let ledger = open(&path);
    let mut first = run(&ledger, Some("k"), "{}").unwrap();
    first.answer.clear();
    first.answer.extend_from_slice(b"spoiled");
    drop(ledger);
    let ledger = open(&path);
    let mut second = run(&ledger, Some("k"), "{}").unwrap();
    assert_eq!((second.answer.as_slice(), second.replayed), (b"1".as_slice(), true));
    second.answer[0] = b'9';
    assert_eq!(answer(run(&ledger, Some("k"), "{}")), ("1".into(), true));
}

#[test]
fn d_12_two_connections_racing_with_one_key_see_one_execution() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    let ledgers = [open(&path), open(&path)];
    for round in 0..200 {
        let barrier = Barrier::new(2);
        let with = format!("k{round}");
        let answers = std::thread::scope(|scope| {
            ledgers
                .each_ref()
                .map(|ledger| {
                    let (barrier, with) = (&barrier, &with);
                    scope.spawn(move || {
                        barrier.wait();
                        run(ledger, Some(with), "{}").unwrap()
                    })
                })
                .map(|racer| racer.join().unwrap())
        });
        assert_eq!(answers[0].answer, answers[1].answer);
        assert_eq!(answers.iter().filter(|executed| !executed.replayed).count(), 1, "round {round}");
    }
    assert_eq!(LedgerView::open(&path, Options::default()).unwrap().executions("charge"), Ok(200));
}

#[test]
fn ruling_12_an_effect_that_refuses_or_panics_is_undone_alone_and_frees_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Arc::new(open(&folder.path().join("l.db")));
    let execution = |with: &str| Execution {
        scope: Scope::local("shop"),
        key: Some(key(with)),
        operation: "charge",
        arguments: b"",
    };
    let refused = ledger.execute(execution("a"), |effect| {
        effect.execute("CREATE TABLE gone (x)", [])?;
        Err(Refusal("no such account".into()))
    });
    assert_eq!(refused, Err(ExecuteError::Refused(Refusal("no such account".into()))));
    let panicked = ledger.execute(execution("b"), |_| panic!("on purpose"));
    assert_eq!(panicked, Err(ExecuteError::Store(StoreError::Panicked)));
    // Neither left a table, a count or a claim.
    for with in ["a", "b"] {
        let executed = ledger.execute(execution(with), |effect| {
            let tables: i64 =
                effect.query("SELECT count(*) FROM sqlite_schema WHERE name = 'gone'", [])?.unwrap();
            Ok(format!("{tables} {}", effect.execution()).into_bytes())
        });
        let expected = if with == "a" { "0 1" } else { "0 2" };
        assert_eq!(answer(executed).0, expected);
    }
}

/// Real time is needed to overrun a limit of one second; the limit of the test is the effect's own end.
#[test]
fn ruling_12_an_effect_that_takes_too_long_is_interrupted_and_the_others_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    let ledger = open(&path);
    let (first, others) = std::sync::mpsc::channel();
    let done = |channel: &std::sync::mpsc::Sender<_>| {
        let channel = channel.clone();
        move |executed: Result<Executed, ExecuteError>| channel.send(executed.map(|it| it.answer)).unwrap()
    };
    let execution = |with: &str| Execution {
        scope: Scope::local("shop"),
        key: Some(key(with)),
        operation: "charge",
        arguments: b"",
    };
    // The endless one writes when it is interrupted, so it takes its whole transaction with it.
    let runs = Arc::new(AtomicU32::new(0));
    for with in ["before", "endless", "after"] {
        let runs = Arc::clone(&runs);
        ledger.execute_then(
            execution(with),
            move |effect| {
                effect.execute("CREATE TABLE IF NOT EXISTS t (x)", [])?;
                if with == "endless" {
                    let endless =
                        "INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
                                   SELECT x FROM n";
                    let interrupted = effect.execute(endless, []);
                    assert!(interrupted.is_err());
                    // A statement after that would commit on its own; it is refused instead.
                    assert!(effect.execute("INSERT INTO t VALUES (1)", []).is_err());
                    return Err(Refusal::from(interrupted.unwrap_err()));
                }
                runs.fetch_add(1, Ordering::Relaxed);
                effect.execute("INSERT INTO t VALUES (2)", [])?;
                Ok(with.as_bytes().to_vec())
            },
            done(&first),
        );
    }
    drop(first);
    let mut outcomes: Vec<_> = others.iter().collect();
    outcomes.sort_by_key(|outcome| outcome.is_err());
    assert_eq!(outcomes[2], Err(ExecuteError::Store(StoreError::Interrupted)));
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 2);
    assert!(runs.load(Ordering::Relaxed) >= 2);
    let rows = ledger.execute(execution("count"), |effect| {
        Ok(effect.query::<i64>("SELECT count(*) FROM t", [])?.unwrap().to_string().into_bytes())
    });
    assert_eq!(answer(rows).0, "2");
}

#[test]
fn ruling_12_an_effect_cannot_end_the_transaction_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("l.db"));
    for sql in
        ["COMMIT", "/* x */ ROLLBACK", "SAVEPOINT x", "PRAGMA synchronous = OFF", "ATTACH ':memory:' AS m"]
    {
        let execution =
            Execution { scope: Scope::local("shop"), key: None, operation: "charge", arguments: b"" };
        let refused = ledger.execute(execution, move |effect| {
            effect.execute(sql, [])?;
            Ok(Vec::new())
        });
        let Err(ExecuteError::Refused(refusal)) = refused else { panic!("{sql}: {refused:?}") };
        assert!(refusal.0.contains("not authorized"), "{sql}: {refusal}");
    }
    assert_eq!(answer(run(&ledger, Some("k"), "{}")), ("1".into(), false));
}

#[test]
fn i_11_a_claim_is_joined_settled_and_replayed_across_connections() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    let (ours, theirs) = (open(&path), open(&path));
    let intent = intent(&ours, "k", "{}");
    let claim = |ledger: &Ledger| ledger.claim(&intent, Enforcement::Gateway).unwrap();
    assert_eq!(claim(&ours), Verdict::Run { epoch: 1, again: false });
    assert_eq!(claim(&theirs), Verdict::Join);
    let settle = |epoch, settlement| ours.settle(&intent.scope, &intent.key, epoch, settlement).unwrap();
    assert_eq!(settle(2, Settlement::Committed(stored("x"))), Err(SettleError::Stale { given: 2, last: 1 }));
    assert_eq!(settle(1, Settlement::Committed(stored("r"))), Ok(()));
    assert_eq!(claim(&theirs), Verdict::Replay(stored("r")));
    assert!(matches!(settle(1, Settlement::Committed(stored("y"))), Err(SettleError::NotClaimed { .. })));
    assert_eq!(claim(&ours), Verdict::Replay(stored("r")));
    // The secret is the file's, so both connections bind alike.
    assert_eq!(
        theirs.fingerprint("a", &Document::empty_object()),
        ours.fingerprint("a", &Document::empty_object())
    );
}

#[test]
fn i_12_a_dead_owners_claim_becomes_unknown_by_time_and_is_reconciled_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    let (dying, clock) = hand_clocked(&path);
    let intent = intent(&dying, "k", "{}");
    dying.claim(&intent, Enforcement::Gateway).unwrap();
    drop(dying);
    let ledger = Ledger::open(&path, Options { clock: clock.clone(), ..Options::default() }).unwrap();
    let claim = || ledger.claim(&intent, Enforcement::Gateway).unwrap();
    assert_eq!(claim(), Verdict::Join, "a start of another process is no expiry");
    let reconcile = |resolution| ledger.reconcile(&intent.scope, &intent.key, resolution).unwrap();
    assert_eq!(reconcile(Resolution::Rejected), Err(NotUnknown { state: "claimed" }));
    clock.advance(LEASE);
    assert_eq!(claim(), Verdict::Unknown);
    assert_eq!(run(&ledger, Some("k"), "{}"), Err(ExecuteError::Unknown));
    assert_eq!(ledger.lookup(&intent.scope, &intent.key).unwrap().unwrap().state, "unknown");
    assert_eq!(reconcile(Resolution::Committed(stored("found"))), Ok(()));
    assert_eq!(reconcile(Resolution::Rejected), Err(NotUnknown { state: "committed" }));
    assert_eq!(claim(), Verdict::Replay(stored("found")));
}

/// A claim that is refused may still find that a lease is over; it then says so of a record that is not its own.
#[test]
fn i_08_a_refused_claim_leaves_a_dead_owners_operation_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, clock) = hand_clocked(&folder.path().join("l.db"));
    let first = intent(&ledger, "k", "{}");
    ledger.claim(&first, Enforcement::Gateway).unwrap();
    clock.advance(LEASE);
    let other = Intent {
        operation: "refund".into(),
        fingerprint: ledger.fingerprint("refund", &Document::empty_object()),
        ..first.clone()
    };
    assert_eq!(ledger.claim(&other, Enforcement::Upstream), Ok(Verdict::Mismatch));
    let line = ledger.lookup(&first.scope, &first.key).unwrap().unwrap();
    assert_eq!((line.operation.as_str(), line.state), ("charge", "unknown"));
    assert_eq!(ledger.claim(&first, Enforcement::Gateway), Ok(Verdict::Unknown));
}

#[test]
fn g15_neither_arguments_nor_results_nor_keys_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("l.db"));
    let execution = Execution {
        scope: Scope::local("shop"),
        key: Some(key("hunter2")),
        operation: "charge",
        arguments: br#"{"card":4111}"#,
    };
    let mut printed = format!("{execution:?} {:?}", stored("4111"));
    printed += &format!("{:?}", ledger.execute(execution, |_| Ok(b"4111".to_vec())));
    printed += &format!("{:?}", ledger.lookup(&Scope::local("shop"), &key("hunter2")));
    for secret in ["4111", "hunter2", "[52"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn g9_what_cannot_wait_is_refused_when_the_writer_has_enough_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("l.db"));
    let execution =
        || Execution { scope: Scope::local("shop"), key: None, operation: "charge", arguments: b"" };
    let (started, begun) = std::sync::mpsc::channel();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let hold = move |_: &steadfast_store::Effect<'_>| {
        started.send(()).unwrap();
        let _ = gate.lock().unwrap().recv();
        Ok(Vec::new())
    };
    ledger.execute_then(execution(), hold, |_| {});
    begun.recv().unwrap();
    let (told, outcomes) = std::sync::mpsc::channel();
    for _ in 0..1_025 {
        let told = told.clone();
        ledger.execute_then(execution(), |_| Ok(Vec::new()), move |outcome| told.send(outcome).unwrap());
    }
    assert_eq!(outcomes.try_recv(), Ok(Err(ExecuteError::Store(StoreError::QueueFull))));
    drop((release, told));
    assert_eq!(outcomes.iter().filter(Result::is_ok).count(), 1_024);
}

#[test]
fn ruling_15_purging_spares_what_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, clock) = hand_clocked(&folder.path().join("l.db"));
    run(&ledger, Some("old"), "{}").unwrap();
    ledger.claim(&intent(&ledger, "open", "{}"), Enforcement::Gateway).unwrap();
    clock.advance(Duration::from_secs(100));
    run(&ledger, Some("new"), "{}").unwrap();
    assert_eq!(ledger.purge(Duration::from_secs(100)), Ok(1));
    let state = |with: &str| ledger.lookup(&Scope::local("shop"), &key(with)).unwrap().map(|line| line.state);
    assert_eq!((state("old"), state("open"), state("new")), (None, Some("unknown"), Some("committed")));
}

#[test]
fn a_view_lists_without_touching_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    assert!(matches!(LedgerView::open(&path, Options::default()), Err(OpenError::Sqlite { .. })));
    let ledger = open(&path);
    run(&ledger, Some("a"), "{}").unwrap();
    run(&ledger, Some("b"), "{}").unwrap();
    let view = LedgerView::open(&path, Options::default()).unwrap();
    let keys =
        |state, limit| view.list(state, limit).unwrap().into_iter().map(|line| line.key).collect::<Vec<_>>();
    assert_eq!(keys(None, 10), ["b", "a"]);
    assert_eq!(keys(None, 1), ["b"]);
    assert_eq!(keys(None, 0), [""; 0]);
    assert_eq!(keys(Some("unknown"), 10), [""; 0]);
    assert_eq!(view.show("a").unwrap()[0].answer_bytes, Some(1));
}

#[test]
fn a_newer_schema_and_a_damaged_file_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("newer.db");
    drop(open(&path));
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("UPDATE steadfast_meta SET value = 99 WHERE name = 'version'", []).unwrap();
    for refused in
        [Ledger::open(&path, Options::default()).err(), LedgerView::open(&path, Options::default()).err()]
    {
        assert!(matches!(refused, Some(OpenError::Newer { found: 99, .. })), "{refused:?}");
    }

    let path = folder.path().join("damaged.db");
    std::fs::write(&path, "this is no database, but it is somebody's file").unwrap();
    let refused = Ledger::open(&path, Options::default()).err().unwrap();
    assert!(refused.to_string().contains("not a database"), "{refused}");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("this is no database"));
}

/// Nothing on a healthy disk makes COMMIT fail, so a deferred foreign key does: there and nowhere else.
#[test]
fn ruling_12_nothing_of_a_failed_commit_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY);
         CREATE TABLE child (parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);",
    )
    .unwrap();
    drop(raw);
    let ledger = open(&path);
    let execution = |with: &str| Execution {
        scope: Scope::local("shop"),
        key: Some(key(with)),
        operation: "charge",
        arguments: b"",
    };
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let failed = ledger.execute(execution("k"), move |effect| {
        counted.fetch_add(1, Ordering::Relaxed);
        effect.execute("INSERT INTO child VALUES (1)", [])?;
        Ok(Vec::new())
    });
    let Err(ExecuteError::Store(StoreError::Failed(why))) = failed else { panic!("{failed:?}") };
    assert!(why.contains("FOREIGN KEY"), "{why}");
    assert_eq!(runs.load(Ordering::Relaxed), 1, "alone in its transaction, it is not tried again");
    assert_eq!(ledger.lookup(&Scope::local("shop"), &key("k")), Ok(None));
    let rows = ledger.execute(execution("k"), |effect| {
        Ok(effect.query::<i64>("SELECT count(*) FROM child", [])?.unwrap().to_string().into_bytes())
    });
    assert_eq!(answer(rows), ("0".into(), false));
}

/// While the writer is held up, answers wait in bounded memory: beyond it a caller that does not wait is refused, and
/// nothing of its own is lost.
#[test]
fn g9_what_waits_for_the_writer_is_bounded_in_bytes() {
    const ANSWER: usize = 16 << 20;
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("l.db"));
    let intents: Vec<Intent> = (0..8).map(|n| intent(&ledger, &format!("k{n}"), "{}")).collect();
    for intent in &intents {
        ledger.claim(intent, Enforcement::Upstream).unwrap();
    }
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let execution = Execution { scope: Scope::local("shop"), key: None, operation: "hold", arguments: b"" };
    let (entered, inside) = std::sync::mpsc::channel();
    ledger.execute_then(
        execution,
        move |_| {
            entered.send(()).unwrap();
            let _ = held.lock().unwrap().recv();
            Ok(Vec::new())
        },
        |_| {},
    );
    inside.recv().unwrap();
    let (told, news) = std::sync::mpsc::channel();
    for intent in &intents {
        let answer = Answer { version: String::new(), bytes: vec![b'x'; ANSWER] };
        let told = told.clone();
        ledger.settle_then(&intent.scope, &intent.key, 1, Settlement::Committed(answer), move |outcome| {
            told.send(outcome).unwrap();
        });
    }
    drop((told, release));
    let outcomes: Vec<_> = news.iter().collect();
    let count = |wanted: &Result<Result<(), SettleError>, StoreError>| {
        outcomes.iter().filter(|it| *it == wanted).count()
    };
    assert_eq!(count(&Ok(Ok(()))), 4, "64 MiB of them");
    assert_eq!(count(&Err(StoreError::QueueFull)), 4);
}
