//! Connections that race with one key over one database: claim, effect, count of executions and result in one
//! transaction (D-12), with a crash at any step.

use steadfast_core::fingerprint::Fingerprint;
use steadfast_core::ledger::{Claim, Enforcement, Owner, Record, Settlement, Stamp, Verdict};
use steadfast_core::time::{Instant, Now, Wall};

use super::Scope;
use crate::event::{Body, Event, Ledger, Settled, Told, Verdict as Seen};
use crate::planted::ledger as planted;
use crate::run::Run;
use crate::store::{Connection, Store};

const NOW: Stamp = Stamp { boot: 1, up: Instant::ZERO, wall: Wall::from_unix_millis(0) };

pub(super) fn scopes() -> Vec<Scope> {
    vec![
        Scope::new("ledger-race-two", |run| World::new(2).play(run)),
        Scope::new("ledger-race-three", |run| World::new(3).play(run)),
    ]
}

#[derive(Clone, Hash)]
struct World {
    store: Store<Database>,
    connections: Vec<Place>,
    crashes: u8,
}

/// What one transaction changes together.
#[derive(Clone, Hash, Default)]
struct Database {
    record: Option<Record<Body>>,
    executions: Body,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Begins,
    /// The claim is decided.
    Decided(Seen),
    /// The effect is done and its result stored, all of it still uncommitted.
    Executed {
        epoch: u64,
        body: Body,
    },
    Tells(Told),
    Done,
    Dead,
}

impl World {
    fn new(connections: usize) -> Self {
        Self {
            store: Store::new(Database::default()),
            connections: vec![Place::Begins; connections],
            crashes: 1,
        }
    }

    fn play(mut self, run: &mut Run<'_>) {
        loop {
            run.visit(&self);
            // A step of each connection, then a crash of each.
            let n = self.connections.len();
            let enabled: Vec<usize> = (0..2 * n).filter(|&i| self.is_enabled(i % n, i >= n, run)).collect();
            if enabled.is_empty() || run.is_over() {
                break;
            }
            let action = enabled[run.choose(enabled.len())];
            if action < n { self.step(action, run) } else { self.crash(action - n, run) }
        }
        let state = self.store.read().record.as_ref().map_or("missing", |record| record.state.as_str());
        see(run, Ledger::AtRest { key: 0, state, locked: !self.store.is_free() });
    }

    fn is_enabled(&self, i: usize, crash: bool, run: &Run<'_>) -> bool {
        let place = self.connections[i];
        if crash {
            return self.crashes > 0 && !matches!(place, Place::Begins | Place::Done | Place::Dead);
        }
        match place {
            Place::Begins => self.store.is_free(),
            Place::Decided(Seen::Run { .. }) if planted::checks_apart(run.bug()) => self.store.is_free(),
            Place::Decided(_) | Place::Executed { .. } | Place::Tells(_) => true,
            Place::Done | Place::Dead => false,
        }
    }

    fn crash(&mut self, i: usize, run: &mut Run<'_>) {
        self.crashes -= 1;
        self.store.crash(number(i));
        self.connections[i] = Place::Dead;
        see(run, Ledger::Crashed { attempt: number(i) });
    }

    fn step(&mut self, i: usize, run: &mut Run<'_>) {
        let attempt = number(i);
        self.connections[i] = match self.connections[i] {
            Place::Begins => self.decide(attempt, run),
            Place::Decided(Seen::Run { epoch, .. }) => self.execute(attempt, epoch, run),
            Place::Decided(verdict) => {
                self.store.commit(attempt);
                see(run, Ledger::Claimed { attempt, verdict, decided_ms: 0 });
                Place::Tells(match verdict {
                    Seen::Replay { body } => Told::Replay(body),
                    Seen::Mismatch => Told::Mismatch,
                    // Nobody is seen between claim and settlement: both are in one transaction.
                    Seen::Run { .. } | Seen::Join | Seen::JoinTask | Seen::Unknown => Told::Unknown,
                })
            }
            Place::Executed { epoch, body } => {
                self.store.commit(attempt);
                see(
                    run,
                    Ledger::Claimed { attempt, verdict: Seen::Run { epoch, again: false }, decided_ms: 0 },
                );
                see(run, Ledger::Executed { attempt, body });
                see(
                    run,
                    Ledger::Settled { attempt, epoch, settled: Settled::Committed(body), accepted: true },
                );
                Place::Tells(Told::Result(body))
            }
            Place::Tells(told) => {
                see(run, Ledger::Told { attempt, told });
                Place::Done
            }
            over @ (Place::Done | Place::Dead) => over,
        };
    }

    fn decide(&mut self, attempt: Connection, run: &mut Run<'_>) -> Place {
        let enforcement = Enforcement::Gateway;
        see(run, Ledger::Begun { attempt, key: 0, arguments: 0, enforcement });
        let claim = Claim { fingerprint: Fingerprint([0; 32]), owner: Owner(attempt.into()), enforcement };
        let mut looked_at = self.store.read().record.clone();
        self.store.begin(attempt);
        let Some(database) = self.store.working(attempt) else { return Place::Dead };
        let apart = planted::checks_apart(run.bug());
        let record = if apart { &mut looked_at } else { &mut database.record };
        let verdict = match Record::claim(record, claim, NOW) {
            Verdict::Run { epoch, again } => Seen::Run { epoch, again },
            Verdict::Join | Verdict::JoinTask(_) => Seen::Join,
            Verdict::Replay(body) => Seen::Replay { body },
            Verdict::Mismatch => Seen::Mismatch,
            Verdict::Unknown => Seen::Unknown,
        };
        if apart {
            self.store.crash(attempt);
        }
        Place::Decided(verdict)
    }

    fn execute(&mut self, attempt: Connection, epoch: u64, run: &Run<'_>) -> Place {
        if planted::checks_apart(run.bug()) {
            self.store.begin(attempt);
        }
        let Some(database) = self.store.working(attempt) else { return Place::Dead };
        database.executions += 1;
        let body = database.executions;
        if let Some(record) = &mut database.record {
            // The claim was made in this very transaction, so it stands.
            let _ = record.settle(epoch, Settlement::Committed(body), NOW);
        }
        Place::Executed { epoch, body }
    }
}

fn number(i: usize) -> Connection {
    u8::try_from(i).unwrap_or(u8::MAX)
}

fn see(run: &mut Run<'_>, event: Ledger) {
    run.see(Now { mono: NOW.up, wall: NOW.wall }, Event::Ledger(event));
}
