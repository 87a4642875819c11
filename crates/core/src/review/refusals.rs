//! What keeps an operation from production: one function a rule (D-23).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use super::operation::{Boundary, LedgerKind, Operation, Results, Retry, TaskCancel};
use crate::policy::RetryClass;
use crate::policy::classify::Enforced;

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

/// A rule: its name, and what it finds wrong and how to mend that.
struct Rule(&'static str, fn(&Operation) -> Option<(String, &'static str)>);

/// The five of D-23, and two that the rest of a review stands on.
const RULES: [Rule; 7] = [
    Rule("retry-on-timeout", retry_on_timeout),
    Rule("process-local-ledger", process_local_ledger),
    Rule("effect-outside-boundary", effect_outside_boundary),
    Rule("aliased-results", aliased_results),
    Rule("queue-capacity", queue_capacity),
    Rule("limits", limits),
    Rule("task-acknowledgement", task_acknowledgement),
];

/// All that the rules find, in their order.
pub(super) fn refusals(operation: &Operation) -> Vec<Refusal> {
    let judge =
        |Rule(rule, find): &Rule| find(operation).map(|(reason, mend)| Refusal { rule, reason, mend });
    RULES.iter().filter_map(judge).collect()
}

fn retry_on_timeout(Operation { name, retry, .. }: &Operation) -> Option<(String, &'static str)> {
    match retry {
        Retry::OnTimeout => Some((
            format!("{name} is repeated whenever a limit is reached, although it may have been executed"),
            "decide by class and kind of failure: retry = \"classified\"",
        )),
        Retry::Never | Retry::Classified => None,
    }
}

fn process_local_ledger(operation: &Operation) -> Option<(String, &'static str)> {
    const MEND: &str = "keep them in a durable store that all processes share: ledger = \"durable\"";
    let name = &operation.name;
    match operation.ledger {
        LedgerKind::ProcessLocal if operation.changes_something() => Some((
            format!(
                "the keys of {name} are remembered by one process: a restart or a replica executes again"
            ),
            MEND,
        )),
        LedgerKind::None if claims_a_key(operation) => {
            Some((format!("{name} has a key, and nobody keeps its records: each attempt executes"), MEND))
        }
        LedgerKind::None | LedgerKind::ProcessLocal | LedgerKind::Durable => None,
    }
}

fn effect_outside_boundary(operation: &Operation) -> Option<(String, &'static str)> {
    if !operation.changes_something() {
        return None;
    }
    let name = &operation.name;
    match (operation.boundary, operation.remote_effect) {
        (Boundary::Outbox, true | false) | (Boundary::LocalTransaction, false) => None,
        (Boundary::UpstreamKey, true | false) => match operation.class() {
            RetryClass::Conditional(Enforced::ByUpstream) => None,
            RetryClass::Safe | RetryClass::Conditional(Enforced::ByGateway) | RetryClass::Unsafe => Some((
                format!("{name} counts on its upstream's key, and sends none that the upstream enforces"),
                "name the key and who enforces it: key = \"/…\", idempotency = \"upstream\"",
            )),
        },
        (Boundary::None | Boundary::ProcessLock | Boundary::LocalTransaction, true) => Some((
            format!(
                "the effect of {name} lies in another system than its record, and nothing carries it across"
            ),
            "use a transactional outbox, or an upstream that enforces the same key",
        )),
        (Boundary::ProcessLock, false) => Some((
            format!(
                "{name} is guarded by a lock of one process, which no other process and no restart knows"
            ),
            "commit effect and record in one transaction: boundary = \"local_transaction\"",
        )),
        (Boundary::None, false) if claims_a_key(operation) => Some((
            format!("the key of {name} is checked apart from its effect: two attempts can pass the check"),
            "commit effect and record in one transaction: boundary = \"local_transaction\"",
        )),
        // Without a key it claims nothing: at most one attempt, and an unknown outcome is said.
        (Boundary::None, false) => None,
    }
}

fn aliased_results(operation: &Operation) -> Option<(String, &'static str)> {
    const MEND: &str = "rebuild each returned value from stored bytes: results = \"fresh\"";
    let name = &operation.name;
    match operation.results {
        Some(Results::Fresh) => None,
        Some(Results::Aliased) => Some((
            format!("a caller of {name} can change the stored result, and with it every later replay"),
            MEND,
        )),
        None if claims_a_key(operation) => Some((
            format!("nothing says that a caller of {name} cannot change the stored result of its key"),
            MEND,
        )),
        None => None,
    }
}

fn queue_capacity(Operation { name, queue, .. }: &Operation) -> Option<(String, &'static str)> {
    match queue {
        Some(queue) if queue.is_usable() => None,
        Some(_) => Some((
            format!("the queue of {name} cannot hold one progress event beside a final response"),
            "give at least 2 items and some bytes",
        )),
        None => Some((
            format!("nothing bounds what waits for a slow reader of {name}"),
            "give queue = { items = …, bytes = … }",
        )),
    }
}

fn limits(operation: &Operation) -> Option<(String, &'static str)> {
    let error = operation.limits().err()?;
    Some((format!("the limits of {} are not usable: {error}", operation.name), "give 0 < idle ≤ maximum"))
}

fn task_acknowledgement(Operation { name, task, .. }: &Operation) -> Option<(String, &'static str)> {
    match task {
        Some(TaskCancel::End) => Some((
            format!(
                "the acknowledgement of a cancel of {name} is taken for its end, while a worker still works"
            ),
            "let a worker's checkpoint decide: task = \"intent\"",
        )),
        Some(TaskCancel::Intent) | None => None,
    }
}

/// Whether two attempts under one key are meant to have one effect.
fn claims_a_key(operation: &Operation) -> bool {
    match operation.class() {
        RetryClass::Conditional(Enforced::ByUpstream | Enforced::ByGateway) => true,
        RetryClass::Safe | RetryClass::Unsafe => false,
    }
}
