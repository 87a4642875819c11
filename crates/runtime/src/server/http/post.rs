//! A POST: what it is decides whose rules it obeys, and a modern request is answered on its own response.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::Incoming as IncomingBody;
use hyper::{HeaderMap, StatusCode};
use steadfast_core::hop::{Era, Revision, Transport};
use steadfast_core::ids::RequestId;
use steadfast_core::sse::encode;
use steadfast_core::task::TaskOwner;

use super::answer::{Refused, Response, empty, streamed};
use super::body::{self, Body, BrokenOff, PIECE_BYTES, Pieces};
use super::negotiate::{self, Accepted};
use super::socket::Line;
use super::{Site, legacy};
use crate::message;
use crate::server::admit::{self, Headers, Incoming, Refusal};
use crate::server::drive::{self, Way};
use crate::server::endpoint::Buffered;
use crate::server::outlet::{Last, Next, Outlets};
use crate::server::peer::{Peer, PeerEvent};
use crate::server::{Mirrored, MirroredParams, Request};

/// What a message came with.
pub(super) struct Sent<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) owner: TaskOwner,
    pub(super) accepted: Accepted,
    pub(super) line: Arc<Line>,
}

impl Site {
    /// Steps 2 to 5 of table ORDER.
    pub(super) async fn post(
        self: &Arc<Self>,
        headers: &HeaderMap,
        body: IncomingBody,
        owner: TaskOwner,
        line: Arc<Line>,
    ) -> Result<Response, Refused> {
        let accepted = Accepted::of(headers).ok_or(Refused::NotAcceptable)?;
        if !negotiate::is_json(headers) || !negotiate::is_plain(headers) {
            return Err(Refused::NotJson);
        }
        let options = &self.shared.options;
        let limit = options.max_message_bytes;
        let body = body::read(body, limit, self.settings.body_within, &self.uploads).await?;
        let sent = Sent { headers, owner, accepted, line };
        let is_legacy = options.legacy && legacy::is_legacy(headers);
        if is_legacy && body.trim_ascii_start().starts_with(b"[") {
            return self.batch(sent, &body).await;
        }
        match admit::read(&body, limit) {
            Ok(Incoming::Request { id, request }) => {
                match admit::era_of(&request, &Mirror(headers).standard("mcp-protocol-version")) {
                    Era::Modern => self.modern(sent, id, request).await,
                    Era::Legacy if options.legacy => self.legacy(sent, id, request).await,
                    Era::Legacy => Err(not_served(id, &request).into()),
                }
            }
            Ok(Incoming::Cancelled(notice)) if is_legacy => {
                self.session(headers, &sent.owner, None)?.cancel(&notice);
                Ok(empty(StatusCode::ACCEPTED))
            }
            Ok(Incoming::Notification { method }) if is_legacy => {
                self.session(headers, &sent.owner, None)?.hear(&method, &self.shared.service).await;
                Ok(empty(StatusCode::ACCEPTED))
            }
            Ok(Incoming::Response { id, reply }) if is_legacy => {
                self.session(headers, &sent.owner, None)?.answer(id.as_ref(), reply);
                Ok(empty(StatusCode::ACCEPTED))
            }
            // A cancel posted in the modern era is accepted and ignored (CAN-18), like all notifications (AMB-11).
            Ok(Incoming::Cancelled(_) | Incoming::Notification { .. }) => Ok(empty(StatusCode::ACCEPTED)),
            Ok(Incoming::Response { .. }) => {
                Err(Refusal::new(None, -32600, "a response is not taken here; send a request").into())
            }
            Err(Some(refusal)) => Err(refusal.into()),
            Err(None) => Err(Refused::Broken),
        }
    }

    /// A request of the modern era: from here on the loss of its connection is a cancel, whatever form its answer
    /// will take (CAN-05, CAN-19).
    async fn modern(&self, sent: Sent<'_>, id: RequestId, request: Request) -> Result<Response, Refused> {
        let Sent { headers, owner, accepted, line } = sent;
        if request.method == "subscriptions/listen" && !accepted.stream {
            return Err(Refused::NotAcceptable);
        }
        let (service, options) = (&*self.shared.service, &self.shared.options);
        let admitted =
            admit::modern(id.clone(), request, owner, Transport::Http, &Mirror(headers), service, options)?;
        let Some(permit) = self.shared.admit() else { return Err(Refused::Busy(Some(id))) };
        let presence = Presence { peer: Peer::default(), line };
        let outlets = Outlets::new(options.buffer, self.shared.buffered().clone());
        let way = Way {
            outlet: outlets.open(Some(permit)),
            keep_alive: Some(options.keep_alive),
            stall: Some(options.write_stall),
        };
        outlets.close();
        let answering = drive::answer(self.shared.clone(), admitted, None, presence.peer.clone(), way, || {});
        let untaken = drive::begin(answering).await;
        let first = match self.form(accepted, &outlets, &presence.line, &|_| ()).await {
            Form::Whole(last) => return Ok(self.answered(last)),
            Form::Stream(first) => first,
            Form::Nothing => return Err(Refused::Ended),
        };
        if let Some(untaken) = untaken {
            tokio::spawn(untaken.taken());
        }
        Ok(streamed(Body::events(Events {
            first,
            outlets,
            rest: None,
            is_over: false,
            buffered: self.shared.buffered().clone(),
            presence,
        })))
    }

    /// Waits until it is known which form an answer takes: what can be one object and is there soon is one.
    pub(super) async fn form(
        &self,
        accepted: Accepted,
        outlets: &Outlets,
        line: &Line,
        unheard: &(dyn Fn(&[u8]) + Sync),
    ) -> Form {
        if !accepted.stream {
            return match alone(outlets, line, unheard).await {
                Some(last) => Form::Whole(last),
                None => Form::Nothing,
            };
        }
        if !accepted.json {
            return Form::Stream(Some(Next::KeepAlive));
        }
        match tokio::time::timeout(self.settings.grace, outlets.next()).await {
            Ok(Some(Next::Final(last))) => Form::Whole(last),
            Ok(Some(first)) => Form::Stream(Some(first)),
            Ok(None) => Form::Nothing,
            // A sign of life at once: that is what the grace ends for.
            Err(_) => Form::Stream(Some(Next::KeepAlive)),
        }
    }
}

/// The form that an answer takes.
pub(super) enum Form {
    /// One JSON object.
    Whole(Last),
    /// A stream that begins with this.
    Stream(Option<Next>),
    /// There is no answer.
    Nothing,
}

/// The next answer alone: what else is said has no place in one object (PRG-16) and goes to `unheard`.
pub(super) async fn alone(outlets: &Outlets, line: &Line, unheard: &(dyn Fn(&[u8]) + Sync)) -> Option<Last> {
    loop {
        match outlets.next().await? {
            Next::Final(last) => return Some(last),
            Next::Message(message) => unheard(&message),
            Next::KeepAlive if line.peer_is_gone() => return None,
            Next::KeepAlive | Next::HangUp(_) => {}
            Next::Broken => return None,
        }
    }
}

/// A request without modern metadata, where only the modern era is served (table ORDER, step 5).
fn not_served(id: RequestId, request: &Request) -> Refusal {
    let version = Revision::V2026_07_28.as_str();
    let text = if request.method == "initialize" {
        format!("initialize is not served; use protocol version {version} with per-request _meta")
    } else {
        format!("the header MCP-Protocol-Version and the metadata of {version} are missing; send both")
    };
    Refusal::new(Some(id), -32020, &text)
}

/// Dropped with the response: tells the exchange that its caller is gone. After the end that means nothing.
#[derive(Debug)]
struct Presence {
    peer: Peer,
    line: Arc<Line>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.peer.tell(PeerEvent::Disconnected);
    }
}

/// An event stream that ends with the final message. What is ready at once is one piece.
pub(super) struct Events {
    first: Option<Next>,
    outlets: Outlets,
    /// What was taken and not yet handed over: more than one piece.
    rest: Option<Pieces>,
    is_over: bool,
    buffered: Buffered,
    presence: Presence,
}

impl Events {
    pub(super) fn is_over(&self) -> bool {
        self.is_over && self.rest.as_ref().is_none_or(Pieces::is_empty)
    }

    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        if let Some(piece) = self.rest.as_mut().and_then(Pieces::next) {
            return Poll::Ready(Some(Ok(piece)));
        }
        self.rest = None;
        let mut gathered = Vec::new();
        while !self.is_over && gathered.len() < PIECE_BYTES {
            let next = match self.first.take() {
                Some(first) => Some(first),
                None if gathered.is_empty() => ready!(self.outlets.poll_next(context)),
                None => match self.outlets.try_next() {
                    Some(next) => Some(next),
                    None => break,
                },
            };
            match next {
                Some(Next::Message(message)) => encode::write_event(&mut gathered, None, &message),
                Some(Next::Final(Last { message, .. })) => {
                    encode::write_event(&mut gathered, None, &message);
                    self.is_over = true;
                }
                Some(Next::KeepAlive) if self.presence.line.peer_is_gone() => return self.break_off(),
                Some(Next::KeepAlive) => gathered.extend_from_slice(encode::KEEP_ALIVE),
                // Only what can be resumed hangs up.
                Some(Next::HangUp(_)) => {}
                // Without a final message there was no end.
                Some(Next::Broken) | None => return self.break_off(),
            }
        }
        if gathered.is_empty() {
            return Poll::Ready(None);
        }
        let mut pieces = Pieces::new(Bytes::from(gathered), &self.buffered);
        let piece = pieces.next();
        self.rest = (!pieces.is_empty()).then_some(pieces);
        Poll::Ready(piece.map(Ok))
    }

    fn break_off(&mut self) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        self.is_over = true;
        Poll::Ready(Some(Err(BrokenOff)))
    }
}

/// The headers that mirror a body.
pub(super) struct Mirror<'a>(pub(super) &'a HeaderMap);

impl MirroredParams for Mirror<'_> {
    fn get(&self, name: &str) -> Mirrored {
        self.standard(&format!("mcp-param-{name}"))
    }
}

impl Headers for Mirror<'_> {
    fn standard(&self, name: &str) -> Mirrored {
        match (self.0.contains_key(name), negotiate::only(self.0, name).and_then(message::decode_header)) {
            (false, _) => Mirrored::Absent,
            (true, Some(value)) => Mirrored::Value(value),
            (true, None) => Mirrored::Invalid,
        }
    }

    fn params(&self) -> &dyn MirroredParams {
        self
    }
}
