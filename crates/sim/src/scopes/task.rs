//! A durable Task from its creation through every string of up to six events, with a crash and a closed
//! connection at any place, asked for its state after each.

use std::collections::BTreeMap;

use steadfast_core::task::{Effect, Input, Task as Durable, TaskOwner};
use steadfast_core::time::{Now, Wall};

use super::Scope;
use crate::event::{Event, Task};
use crate::planted::task as planted;
use crate::run::Run;
use crate::store::Store;

pub(super) fn scopes() -> Vec<Scope> {
    vec![
        Scope::new("task", |run| World::new(false).play(run)),
        Scope::new("task-crash", |run| World::new(true).play(run)),
    ]
}

const MOST_EVENTS: u8 = 6;
const CONNECTION: u8 = 0;

#[derive(Clone, Hash)]
struct World {
    store: Store<Option<Durable<u8>>>,
    handle_given: bool,
    events_left: u8,
    /// The next question's key.
    key: u8,
    may_crash: bool,
    may_close: bool,
}

#[derive(Clone, Copy)]
enum Action {
    Cancel,
    Checkpoint,
    Ask,
    /// Asks under the key of the question before.
    AskAgain,
    Answer,
    Finish,
    Fail,
    Report,
    Close,
    Crash,
}

impl World {
    fn new(crashes: bool) -> Self {
        Self {
            store: Store::new(None),
            handle_given: false,
            events_left: if crashes { MOST_EVENTS - 2 } else { MOST_EVENTS },
            key: 0,
            may_crash: crashes,
            may_close: crashes,
        }
    }

    fn play(mut self, run: &mut Run<'_>) {
        if !self.create(run) {
            return;
        }
        while !run.is_over() {
            run.visit(&self);
            let mut enabled = Vec::with_capacity(10);
            if self.events_left > 0 {
                use Action::{Answer, Ask, AskAgain, Cancel, Checkpoint, Fail, Finish, Report};
                enabled.extend([Cancel, Checkpoint, Ask, AskAgain, Answer, Finish, Fail, Report]);
            }
            if self.may_close && self.events_left > 0 {
                enabled.push(Action::Close);
            }
            if self.may_crash && self.events_left > 0 {
                enabled.push(Action::Crash);
            }
            if enabled.is_empty() {
                return;
            }
            self.apply(enabled[run.choose(enabled.len())], run);
            self.tell(run);
        }
    }

    /// Durable, then the handle; a crash in between leaves nothing that anybody knows of. `false` if it came
    /// so.
    fn create(&mut self, run: &mut Run<'_>) -> bool {
        let owner = TaskOwner { tenant: "local".into(), principal: "local".into() };
        self.store.begin(CONNECTION);
        if let Some(task) = self.store.working(CONNECTION) {
            *task = Some(Durable::create(owner, Wall::default(), None, None));
        }
        if planted::gives_early(run.bug()) {
            self.give_handle(run);
        }
        if self.may_crash && run.choose(2) == 1 {
            self.store.crash(CONNECTION);
            see(run, Task::Reopened);
            self.tell(run);
            return false;
        }
        self.store.commit(CONNECTION);
        see(run, Task::Durable);
        if !self.handle_given {
            self.give_handle(run);
        }
        true
    }

    fn give_handle(&mut self, run: &mut Run<'_>) {
        self.handle_given = true;
        see(run, Task::HandleGiven);
    }

    fn apply(&mut self, action: Action, run: &mut Run<'_>) {
        self.events_left -= 1;
        match action {
            Action::Cancel => {
                self.handle(Input::Cancel);
                see(run, Task::CancelAcknowledged);
            }
            Action::Checkpoint => {
                let stop = self.handle(Input::Checkpoint) == Some(Effect::Stop);
                see(run, Task::Checkpoint { stop });
            }
            Action::Ask => {
                self.key += 1;
                self.ask(run);
            }
            Action::AskAgain => self.ask(run),
            Action::Answer => {
                let key = self.key;
                let effect = self.handle(Input::Answer(BTreeMap::from([(key.to_string(), 1)])));
                let taken = matches!(effect, Some(Effect::Answered(taken)) if !taken.is_empty());
                see(run, Task::Answered { key, taken });
            }
            Action::Finish => {
                let taken = self.handle(Input::Finish(42)) == Some(Effect::Changed);
                see(run, Task::Ended { result: true, taken: planted::takes_an_end(run.bug(), taken) });
            }
            Action::Fail => {
                let fail = Input::Fail { error: 1, message: "the backend is gone".into() };
                let taken = self.handle(fail) == Some(Effect::Changed);
                see(run, Task::Ended { result: false, taken: planted::takes_an_end(run.bug(), taken) });
            }
            Action::Report => {
                self.handle(Input::Report { message: "half".into() });
                see(run, Task::Reported);
            }
            Action::Close => {
                // Nothing is told to the task: it does not know of connections.
                self.may_close = false;
                see(run, Task::ConnectionClosed);
            }
            Action::Crash => {
                self.may_crash = false;
                self.store.crash(CONNECTION);
                see(run, Task::Reopened);
            }
        }
    }

    fn ask(&mut self, run: &mut Run<'_>) {
        let key = self.key;
        let questions = BTreeMap::from([(key.to_string(), 0)]);
        let taken = self.handle(Input::Ask(questions)) == Some(Effect::Changed);
        see(run, Task::Asked { key, taken: planted::takes_a_question(run.bug(), taken) });
    }

    /// One transition in one transaction.
    fn handle(&mut self, input: Input<u8>) -> Option<Effect<u8>> {
        self.store.begin(CONNECTION);
        let task = self.store.working(CONNECTION)?.as_mut();
        // A refusal is told apart by its absence.
        let effect = task.and_then(|task| task.handle(Wall::default(), input).ok());
        self.store.commit(CONNECTION);
        effect
    }

    fn tell(&self, run: &mut Run<'_>) {
        let task = self.store.read().as_ref();
        let status = task.map_or("missing", |task| {
            planted::status(run.bug(), task.is_cancel_pending(), task.status().as_str())
        });
        see(run, Task::Told { status });
    }
}

fn see(run: &mut Run<'_>, event: Task) {
    run.see(Now::default(), Event::Task(event));
}
