//! Every order of every scope, judged by every checker; and every planted bug, which its checker must catch.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::check::Invariant;
use crate::choices::Choices;
use crate::planted::Bug;
use crate::replay::Target;
use crate::run::{Run, States};
use crate::scopes::{self, Scope};
use crate::transcript::{Transcript, hex};

/// What an exploration found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// One a scope.
    pub scopes: Vec<Explored>,
    /// One a planted bug.
    pub planted: Vec<Hunted>,
    /// The SHA-256 over the digests of all scopes: two explorations with equal digests saw the same.
    pub digest: String,
}

impl Report {
    /// Whether every order of every scope held every invariant, and every planted bug was caught.
    pub fn is_good(&self) -> bool {
        self.scopes.iter().all(|scope| scope.violations == 0) && self.planted.iter().all(|bug| bug.caught)
    }
}

/// A scope, explored to its last order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explored {
    /// The scope's name.
    pub name: &'static str,
    /// How many orders of events were played: all there are, unless a thousand of them broke an invariant.
    pub orders: u64,
    /// How many distinct states were passed.
    pub states: u64,
    /// In how many orders an invariant was broken.
    pub violations: u64,
    /// The first of these orders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_violation: Option<Broken>,
    #[serde(skip)]
    digest: String,
}

/// An order in which an invariant was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// Which one, and what was seen.
    pub violation: String,
    /// What to give to `steadfast sim replay`.
    pub replay: String,
}

/// A planted bug, hunted by the checker that is meant for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hunted {
    /// The invariant that it breaks.
    pub invariant: Invariant,
    /// What the bug does.
    pub bug: &'static str,
    /// Whether the checker of that invariant found it.
    pub caught: bool,
    /// How many events the shortest transcript has that shows it.
    pub transcript_len: u64,
    /// What to give to `steadfast sim replay` to see it.
    pub replay: String,
}

/// A scope that is broken in so many orders is not explored further: what is broken may have no end.
const ENOUGH_VIOLATIONS: u64 = 1_000;

/// A bug that shows at all shows soon; so many more orders are then played in search of a shorter transcript.
const ORDERS_FOR_SHORTENING: u64 = 20_000;

/// Explores all scopes and hunts all planted bugs, on as many threads as there are cores. Every scope is
/// explored by one thread, so the report does not depend on how many there are.
pub fn run() -> Report {
    let scopes = scopes::all();
    let explored = in_parallel(scopes.len(), |i| explore(&scopes[i]));
    let planted = in_parallel(Bug::ALL.len(), |i| hunt(Bug::ALL[i], &scopes));
    let mut digest = Sha256::new();
    for scope in &explored {
        digest.update(scope.digest.as_bytes());
    }
    Report { scopes: explored, planted, digest: hex(&digest.finalize()) }
}

/// Plays every order of one scope.
pub fn explore(scope: &Scope) -> Explored {
    let mut choices = Choices::exhaustive();
    let mut states = States::default();
    let mut transcript = Transcript::digest_only();
    let mut violations = 0;
    let mut first_violation = None;
    loop {
        let mut run = Run::new(&mut choices, &mut transcript).counting(&mut states);
        scope.play(&mut run);
        if let Some(violation) = run.violation() {
            violations += 1;
            first_violation.get_or_insert_with(|| Broken {
                violation: violation.to_string(),
                replay: Target::recorded(scope.name, None, choices.path()).to_string(),
            });
        }
        if violations == ENOUGH_VIOLATIONS || !choices.advance() {
            break;
        }
    }
    Explored {
        name: scope.name,
        orders: choices.orders(),
        states: states.len(),
        violations,
        first_violation,
        digest: transcript.digest(),
    }
}

/// Plays orders of the bug's scope until its checker finds it, and a while longer for a shorter transcript.
fn hunt(bug: Bug, scopes: &[Scope]) -> Hunted {
    let mut shortest: Option<(u64, String)> = None;
    if let Some(scope) = scopes.iter().find(|scope| scope.name == bug.scope()) {
        let mut choices = Choices::exhaustive();
        let mut stop_at = u64::MAX;
        loop {
            let mut transcript = Transcript::digest_only();
            let mut run = Run::new(&mut choices, &mut transcript).with_bug(Some(bug));
            scope.play(&mut run);
            let caught = run.violation().is_some();
            if caught && shortest.as_ref().is_none_or(|(len, _)| transcript.len() < *len) {
                let target = Target::recorded(scope.name, Some(bug), choices.path());
                shortest = Some((transcript.len(), target.to_string()));
                stop_at = stop_at.min(choices.orders() + ORDERS_FOR_SHORTENING);
            }
            if choices.orders() >= stop_at || !choices.advance() {
                break;
            }
        }
    }
    let caught = shortest.is_some();
    let (transcript_len, replay) = shortest.unwrap_or_default();
    Hunted { invariant: bug.breaks(), bug: bug.describe(), caught, transcript_len, replay }
}

/// `work(0)`, `work(1)` … in this order, done by as many threads as there are cores.
fn in_parallel<T: Send>(n: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(n));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(n);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        break;
                    }
                    let result = work(i);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}
