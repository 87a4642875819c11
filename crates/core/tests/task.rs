//! What a Task promises, whoever works on it and whoever has gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steadfast_core::task::{Effect, Input, Status, Task, TaskError, TaskOwner};
use steadfast_core::time::Wall;

const CREATED: Wall = Wall::from_unix_millis(1_000);
const TTL: Duration = Duration::from_secs(60);
const EXPIRES: Wall = Wall::from_unix_millis(61_000);

fn owner() -> TaskOwner {
    TaskOwner { tenant: "t".into(), principal: "p".into() }
}

fn task() -> Task<u8> {
    Task::create(owner(), CREATED, Some(TTL), None)
}

fn map(keys: &[&str]) -> BTreeMap<String, u8> {
    keys.iter().map(|key| ((*key).into(), 1)).collect()
}

fn at(task: &mut Task<u8>, input: Input<u8>) -> Effect<u8> {
    task.handle(CREATED, input).unwrap()
}

fn expire() -> Input<u8> {
    Input::Expire { error: 9, message: "the retention is over".into() }
}

#[test]
fn d_09_an_acknowledged_cancel_waits_for_a_checkpoint() {
    let mut it = task();
    assert_eq!(at(&mut it, Input::Checkpoint), Effect::GoOn);
    assert_eq!(at(&mut it, Input::Cancel), Effect::Acknowledged);
    assert_eq!((it.status().as_str(), it.is_cancel_pending()), ("working", true));
    assert_eq!(at(&mut it, Input::Checkpoint), Effect::Stop);
    assert_eq!((it.status().as_str(), it.is_cancel_pending()), ("cancelled", false));
    assert_eq!(at(&mut it, Input::Finish(1)), Effect::Late);
    assert_eq!(it.status(), &Status::Cancelled);
}

#[test]
fn d_09_finishing_before_the_checkpoint_wins() {
    let mut it = task();
    at(&mut it, Input::Cancel);
    assert_eq!(at(&mut it, Input::Finish(7)), Effect::Changed);
    assert_eq!(at(&mut it, Input::Checkpoint), Effect::Stop);
    assert_eq!(it.status(), &Status::Completed { result: 7 });
    // TSK-43: cancelling what is over is acknowledged and changes nothing.
    let before = it.clone();
    assert_eq!(at(&mut it, Input::Cancel), Effect::Acknowledged);
    assert_eq!(it, before);
}

#[test]
fn d_09_a_cancel_while_questions_are_open_needs_no_answer() {
    let mut it = task();
    at(&mut it, Input::Ask(map(&["a"])));
    assert_eq!(at(&mut it, Input::Cancel), Effect::Acknowledged);
    assert_eq!(it.status(), &Status::InputRequired { open: map(&["a"]) });
    assert_eq!(at(&mut it, Input::Checkpoint), Effect::Stop);
    assert_eq!(it.status(), &Status::Cancelled);
}

#[test]
fn tsk_33_keys_are_never_used_again_and_partial_answers_leave_the_rest_open() {
    let mut it = task();
    at(&mut it, Input::Ask(map(&["a", "b"])));
    assert_eq!(at(&mut it, Input::Answer(map(&["a", "x"]))), Effect::Answered(vec![("a".into(), 1)]));
    assert_eq!(it.status(), &Status::InputRequired { open: map(&["b"]) });
    let again = it.handle(CREATED, Input::Ask(map(&["a"])));
    assert_eq!(again, Err(TaskError::KeyReused("a".into())));
    assert_eq!(at(&mut it, Input::Answer(map(&["a"]))), Effect::Answered(Vec::new()));
    at(&mut it, Input::Answer(map(&["b"])));
    assert_eq!(it.status(), &Status::Working);
    assert_eq!(it.handle(CREATED, Input::Ask(map(&[]))), Err(TaskError::NothingAsked));
}

#[test]
fn amb_25_a_promised_retention_is_only_lengthened() {
    let seconds = Duration::from_secs;
    let mut it = task();
    it.keep_for(CREATED, Some(seconds(10)));
    assert_eq!(it, task());
    assert!(!it.is_expired(Wall::from_unix_millis(60_999)));
    assert!(it.is_expired(EXPIRES));
    it.keep_for(CREATED, Some(seconds(90)));
    assert_eq!(it.ttl(), Some(seconds(90)));
    it.keep_for(CREATED, None);
    it.keep_for(CREATED, Some(seconds(90)));
    assert_eq!(it.ttl(), None);
    assert!(!it.is_expired(Wall::from_unix_millis(u64::MAX)));
}

#[test]
fn tsk_24_a_task_expires_after_its_retention_and_not_before() {
    let mut it = task();
    let before = it.clone();
    let early = it.handle(Wall::from_unix_millis(60_999), expire());
    assert_eq!((early, &it), (Err(TaskError::NotExpired), &before));
    it.keep_for(CREATED, Some(TTL * 2));
    assert_eq!(it.handle(EXPIRES, expire()), Err(TaskError::NotExpired), "a longer promise holds");
    assert_eq!(it.handle(Wall::from_unix_millis(121_000), expire()), Ok(Effect::Changed));
    assert_eq!((it.status(), it.message()), (&Status::Failed { error: 9 }, Some("the retention is over")));
    // The worker hears of it at its next checkpoint, and what it still finishes changes nothing.
    assert_eq!(at(&mut it, Input::Checkpoint), Effect::Stop);
    assert_eq!(at(&mut it, Input::Finish(1)), Effect::Late);

    let mut endless: Task<u8> = Task::create(owner(), CREATED, None, None);
    let end_of_time = Wall::from_unix_millis(u64::MAX);
    assert_eq!(endless.handle(end_of_time, expire()), Err(TaskError::NotExpired));
}

/// Ruling 13: while an effect is unknown the Task says so; once it is known, it says so no more.
#[test]
fn g8_a_completed_task_does_not_say_that_its_effect_is_unknown() {
    let unknown = || Input::Report { message: "the charge may have been made; looking for it".into() };
    let mut it = task();
    at(&mut it, unknown());
    assert_eq!(it.message(), Some("the charge may have been made; looking for it"));
    at(&mut it, Input::Finish(1));
    assert_eq!(it.message(), None);

    let mut it = task();
    at(&mut it, unknown());
    at(&mut it, Input::Fail { error: 2, message: "its worker was lost".into() });
    assert_eq!(it.message(), Some("its worker was lost"));
}

/// A worker is lost and a successor reads what is stored: the intent, the questions and the used keys are there.
#[test]
fn g14_a_successor_finds_the_task_as_it_was() {
    let mut it = task();
    at(&mut it, Input::Ask(map(&["a", "b"])));
    at(&mut it, Input::Answer(map(&["a"])));
    at(&mut it, Input::Cancel);
    let stored = serde_json::to_string(&it).unwrap();
    let mut taken_over: Task<u8> = serde_json::from_str(&stored).unwrap();
    assert_eq!(taken_over, it);
    let again = taken_over.handle(CREATED, Input::Ask(map(&["a"])));
    assert_eq!(again, Err(TaskError::KeyReused("a".into())));
    assert_eq!(at(&mut taken_over, Input::Checkpoint), Effect::Stop);
}

#[test]
fn tsk_52_a_task_belongs_to_its_owner() {
    assert!(task().belongs_to(&owner()));
    assert!(!task().belongs_to(&TaskOwner { tenant: "other".into(), ..owner() }));
    assert!(!task().belongs_to(&TaskOwner { principal: "other".into(), ..owner() }));
}

#[test]
fn no_debug_text_shows_a_result_an_error_a_question_or_an_answer() {
    let secret = || String::from("secret");
    let questions = || BTreeMap::from([(String::from("k"), secret())]);
    let inputs = [
        Input::Ask(questions()),
        Input::Answer(questions()),
        Input::Finish(secret()),
        Input::Fail { error: secret(), message: String::new() },
        Input::Expire { error: secret(), message: String::new() },
    ];
    for end in &inputs[2..] {
        let mut it = Task::create(owner(), CREATED, Some(TTL), None);
        for input in [&inputs[0], &inputs[1], &inputs[0], end] {
            let text = format!("{input:?} {:?} {it:?}", it.clone().handle(EXPIRES, input.clone()));
            assert!(!text.contains("secret"), "{text}");
            let _ = it.handle(EXPIRES, input.clone());
        }
        assert!(it.status().is_final() && !format!("{it:?}").contains("secret"), "{it:?}");
    }
}

/// Every string of up to six of these events, at clocks that stand still, are set back and pass the retention.
// shows: TSK-15
#[test]
fn i_22_edges_are_legal_terminal_absorbs_and_keys_are_never_reused() {
    let strings = walk(&task(), &mut Vec::new());
    assert_eq!(strings, (0..=6).map(|length| EVENTS.len().pow(length)).sum::<usize>());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Cancel,
    Checkpoint,
    Report,
    Ask(&'static [&'static str]),
    Answer(&'static [&'static str]),
    Finish,
    Fail,
    Expire,
}

const EVENTS: [Event; 11] = [
    Event::Cancel,
    Event::Checkpoint,
    Event::Report,
    Event::Ask(&["a"]),
    Event::Ask(&["b"]),
    Event::Ask(&["a", "b"]),
    Event::Answer(&["a"]),
    Event::Answer(&["a", "b", "never asked"]),
    Event::Finish,
    Event::Fail,
    Event::Expire,
];

/// By place in the string.
const CLOCKS: [u64; 6] = [1_000, 400, 61_000, 5_000, 61_000, 70_000];

fn walk(task: &Task<u8>, history: &mut Vec<Event>) -> usize {
    if history.len() == CLOCKS.len() {
        return 1;
    }
    let mut strings = 1;
    for event in EVENTS {
        let now = Wall::from_unix_millis(CLOCKS[history.len()]);
        let mut next = task.clone();
        let came = next.handle(now, input(event));
        history.push(event);

        assert_eq!(Told::of(&next), Told::by(history), "{history:?}");
        assert_eq!(came, effect(history), "{history:?}");
        assert_eq!(next != *task, changes_something(history), "{history:?}");
        assert!(next == *task || next.updated_at() > task.updated_at(), "TSK-58: {history:?}");

        strings += walk(&next, history);
        history.pop();
    }
    strings
}

fn input(event: Event) -> Input<u8> {
    match event {
        Event::Cancel => Input::Cancel,
        Event::Checkpoint => Input::Checkpoint,
        Event::Report => Input::Report { message: "half".into() },
        Event::Ask(keys) => Input::Ask(map(keys)),
        Event::Answer(keys) => Input::Answer(map(keys)),
        Event::Finish => Input::Finish(7),
        Event::Fail => Input::Fail { error: 8, message: "it failed".into() },
        Event::Expire => expire(),
    }
}

/// What `tasks/get` must say after a history, read off the history by the rules and not by transitions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    /// The event that ended it.
    end: Option<&'static str>,
    /// The questions that are open.
    open: Vec<String>,
    /// Whether an acknowledged cancel waits for a checkpoint.
    cancel_pending: bool,
}

impl Told {
    fn of(task: &Task<u8>) -> Self {
        let word = task.status().as_str();
        let (end, open) = match task.status() {
            Status::Working => (None, Vec::new()),
            Status::InputRequired { open } => {
                assert!(!open.is_empty(), "input is required, and nothing is asked");
                (None, open.keys().cloned().collect())
            }
            Status::Completed { result: 7 } | Status::Failed { error: 8 | 9 } | Status::Cancelled => {
                (Some(word), Vec::new())
            }
            Status::Completed { .. } | Status::Failed { .. } => panic!("a payload that nobody gave"),
        };
        Self { end, open, cancel_pending: task.is_cancel_pending() }
    }

    fn by(history: &[Event]) -> Self {
        let ends = |place: usize| match history[place] {
            Event::Finish => Some("completed"),
            Event::Fail => Some("failed"),
            Event::Expire => (CLOCKS[place] >= EXPIRES.as_unix_millis()).then_some("failed"),
            Event::Checkpoint => history[..place].contains(&Event::Cancel).then_some("cancelled"),
            Event::Cancel | Event::Report | Event::Ask(_) | Event::Answer(_) => None,
        };
        if let Some(end) = (0..history.len()).find_map(ends) {
            return Self { end: Some(end), open: Vec::new(), cancel_pending: false };
        }
        Self {
            end: None,
            open: questions(history).1.into_iter().map(String::from).collect(),
            cancel_pending: history.contains(&Event::Cancel),
        }
    }
}

/// The keys that were used, and those that are open. Questions are taken together or not at all.
fn questions(history: &[Event]) -> (BTreeSet<&'static str>, BTreeSet<&'static str>) {
    let (mut used, mut open) = (BTreeSet::new(), BTreeSet::new());
    for event in history {
        match event {
            Event::Ask(keys) if keys.iter().all(|key| !used.contains(key)) => {
                used.extend(*keys);
                open.extend(*keys);
            }
            Event::Answer(keys) => open.retain(|key| !keys.contains(key)),
            _ => {}
        }
    }
    (used, open)
}

/// Whether the last event leaves anything else than it found, the time of the last change included.
fn changes_something(history: &[Event]) -> bool {
    let Some((&event, earlier)) = history.split_last() else { return false };
    match effect(history) {
        Err(_) | Ok(Effect::Late) => false,
        // Only the first intent is one.
        Ok(Effect::Acknowledged) => Told::by(earlier).end.is_none() && !earlier.contains(&Event::Cancel),
        Ok(Effect::Stop) => Told::by(earlier).end.is_none(),
        Ok(Effect::GoOn) => event == Event::Report,
        Ok(Effect::Answered(taken)) => !taken.is_empty(),
        Ok(Effect::Changed) => true,
    }
}

/// What the one who brought the last event must hear.
fn effect(history: &[Event]) -> Result<Effect<u8>, TaskError> {
    let Some((&event, earlier)) = history.split_last() else { unreachable!("an event just happened") };
    let (before, after) = (Told::by(earlier), Told::by(history));
    let over = before.end.is_some();
    Ok(match event {
        Event::Cancel => Effect::Acknowledged,
        Event::Checkpoint if over || before.cancel_pending => Effect::Stop,
        Event::Checkpoint => Effect::GoOn,
        Event::Answer(keys) => {
            let taken = keys.iter().filter(|key| before.open.iter().any(|open| open == *key));
            Effect::Answered(taken.map(|key| (String::from(*key), 1)).collect())
        }
        Event::Report | Event::Ask(_) | Event::Finish | Event::Fail | Event::Expire if over => Effect::Late,
        Event::Report => Effect::GoOn,
        Event::Ask(keys) => {
            let used = questions(earlier).0;
            return match keys.iter().find(|key| used.contains(*key)) {
                Some(key) => Err(TaskError::KeyReused((*key).into())),
                None => Ok(Effect::Changed),
            };
        }
        Event::Finish | Event::Fail => Effect::Changed,
        Event::Expire if after.end.is_none() => return Err(TaskError::NotExpired),
        Event::Expire => Effect::Changed,
    })
}
