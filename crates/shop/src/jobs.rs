//! `long_job`: work in steps that survives its process. Each step is recorded in the shop's own table, in a transaction
//! of its own, so a successor goes on behind the last one that is there.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steadfast::core::fingerprint::Scope;
use steadfast::server::toolkit::{Call, Dialogue, Failure, TaskPolicy, TaskSupport, Tool, ToolResult};
use steadfast_store::{Effect, ExecuteError, Execution, Ledger, Refusal, StoreError};
use tokio::sync::oneshot;

use crate::NAME;
use crate::basics::{hundred, ten};

/// The operation's name.
pub const OPERATION: &str = "long_job";

/// How its calls become tasks: at once, and any process of the shop can go on.
pub const POLICY: TaskPolicy = TaskPolicy {
    support: TaskSupport::Optional { after: Duration::ZERO },
    ttl: Duration::from_secs(3_600),
    poll_interval: Duration::from_millis(500),
    writes: true,
    resumes: true,
};

/// The shop's table of steps. A step that was done twice could not hide.
pub(crate) const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS shop_step (
    job TEXT NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (job, step)) WITHOUT ROWID";

/// A tool that works in steps under this name.
pub fn tool(name: &str, ledger: &Arc<Ledger>) -> Tool {
    let ledger = Arc::clone(ledger);
    let description = "Works in steps for as long as it takes: a task, where the caller knows tasks. It stops between \
                       two steps when it is cancelled, and goes on in the next process if this one dies.";
    Tool::new(name, description, move |call: Call, job: Job| {
        let ledger = Arc::clone(&ledger);
        async move { job.run(&ledger, call.dialogue()).await }
    })
    .task(POLICY)
}

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
struct Job {
    /// How many steps.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100_000))]
    steps: u32,
    /// How long each takes, in milliseconds.
    #[serde(default = "hundred")]
    #[schemars(range(min = 0, max = 60_000))]
    step_ms: u32,
}

impl Job {
    /// Does the steps that are missing. A cancel is seen between two of them.
    async fn run(self, ledger: &Ledger, dialogue: &Dialogue) -> Result<ToolResult, Failure> {
        let mut done = 0;
        while done < self.steps {
            tokio::select! {
                () = dialogue.cancelled() => return Err(Failure::stopped()),
                () = tokio::time::sleep(Duration::from_millis(self.step_ms.into())) => {}
            }
            done = match dialogue.task() {
                // Nobody could go on with a call that is no task.
                None => done + 1,
                Some(job) => {
                    let recorded = record(ledger, job, self.steps).await;
                    recorded.map_err(|error| Failure::failed(error.to_string()))?
                }
            };
            dialogue.report(format!("step {done} of {}", self.steps));
            dialogue.progress(done.into(), self.steps.into());
        }
        Ok(ToolResult::structured(json!({ "steps": done })))
    }
}

/// Records the step behind the last one, and says which it is.
async fn record(ledger: &Ledger, job: String, steps: u32) -> Result<u32, ExecuteError> {
    let (told, outcome) = oneshot::channel();
    let execution = Execution { scope: Scope::local(NAME), key: None, operation: OPERATION, arguments: b"" };
    let effect = move |effect: &Effect<'_>| -> Result<Vec<u8>, Refusal> {
        let last = "SELECT coalesce(max(step), 0) FROM shop_step WHERE job = ?1";
        let last: u32 = effect.query(last, [&job])?.unwrap_or(0);
        let next = (last + 1).min(steps);
        if next > last {
            effect.execute("INSERT INTO shop_step (job, step) VALUES (?1, ?2)", (&job, next))?;
        }
        Ok(next.to_string().into_bytes())
    };
    ledger.execute_then(execution, effect, move |executed| {
        // A worker that was stopped does not need to know: the table does.
        let _ = told.send(executed);
    });
    let executed = outcome.await.unwrap_or(Err(ExecuteError::Store(StoreError::Closed)))?;
    let step = std::str::from_utf8(&executed.answer).ok().and_then(|step| step.parse().ok());
    step.ok_or(ExecuteError::Store(StoreError::Damaged("a step that is no number")))
}
