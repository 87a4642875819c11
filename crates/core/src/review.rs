//! The reviewer: judges a description of an operation by the tables that decide in production (D-23).

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exchange::Limits;
use crate::hop::{Era, Hop, Transport};
use crate::policy::table::{self, Row};
use crate::policy::{Contract, Effect, Idempotency, RetryClass};
use crate::subscription::{Filter, reconnect_plan};

/// An operation as its author or operator describes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// The tool's name.
    pub name: String,
    /// How its requests travel.
    pub transport: TransportWord,
    /// Which rules they obey.
    pub era: EraWord,
    /// What it does.
    pub effect: EffectWord,
    /// Who enforces its key.
    #[serde(default)]
    pub idempotency: IdempotencyWord,
    /// The JSON Pointer of the idempotency key in the arguments; absent: it has none.
    pub key: Option<String>,
    /// Where its effect is made certain to be one with its record.
    #[serde(default)]
    pub boundary: Boundary,
    /// Whether the effect happens in a system other than the one that keeps the record.
    #[serde(default)]
    pub remote_effect: bool,
    /// Who keeps the records of keys.
    #[serde(default)]
    pub ledger: LedgerKind,
    /// Whether a stored result may be changed through a value that was handed out.
    #[serde(default)]
    pub results: Results,
    /// The longest silence, in milliseconds.
    pub idle_timeout_ms: u64,
    /// The longest life, in milliseconds.
    pub max_timeout_ms: u64,
    /// When its caller repeats it.
    #[serde(default)]
    pub retry: Retry,
    /// What may wait for a slow reader.
    pub queue: Option<Queue>,
    /// What its caller listens for.
    #[serde(default)]
    pub listen: Listen,
    /// Whether it answers with a Task, and what a cancel of it means.
    pub task: Option<TaskCancel>,
}

macro_rules! word {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }
    };
}

word! {
    /// `stdio` or `http`.
    TransportWord {
        /// Newline-framed messages.
        Stdio,
        /// Streamable HTTP.
        Http,
    }
}
word! {
    /// `modern` or `legacy`.
    EraWord {
        /// 2026-07-28 and later.
        Modern,
        /// 2025-11-25 and earlier.
        Legacy,
    }
}
word! {
    /// `read`, `write` or `unknown`.
    EffectWord {
        /// Changes nothing.
        Read,
        /// Changes something.
        Write,
        /// Nobody said.
        Unknown,
    }
}
word! {
    /// `none`, `gateway` or `upstream`.
    #[derive(Default)]
    IdempotencyWord {
        /// Nobody enforces the key.
        #[default]
        None,
        /// The gateway's ledger does.
        Gateway,
        /// The upstream does.
        Upstream,
    }
}
word! {
    /// What makes the effect one with its record (D-14).
    #[derive(Default)]
    Boundary {
        /// Nothing.
        #[default]
        None,
        /// A lock in one process: gone with it, and unknown to every other.
        ProcessLock,
        /// One database transaction holds both.
        LocalTransaction,
        /// The record's transaction holds a message that is delivered at least once.
        Outbox,
        /// The upstream enforces the same key.
        UpstreamKey,
    }
}
word! {
    /// Who keeps the records of keys.
    #[derive(Default)]
    LedgerKind {
        /// Nobody.
        #[default]
        None,
        /// One process's memory.
        ProcessLocal,
        /// A durable store that every process shares.
        Durable,
    }
}
word! {
    /// How stored results are handed out.
    #[derive(Default)]
    Results {
        /// Rebuilt from stored bytes each time.
        #[default]
        Fresh,
        /// By reference to what is stored.
        Aliased,
    }
}
word! {
    /// When a caller repeats a call.
    #[derive(Default)]
    Retry {
        /// Never.
        #[default]
        Never,
        /// Whenever a time limit was reached, whatever may have happened.
        OnTimeout,
        /// By class and kind of failure.
        Classified,
    }
}
word! {
    /// What the acknowledgement of `tasks/cancel` is taken for.
    TaskCancel {
        /// An intent: a worker's checkpoint decides.
        Intent,
        /// The end of the task.
        End,
    }
}

/// What may wait for a slow reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Messages; at least 2.
    pub items: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What the caller listens for while it uses the operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// Changes of the tools.
    pub tools: bool,
    /// Changes of the prompts.
    pub prompts: bool,
    /// Changes of the resources.
    pub resources: bool,
    /// Updates of these resources.
    pub uris: BTreeSet<String>,
    /// These tasks.
    pub tasks: BTreeSet<String>,
}

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

/// Why an operation is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Which rule.
    pub rule: &'static str,
    /// What is wrong.
    pub reason: String,
    /// How to mend it.
    pub mend: &'static str,
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
    /// Delays after an abrupt end, in milliseconds.
    pub backoff_ms: Vec<u64>,
}

impl Operation {
    /// The hop that its requests travel on.
    pub const fn hop(&self) -> Hop {
        let transport = match self.transport {
            TransportWord::Stdio => Transport::Stdio,
            TransportWord::Http => Transport::Http,
        };
        let era = match self.era {
            EraWord::Modern => Era::Modern,
            EraWord::Legacy => Era::Legacy,
        };
        Hop { transport, era }
    }

    /// How it may be repeated.
    pub const fn class(&self) -> RetryClass {
        let effect = match self.effect {
            EffectWord::Read => Effect::Read,
            EffectWord::Write => Effect::Write,
            EffectWord::Unknown => Effect::Unknown,
        };
        let idempotency = match self.idempotency {
            IdempotencyWord::None => Idempotency::None,
            IdempotencyWord::Gateway => Idempotency::Gateway,
            IdempotencyWord::Upstream => Idempotency::Upstream,
        };
        Contract { effect, idempotency }.class(self.key.is_some())
    }

    const fn changes_something(&self) -> bool {
        match self.effect {
            EffectWord::Read => false,
            EffectWord::Write | EffectWord::Unknown => true,
        }
    }
}

/// Judges an operation.
pub fn review(operation: &Operation) -> Review {
    let refusals = refusals(operation);
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

fn refusals(operation: &Operation) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let mut refuse = |rule, reason: String, mend| refusals.push(Refusal { rule, reason, mend });
    let name = &operation.name;
    if operation.retry == Retry::OnTimeout {
        refuse(
            "retry-on-timeout",
            format!("{name} is repeated whenever a limit is reached, although it may have been executed"),
            "decide by class and kind of failure: retry = \"classified\"",
        );
    }
    if operation.changes_something() && operation.ledger == LedgerKind::ProcessLocal {
        refuse(
            "process-local-ledger",
            format!(
                "the keys of {name} are remembered by one process: a restart or a replica executes again"
            ),
            "keep them in a durable store that all processes share: ledger = \"durable\"",
        );
    }
    let crosses = match operation.boundary {
        Boundary::Outbox | Boundary::UpstreamKey => true,
        Boundary::None | Boundary::ProcessLock | Boundary::LocalTransaction => false,
    };
    if operation.changes_something() && operation.remote_effect && !crosses {
        refuse(
            "effect-outside-boundary",
            format!(
                "the effect of {name} lies in another system than its record, and nothing carries it across"
            ),
            "use a transactional outbox, or an upstream that enforces the same key",
        );
    }
    if operation.changes_something()
        && !operation.remote_effect
        && operation.boundary == Boundary::ProcessLock
    {
        refuse(
            "effect-outside-boundary",
            format!(
                "{name} is guarded by a lock of one process, which no other process and no restart knows"
            ),
            "commit effect and record in one transaction: boundary = \"local_transaction\"",
        );
    }
    if operation.results == Results::Aliased {
        refuse(
            "aliased-results",
            format!("a caller of {name} can change the stored result, and with it every later replay"),
            "rebuild each returned value from stored bytes: results = \"fresh\"",
        );
    }
    match operation.queue {
        Some(queue) if queue.items >= 2 && queue.bytes > 0 => {}
        Some(_) => refuse(
            "queue-capacity",
            format!("the queue of {name} cannot hold one progress event beside a final response"),
            "give at least 2 items and some bytes",
        ),
        None => refuse(
            "queue-capacity",
            format!("nothing bounds what waits for a slow reader of {name}"),
            "give queue = { items = …, bytes = … }",
        ),
    }
    if let Err(error) = limits(operation) {
        refuse("limits", format!("the limits of {name} are not usable: {error}"), "give 0 < idle ≤ maximum");
    }
    if operation.task == Some(TaskCancel::End) {
        refuse(
            "task-acknowledgement",
            format!(
                "the acknowledgement of a cancel of {name} is taken for its end, while a worker still works"
            ),
            "let a worker's checkpoint decide: task = \"intent\"",
        );
    }
    refusals
}

fn limits(operation: &Operation) -> Result<Limits, crate::exchange::LimitsError> {
    let idle = Duration::from_millis(operation.idle_timeout_ms);
    Limits::new(idle, Duration::from_millis(operation.max_timeout_ms))
}

fn boundary(operation: &Operation) -> IdempotencyBoundary {
    use crate::policy::classify::Enforced::{ByGateway, ByUpstream};
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
    let limits = limits(operation);
    let queue = operation.queue;
    vec![
        Check {
            check: "two clocks: progress restarts the idle limit and never the maximum",
            holds: limits.is_ok(),
            detail: format!("idle {} ms, maximum {} ms", operation.idle_timeout_ms, operation.max_timeout_ms),
        },
        Check {
            check: "the queue is bounded in items and bytes, progress gives way, the final response never",
            holds: queue.is_some_and(|queue| queue.items >= 2 && queue.bytes > 0),
            detail: queue.map_or_else(
                || "no capacity".to_string(),
                |queue| format!("{} items, {} bytes", queue.items, queue.bytes),
            ),
        },
        Check {
            check: "quiet streams carry comments, which are no progress",
            holds: true,
            detail: match operation.transport {
                TransportWord::Http => "a comment at least every 15 s, x-accel-buffering: no".to_string(),
                TransportWord::Stdio => "stdio has no proxies and needs none".to_string(),
            },
        },
    ]
}

fn plan(operation: &Operation) -> ReconnectPlan {
    let Listen { tools, prompts, resources, uris, tasks } = operation.listen.clone();
    let in_flight = operation.changes_something().then(|| crate::subscription::InFlight {
        operation: operation.name.clone(),
        key: operation.key.clone(),
    });
    let plan = reconnect_plan(&Filter { tools, prompts, resources, uris, tasks }, in_flight.as_slice());
    let fetch = |fetch: &crate::subscription::Refetch| match fetch.subject() {
        Some(subject) => format!("{} {subject}", fetch.method()),
        None => fetch.method().to_string(),
    };
    ReconnectPlan {
        new_request_id: true,
        last_event_id: (operation.transport, operation.era) == (TransportWord::Http, EraWord::Legacy),
        refetch: plan.refetch.iter().map(fetch).collect(),
        reconcile: plan.reconcile.into_iter().map(|it| it.operation).collect(),
        backoff_ms: (0..6)
            .map(|attempt| crate::policy::Backoff::RECONNECT.step(attempt).as_millis())
            .map(|millis| u64::try_from(millis).unwrap_or(u64::MAX))
            .collect(),
    }
}

/// The failures that can happen to this operation, by the names of the simulator's fixtures.
fn fixtures(operation: &Operation) -> Vec<&'static str> {
    let http = operation.transport == TransportWord::Http;
    let modern = operation.era == EraWord::Modern;
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
