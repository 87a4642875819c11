//! From a `tools/call` to its answer, which may be the handle of a task.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast_core::error::Outcome;
use steadfast_core::exchange::Reply;
use steadfast_core::hop::{Era, Revision};
use steadfast_store::{NewTask, TaskFailure, Work};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::questions::Forward;
use super::shape::{self, Remembered};
use super::shift::Shift;
use super::worker::{Done, Stage, Worker};
use super::{TaskPolicy, TaskSupport, Tasks, lock};
use crate::message::{self, OwnError};
use crate::server::caller::TASKS_EXTENSION;
use crate::server::{Answer, Caller, Context};

/// What a call is to become.
enum Way {
    Call,
    Task { after: Duration, ttl: Duration },
}

impl Tasks {
    /// Runs one `tools/call`, and answers it with what the work gave or with the handle of the task that it became.
    ///
    /// The task is durable before its handle is returned, and before its work begins where it is one from the start. A
    /// call that is cancelled before its handle was delivered leaves a task that is told to cancel (CAN-20).
    pub async fn run<W, F>(
        &self,
        operation: &str,
        policy: TaskPolicy,
        params: &str,
        context: &Context,
        work: W,
    ) -> Answer
    where
        W: FnOnce(Worker) -> F,
        F: Future<Output = Done> + Send + 'static,
    {
        self.wake();
        let caller = context.caller();
        let (after, ttl) = match self.way(policy, params, caller) {
            Err(refused) => return refused,
            Ok(Way::Call) => return answer(work(Worker::of_call(context.clone())).await),
            Ok(Way::Task { after, ttl }) => (after, ttl),
        };
        let new = NewTask {
            owner: caller.principal.clone(),
            server: self.0.server.clone(),
            operation: operation.to_owned(),
            resume: policy.resumes.then(|| Remembered::to_json(params, caller)),
            ttl: Some(ttl),
            poll_interval: Some(policy.poll_interval),
            max_open: self.0.options.max_open,
        };
        if after.is_zero() {
            self.run_as_task(new, policy, params, context, work).await
        } else {
            self.run_as_call(new, policy, after, context, work).await
        }
    }

    /// A task from the start: durable, then begun.
    async fn run_as_task<W, F>(
        &self,
        new: NewTask,
        policy: TaskPolicy,
        params: &str,
        context: &Context,
        work: W,
    ) -> Answer
    where
        W: FnOnce(Worker) -> F,
        F: Future<Output = Done> + Send + 'static,
    {
        let (held, created) = match self.create(new, context.caller()).await {
            Ok(created) => created,
            Err(failure) => return cannot_begin(&failure),
        };
        let stop = CancellationToken::new();
        let mut apart = context.outliving(stop.clone());
        if let Some((progress, forward)) = Forward::of(params, context.caller()) {
            apart = apart.reporting_to(progress);
            lock(&self.0.forwards).insert(held.id().to_owned(), forward);
        }
        let (worker, desk) = Worker::new(self, apart, Stage::Task(Arc::clone(&held)));
        let working = AbortOnDropHandle::new(tokio::spawn(work(worker)));
        let undelivered = Some(context.cancelled().clone());
        self.begin(Shift { held, policy, stop, undelivered, desk, working });
        created
    }

    /// A call like any other, which reports on its own stream and is cancelled as a call, until it is a task.
    async fn run_as_call<W, F>(
        &self,
        new: NewTask,
        policy: TaskPolicy,
        after: Duration,
        context: &Context,
        work: W,
    ) -> Answer
    where
        W: FnOnce(Worker) -> F,
        F: Future<Output = Done> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let (worker, desk) = Worker::new(self, context.under(stop.clone()), Stage::Promotable);
        let mut working = AbortOnDropHandle::new(tokio::spawn(work(worker)));
        let is_due = tokio::select! {
            biased;
            done = &mut working => return done.map_or_else(|_| panicked(policy), answer),
            () = context.cancelled().cancelled() => false,
            () = desk.wanting() => true,
            () = tokio::time::sleep(after) => true,
        };
        if is_due && let Ok((held, created)) = self.create(new, context.caller()).await {
            desk.set(Stage::Task(Arc::clone(&held)));
            let undelivered = Some(context.cancelled().clone());
            self.begin(Shift { held, policy, stop, undelivered, desk, working });
            return created;
        }
        // It began as a call and ends as one.
        desk.set(Stage::Call);
        tokio::select! {
            biased;
            done = &mut working => return done.map_or_else(|_| panicked(policy), answer),
            () = context.cancelled().cancelled() => stop.cancel(),
        }
        working.await.map_or_else(|_| panicked(policy), answer)
    }

    /// Makes the task durable; gives the hold on it, and the answer that hands it out.
    async fn create(&self, new: NewTask, caller: &Caller) -> Result<(Arc<Work>, Answer), TaskFailure> {
        let (work, task) = self.0.stored(move |store| store.create(new)).await?;
        let created = shape::created(work.id(), &task, caller.revision.era());
        Ok((Arc::new(work), Reply::Result(Bytes::from(created))))
    }

    fn way(&self, policy: TaskPolicy, params: &str, caller: &Caller) -> Result<Way, Answer> {
        let options = &self.0.options;
        let ttl = policy.ttl.min(options.max_ttl);
        match caller.revision.era() {
            // A `task` member of params means nothing here (TSK-61).
            Era::Modern => match (policy.support, caller.capabilities.declare_tasks()) {
                (TaskSupport::Never, _) | (TaskSupport::Optional { .. }, false) => Ok(Way::Call),
                (TaskSupport::Optional { after }, true) => Ok(Way::Task { after, ttl }),
                (TaskSupport::Required, true) => Ok(Way::Task { after: Duration::ZERO, ttl }),
                (TaskSupport::Required, false) => Err(Reply::Error(Bytes::from(not_declared()))),
            },
            Era::Legacy => match (policy.support, asked(params, caller)?) {
                (TaskSupport::Never | TaskSupport::Optional { .. }, None) => Ok(Way::Call),
                (TaskSupport::Never, Some(_)) => {
                    Err(refuse(-32601, "this tool never runs as a task; call it without params.task"))
                }
                (TaskSupport::Required, None) => Err(refuse(
                    -32601,
                    "this tool runs only as a task; call it with params.task, in 2025-11-25",
                )),
                (TaskSupport::Optional { .. } | TaskSupport::Required, Some(asked)) => {
                    let ttl =
                        asked.unwrap_or(ttl).clamp(options.min_ttl, options.max_ttl.max(options.min_ttl));
                    Ok(Way::Task { after: Duration::ZERO, ttl })
                }
            },
        }
    }
}

/// Whether a legacy call asks to be a task, and for which retention. Revisions before 2025-11-25 know no tasks
/// (LEG-105).
///
/// # Errors
/// `params.task` has not its shape: the answer.
fn asked(params: &str, caller: &Caller) -> Result<Option<Option<Duration>>, Answer> {
    if caller.revision != Revision::V2025_11_25 {
        return Ok(None);
    }
    let params = serde_json::from_str::<Value>(params).unwrap_or_default();
    let Some(task) = params.get("task") else { return Ok(None) };
    match (task, &task["ttl"]) {
        (Value::Object(_), Value::Null) => Ok(Some(None)),
        // 5e3 is 5000.
        (Value::Object(_), Value::Number(ttl)) => {
            match ttl.as_f64().filter(|ttl| *ttl >= 0.0 && ttl.fract() == 0.0) {
                Some(millis) => Ok(Some(Some(Duration::from_millis(millis as u64)))),
                None => Err(refuse(-32602, "params.task.ttl must be a whole number of milliseconds")),
            }
        }
        _ => Err(refuse(-32602, "params.task must be an object, and its ttl a number of milliseconds")),
    }
}

/// The error for who did not declare the extension (TSK-06, TSK-48).
pub(super) fn not_declared() -> String {
    json!({
        "code": -32021,
        "message": "this needs the tasks extension; declare it in this request's clientCapabilities",
        "data": { "requiredCapabilities": { "extensions": { TASKS_EXTENSION: {} } } },
    })
    .to_string()
}

pub(super) fn refuse(code: i64, text: &str) -> Answer {
    Reply::Error(Bytes::from(message::error_body(code, text)))
}

/// How a call that is no task is answered.
fn answer(done: Done) -> Answer {
    match done {
        Done::Answered(answer) => answer,
        // The exchange has ended, so nobody reads this.
        Done::Stopped => {
            let text = "the call was cancelled and its handler stopped";
            Reply::Error(Bytes::from(
                OwnError::local("client_cancelled", Outcome::Unknown, text).as_json_rpc_error(),
            ))
        }
    }
}

/// The handler of a call that is no task panicked.
fn panicked(policy: TaskPolicy) -> Answer {
    let outcome = if policy.writes { Outcome::Unknown } else { Outcome::NotExecuted };
    let error = OwnError::local("handler", outcome, "the handler ended without an answer");
    Reply::Error(Bytes::from(error.as_json_rpc_error()))
}

/// A task that cannot be stored is not begun (ruling 11).
fn cannot_begin(failure: &TaskFailure) -> Answer {
    let (category, text) = match failure {
        TaskFailure::TooMany { .. } => ("queue_full", failure.to_string()),
        TaskFailure::NotFound
        | TaskFailure::Over(_)
        | TaskFailure::Refused(_)
        | TaskFailure::Held(_)
        | TaskFailure::Store(_) => ("store", format!("the task could not be stored: {failure}")),
    };
    let error = OwnError::local(category, Outcome::NotExecuted, &text);
    Reply::Result(Bytes::from(error.as_tool_result()))
}
