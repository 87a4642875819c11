//! The reviewer: judges a description of an operation by the tables that decide in production (D-23).

mod operation;
mod refusals;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use serde::Serialize;

pub use self::operation::{Boundary, LedgerKind, Listen, Operation, Queue, Results, Retry, TaskCancel};
pub use self::refusals::Refusal;
use crate::hop::{Era, Transport};
use crate::policy::classify::Enforced::{ByGateway, ByUpstream};
use crate::policy::table::{self, Row};
use crate::policy::{Backoff, RetryClass};
use crate::subscription::{self, Filter, InFlight, Refetch, reconnect_plan};

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Review {
    /// Which operation.
    pub operation: String,
    /// Nothing keeps it from production.
    pub production_ready: bool,
    /// What keeps it from production.
    pub refusals: Vec<Refusal>,
    /// `safe`, `conditional …` or `unsafe`.
    pub retry_class: &'static str,
    /// What happens after each failure of a call that was sent, with time and attempts left.
    pub retry_table: Vec<Row>,
    /// Where two attempts become one effect.
    pub idempotency: IdempotencyBoundary,
    /// What must hold for its time and its queues.
    pub flow_control: Vec<Check>,
    /// What its caller does after a lost subscription.
    pub reconnect_plan: ReconnectPlan,
    /// The failures to try it with: names of runnable fixtures.
    pub fixtures: Vec<&'static str>,
}

/// Where two attempts become one effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdempotencyBoundary {
    /// The key's pointer into the arguments.
    pub key: Option<String>,
    /// What a key is bound to.
    pub bound_to: &'static str,
    /// What makes effect and record one.
    pub boundary: Boundary,
    /// What happens when the answer of an executed attempt is lost.
    pub after_a_lost_answer: &'static str,
}

/// One thing that must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What.
    pub check: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// The numbers.
    pub detail: String,
}

/// What a caller does after a lost subscription; see [`crate::subscription::Plan`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReconnectPlan {
    /// A new request id each time.
    pub new_request_id: bool,
    /// Never on 2026-07-28; on legacy HTTP a broken response stream is resumed by it first (ruling 14).
    pub last_event_id: bool,
    /// Authoritative fetches, in order.
    pub refetch: Vec<String>,
    /// Mutations in flight: found out about, and never repeated.
    pub reconcile: Vec<String>,
    /// The steps after an abrupt end, in milliseconds: each return falls into the upper half of its step.
    pub backoff_ms: Vec<u64>,
    /// After a graceful end: the next use of the server, or a moment between these two, in milliseconds (ruling 20).
    pub after_graceful_end_ms: [u64; 2],
}

/// Judges an operation.
pub fn review(operation: &Operation) -> Review {
    let refusals = refusals::refusals(operation);
    let class = operation.class();
    Review {
        operation: operation.name.clone(),
        production_ready: refusals.is_empty(),
        refusals,
        retry_class: class.as_str(),
        retry_table: table::summary(class),
        idempotency: boundary(operation),
        flow_control: flow_control(operation),
        reconnect_plan: plan(operation),
        fixtures: fixtures(operation),
    }
}

fn boundary(operation: &Operation) -> IdempotencyBoundary {
    IdempotencyBoundary {
        key: operation.key.clone(),
        bound_to: "tenant, principal, server, operation name and canonical arguments without the key",
        boundary: operation.boundary,
        after_a_lost_answer: match operation.class() {
            RetryClass::Safe => "it is asked again",
            RetryClass::Conditional(ByUpstream) => {
                "the same key is sent again, and the upstream gives the first result"
            }
            RetryClass::Conditional(ByGateway) => {
                "unknown, until it is reconciled by its key; it is not sent again"
            }
            RetryClass::Unsafe => {
                "unknown, and automatic retry is off: there is no key that two attempts could share"
            }
        },
    }
}

fn flow_control(operation: &Operation) -> Vec<Check> {
    let queue = operation.queue;
    vec![
        Check {
            check: "two clocks: progress restarts the idle limit and never the maximum",
            holds: operation.limits().is_ok(),
            detail: format!("idle {} ms, maximum {} ms", operation.idle_timeout_ms, operation.max_timeout_ms),
        },
        Check {
            check: "the queue is bounded in items and bytes, progress gives way, the final response never",
            holds: queue.is_some_and(Queue::is_usable),
            detail: queue.map_or_else(
                || "no capacity".to_string(),
                |queue| format!("{} items, {} bytes", queue.items, queue.bytes),
            ),
        },
        Check {
            check: "quiet streams carry comments, which are no progress",
            holds: true,
            detail: match operation.transport {
                Transport::Http => "a comment at least every 15 s, x-accel-buffering: no".to_string(),
                Transport::Stdio => "stdio has no proxies and needs none".to_string(),
            },
        },
    ]
}

fn plan(operation: &Operation) -> ReconnectPlan {
    let Listen { tools, prompts, resources, uris, tasks } = operation.listen.clone();
    let in_flight = operation
        .changes_something()
        .then(|| InFlight { operation: operation.name.clone(), key: operation.key.clone() });
    let plan = reconnect_plan(&Filter { tools, prompts, resources, uris, tasks }, in_flight.as_slice());
    let fetch = |fetch: &Refetch| match fetch.subject() {
        Some(subject) => format!("{} {subject}", fetch.method()),
        None => fetch.method().to_string(),
    };
    let (least, most) = subscription::GRACEFUL;
    ReconnectPlan {
        new_request_id: true,
        last_event_id: (operation.transport, operation.era) == (Transport::Http, Era::Legacy),
        refetch: plan.refetch.iter().map(fetch).collect(),
        reconcile: plan.reconcile.into_iter().map(|it| it.operation).collect(),
        backoff_ms: (0..6).map(|attempt| millis(Backoff::RECONNECT.step(attempt))).collect(),
        after_graceful_end_ms: [millis(least), millis(most)],
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The failures that can happen to this operation, by the names of the simulator's fixtures.
fn fixtures(operation: &Operation) -> Vec<&'static str> {
    let http = operation.transport == Transport::Http;
    let modern = operation.era == Era::Modern;
    let write = operation.changes_something();
    [
        ("cancel-posted-over-http", http && modern),
        ("response-after-accepted-cancel", true),
        ("progress-resets-every-deadline", true),
        ("new-id-taken-for-deduplication", write),
        ("key-check-and-effect-apart", write),
        ("in-memory-ledger-across-replicas", write),
        ("stored-result-by-reference", write),
        ("key-reused-with-changed-arguments", write),
        ("unbounded-progress-queue", true),
        ("final-response-dropped", true),
        ("buffered-sse", http),
        ("last-event-id-assumed", http && modern),
        ("herd-reconnect", true),
        ("task-acknowledgement-taken-for-the-end", operation.task.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, applies)| applies.then_some(name))
    .collect()
}
