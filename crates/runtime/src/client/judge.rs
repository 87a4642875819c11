//! What the end of an exchange means: a result, or why there is none.

#![allow(
    clippy::result_large_err,
    reason = "a miss is made once a failed attempt, beside a round trip to a server"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use steadfast_core::call::Failed;
use steadfast_core::envelope;
use steadfast_core::error::{Kind, Outcome};
use steadfast_core::exchange::requester::End;
use steadfast_core::exchange::{Clock as Limit, Operation, Reply};
use steadfast_core::hop::Revision;
use steadfast_core::object::Members;
use steadfast_core::policy::Failure;

use super::attempts::{Ask, Kinds, Pipeline, ResultKind};
use super::drive::Exchanged;
use super::error::{Category, Error};
use super::leg::Detail;
use super::ready::{Ready, supported_in};

/// Why there is no result, before it is an error for the caller.
pub(super) struct Miss {
    pub(super) kind: Kind,
    pub(super) category: Category,
    pub(super) failed: Failed,
    pub(super) sentence: String,
    pub(super) clock: Option<Limit>,
    /// The peer's own error object.
    pub(super) error: Option<Bytes>,
    pub(super) challenge: Option<String>,
}

impl Miss {
    pub(super) fn local(category: Category, sentence: impl Into<String>) -> Self {
        Self {
            kind: Kind::Local,
            category,
            failed: Failed {
                failure: Failure::RefusedHere,
                sent: false,
                retry_after: None,
                cancelled: category == Category::ClientCancelled,
                estimate: Duration::ZERO,
            },
            sentence: sentence.into(),
            clock: None,
            error: None,
            challenge: None,
        }
    }
}

impl Pipeline {
    /// What the end of an exchange means.
    pub(super) fn judge(
        &self,
        ask: &Ask<'_>,
        ready: &Arc<Ready>,
        augmented: bool,
        exchanged: Exchanged,
        ended_by: &'static str,
    ) -> Result<(Bytes, ResultKind, Revision), Miss> {
        let Exchanged { end, sent, detail, network, .. } = exchanged;
        let server = &self.config.name;
        let estimate = Duration::from_micros(self.estimate_us.load(Ordering::Relaxed));
        let failed = |failure| Failed {
            failure,
            sent,
            retry_after: detail.retry_after,
            cancelled: failure == Failure::Cancelled,
            estimate,
        };
        let miss = |kind, category, failure, sentence: String| Miss {
            kind,
            category,
            failed: failed(failure),
            sentence,
            clock: None,
            error: None,
            challenge: detail.challenge.clone(),
        };
        match end {
            End::Answered(Reply::Result(result)) => {
                // How long somebody listened says nothing of the next request.
                if ask.operation != Operation::Listen {
                    let took = u64::try_from(network.as_micros()).unwrap_or(u64::MAX);
                    self.estimate_us.store(took, Ordering::Relaxed);
                }
                if augmented && task_in(&result).is_some() {
                    return Ok((result, ResultKind::Task, ready.revision));
                }
                match read_result(&result, ask.kinds) {
                    Ok(Read::Result(kind)) => Ok((result, kind, ready.revision)),
                    Ok(Read::Declared(own)) => Err(own.miss(failed, server)),
                    Err(why) => {
                        let sentence = format!("server {server} answered with what is no result: {why}");
                        Err(miss(Kind::Transport, Category::InvalidResponse, Failure::Unreadable, sentence))
                    }
                }
            }
            // An HTTP error is of this request all the same.
            End::Answered(Reply::Error(error))
                if ask.kinds.other && detail.status.is_none_or(|status| status == 200) =>
            {
                Ok((error, ResultKind::Error, ready.revision))
            }
            End::Answered(Reply::Error(error)) => Err(self.refused(ask, ready, error, &detail, failed)),
            End::Cancelled if self.closing.is_cancelled() => Err(miss(
                Kind::Local,
                Category::Closed,
                Failure::Cancelled,
                "the client was closed".to_owned(),
            )),
            End::Cancelled => {
                let sentence = "the call was cancelled".to_owned();
                Err(miss(Kind::Local, Category::ClientCancelled, Failure::Cancelled, sentence))
            }
            End::TimedOut(clock) => {
                let (failure, sentence) = match clock {
                    Limit::Idle => (
                        Failure::TimedOutIdle,
                        format!(
                            "server {server} was silent for {:?}, the idle limit of {}",
                            ask.limits.idle(),
                            ask.limits_by
                        ),
                    ),
                    Limit::Maximum => (
                        Failure::TimedOutMaximum,
                        format!(
                            "the call to server {server} took {network:.1?}, which is the most that {ended_by} allows"
                        ),
                    ),
                };
                Err(Miss { clock: Some(clock), ..miss(Kind::Local, Category::Deadline, failure, sentence) })
            }
            End::CancelledByPeer => {
                let sentence = format!("server {server} ended the subscription");
                Err(miss(Kind::Transport, Category::StreamEnded, Failure::StreamEnded, sentence))
            }
            End::Lost => {
                let failure = detail.failure.unwrap_or(Failure::ConnectionLost);
                let category = match failure {
                    Failure::NothingLeft => Category::Connect,
                    Failure::StreamEnded => Category::StreamEnded,
                    Failure::Unreadable => Category::InvalidResponse,
                    Failure::Unauthenticated | Failure::Forbidden => Category::Authorization,
                    Failure::ConnectionLost => Category::TransportLost,
                    _ => Category::HttpStatus,
                };
                if failure == Failure::SessionGone {
                    self.connector.discard(ready);
                }
                let why =
                    detail.remark.clone().unwrap_or_else(|| "it went away before its answer".to_owned());
                let sentence = format!("server {server} gave no answer: {why}");
                Err(miss(Kind::Transport, category, failure, sentence))
            }
        }
    }

    /// A JSON-RPC error: the peer's, or one of ours from a hop further on (ruling 9).
    fn refused(
        &self,
        ask: &Ask<'_>,
        ready: &Arc<Ready>,
        error: Bytes,
        detail: &Detail,
        failed: impl Fn(Failure) -> Failed,
    ) -> Miss {
        let text = std::str::from_utf8(&error).unwrap_or_default();
        let object = envelope::error_object_of(text);
        let data = object.as_ref().and_then(|object| object.data).map(serde_json::value::RawValue::get);
        if let Some(own) = data.and_then(Declared::of) {
            return own.miss(failed, &self.config.name);
        }
        let code = object.as_ref().map_or(0, |object| object.code);
        let names_meta = object.as_ref().is_some_and(|object| object.message.contains("_meta"));
        let failure = match &object {
            Some(_) => detail.of_error(code, names_meta, ask.rejects),
            None => Failure::Unreadable,
        };
        if failure == Failure::SessionGone {
            self.connector.discard(ready);
        }
        // Once: the attempts count it.
        if failure == Failure::VersionRefused
            && let Some(supported) = supported_in(data)
            && !self.connector.version_refused(ready, supported)
        {
            return Miss {
                kind: Kind::Protocol,
                category: Category::Unsupported,
                failed: Failed { retry_after: None, ..failed(Failure::NotDispatched) },
                sentence: String::new(),
                clock: None,
                error: Some(error),
                challenge: None,
            };
        }
        Miss {
            kind: Kind::Protocol,
            category: Category::InvalidResponse,
            failed: failed(failure),
            sentence: String::new(),
            clock: None,
            challenge: detail.challenge.clone(),
            error: Some(error),
        }
    }
}

/// The error of a Steadfast further on, which says itself what it means.
struct Declared {
    kind: Kind,
    category: String,
    outcome: Outcome,
    retryable: bool,
    clock: Option<Limit>,
    sentence: String,
}

impl Declared {
    /// From what holds `steadfast/error`: an error's `data`, or a result's `_meta`.
    fn of(holder: &str) -> Option<Self> {
        let holder: Value = serde_json::from_str(holder).ok()?;
        let own = holder.get("steadfast/error")?;
        let outcome = match own["outcome"].as_str()? {
            "not_executed" => Outcome::NotExecuted,
            "executed" => Outcome::Executed,
            "unknown" => Outcome::Unknown,
            _ => return None,
        };
        Some(Self {
            kind: if own["kind"] == "transport" { Kind::Transport } else { Kind::Local },
            category: own["category"].as_str().unwrap_or_default().to_owned(),
            outcome,
            retryable: own["retryable"] == true,
            clock: match own["clock"].as_str() {
                Some("idle") => Some(Limit::Idle),
                Some("maximum") => Some(Limit::Maximum),
                _ => None,
            },
            sentence: own["server"].as_str().unwrap_or_default().to_owned(),
        })
    }

    fn error(self, server: &str, call_id: &str) -> Error {
        let category = Category::from_word(&self.category).unwrap_or(Category::TransportLost);
        let (outcome, call_id) = (self.outcome, call_id.to_owned());
        let sentence = format!("server {server} reports of its task: {category}");
        match self.kind {
            Kind::Transport | Kind::Protocol => {
                Error::Transport { category, sent: true, outcome, sentence, call_id }
            }
            Kind::Local => Error::Local { category, clock: self.clock, outcome, sentence, call_id },
        }
    }

    fn miss(self, failed: impl Fn(Failure) -> Failed, server: &str) -> Miss {
        let behind =
            if self.sentence.is_empty() { String::new() } else { format!(" about {:?}", self.sentence) };
        let category = Category::from_word(&self.category).unwrap_or(Category::TransportLost);
        Miss {
            kind: self.kind,
            category,
            failed: failed(Failure::Declared { outcome: self.outcome, retryable: self.retryable }),
            sentence: format!("server {server} reports{behind}: {category}"),
            clock: self.clock,
            error: None,
            challenge: None,
        }
    }
}

/// The error that a result is which came by way of a task, if it says that it is one of ours (ruling 9).
pub(super) fn error_in(result: &str, server: &str, call_id: &str) -> Option<Error> {
    let result = Members::parse(result).ok()?;
    let own = result.get("_meta").filter(|meta| meta.contains("steadfast/error")).and_then(Declared::of)?;
    Some(own.error(server, call_id))
}

/// The error that a task failed with, and what it proves of the effect: what it would as the answer to the call.
pub(super) fn error_of(error: &str, rejects: &[i64], server: &str, call_id: &str) -> Error {
    let object = envelope::error_object_of(error);
    let data = object.as_ref().and_then(|object| object.data).map(serde_json::value::RawValue::get);
    if let Some(own) = data.and_then(Declared::of) {
        return own.error(server, call_id);
    }
    let (code, message) =
        object.map_or_else(|| (0, String::new()), |object| (object.code, object.message.into_owned()));
    let failure = Detail::default().of_error(code, message.contains("_meta"), rejects);
    Error::Protocol {
        code,
        message,
        raw: error.to_owned(),
        outcome: failure.outcome(true),
        call_id: call_id.to_owned(),
    }
}

enum Read {
    Result(ResultKind),
    Declared(Declared),
}

/// Reads as much of a result as decides what it is (MSG-15, MSG-16).
fn read_result(result: &[u8], kinds: Kinds) -> Result<Read, String> {
    let text = std::str::from_utf8(result).map_err(|_| "it is not UTF-8".to_owned())?;
    let members = Members::parse(text).map_err(|_| "it is no object".to_owned())?;
    // What another request ended with says nothing of this one.
    if kinds.other {
        return Ok(Read::Result(ResultKind::Complete));
    }
    if let Some(own) =
        members.get("_meta").filter(|meta| meta.contains("steadfast/error")).and_then(Declared::of)
    {
        return Ok(Read::Declared(own));
    }
    let Some(kind) = members.get("resultType") else { return Ok(Read::Result(ResultKind::Complete)) };
    match kind {
        "\"complete\"" => Ok(Read::Result(ResultKind::Complete)),
        "\"input_required\"" if kinds.input_required => Ok(Read::Result(ResultKind::InputRequired)),
        "\"task\"" if kinds.task => Ok(Read::Result(ResultKind::Task)),
        other => {
            let shown: String = other.chars().filter(|c| !c.is_control()).take(40).collect();
            Err(format!("its resultType {shown} is none that this method may have"))
        }
    }
}

/// The task that an augmented call of 2025-11-25 was answered with (LEG-106): the only member that says so.
pub(super) fn task_in(result: &[u8]) -> Option<Bytes> {
    let members = Members::parse(std::str::from_utf8(result).ok()?).ok()?;
    members.get("task").filter(|task| task.starts_with('{')).map(|task| Bytes::from(task.to_owned()))
}

pub(super) fn is_error(result: &[u8]) -> bool {
    std::str::from_utf8(result)
        .ok()
        .and_then(|text| Members::parse(text).ok().map(|members| members.get("isError") == Some("true")))
        .unwrap_or_default()
}

pub(super) fn code_of(error: &[u8]) -> i64 {
    std::str::from_utf8(error).ok().and_then(envelope::error_object_of).map_or(0, |object| object.code)
}
