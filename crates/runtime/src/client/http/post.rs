//! One request as one POST, whose answer is its own: a JSON object, or a stream that ends with it.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use steadfast_core::envelope::{self, EnvelopeError, Meant, Message};
use steadfast_core::exchange::Reply;
use steadfast_core::exchange::requester::Input;
use steadfast_core::ids::RequestId;
use steadfast_core::policy::{ErrorAnswer, Failure};
use tokio::sync::mpsc;

use super::answer::{Answer, Unread};
use super::events::{Cut, Events};
use super::pool::{Ask, Pool, Wire};
use super::session::Session;
use crate::client::leg::{Detail, Heard, Inbound};
use crate::message;

/// Events of one request that may wait for its task; the reader of the stream waits beyond that (SSE-11).
pub(super) const EVENT_QUEUE: usize = 64;

/// A request on its way, and who hears of it.
pub(super) struct Post {
    pub(super) pool: Arc<Pool>,
    pub(super) ask: Ask,
    pub(super) id: RequestId,
    pub(super) to_task: mpsc::Sender<Heard>,
    /// The legacy session that it belongs to.
    pub(super) session: Option<Arc<Session>>,
    /// It is the `initialize` that begins one.
    pub(super) begins: bool,
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
        // As it is when the request leaves.
        let in_session = self.session.as_ref().is_some_and(|session| session.has_id());
        let heard = match self.pool.send(wire, &self.ask).await {
            Ok(answer) => {
                if let Some(session) = self.session.as_ref().filter(|_| self.begins) {
                    session.offered(&answer);
                }
                if answer.is_stream() {
                    self.stream(answer).await
                } else {
                    self.whole(answer, in_session).await
                }
            }
            Err(detail) => detail.lost(),
        };
        let _ = self.to_task.send(heard).await;
    }

    /// A single answer. Its body is read before the status is judged, since an error object in it may decide (HTTP-21).
    pub(super) async fn whole(&self, answer: Answer, in_session: bool) -> Heard {
        let status = answer.status();
        if let Some(session) = self.session.as_ref().filter(|_| in_session && may_mean_session(status)) {
            session.end();
        }
        let mut detail = Detail {
            status: Some(status.as_u16()),
            in_session,
            retry_after: answer.retry_after(),
            challenge: answer.challenge(),
            ..Detail::default()
        };
        let body = answer.whole(self.pool.max_message()).await;
        let said = match &body {
            Ok(body) => self.reply_in(body, !status.is_success()),
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

    /// The answer in a body; what else a batch brings is heard as if it came by itself.
    fn reply_in(&self, body: &[u8], refused: bool) -> Result<Reply<Bytes>, String> {
        let limit = self.pool.max_message();
        let messages = self.messages(body);
        let [message] = messages.as_slice() else {
            let mut reply = Err("and a batch without the response".to_owned());
            for message in messages {
                match (reply_of(&self.id, message, limit, refused), &self.session) {
                    (Ok(found), _) => reply = Ok(found),
                    (Err(_), Some(session)) => {
                        let _ = envelope::parse_within(limit, message)
                            .map(|message| session.inbox().hear(message, Some(&self.id)));
                    }
                    (Err(_), None) => {}
                }
            }
            return reply;
        };
        reply_of(&self.id, message, limit, refused)
    }

    fn messages<'a>(&self, data: &'a [u8]) -> Vec<&'a [u8]> {
        self.session.as_ref().map_or_else(|| vec![data], |session| session.messages(data))
    }

    /// A stream of events, which the response ends whether the stream does or not (SSE-10). In a session it is taken up
    /// again where it was cut, if the server named a place (LEG-34, LEG-42).
    async fn stream(&self, answer: Answer) -> Heard {
        let mut events = Events::of(answer, self.pool.max_message());
        let mut oddity = None;
        let mut fruitless = 0;
        loop {
            let cut = match events.next().await {
                Ok((event, repeated)) => {
                    if repeated || !event.is_message() {
                        continue;
                    }
                    let mut end = None;
                    for message in self.messages(&event.data) {
                        match self.said(message) {
                            Said::Final(heard) => end = end.or(Some(heard)),
                            Said::Passing(heard) => drop(self.to_task.send(heard).await),
                            Said::Nothing(odd) => oddity = odd.or(oddity),
                        }
                    }
                    if let Some(heard) = end {
                        events.let_end();
                        return heard;
                    }
                    continue;
                }
                Err(cut) => cut,
            };
            match &self.session {
                Some(session) if !matches!(cut, Cut::TooLarge(_)) && events.last_id().is_some() => {
                    if let Err(stuck) = session.resume(&mut events, &mut fruitless).await {
                        return Session::lost(stuck).lost();
                    }
                }
                Some(_) | None => return cut_off(&self.pool, cut, oddity).lost(),
            }
        }
    }

    fn said(&self, message: &[u8]) -> Said {
        match envelope::parse_within(self.pool.max_message(), message) {
            Ok(Message::Response { id, reply }) if id.as_ref().is_none_or(|id| *id == self.id) => {
                Said::Final(Input::Response(message::owned(&reply)).into())
            }
            Ok(Message::Response { .. }) => {
                tracing::warn!(request = ?self.id, "a response on this request's stream is for another id");
                Said::Nothing(Some("with a response to another request".to_owned()))
            }
            Ok(Message::Notification { method, params }) if method == "notifications/progress" => {
                let progress = params.and_then(|params| envelope::progress_of(params.get()));
                match (progress, &self.session) {
                    (None, _) => Said::Nothing(None),
                    // That of a task comes on the streams of other requests.
                    (Some((token, progress)), Some(session))
                        if crate::client::request_of(&token).is_some_and(|id| id != self.id) =>
                    {
                        session.inbox().put(Inbound::Progress { token, progress });
                        Said::Nothing(None)
                    }
                    (Some((token, progress)), Some(_) | None) => {
                        Said::Passing(Input::Progress(token, progress).into())
                    }
                }
            }
            Ok(message) => self.beside(message),
            Err(error) if is_broken_answer(&error, &self.id) => {
                let sentence =
                    format!("{} answered on its stream, but {error}", self.pool.endpoint().place());
                Said::Final(Detail::failed(Failure::Unreadable, sentence).lost())
            }
            Err(error) => Said::Nothing(Some(format!("with an event that cannot be read: {error}"))),
        }
    }

    /// What comes beside progress and the answer. In a session it may be for others: a log message is of this request, a
    /// notice of what changed is for all, and a question is to be answered (LEG-28).
    fn beside(&self, message: Message<'_>) -> Said {
        match (&self.session, message) {
            (Some(session), message) if !is_log(&message) => {
                session.inbox().hear(message, Some(&self.id));
                Said::Nothing(None)
            }
            (_, Message::Notification { method, params }) => {
                let (method, params) = (method.into_owned(), message::params_bytes(params));
                Said::Passing(Heard::Note { method, params })
            }
            (_, Message::Request { method, .. }) => {
                tracing::warn!(request = ?self.id, %method, "a request of the server's, which this revision does not have");
                Said::Nothing(None)
            }
            (_, Message::Response { .. }) => Said::Nothing(None),
        }
    }
}

/// Statuses by which servers mean, beside the 404 that they should send, that they do not know a session (F041). They
/// prove nothing of the request, so it is not repeated; but the next one begins a new session.
const fn may_mean_session(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::GONE)
}

fn is_log(message: &Message<'_>) -> bool {
    matches!(message, Message::Notification { method, .. } if method == "notifications/message")
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
