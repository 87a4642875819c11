//! Tasks on one file: durable before their handle, whoever restarts.

use std::time::Duration;

use steadfast_core::task::{Effect, Input, Status, TaskOwner};
use steadfast_store::{Ledger, Options, TaskFailure};

fn owner(principal: &str) -> TaskOwner {
    TaskOwner { tenant: "local".into(), principal: principal.into() }
}

#[test]
fn tsk_13_a_handle_is_given_out_once_any_process_would_find_the_task() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let ours = Ledger::open(&path, Options::default()).unwrap();
    let theirs = Ledger::open(&path, Options::default()).unwrap();
    let (id, created) = ours.tasks().create(owner("a"), None, Some(Duration::from_secs(1))).unwrap();
    assert_eq!(theirs.tasks().get(&id, &owner("a")).unwrap(), created);
    assert_eq!(theirs.tasks().get(&id, &owner("b")), Err(TaskFailure::NotFound), "somebody else's");
    assert_eq!(theirs.tasks().get("tk_0", &owner("a")), Err(TaskFailure::NotFound));
}

#[test]
fn g14_a_cancel_survives_a_restart_until_a_worker_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let ledger = Ledger::open(&path, Options::default()).unwrap();
    let (id, _) = ledger.tasks().create(owner("a"), None, None).unwrap();
    let (effect, task) = ledger.tasks().handle(&id, &owner("a"), Input::Cancel).unwrap();
    assert_eq!((effect, task.status().as_str()), (Effect::Acknowledged, "working"));
    drop(ledger);
    let ledger = Ledger::open(&path, Options::default()).unwrap();
    assert!(ledger.tasks().get(&id, &owner("a")).unwrap().is_cancel_pending());
    let (effect, task) = ledger.tasks().handle(&id, &owner("a"), Input::Checkpoint).unwrap();
    assert_eq!((effect, task.status()), (Effect::Stop, &Status::Cancelled));
    let late = ledger.tasks().handle(&id, &owner("a"), Input::Finish("{}".into())).unwrap();
    assert_eq!((late.0, late.1.status()), (Effect::Late, &Status::Cancelled));
}

#[test]
fn tsk_24_only_what_is_expired_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path().join("t.db"), Options::default()).unwrap();
    let tasks = ledger.tasks();
    let create = |ttl| tasks.create(owner("a"), ttl, None).unwrap().0;
    let (over, kept, endless) =
        (create(Some(Duration::ZERO)), create(Some(Duration::from_secs(3_600))), create(None));
    assert_eq!(tasks.purge(), Ok(1));
    let found = [over, kept, endless].map(|id| tasks.get(&id, &owner("a")).is_ok());
    assert_eq!(found, [false, true, true]);
}
