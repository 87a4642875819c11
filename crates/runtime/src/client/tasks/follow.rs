//! The loop that obeys the machine of a follower, and what the end of a task means for its call.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::error::Outcome;
use steadfast_core::exchange::{Clock as Limit, Gate, Offered, Progress};
use steadfast_core::hop::{Era, Revision};
use steadfast_core::ids::ProgressToken;
use steadfast_core::task::Status;
use steadfast_core::task::follow::{Follower, Input, Output, Seen};
use steadfast_core::time::Instant;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answer::{Answering, Unanswered};
use super::{TaskEntry, TaskHandle, wire};
use crate::client::attempts::Done;
use crate::client::{Answered, CallOptions, Category, Client, Error};

pub(super) use steadfast_core::task::follow::End;

/// How long one `tasks/get` or `tasks/update` may take, its repetitions included; then it is asked again.
pub(super) const POLL_WITHIN: Duration = Duration::from_secs(30);
/// How long the server may take to hear that a task is not wanted any more.
const CANCELLED_WITHIN: Duration = Duration::from_secs(30);

/// A task that is followed.
pub(super) struct Following<'a> {
    pub(super) handle: &'a TaskHandle,
    /// The state by which it was created.
    pub(super) first: Option<Seen<String>>,
    pub(super) rejects: &'a [i64],
    /// Its call is waited for: who gives up the call gives up the task (TSK-41).
    pub(super) owns: bool,
    /// The revision in which it was last told of.
    pub(super) revision: Revision,
    /// Where the deadline counts from.
    pub(super) began: Instant,
    /// Under which progress is told of a task of 2025-11-25 until it is over (LEG-113).
    pub(super) token: Option<ProgressToken>,
}

/// A wait for the result of a task of 2025-11-25.
type Waiting<'a> = Pin<Box<dyn Future<Output = Option<(String, Revision)>> + Send + 'a>>;

type Polling<'a> =
    Pin<Box<dyn Future<Output = Result<(Done, Result<Seen<String>, &'static str>), Error>> + Send + 'a>>;

impl Following<'_> {
    pub(super) async fn run(self, mut options: CallOptions) -> Result<Answered, Error> {
        let (client, entry) = (&self.handle.client, &self.handle.entry);
        let pipeline = &client.pipeline;
        let clock = pipeline.clock;
        let must_end = pipeline.must_end(self.began, &options);
        // Before anything is asked, so that nothing told meanwhile is missed.
        let mut notices = pipeline.connector.notices.subscribe();
        let mut progress = pipeline.connector.progress.subscribe();
        let mut gate = Gate::new(options.progress_interval);
        let mut machine =
            Follower::start(clock.now(), pipeline.config.task_pace, pipeline.seed, entry.answered.clone());
        // On the stream of the result its server asks, and tells how far it is (LEG-109, LEG-113).
        let tells = self.token.is_some() && options.on_progress.is_some();
        let wants_stream = |seen: &Seen<String>| tells || matches!(seen.status, Status::InputRequired { .. });
        let mut wanted = false;
        if let Some(first) = self.first.clone() {
            wanted = wants_stream(&first);
            machine.handle(clock.now(), Input::Polled(first));
        }
        let open = Arc::new(Mutex::new(BTreeSet::new()));
        // What is under way for the wait ends with it, each request as its transport demands.
        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        let (give_up, mut unanswered) = mpsc::channel(1);
        let mut polling: Option<Polling<'_>> = None;
        let mut result: Option<Waiting<'_>> = None;
        let (mut revision, mut polls) = (self.revision, 0);
        let given_up = loop {
            while let Some(output) = machine.poll_output() {
                match output {
                    Output::Poll => {
                        polls += 1;
                        let (cancel, deadline) = (stop.clone(), Some(POLL_WITHIN));
                        let poll = CallOptions { cancel, deadline, ..CallOptions::default() };
                        polling = Some(Box::pin(self.handle.asked(poll)));
                    }
                    Output::Open(keys) => *open.lock().unwrap_or_else(PoisonError::into_inner) = keys,
                    Output::Ask(questions) => {
                        for (key, question) in questions {
                            let (handle, open, stop) = (self.handle.clone(), Arc::clone(&open), stop.clone());
                            let one = Answering { handle, open, stop, key, question };
                            let give_up = give_up.clone();
                            tokio::spawn(async move {
                                if let Err(why) = one.run().await {
                                    // One is enough.
                                    let _ = give_up.try_send(why);
                                }
                            });
                        }
                    }
                    Output::Ended(end) => {
                        tell(&mut options, gate.flush());
                        stop.cancel();
                        if let Some(polling) = polling {
                            let _ = polling.await;
                        }
                        if let Some(result) = result {
                            let _ = result.await;
                        }
                        self.handle.note(|journal, entry| journal.ended(entry)).await;
                        return told(client, entry, self.rejects, end, revision, polls);
                    }
                    Output::Ignored(what) => {
                        tracing::debug!(server = client.name(), ?what, "ignored of a task");
                    }
                }
            }
            // Once a state: where it ends without a word, the next poll says what to do.
            if std::mem::take(&mut wanted) && revision.era() == Era::Legacy && result.is_none() {
                result = Some(Box::pin(self.handle.waited_for(stop.clone())));
            }
            tokio::select! {
                biased;
                miss = pipeline.thrown(&options) => break Gone::GivenUp(miss.category),
                polled = async { match &mut polling {
                    Some(polling) => polling.await,
                    None => std::future::pending().await,
                } } => {
                    polling = None;
                    let input = match polled {
                        Ok((done, Ok(seen))) => {
                            revision = done.revision;
                            wanted = wants_stream(&seen);
                            hand_on(&mut options, revision, &done.result);
                            Input::Polled(seen)
                        }
                        Ok((_, Err(why))) => {
                            tracing::warn!(server = client.name(), why, "an answer to tasks/get is none");
                            Input::Unanswered { retry_after: None }
                        }
                        Err(error) => match polled_in_vain(&error) {
                            Vain::Unknown => Input::Unknown,
                            Vain::Again => Input::Unanswered { retry_after: None },
                            Vain::Final => break Gone::Failed(error),
                        },
                    };
                    machine.handle(clock.now(), input);
                }
                came = async { match &mut result {
                    Some(result) => result.await,
                    None => std::future::pending().await,
                } } => {
                    result = None;
                    // Where it says nothing, the next poll does, and asks for it again.
                    if let (Some((result, spoken)), Some(seen)) = (came, machine.seen().cloned()) {
                        revision = spoken;
                        machine.handle(clock.now(), Input::Told(Seen { status: Status::Completed { result }, ..seen }));
                    }
                }
                Ok((token, progress)) = progress.recv(), if self.token.is_some() => {
                    if self.token.as_ref() == Some(&token)
                        && let Offered::Pass(progress) = gate.offer(clock.now().mono, progress)
                    {
                        tell(&mut options, Some(progress));
                    }
                }
                () = clock.sleep_until(gate.due_at()) => tell(&mut options, gate.due(clock.now().mono)),
                Some(Unanswered { category, sentence }) = unanswered.recv() => {
                    break Gone::NotAnswered(category, sentence);
                }
                notice = notices.recv() => match notice {
                    Ok(notice) if notice.method.as_ref() == "notifications/tasks" => {
                        // Most are about others.
                        if let Ok(seen) = wire::seen(&notice.params, &entry.task_id) {
                            hand_on(&mut options, Revision::V2026_07_28, &notice.params);
                            machine.handle(clock.now(), Input::Told(seen));
                        }
                    }
                    // What was missed the next poll tells.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => break Gone::GivenUp(Category::Closed),
                },
                () = clock.sleep_until(machine.poll_timeout()) => machine.handle_timeout(clock.now()),
                () = clock.sleep_until(Some(must_end)) => break Gone::Late,
            }
        };
        stop.cancel();
        if let Some(polling) = polling {
            // Its read is given up as well, and ends at once.
            let _ = polling.await;
        }
        if let Some(result) = result {
            let _ = result.await;
        }
        Err(self.leave(given_up))
    }

    /// The wait ends before the task.
    fn leave(&self, gone: Gone) -> Error {
        let (client, entry) = (&self.handle.client, &self.handle.entry);
        let local = |category, clock, sentence: String| Error::Local {
            category,
            clock,
            outcome: Outcome::Unknown,
            sentence,
            call_id: entry.call_id.clone(),
        };
        match gone {
            Gone::GivenUp(category) => {
                // A client that is closed revokes nothing: whoever comes after it goes on.
                if self.owns && category == Category::ClientCancelled {
                    self.handle.give_up();
                }
                local(category, None, "the wait for the task was given up".to_owned())
            }
            Gone::Late => {
                let sentence = format!(
                    "the call's deadline was reached while server {} still works on its task",
                    client.name()
                );
                local(Category::Deadline, Some(Limit::Maximum), sentence)
            }
            Gone::NotAnswered(category, sentence) => {
                if self.owns {
                    self.handle.give_up();
                }
                local(category, None, sentence)
            }
            Gone::Failed(error) => unknown(error, &entry.call_id),
        }
    }
}

impl TaskHandle {
    /// Tells the server, without waiting for it, and forgets the task once it was told (TSK-44).
    pub(super) fn give_up(&self) {
        let handle = self.clone();
        tokio::spawn(async move {
            let options = CallOptions { deadline: Some(CANCELLED_WITHIN), ..CallOptions::default() };
            match handle.cancel(options).await {
                // It is over, or was before (LEG-112), or the server does not know it.
                Ok(()) | Err(Error::Protocol { code: -32_602, .. }) => {
                    handle.note(|journal, entry| journal.ended(entry)).await;
                }
                // It stays noted, so that whoever comes later finds it.
                Err(error) => tracing::warn!(
                    server = handle.client.name(), call = %handle.entry.call_id,
                    "the server could not be told that a task is not wanted: {error}"
                ),
            }
        });
    }
}

/// Why the wait ended before the task.
enum Gone {
    GivenUp(Category),
    Late,
    NotAnswered(Category, String),
    Failed(Error),
}

/// What a poll in vain means.
enum Vain {
    Unknown,
    Again,
    Final,
}

fn polled_in_vain(error: &Error) -> Vain {
    match error {
        // TSK-46.
        Error::Protocol { code: -32_602, .. } => Vain::Unknown,
        Error::Protocol { code: -32_601 | -32_021, .. } => Vain::Final,
        Error::Protocol { .. } => Vain::Again,
        Error::Local { category, .. } | Error::Transport { category, .. } => match category {
            Category::ClientCancelled
            | Category::Closed
            | Category::Budget
            | Category::Validation
            | Category::Authorization
            | Category::Unsupported => Vain::Final,
            Category::Deadline
            | Category::QueueFull
            | Category::QueueWait
            | Category::BreakerOpen
            | Category::KeyMismatch
            | Category::Questions
            | Category::Store
            | Category::Spawn
            | Category::Connect
            | Category::TransportLost
            | Category::StreamEnded
            | Category::HttpStatus
            | Category::InvalidResponse
            | Category::InvalidOutput => Vain::Again,
        },
    }
}

/// Whoever watches the call hears of each state, as a notification would tell it.
fn hand_on(options: &mut CallOptions, revision: Revision, task: &Bytes) {
    let method = match revision.era() {
        Era::Modern => "notifications/tasks",
        Era::Legacy => "notifications/tasks/status",
    };
    if let Some(on_note) = &mut options.on_note {
        on_note(method, task);
    }
}

fn tell(options: &mut CallOptions, progress: Option<Progress>) {
    if let (Some(on_progress), Some(progress)) = (&mut options.on_progress, progress) {
        on_progress(progress);
    }
}

/// What the end of a task is for its call: what the call would have been answered with (TSK-27).
pub(super) fn told(
    client: &Client,
    entry: &TaskEntry,
    rejects: &[i64],
    end: End<String>,
    revision: Revision,
    attempts: u32,
) -> Result<Answered, Error> {
    let server = client.name();
    let call_id = entry.call_id.clone();
    let lost = |category, sentence: String| Error::Transport {
        category,
        sent: true,
        outcome: Outcome::Unknown,
        sentence,
        call_id: call_id.clone(),
    };
    match end {
        End::Completed(result) => {
            crate::client::judge::error_in(&result, server, &call_id).map_or(Ok(()), Err)?;
            Ok(Answered { result: result.into(), revision, call_id, attempts })
        }
        End::Failed(error) => Err(crate::client::judge::error_of(&error, rejects, server, &call_id)),
        End::Cancelled => Err(Error::Local {
            category: Category::ClientCancelled,
            clock: None,
            outcome: Outcome::Unknown,
            sentence: format!("the task at server {server} was cancelled"),
            call_id,
        }),
        End::Expired => Err(lost(
            Category::TransportLost,
            format!("server {server} kept the task no longer, and had not ended it"),
        )),
        End::Unknown => {
            Err(lost(Category::TransportLost, format!("server {server} does not know the task any more")))
        }
    }
}

/// The error of a request about a task says nothing of what the task did.
fn unknown(mut error: Error, of_call: &str) -> Error {
    match &mut error {
        Error::Protocol { outcome, call_id, .. }
        | Error::Transport { outcome, call_id, .. }
        | Error::Local { outcome, call_id, .. } => {
            *outcome = Outcome::Unknown;
            if !of_call.is_empty() {
                of_call.clone_into(call_id);
            }
        }
    }
    error
}
