//! The life of one task in this process: from its first worker's start, or a successor's, to its end or to ours.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::error::Outcome;
use steadfast_core::exchange::Reply;
use steadfast_core::object::Members;
use steadfast_core::task::{Input, Task};
use steadfast_store::{TaskFailure, Work};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::worker::{Desk, Done, text};
use super::{Inner, TaskPolicy, Tasks, blocking, lock};
use crate::message::OwnError;

/// The least time between two reports that are stored.
const REPORT_EVERY: Duration = Duration::from_millis(250);
/// How long to wait before an end that could not be stored is tried again.
const STORE_AGAIN: Duration = Duration::from_secs(1);
/// Why a task has no worker.
pub(super) const PROCESS_ENDED: &str = "the process that worked on this task ended before the task did";

/// A task and its work.
pub(super) struct Shift {
    pub(super) held: Arc<Work>,
    pub(super) policy: TaskPolicy,
    /// The work's cancel switch.
    pub(super) stop: CancellationToken,
    /// Thrown if the exchange that was to hand the task out ended before it could (CAN-20).
    pub(super) undelivered: Option<CancellationToken>,
    pub(super) desk: Desk,
    pub(super) working: AbortOnDropHandle<Done>,
}

impl Tasks {
    /// Looks after a task until it is over, or this process ends.
    pub(super) fn begin(&self, shift: Shift) {
        let inner = Arc::clone(&self.0);
        self.0.shifts.spawn(async move {
            let id = shift.held.id().to_owned();
            shift.run(&inner).await;
            lock(&inner.forwards).remove(&id);
        });
    }
}

impl Shift {
    async fn run(mut self, inner: &Inner) {
        let mut changed = inner.board.watch(self.held.id());
        let mut reports = self.desk.reports();
        let mut next_report = Instant::now();
        // What changed between the creation and this watch.
        changed.mark_changed();
        loop {
            let undelivered = self.undelivered.clone();
            tokio::select! {
                done = &mut self.working => {
                    let input = match done {
                        Ok(done) => self.end(done),
                        Err(_) => self.lost("the handler of this task ended without an answer"),
                    };
                    return self.settle(inner, input).await;
                }
                Ok(()) = changed.changed() => self.look().await,
                () = async { undelivered.unwrap_or_default().cancelled().await }, if self.undelivered.is_some() => {
                    self.undelivered = None;
                    self.cancel(inner).await;
                }
                Ok(()) = async { tokio::time::sleep_until(next_report).await; reports.changed().await } => {
                    let latest = reports.borrow_and_update().clone();
                    if let Some(message) = latest {
                        // One that is not stored is replaced by the next.
                        let _ = self.handle(inner, Input::Report { message }).await;
                    }
                    next_report = Instant::now() + REPORT_EVERY;
                }
                () = inner.ending.cancelled() => return self.leave(inner).await,
            }
        }
    }

    /// Tells the work to stop if a cancel waits to be seen, or if the task is over or somebody else's.
    async fn look(&self) {
        let held = Arc::clone(&self.held);
        let stops = match blocking(move || held.look()).await {
            Ok(seen) => seen.task.is_cancel_pending() || seen.task.status().is_final(),
            Err(failure) => !matches!(failure, TaskFailure::Store(_)),
        };
        if stops {
            self.stop.cancel();
        }
    }

    /// Nobody knows of the task: it is to stop.
    async fn cancel(&self, inner: &Inner) {
        if let Err(TaskFailure::Store(_)) = self.handle(inner, Input::Cancel).await {
            // The intent is not stored, so the work goes on and its result is kept: the task's ttl ends it.
            return;
        }
        self.stop.cancel();
    }

    /// What the end of the work means for the task.
    fn end(&self, done: Done) -> Input<String> {
        match done {
            Done::Answered(Reply::Result(result)) => Input::Finish(text(&result)),
            Done::Answered(Reply::Error(error)) => {
                let error = text(&error);
                Input::Fail { message: message_of(&error), error }
            }
            Done::Stopped => Input::Checkpoint,
        }
    }

    fn lost(&self, text: &str) -> Input<String> {
        let (error, message) = failure("worker_lost", text, self.policy.writes);
        Input::Fail { error, message }
    }

    /// Stores the end, however long the store refuses it: until then the task says that it is being worked on, and its
    /// lease is renewed.
    async fn settle(self, inner: &Inner, mut input: Input<String>) {
        loop {
            match self.handle(inner, input.clone()).await {
                // It stopped although nobody had asked it to.
                Ok(task) if input == Input::Checkpoint && !task.status().is_final() => {
                    input = self.lost("the handler of this task stopped without an answer");
                }
                Ok(_) => return,
                Err(TaskFailure::Store(_)) => tokio::select! {
                    () = tokio::time::sleep(STORE_AGAIN) => {}
                    () = inner.ending.cancelled() => return,
                },
                // Somebody took it over, or it is gone.
                Err(_) => return,
            }
        }
    }

    /// This process ends: the work stops where it is. A successor goes on at once where it can; else the task ends here.
    async fn leave(mut self, inner: &Inner) {
        self.working.abort();
        // Until it has stopped it may still do something, and finish.
        let input = match (&mut self.working).await {
            Ok(done) => self.end(done),
            Err(_) if self.policy.resumes => {
                let held = Arc::clone(&self.held);
                // Where that is not stored, the lease runs out.
                let _ = blocking(move || held.release()).await;
                return;
            }
            Err(_) => self.lost(PROCESS_ENDED),
        };
        self.settle(inner, input).await;
    }

    async fn handle(&self, inner: &Inner, input: Input<String>) -> Result<Task<String>, TaskFailure> {
        let held = Arc::clone(&self.held);
        let (_, task) = blocking(move || held.handle(input)).await?;
        inner.saw(self.held.id(), &task);
        Ok(task)
    }
}

/// The error of a task that ended without its work saying how, and its diagnosis. Of a write, nobody knows what it did
/// (G8).
pub(super) fn failure(category: &str, text: &str, writes: bool) -> (String, String) {
    let outcome = if writes { Outcome::Unknown } else { Outcome::NotExecuted };
    let error = OwnError::local(category, outcome, text).as_json_rpc_error();
    let message = message_of(&error);
    (error, message)
}

/// What an error says, for `statusMessage` (TSK-26).
fn message_of(error: &str) -> String {
    let message = Members::parse(error).ok().and_then(|error| error.get_str("message"));
    message.unwrap_or_else(|| "the call ended with an error".to_owned())
}
