//! `long_job`: work in steps that survives its process. Each step is recorded in the shop's own table, in a transaction
//! of its own, so a successor goes on behind the last one that is there.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steadfast::core::exchange::{Finite, Progress, Reply};
use steadfast::core::fingerprint::Scope;
use steadfast::server::toolkit::tasks::{Done, TaskPolicy, TaskSupport, Worker};
use steadfast_store::{Effect, ExecuteError, Execution, Ledger, Refusal, StoreError};
use tokio::sync::oneshot;

use crate::NAME;

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

/// The shop's table of steps. A step that were done twice could not hide.
pub(crate) const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS shop_step (
    job TEXT NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (job, step)) WITHOUT ROWID";

/// One job, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// How many steps.
    pub steps: u32,
    /// How long each takes.
    pub step: Duration,
}

impl Job {
    /// Reads a tool's arguments.
    ///
    /// # Errors
    /// What is wrong with them, and where.
    pub fn read(arguments: &Map<String, Value>) -> Result<Self, String> {
        let number = |name: &str, default, range: std::ops::RangeInclusive<u64>| match arguments.get(name) {
            None => Ok(default),
            Some(value) => value.as_u64().filter(|number| range.contains(number)).ok_or_else(|| {
                format!("/{name} must be a whole number from {} to {}", range.start(), range.end())
            }),
        };
        let steps = number("steps", 10, 1..=100_000)?;
        Ok(Self {
            steps: u32::try_from(steps).unwrap_or(u32::MAX),
            step: Duration::from_millis(number("step_ms", 100, 0..=60_000)?),
        })
    }

    /// Does the steps that are missing. A cancel is seen between two of them.
    pub async fn run(self, ledger: Arc<Ledger>, worker: Worker) -> Done {
        let mut done = 0;
        while done < self.steps {
            tokio::select! {
                () = worker.context().cancelled().cancelled() => return Done::Stopped,
                () = tokio::time::sleep(self.step) => {}
            }
            done = match worker.task() {
                // Nobody could go on with a call that is no task.
                None => done + 1,
                Some(job) => match record(&ledger, job, self.steps).await {
                    Ok(done) => done,
                    Err(error) => return answered(true, &error.to_string(), done),
                },
            };
            worker.report(format!("step {done} of {}", self.steps));
            if let (Some(value), total) = (Finite::new(done.into()), Finite::new(self.steps.into())) {
                worker.context().progress(Progress { value, total, message: None });
            }
        }
        answered(false, &format!("{done} steps done"), done)
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

fn answered(is_error: bool, text: &str, done: u32) -> Done {
    let mut result = json!({
        "resultType": "complete",
        "content": [{ "type": "text", "text": text }],
        "structuredContent": { "steps": done },
    });
    if is_error {
        result["isError"] = true.into();
    }
    Done::Answered(Reply::Result(result.to_string().into()))
}
