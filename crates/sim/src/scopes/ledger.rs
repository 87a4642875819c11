//! Attempts of several processes under one key, step by step over one store, with a crash at any step.

use std::time::Duration;

use steadfast_core::fingerprint::Fingerprint;
use steadfast_core::ledger::{
    Claim, Enforcement, LEASE, Owner, Record, Resolution, Settlement, Stamp, State, Verdict,
};
use steadfast_core::time::{Instant, Now, Wall};

use super::Scope;
use crate::event::{Answer, Body, Event, Ledger, Settled, Told, Verdict as Seen};
use crate::planted::ledger as planted;
use crate::run::Run;
use crate::store::Store;

pub(super) fn scopes() -> Vec<Scope> {
    let plain = Setup {
        arguments: &[0, 0],
        enforcement: Enforcement::Gateway,
        crashes: 1,
        lapses: 1,
        renewals: 0,
        reconciliations: 0,
        services: &[
            Service::Executes,
            Service::ExecutesAndAnswerIsLost,
            Service::Refuses,
            Service::RequestIsLost,
        ],
    };
    vec![
        attempts("ledger-equal-arguments-gateway", plain),
        attempts("ledger-equal-arguments-upstream", Setup { enforcement: Enforcement::Upstream, ..plain }),
        attempts("ledger-other-arguments-gateway", Setup { arguments: &[0, 1], ..plain }),
        attempts(
            "ledger-other-arguments-upstream",
            Setup { arguments: &[0, 1], enforcement: Enforcement::Upstream, ..plain },
        ),
        attempts("ledger-three-attempts", Setup { arguments: &[0, 0, 0], crashes: 1, lapses: 0, ..plain }),
        attempts("ledger-renewal", Setup { crashes: 0, lapses: 2, renewals: 1, ..plain }),
        attempts(
            "ledger-legs-and-tasks",
            Setup {
                arguments: &[0, 0, 1],
                crashes: 0,
                lapses: 0,
                services: &[Service::Executes, Service::Refuses, Service::Asks, Service::PromisesATask],
                ..plain
            },
        ),
        attempts("ledger-reconcile", Setup { reconciliations: 1, ..plain }),
    ]
}

/// One attempt an element of `arguments`, all under one key.
#[derive(Clone, Copy)]
struct Setup {
    arguments: &'static [u8],
    enforcement: Enforcement,
    crashes: u8,
    /// How often a lease's length of time may pass.
    lapses: u8,
    /// How often each attempt may renew.
    renewals: u8,
    /// How often an unknown record may be reconciled.
    reconciliations: u8,
    /// What the upstream may do with a request.
    services: &'static [Service],
}

fn attempts(name: &'static str, setup: Setup) -> Scope {
    Scope::new(name, move |run| World::new(setup).play(run))
}

#[derive(Clone, Hash)]
struct World {
    now: Stamp,
    store: Store<Option<Record<Body>>>,
    upstream: Upstream,
    attempts: Vec<Attempt>,
    enforcement: Enforcement,
    crashes: u8,
    lapses: u8,
    reconciliations: u8,
    services: &'static [Service],
    /// The claim that a task holds, until it ends.
    task: Option<(u8, u64)>,
}

/// The server behind the ledger. It numbers executions, and if it enforces the key, it executes once.
#[derive(Clone, Hash, Default)]
struct Upstream {
    executions: Body,
    /// What it remembers under the key.
    remembered: Option<Body>,
}

#[derive(Clone, Hash)]
struct Attempt {
    number: u8,
    arguments: u8,
    place: Place,
    in_flight: bool,
    renewals: u8,
}

/// Where an attempt stands; every step between two places is a point where others act and a process may die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Begins,
    /// The claim is decided inside an open transaction.
    Claims {
        verdict: Seen,
        decided_ms: u64,
    },
    /// Another one executes: looks again once that has ended.
    Waits,
    Sends {
        epoch: u64,
        until: Instant,
    },
    Listens {
        epoch: u64,
    },
    Heard {
        epoch: u64,
        answer: Answer,
    },
    /// The settlement is decided inside an open transaction.
    Settles {
        epoch: u64,
        settled: Settled,
        accepted: bool,
        told: Told,
    },
    Tells(Told),
    Done,
    Dead,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Step(usize),
    /// The upstream does its part, or the network loses it.
    Serve(usize, Service),
    Renew(usize),
    Crash(usize),
    Reconcile,
    Lapse,
    TaskEnds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Service {
    Executes,
    ExecutesAndAnswerIsLost,
    Refuses,
    RequestIsLost,
    /// It cannot go on without an answer to a question.
    Asks,
    PromisesATask,
}

impl World {
    fn new(setup: Setup) -> Self {
        let attempts = (0..).zip(setup.arguments).map(|(number, &arguments)| Attempt {
            number,
            arguments,
            place: Place::Begins,
            in_flight: false,
            renewals: setup.renewals,
        });
        Self {
            now: Stamp { boot: 1, up: Instant::ZERO, wall: Wall::from_unix_millis(0) },
            store: Store::new(None),
            upstream: Upstream::default(),
            attempts: attempts.collect(),
            enforcement: setup.enforcement,
            crashes: setup.crashes,
            lapses: setup.lapses,
            reconciliations: setup.reconciliations,
            services: setup.services,
            task: None,
        }
    }

    fn play(mut self, run: &mut Run<'_>) {
        let mut enabled = Vec::new();
        loop {
            run.visit(&self);
            self.enabled(&mut enabled);
            if enabled.is_empty() || run.is_over() {
                break;
            }
            let action = enabled[run.choose(enabled.len())];
            self.apply(action, run);
        }
        self.come_to_rest(run);
    }

    fn enabled(&self, enabled: &mut Vec<Action>) {
        enabled.clear();
        for (i, attempt) in self.attempts.iter().enumerate() {
            let can_step = match attempt.place {
                Place::Begins | Place::Heard { .. } => self.store.is_free(),
                Place::Waits => self.store.is_free() && !self.is_claimed_by_a_living_lease(),
                Place::Claims { .. } | Place::Sends { .. } | Place::Settles { .. } | Place::Tells(_) => true,
                Place::Listens { .. } | Place::Done | Place::Dead => false,
            };
            if can_step {
                enabled.push(Action::Step(i));
            }
            if attempt.in_flight {
                enabled.extend(self.services.iter().map(|&service| Action::Serve(i, service)));
            }
            let holds_a_claim = matches!(attempt.place, Place::Sends { .. } | Place::Listens { .. });
            if attempt.renewals > 0 && holds_a_claim && self.store.is_free() {
                enabled.push(Action::Renew(i));
            }
            let lives = !matches!(attempt.place, Place::Begins | Place::Waits | Place::Done | Place::Dead);
            if self.crashes > 0 && lives {
                enabled.push(Action::Crash(i));
            }
        }
        if self.task.is_some() && self.store.is_free() {
            enabled.push(Action::TaskEnds);
        }
        if self.reconciliations > 0 && self.may_reconcile() {
            enabled.push(Action::Reconcile);
        }
        let ran = self.attempts.iter().all(|a| matches!(a.place, Place::Done | Place::Dead | Place::Begins));
        if self.lapses > 0 && !ran || self.someone_waits_for_a_dead_owner() {
            enabled.push(Action::Lapse);
        }
    }

    /// The record is unknown, and nothing under the key is under way any more: so `absent_after` was chosen
    /// (ruling 3).
    fn may_reconcile(&self) -> bool {
        let mut record = self.store.read().clone();
        let unknown = record.as_mut().is_some_and(|record| {
            record.expire(self.now);
            matches!(record.state, State::Unknown)
        });
        unknown && self.store.is_free() && self.attempts.iter().all(|attempt| !attempt.in_flight)
    }

    fn is_claimed_by_a_living_lease(&self) -> bool {
        match self.store.read().as_ref().map(|record| &record.state) {
            Some(State::Claimed { until, .. }) => self.now.up < *until,
            _ => false,
        }
    }

    /// Then time is the only thing that helps, and it passes.
    fn someone_waits_for_a_dead_owner(&self) -> bool {
        let waits = self.attempts.iter().any(|attempt| attempt.place == Place::Waits);
        let others_are_over =
            self.attempts.iter().all(|a| matches!(a.place, Place::Waits | Place::Done | Place::Dead));
        waits && others_are_over && self.is_claimed_by_a_living_lease()
    }

    fn see(&self, run: &mut Run<'_>, event: Ledger) {
        run.see(Now { mono: self.now.up, wall: self.now.wall }, Event::Ledger(event));
    }

    fn apply(&mut self, action: Action, run: &mut Run<'_>) {
        match action {
            Action::Step(i) => self.step(i, run),
            Action::Serve(i, service) => self.serve(i, service, run),
            Action::Renew(i) => self.renew(i, run),
            Action::Crash(i) => {
                self.crashes -= 1;
                let number = self.attempts[i].number;
                self.store.crash(number);
                self.attempts[i].place = Place::Dead;
                self.see(run, Ledger::Crashed { attempt: number });
            }
            Action::Reconcile => self.reconcile(run),
            Action::TaskEnds => self.end_task(run),
            Action::Lapse => {
                self.lapses = self.lapses.saturating_sub(1);
                self.now.up = self.now.up.saturating_add(LEASE);
                // What people call the time goes back meanwhile.
                self.now.wall = Wall::from_unix_millis(self.now.wall.as_unix_millis() / 2);
            }
        }
    }

    fn step(&mut self, i: usize, run: &mut Run<'_>) {
        let attempt = self.attempts[i].number;
        let place = match self.attempts[i].place {
            Place::Begins | Place::Waits => self.claim(i, run),
            Place::Claims { verdict, decided_ms } => {
                if planted::sends_early(run.bug()) {
                    self.see(run, Ledger::Sent { attempt });
                }
                self.store.commit(attempt);
                self.see(run, Ledger::Claimed { attempt, verdict, decided_ms });
                match verdict {
                    Seen::Run { epoch, .. } => {
                        let until = Instant::from_millis(decided_ms).saturating_add(LEASE);
                        Place::Sends { epoch, until }
                    }
                    Seen::Join => Place::Waits,
                    Seen::JoinTask => Place::Tells(Told::Handle),
                    Seen::Replay { body } => Place::Tells(Told::Replay(planted::replayed(run.bug(), body))),
                    Seen::Mismatch => Place::Tells(Told::Mismatch),
                    Seen::Unknown => Place::Tells(Told::Unknown),
                }
            }
            // A process that slept through its lease must not send: by now another may have been told that
            // nothing was.
            Place::Sends { epoch, until } if self.now.up >= until && planted::minds_its_lease(run.bug()) => {
                Place::Heard { epoch, answer: Answer::Refusal }
            }
            Place::Sends { epoch, .. } => {
                self.attempts[i].in_flight = true;
                self.see(run, Ledger::Sent { attempt });
                Place::Listens { epoch }
            }
            Place::Heard { epoch, answer } => self.settle(i, epoch, answer, run),
            Place::Settles { epoch, settled, accepted, told } => {
                if planted::tells_early(run.bug()) {
                    self.see(run, Ledger::Told { attempt, told });
                }
                self.store.commit(attempt);
                self.see(run, Ledger::Settled { attempt, epoch, settled, accepted });
                Place::Tells(told)
            }
            Place::Tells(told) => {
                self.see(run, Ledger::Told { attempt, told });
                Place::Done
            }
            other @ (Place::Listens { .. } | Place::Done | Place::Dead) => other,
        };
        self.attempts[i].place = place;
    }

    fn claim(&mut self, i: usize, run: &mut Run<'_>) -> Place {
        let Attempt { number, arguments, place, .. } = self.attempts[i];
        if place == Place::Begins {
            let enforcement = self.enforcement;
            self.see(run, Ledger::Begun { attempt: number, key: 0, arguments, enforcement });
        }
        self.store.begin(number);
        let claim = Claim {
            fingerprint: Fingerprint([arguments; 32]),
            owner: Owner(number.into()),
            enforcement: self.enforcement,
        };
        let Some(record) = self.store.working(number) else { return Place::Dead };
        let (claim, now) = planted::claims(run.bug(), record.as_ref(), claim, self.now);
        let verdict = match Record::claim(record, claim, now) {
            Verdict::Run { epoch, again } => Seen::Run { epoch, again },
            Verdict::Join => Seen::Join,
            Verdict::JoinTask(_) => Seen::JoinTask,
            Verdict::Replay(body) => Seen::Replay { body },
            Verdict::Mismatch => Seen::Mismatch,
            Verdict::Unknown => Seen::Unknown,
        };
        Place::Claims { verdict, decided_ms: self.now.up.as_millis() }
    }

    fn settle(&mut self, i: usize, epoch: u64, answer: Answer, run: &Run<'_>) -> Place {
        let attempt = self.attempts[i].number;
        self.store.begin(attempt);
        let settled = match answer {
            Answer::Result(body) => Settled::Committed(body),
            Answer::Refusal => Settled::Rejected,
            Answer::Silence => Settled::Unknown,
            Answer::Question => Settled::AwaitingInput,
            Answer::Handle => Settled::HeldByTask,
        };
        let settled = planted::settles(run.bug(), settled);
        let accepted = self.store.working(attempt).and_then(Option::as_mut).is_some_and(|record| {
            let epoch = planted::epoch(run.bug(), epoch, record.epoch);
            record.settle(epoch, settlement(settled), self.now).is_ok()
        });
        let told = match (answer, accepted) {
            (Answer::Result(body), true) => Told::Result(body),
            (Answer::Result(_), false) => Told::NotStored,
            (Answer::Refusal, true) if self.is_doubtful(attempt) => Told::Unknown,
            (Answer::Refusal, true) => Told::Refusal,
            (Answer::Question, true) => Told::Question,
            (Answer::Handle, true) => {
                self.task = Some((attempt, epoch));
                Told::Handle
            }
            (Answer::Refusal | Answer::Question | Answer::Handle, false) | (Answer::Silence, _) => {
                Told::Unknown
            }
        };
        Place::Settles { epoch, settled, accepted, told }
    }

    /// Whether a refusal of this attempt leaves an earlier one in doubt, so that the record stays unknown
    /// (ruling 2).
    fn is_doubtful(&mut self, attempt: u8) -> bool {
        let record = self.store.working(attempt).and_then(|record| record.as_ref());
        record.is_some_and(|record| matches!(record.state, State::Unknown))
    }

    fn renew(&mut self, i: usize, run: &mut Run<'_>) {
        self.attempts[i].renewals -= 1;
        let (attempt, place) = (self.attempts[i].number, self.attempts[i].place);
        let (Place::Sends { epoch, .. } | Place::Listens { epoch }) = place else { return };
        self.store.begin(attempt);
        let now = self.now;
        let renewed = self
            .store
            .working(attempt)
            .and_then(Option::as_mut)
            .is_some_and(|record| record.renew(epoch, now).is_ok());
        self.store.commit(attempt);
        if renewed {
            self.see(run, Ledger::Renewed { attempt });
            if let Place::Sends { until, .. } = &mut self.attempts[i].place {
                *until = now.up.saturating_add(LEASE);
            }
        }
    }

    /// The task executes, and whoever follows it settles the record that it holds.
    fn end_task(&mut self, run: &mut Run<'_>) {
        let Some((attempt, epoch)) = self.task.take() else { return };
        let body = self.execute(attempt, run);
        let (now, follower) = (self.now, u8::MAX);
        self.store.begin(follower);
        let accepted = self
            .store
            .working(follower)
            .and_then(Option::as_mut)
            .is_some_and(|record| record.settle(epoch, Settlement::Committed(body), now).is_ok());
        self.store.commit(follower);
        let settled = Settled::Committed(body);
        self.see(run, Ledger::Settled { attempt, epoch, settled, accepted });
    }

    fn reconcile(&mut self, run: &mut Run<'_>) {
        self.reconciliations -= 1;
        let found = self.upstream.remembered;
        let resolution = found.map_or(Resolution::Rejected, Resolution::Committed);
        let (now, reconciler) = (self.now, u8::MAX);
        self.store.begin(reconciler);
        let done = self
            .store
            .working(reconciler)
            .and_then(Option::as_mut)
            .is_some_and(|record| record.reconcile(resolution, now).is_ok());
        self.store.commit(reconciler);
        if done {
            self.see(run, Ledger::Reconciled { found });
        }
    }

    fn serve(&mut self, i: usize, service: Service, run: &mut Run<'_>) {
        let attempt = self.attempts[i].number;
        self.attempts[i].in_flight = false;
        let answer = match service {
            Service::Executes => Answer::Result(self.execute(attempt, run)),
            Service::ExecutesAndAnswerIsLost => {
                self.execute(attempt, run);
                Answer::Silence
            }
            Service::Refuses => Answer::Refusal,
            Service::RequestIsLost => Answer::Silence,
            Service::Asks => Answer::Question,
            Service::PromisesATask => Answer::Handle,
        };
        if let Place::Listens { epoch } = self.attempts[i].place {
            self.see(run, Ledger::Heard { attempt, answer });
            self.attempts[i].place = Place::Heard { epoch, answer };
        }
    }

    fn execute(&mut self, attempt: u8, run: &mut Run<'_>) -> Body {
        if let (Enforcement::Upstream, Some(body)) = (self.enforcement, self.upstream.remembered) {
            return body;
        }
        self.upstream.executions += 1;
        let body = self.upstream.executions;
        self.upstream.remembered = Some(body);
        self.see(run, Ledger::Executed { attempt, body });
        body
    }

    fn come_to_rest(&mut self, run: &mut Run<'_>) {
        self.now.up = self.now.up.saturating_add(LEASE + Duration::from_secs(1));
        let mut record = self.store.read().clone();
        let state = record.as_mut().map_or("missing", |record| {
            record.expire(self.now);
            record.state.as_str()
        });
        self.see(run, Ledger::AtRest { key: 0, state, locked: !self.store.is_free() });
    }
}

fn settlement(settled: Settled) -> Settlement<Body> {
    match settled {
        Settled::Committed(body) => Settlement::Committed(body),
        Settled::Rejected => Settlement::Rejected,
        Settled::Unknown => Settlement::Unknown,
        Settled::AwaitingInput => Settlement::AwaitingInput,
        // What is stored of a task is its handle, here a number that no answer has.
        Settled::HeldByTask => Settlement::HeldByTask(Body::MAX),
    }
}
