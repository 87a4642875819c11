//! Tasks on one file: durable before their handle, whoever restarts, and worked on by one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steadfast_core::ledger::{LEASE, Stamp};
use steadfast_core::task::{Effect, HoldError, Input, Status, TaskOwner};
use steadfast_core::time::{Instant, Wall};
use steadfast_store::{Clock, Ledger, NewTask, Options, TaskFailure, Tasks, Work};

/// A clock that stands where the test put it: the run of the machine, and the time since it began, from which the wall
/// clock is not told apart.
#[derive(Clone)]
struct HandClock(Arc<Mutex<(u128, Duration)>>);

impl HandClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((1, Duration::ZERO))))
    }

    fn wait(&self, time: Duration) {
        self.0.lock().unwrap().1 += time;
    }

    fn boot(&self) {
        self.0.lock().unwrap().0 += 1;
    }

    fn open(&self, path: &Path) -> Tasks {
        let options = Options { clock: Arc::new(self.clone()), ..Options::default() };
        Ledger::open(path, options).unwrap().tasks()
    }
}

impl Clock for HandClock {
    fn stamp(&self) -> Stamp {
        let (boot, up) = *self.0.lock().unwrap();
        let wall = Wall::from_unix_millis(1_000_000).saturating_add(up);
        Stamp { boot, up: Instant::ZERO.saturating_add(up), wall }
    }
}

fn owner(principal: &str) -> TaskOwner {
    TaskOwner { tenant: "local".into(), principal: principal.into() }
}

fn new(principal: &str, ttl: Option<Duration>) -> NewTask {
    NewTask {
        owner: owner(principal),
        server: "shop".into(),
        operation: "long_job".into(),
        resume: None,
        ttl,
        poll_interval: None,
        max_open: 100,
    }
}

fn create(tasks: &Tasks, principal: &str, ttl: Option<Duration>) -> Work {
    tasks.create(new(principal, ttl)).unwrap().0
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect()
}

#[test]
fn tsk_13_a_handle_is_given_out_once_any_process_would_find_the_task() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let [ours, theirs] = [(), ()].map(|()| Ledger::open(&path, Options::default()).unwrap().tasks());
    let (work, created) = ours.create(new("a", None)).unwrap();
    assert_eq!(theirs.get(work.id(), &owner("a")).unwrap(), created);
    assert_eq!(theirs.get(work.id(), &owner("b")), Err(TaskFailure::NotFound), "somebody else's");
    assert_eq!(theirs.get("tk_0", &owner("a")), Err(TaskFailure::NotFound));
}

#[test]
fn tsk_51_ids_hold_128_random_bits() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = HandClock::new().open(&folder.path().join("t.db"));
    let works: Vec<Work> = (0..50).map(|_| create(&tasks, "a", None)).collect();
    let mut ids: Vec<&str> = works.iter().map(Work::id).collect();
    assert!(ids.iter().all(|id| id.len() == 35 && id.starts_with("tk_")), "{ids:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 50);
}

#[test]
fn d_09_a_cancel_outlives_who_asked_for_it_until_the_worker_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let work = create(&Ledger::open(&path, Options::default()).unwrap().tasks(), "a", None);
    let caller = Ledger::open(&path, Options::default()).unwrap().tasks();
    let task = caller.cancel(work.id(), &owner("a")).unwrap();
    assert_eq!((task.status().as_str(), task.is_cancel_pending()), ("working", true));
    drop(caller);
    assert!(work.look().unwrap().task.is_cancel_pending());
    let (effect, task) = work.handle(Input::Checkpoint).unwrap();
    assert_eq!((effect, task.status()), (Effect::Stop, &Status::Cancelled));
    let late = work.handle(Input::Finish("{}".into())).unwrap();
    assert_eq!((late.0, late.1.status()), (Effect::Late, &Status::Cancelled));
}

#[test]
fn leg_112_a_legacy_cancel_is_the_end_at_once_and_a_final_task_refuses_it() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = HandClock::new().open(&folder.path().join("t.db"));
    let work = create(&tasks, "a", None);
    assert_eq!(tasks.cancel_at_once(work.id(), &owner("b")), Err(TaskFailure::NotFound));
    let task = tasks.cancel_at_once(work.id(), &owner("a")).unwrap();
    assert_eq!(task.status(), &Status::Cancelled);
    assert_eq!(work.handle(Input::Finish("{}".into())).unwrap().0, Effect::Late);
    assert_eq!(tasks.cancel_at_once(work.id(), &owner("a")), Err(TaskFailure::Over("cancelled")));
    // TSK-43: the modern one is idempotent.
    assert_eq!(tasks.cancel(work.id(), &owner("a")), Ok(task));
}

#[test]
fn ruling_10_a_dead_workers_task_is_taken_over_once_its_lease_is_over_and_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let clock = HandClock::new();
    let work = create(&clock.open(&path), "a", None);
    let id = work.id().to_owned();
    drop(work);
    let [first, second] = [clock.open(&path), clock.open(&path)];
    clock.wait(LEASE - Duration::from_millis(1));
    assert_eq!(first.orphans("shop"), Ok(vec![]), "never at another's start");
    assert_eq!(first.take_over(&id).err(), Some(TaskFailure::Held(HoldError::Live)));
    clock.wait(Duration::from_millis(1));
    assert_eq!(first.orphans("shop"), Ok(vec![id.clone()]));
    assert_eq!(first.orphans("another"), Ok(vec![]), "nobody else's server");
    let taken = first.take_over(&id).unwrap();
    assert_eq!((&*taken.operation, taken.resume), ("long_job", None));
    assert_eq!(second.take_over(&id).err(), Some(TaskFailure::Held(HoldError::Live)));
    assert_eq!(second.orphans("shop"), Ok(vec![]));
}

#[test]
fn ruling_10_a_machine_that_ran_anew_has_no_living_worker() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let clock = HandClock::new();
    let id = create(&clock.open(&path), "a", None).id().to_owned();
    clock.boot();
    let tasks = clock.open(&path);
    assert_eq!(tasks.orphans("shop"), Ok(vec![id.clone()]));
    assert!(tasks.take_over(&id).is_ok());
}

#[test]
fn i_10_a_worker_that_was_taken_for_dead_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let clock = HandClock::new();
    let [ours, theirs] = [clock.open(&path), clock.open(&path)];
    let old = create(&ours, "a", None);
    clock.wait(LEASE);
    let stale = TaskFailure::Held(HoldError::Stale { given: 1, last: 2 });
    let taken = theirs.take_over(old.id()).unwrap();
    assert_eq!(old.handle(Input::Finish("{}".into())), Err(stale.clone()));
    assert_eq!(old.handle(Input::Checkpoint), Err(stale.clone()));
    assert_eq!(old.look(), Err(stale.clone()));
    let finished = taken.work.handle(Input::Finish("{\"by\":2}".into())).unwrap().1;
    assert_eq!(old.handle(Input::Finish("{}".into())), Err(stale.clone()), "also after the end");
    assert_eq!(ours.get(old.id(), &owner("a")), Ok(finished));
    assert_eq!(old.release(), Err(stale));
}

#[test]
fn ruling_10_a_late_worker_whom_nobody_replaced_still_finishes() {
    let folder = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let tasks = clock.open(&folder.path().join("t.db"));
    let work = create(&tasks, "a", None);
    clock.wait(LEASE * 10);
    assert_eq!(tasks.orphans("shop"), Ok(vec![]), "it is not its own orphan");
    assert_eq!(work.handle(Input::Finish("{}".into())).unwrap().0, Effect::Changed);
    assert_eq!(tasks.orphans("shop"), Ok(vec![]), "what is over is nobody's orphan");
    assert_eq!(tasks.take_over(work.id()).err(), Some(TaskFailure::Over("completed")));
}

#[test]
fn a_task_that_is_let_go_needs_no_lease_to_run_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let clock = HandClock::new();
    let [ours, theirs] = [clock.open(&path), clock.open(&path)];
    let work = create(&ours, "a", None);
    let id = work.id().to_owned();
    assert_eq!(theirs.orphans("shop"), Ok(vec![]));
    work.release().unwrap();
    assert_eq!(theirs.orphans("shop"), Ok(vec![id.clone()]));
    assert!(theirs.take_over(&id).is_ok());
}

#[test]
fn g14_a_successor_finds_the_answers_and_what_it_needs_and_nothing_of_it_outlives_the_task() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let clock = HandClock::new();
    let [ours, theirs] = [clock.open(&path), clock.open(&path)];
    let arguments = Some(r#"{"steps":3}"#.to_owned());
    let (work, _) = ours.create(NewTask { resume: arguments.clone(), ..new("a", None) }).unwrap();
    work.handle(Input::Ask(texts(&[("name", "q1"), ("size", "q2")]))).unwrap();
    let answers = texts(&[("name", r#""Ada""#), ("other", "1")]);
    assert_eq!(theirs.answer(work.id(), &owner("b"), answers.clone()), Err(TaskFailure::NotFound));
    let (taken, task) = theirs.answer(work.id(), &owner("a"), answers).unwrap();
    assert_eq!((taken, task.status().as_str()), (vec!["name".to_owned()], "input_required"));
    assert_eq!(work.look().unwrap().answers, texts(&[("name", r#""Ada""#)]));
    // TSK-67: once more changes nothing.
    let again = theirs.answer(work.id(), &owner("a"), texts(&[("name", r#""Eve""#)])).unwrap();
    assert_eq!(again, (vec![], task));

    clock.wait(LEASE);
    let successor = theirs.take_over(work.id()).unwrap();
    assert_eq!(successor.resume, arguments);
    assert_eq!(successor.seen.answers, texts(&[("name", r#""Ada""#)]));
    let mut open = texts(&[("size", "q2")]);
    assert_eq!(successor.seen.task.status(), &Status::InputRequired { open: open.clone() });
    open.insert("name".into(), "q3".into());
    let reused = successor.work.handle(Input::Ask(open)).unwrap_err();
    assert!(matches!(reused, TaskFailure::Refused(_)), "TSK-34: {reused:?}");

    successor.work.handle(Input::Finish("{}".into())).unwrap();
    let raw = rusqlite::Connection::open(&path).unwrap();
    let left: (Option<String>, Option<String>, Option<i64>) = raw
        .query_row("SELECT resume, answers, until FROM steadfast_task", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(left, (None, None, None), "neither arguments nor answers outlive the task");
}

#[test]
fn leg_117_unfinished_tasks_of_one_caller_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = HandClock::new().open(&folder.path().join("t.db"));
    let limited = |principal| NewTask { max_open: 2, ..new(principal, None) };
    let (first, _) = tasks.create(limited("a")).unwrap();
    let second = tasks.create(limited("a")).unwrap();
    assert_eq!(tasks.create(limited("a")).err(), Some(TaskFailure::TooMany { limit: 2 }));
    assert!(tasks.create(limited("b")).is_ok(), "nobody else is hurt");
    first.handle(Input::Finish("{}".into())).unwrap();
    assert!(tasks.create(limited("a")).is_ok(), "an ended one does not count");
    drop(second);
}

#[test]
fn f104_a_task_is_not_deleted_while_it_works_and_its_end_stays_to_be_seen() {
    let folder = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let tasks = clock.open(&folder.path().join("t.db"));
    let seconds = Duration::from_secs;
    let work = create(&tasks, "a", Some(seconds(5)));
    let expire = || tasks.expire(work.id(), "{}".into(), "its retention is over".into());
    assert_eq!(tasks.overdue("shop"), Ok(vec![]));
    assert!(matches!(expire(), Err(TaskFailure::Refused(_))), "TSK-24");
    clock.wait(seconds(5));
    assert_eq!(tasks.purge(), Ok(0), "it works");
    assert_eq!(tasks.overdue("shop"), Ok(vec![(work.id().to_owned(), "long_job".into())]));
    assert_eq!(tasks.overdue("another"), Ok(vec![]));
    assert_eq!(expire().unwrap().status().as_str(), "failed");
    assert_eq!(work.handle(Input::Finish("{}".into())).unwrap().0, Effect::Late);
    clock.wait(seconds(299));
    assert_eq!(tasks.purge(), Ok(0));
    assert_eq!(tasks.get(work.id(), &owner("a")).unwrap().status().as_str(), "failed");
    clock.wait(seconds(1));
    assert_eq!(tasks.purge(), Ok(1));
    assert_eq!(tasks.get(work.id(), &owner("a")), Err(TaskFailure::NotFound));
}

#[test]
fn tsk_24_a_result_is_kept_as_long_as_was_promised_and_an_endless_one_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let tasks = clock.open(&folder.path().join("t.db"));
    let hour = Duration::from_secs(3_600);
    let works = [Some(hour), Some(hour * 2), None].map(|ttl| create(&tasks, "a", ttl));
    for work in &works {
        work.handle(Input::Finish("{}".into())).unwrap();
    }
    let kept = || works.each_ref().map(|work| tasks.get(work.id(), &owner("a")).is_ok());
    clock.wait(hour - Duration::from_millis(1));
    assert_eq!((tasks.purge(), kept()), (Ok(0), [true; 3]));
    clock.wait(Duration::from_millis(1));
    assert_eq!((tasks.purge(), kept()), (Ok(1), [false, true, true]));
    clock.wait(hour * 24 * 365 * 100);
    assert_eq!((tasks.purge(), kept()), (Ok(1), [false, false, true]));
}

#[test]
fn amb_25_a_longer_retention_is_kept_and_a_shorter_one_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let tasks = clock.open(&folder.path().join("t.db"));
    let [minute, hour] = [60, 3_600].map(|seconds| Some(Duration::from_secs(seconds)));
    let work = create(&tasks, "a", minute);
    let id = work.id();
    assert_eq!(tasks.keep_for(id, &owner("b"), hour), Err(TaskFailure::NotFound));
    assert_eq!(tasks.keep_for(id, &owner("a"), hour).unwrap().ttl(), hour);
    assert_eq!(tasks.keep_for(id, &owner("a"), minute).unwrap().ttl(), hour);
    clock.wait(Duration::from_secs(3_599));
    assert_eq!(tasks.overdue("shop"), Ok(vec![]));
}

#[test]
fn tsk_52_a_caller_lists_its_own_tasks_page_by_page_and_finds_them_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let clock = HandClock::new();
    let tasks = clock.open(&path);
    let [first, theirs, second] =
        ["a", "b", "a"].map(|principal| create(&tasks, principal, None).id().to_owned());
    drop(tasks);
    let tasks = clock.open(&path);
    let ids = |older_than: Option<&str>, limit| -> Result<Vec<String>, TaskFailure> {
        let page = tasks.list(&owner("a"), older_than, limit)?;
        Ok(page.into_iter().map(|(id, _)| id).collect())
    };
    assert_eq!(ids(None, 10), Ok(vec![second.clone(), first.clone()]));
    assert_eq!(ids(None, 1), Ok(vec![second.clone()]));
    assert_eq!(ids(Some(&second), 1), Ok(vec![first.clone()]));
    assert_eq!(ids(Some(&first), 1), Ok(vec![]));
    for unknown in [theirs.as_str(), "tk_0", ""] {
        assert_eq!(ids(Some(unknown), 1), Err(TaskFailure::NotFound), "LEG-115");
    }
}

#[test]
fn tsk_33_what_a_task_refuses_changes_nothing_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = HandClock::new().open(&folder.path().join("t.db"));
    let (work, created) = tasks.create(new("a", None)).unwrap();
    let refused = work.handle(Input::Ask([].into()));
    assert!(matches!(refused, Err(TaskFailure::Refused(_))), "{refused:?}");
    assert_eq!(tasks.cancel(work.id(), &owner("b")), Err(TaskFailure::NotFound));
    assert_eq!(work.handle(Input::Checkpoint), Ok((Effect::GoOn, created.clone())));
    assert_eq!(tasks.get(work.id(), &owner("a")), Ok(created));
}
