//! How one server is treated: its name, its limits, and the operator's word on its tools.

use std::time::Duration;

use steadfast_core::call::Policy;
use steadfast_core::catalog;
use steadfast_core::era::Wish;
use steadfast_core::exchange::Limits;
use steadfast_core::policy::breaker::Thresholds;
use steadfast_core::policy::{Backoff, Budget, Contract, Effect, Idempotency};
use steadfast_core::task::follow::Pace;

/// How one server is treated. [`Default`] is product.md's `[defaults]`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server's configured name: in errors, in the log, in every key.
    pub name: String,
    /// Whose calls these are. One client serves one authorization context.
    pub context: Context,
    /// Which era to speak.
    pub era: Wish,
    /// Both clocks of every request, unless a call brings its own.
    pub limits: Limits,
    /// How long a child may be silent to the probe before the handshake is tried as well; the probe's answer counts
    /// until that of the handshake has come (TMO-13, VER-18).
    pub probe_silence: Duration,
    /// How long a server may take to start and to say what it speaks (F079).
    pub start_limit: Duration,
    /// How long a child may take no byte of what is written to it before it is given up (ruling 17).
    pub write_stall: Duration,
    /// How often a child may be started.
    pub restarts: Budget,
    /// How often a call may be tried.
    pub retry: Policy,
    /// When to stop asking a server that does not answer.
    pub breaker: Thresholds,
    /// How many requests may run at once. The fetch of a list, one at a time for each, is beside them.
    pub concurrency: usize,
    /// How many more may wait for their turn.
    pub queue: usize,
    /// How long one may wait for its turn.
    pub queue_wait: Duration,
    /// How many rounds of questions one call may take (MRT-20).
    pub max_rounds: u32,
    /// How long the host may take to answer one question.
    pub question_limit: Duration,
    /// How long what the server offers is kept.
    pub catalog: catalog::Policy,
    /// How often the server is asked for a task at most and at least, whatever it says (TSK-18).
    pub task_pace: Pace,
    /// The operator's word on tools: the first whose pattern fits best.
    pub contracts: Vec<ToolContract>,
}

impl Default for Config {
    fn default() -> Self {
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        Self {
            name: "server".to_owned(),
            context: Context::default(),
            era: Wish::Auto,
            limits: Limits::DEFAULT,
            probe_silence: Duration::from_secs(10),
            start_limit: Duration::from_secs(120),
            write_stall: Duration::from_secs(30),
            restarts: Budget::DEFAULT,
            retry: Policy { max_attempts: 3, backoff: backoff.unwrap_or(Backoff::RECONNECT) },
            breaker: Thresholds::DEFAULT,
            concurrency: 32,
            queue: 128,
            queue_wait: Duration::from_secs(10),
            max_rounds: 16,
            question_limit: Duration::from_secs(300),
            catalog: catalog::Policy::DEFAULT,
            task_pace: Pace::DEFAULT,
            contracts: Vec::new(),
        }
    }
}

/// The authorization context of a client: nothing private crosses from one to another (I-17).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Context {
    /// The tenant.
    pub tenant: String,
    /// The principal.
    pub principal: String,
    /// Its scopes.
    pub scopes: Vec<String>,
}

impl Default for Context {
    /// The one principal of this machine (ruling 21).
    fn default() -> Self {
        Self { tenant: "local".to_owned(), principal: "local".to_owned(), scopes: Vec::new() }
    }
}

/// What the operator promises of the tools whose names a pattern fits. The annotations of a server promise nothing
/// (G6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolContract {
    /// A tool's name; `*` stands for any text.
    pub pattern: String,
    /// What the tools do, and who enforces their keys.
    pub contract: Contract,
    /// Where in the arguments their key stands: a JSON Pointer such as `/idempotencyKey`. Without one it travels in
    /// `_meta["steadfast/idempotencyKey"]`.
    pub key: Option<String>,
    /// Codes of errors by which the server promises that it executed nothing (ruling 2).
    pub rejects: Vec<i64>,
    /// Both clocks of these tools, where they differ from the server's.
    pub limits: Option<Limits>,
}

impl ToolContract {
    /// A contract without a place for a key and without anything else.
    pub fn new(pattern: &str, effect: Effect, idempotency: Idempotency) -> Self {
        Self {
            pattern: pattern.to_owned(),
            contract: Contract { effect, idempotency },
            key: None,
            rejects: Vec::new(),
            limits: None,
        }
    }
}

impl Config {
    /// The contract of a tool: of the patterns that fit, the one with the most characters that are no `*`; of equal
    /// ones the first.
    pub fn contract(&self, tool: &str) -> Option<&ToolContract> {
        let fitting = self.contracts.iter().filter(|one| fits(&one.pattern, tool));
        let exact = |one: &&ToolContract| one.pattern.chars().filter(|&c| c != '*').count();
        // `max_by_key` takes the last of equals.
        fitting.rev().max_by_key(exact)
    }
}

/// Whether a pattern fits a name; in linear steps per star.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_contract_wins() {
        for (pattern, name, expected) in [
            ("charge_*", "charge_account", true),
            ("charge_*", "charge_", true),
            ("charge_*", "find_charge", false),
            ("*_charge", "find_charge", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("exact", "exact", true),
            ("exact", "exactly", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        let read = ToolContract::new("*", Effect::Read, Idempotency::None);
        let write = ToolContract::new("charge_*", Effect::Write, Idempotency::Upstream);
        let config = Config { contracts: vec![read.clone(), write.clone()], ..Config::default() };
        assert_eq!(config.contract("charge_account"), Some(&write));
        assert_eq!(config.contract("echo"), Some(&read));
        assert_eq!(Config::default().contract("echo"), None);
    }
}
