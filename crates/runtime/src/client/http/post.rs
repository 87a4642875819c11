//! One request as one POST, whose answer is its own: a JSON object, or a stream that ends with it.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::envelope::{self, EnvelopeError, Meant, Message};
use steadfast_core::exchange::Reply;
use steadfast_core::exchange::requester::Input;
use steadfast_core::ids::RequestId;
use steadfast_core::policy::{ErrorAnswer, Failure};
use tokio::sync::mpsc;

use super::answer::{Answer, Unread};
use super::events::{Cut, Events};
use super::pool::{Ask, Pool, Wire};
use crate::client::leg::{Detail, Heard};
use crate::message;

/// Events of one request that may wait for its task; the reader of the stream waits beyond that (SSE-11).
pub(super) const EVENT_QUEUE: usize = 64;

/// A request on its way, and who hears of it.
pub(super) struct Post {
    pub(super) pool: Arc<Pool>,
    pub(super) ask: Ask,
    pub(super) id: RequestId,
    pub(super) to_task: mpsc::Sender<Heard>,
}

/// What a message of the answer is for the request.
enum Said {
    /// The end.
    Final(Heard),
    /// Something on the way to it.
    Passing(Heard),
    /// Nothing; where it was a fault of the server's, which one.
    Nothing(Option<String>),
}

impl Post {
    /// Sends it on a connection that is ready, and reads to the end.
    pub(super) async fn run(self, wire: Wire) {
        let heard = match self.pool.send(wire, &self.ask).await {
            Ok(answer) if answer.is_stream() => self.stream(answer).await,
            Ok(answer) => self.whole(answer).await,
            Err(detail) => detail.lost(),
        };
        let _ = self.to_task.send(heard).await;
    }

    /// A single answer. Its body is read before the status is judged, since an error object in it may decide (HTTP-21).
    async fn whole(&self, answer: Answer) -> Heard {
        let status = answer.status();
        let mut detail = Detail {
            status: Some(status.as_u16()),
            retry_after: answer.retry_after(),
            challenge: answer.challenge(),
            ..Detail::default()
        };
        let body = answer.whole(self.pool.max_message()).await;
        let said = match &body {
            Ok(body) => reply_of(&self.id, body, self.pool.max_message(), !status.is_success()),
            Err(Unread::TooLarge) => Err("whose body is too large; raise max_message".to_owned()),
            Err(Unread::Broke(why)) => Err(format!("whose body broke off: {why}")),
        };
        match said {
            Ok(reply) => Heard::Input(Input::Response(reply), detail),
            Err(why) => {
                let broke = matches!(body, Err(Unread::Broke(_))) && status.is_success();
                detail.failure = Some(if broke { Failure::ConnectionLost } else { of_status(&detail, None) });
                let place = self.pool.endpoint().place();
                detail.remark = Some(format!("{place} answered with status {status} {why}"));
                detail.lost()
            }
        }
    }

    /// A stream of events, which the response ends whether the stream does or not (SSE-10).
    async fn stream(&self, answer: Answer) -> Heard {
        let mut events = Events::of(answer, self.pool.max_message());
        let mut oddity = None;
        loop {
            let cut = match events.next().await {
                Ok((event, _)) if !event.is_message() => continue,
                Ok((event, _)) => {
                    match self.said(&event.data) {
                        Said::Final(heard) => {
                            events.let_end();
                            return heard;
                        }
                        Said::Passing(heard) => drop(self.to_task.send(heard).await),
                        Said::Nothing(odd) => oddity = odd.or(oddity),
                    }
                    continue;
                }
                Err(cut) => cut,
            };
            return cut_off(&self.pool, cut, oddity).lost();
        }
    }

    fn said(&self, message: &[u8]) -> Said {
        match envelope::parse_within(self.pool.max_message(), message) {
            Ok(Message::Response { id, reply }) if id.as_ref().is_none_or(|id| *id == self.id) => {
                Said::Final(Input::Response(message::owned(&reply)).into())
            }
            Ok(Message::Response { id, .. }) => {
                tracing::warn!(request = ?self.id, answered = ?id, "a response on this request's stream is for another id");
                Said::Nothing(Some("with a response to another request".to_owned()))
            }
            Ok(Message::Notification { method, params }) if method == "notifications/progress" => {
                let progress = params.and_then(|params| envelope::progress_of(params.get()));
                progress.map_or(Said::Nothing(None), |(token, progress)| {
                    Said::Passing(Input::Progress(token, progress).into())
                })
            }
            Ok(Message::Notification { method, params }) => Said::Passing(Heard::Note {
                method: method.into_owned(),
                params: message::params_bytes(params),
            }),
            Ok(Message::Request { method, .. }) => {
                tracing::warn!(request = ?self.id, %method, "a request of the server's, which this revision does not have");
                Said::Nothing(None)
            }
            Err(error) if is_broken_answer(&error, &self.id) => {
                let sentence =
                    format!("{} answered on its stream, but {error}", self.pool.endpoint().place());
                Said::Final(Detail::failed(Failure::Unreadable, sentence).lost())
            }
            Err(error) => Said::Nothing(Some(format!("with an event that cannot be read: {error}"))),
        }
    }
}

/// The end of a stream that brought no response. What else it brought, if that was faulty, is the likelier cause.
fn cut_off(pool: &Pool, cut: Cut, oddity: Option<String>) -> Detail {
    let place = pool.endpoint().place();
    match (cut, oddity) {
        (Cut::TooLarge(sentence), _) => Detail::failed(Failure::Unreadable, sentence),
        (Cut::Ended | Cut::Broke(_), Some(odd)) => Detail::failed(
            Failure::Unreadable,
            format!("the stream of {place} ended without the response, but {odd}"),
        ),
        (Cut::Ended, None) => {
            Detail::failed(Failure::StreamEnded, format!("the stream of {place} ended without a response"))
        }
        (Cut::Broke(why), None) => Detail::failed(
            Failure::ConnectionLost,
            format!("the stream of {place} broke before its response: {why}"),
        ),
    }
}

/// Whether something unreadable was meant as the answer to this request, so that no other will come.
fn is_broken_answer(error: &EnvelopeError, id: &RequestId) -> bool {
    match error.meant() {
        Meant::Response => error.id().is_none_or(|it| it == id),
        Meant::Request | Meant::Notification | Meant::Unclear => false,
    }
}

/// The answer in a body, or what the body is instead.
///
/// A refusal may name no id or an invented one, as it was made before the message was looked at; the exchange that
/// carries it says which request it is for.
fn reply_of(id: &RequestId, body: &[u8], limit: usize, refused: bool) -> Result<Reply<Bytes>, String> {
    match envelope::parse_within(limit, body) {
        Ok(Message::Response { reply: Reply::Result(_), .. }) if refused => {
            Err("and a result, of which only one can be true".to_owned())
        }
        Ok(Message::Response { id: answered, reply }) => {
            if refused || answered.is_none_or(|answered| answered == *id) {
                Ok(message::owned(&reply))
            } else {
                Err("and a response to another request".to_owned())
            }
        }
        Ok(Message::Request { .. } | Message::Notification { .. }) => {
            Err("and a message that is no response".to_owned())
        }
        Err(_) if body.is_empty() => Err("and no response".to_owned()),
        Err(_) if refused => Err("and no JSON-RPC error".to_owned()),
        Err(error) => Err(format!("and a body that cannot be read: {error}")),
    }
}

/// The failure that a whole answer is.
fn of_status(detail: &Detail, code: Option<i64>) -> Failure {
    let Detail { status, in_session, .. } = *detail;
    ErrorAnswer { status, code, names_missing_meta: false, in_session }.failure(&[])
}
