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

#[test]
fn amb_25_a_longer_retention_is_kept_and_a_shorter_one_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path().join("t.db"), Options::default()).unwrap();
    let tasks = ledger.tasks();
    let (id, _) = tasks.create(owner("a"), Some(Duration::ZERO), None).unwrap();
    let hour = Some(Duration::from_secs(3_600));
    assert_eq!(tasks.keep_for(&id, &owner("b"), hour), Err(TaskFailure::NotFound));
    assert_eq!(tasks.keep_for(&id, &owner("a"), hour).unwrap().ttl(), hour);
    assert_eq!(tasks.keep_for(&id, &owner("a"), Some(Duration::ZERO)).unwrap().ttl(), hour);
    assert_eq!(tasks.purge(), Ok(0));
    assert!(tasks.get(&id, &owner("a")).is_ok());
}

#[test]
fn tsk_52_a_caller_lists_its_own_tasks_and_finds_them_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let ledger = Ledger::open(&path, Options::default()).unwrap();
    let [first, second, _] =
        ["a", "a", "b"].map(|principal| ledger.tasks().create(owner(principal), None, None).unwrap().0);
    drop(ledger);
    let tasks = Ledger::open(&path, Options::default()).unwrap().tasks();
    let ids = |limit| -> Vec<String> {
        tasks.list(&owner("a"), limit).unwrap().into_iter().map(|(id, _)| id).collect()
    };
    assert_eq!(ids(10), [second.clone(), first]);
    assert_eq!(ids(1), [second]);
}

#[test]
fn tsk_33_what_a_task_refuses_changes_nothing_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path().join("t.db"), Options::default()).unwrap();
    let tasks = ledger.tasks();
    let (id, created) = tasks.create(owner("a"), None, None).unwrap();
    let refused = tasks.handle(&id, &owner("a"), Input::Ask([].into()));
    assert!(matches!(refused, Err(TaskFailure::Refused(_))), "{refused:?}");
    assert_eq!(tasks.handle(&id, &owner("b"), Input::Cancel), Err(TaskFailure::NotFound));
    assert_eq!(tasks.get(&id, &owner("a")), Ok(created));
}
