//! The handshake revisions over HTTP: `initialize` opens a session, and everything else happens in one (LEG-20…60).

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{HeaderMap, StatusCode};
use steadfast_core::hop::{Era, Revision, Transport};
use steadfast_core::ids::RequestId;
use steadfast_core::task::TaskOwner;

use super::answer::{Refused, Response, SESSION_ID, empty, streamed};
use super::body::Body;
use super::negotiate::{Accepted, only};
use super::post::{Form, Mirror, Sent, alone};
use super::replay::EventId;
use super::session::Live;
use super::{Site, lock};
use crate::server::admit::{self, Admitted, Headers as _, Incoming, Refusal};
use crate::server::batch;
use crate::server::drive::{self, Way};
use crate::server::endpoint::Permit;
use crate::server::outlet::{Next, Outlets};
use crate::server::peer::Peer;
use crate::server::session::Session;
use crate::server::{Mirrored, Request};

/// Whether the headers are those of a legacy session: they name one, or a version of a time that had them. A modern
/// version says otherwise, whatever else is there (HTTP-20).
pub(super) fn is_legacy(headers: &HeaderMap) -> bool {
    match Mirror(headers).standard("mcp-protocol-version") {
        Mirrored::Value(version) => version != Revision::V2026_07_28.as_str(),
        Mirrored::Invalid => true,
        Mirrored::Absent | Mirrored::NotHere => headers.contains_key(SESSION_ID),
    }
}

impl Site {
    /// The session that the headers name, if it is the owner who asks (LEG-53, LEG-54, LEG-60), in a version that is
    /// served (LEG-47). Without a version it is the negotiated one.
    pub(super) fn session(
        &self,
        headers: &HeaderMap,
        owner: &TaskOwner,
        id: Option<&RequestId>,
    ) -> Result<Arc<Live>, Refused> {
        let refuse = |text: &str| Refused::from(Refusal::new(id.cloned(), -32600, text));
        let Some(name) = only(headers, SESSION_ID) else {
            return Err(refuse("Mcp-Session-Id is needed, once; initialize a session and name it"));
        };
        let now = self.shared.clock.now().mono;
        let live = self.sessions().get(now, name, owner).map(Arc::clone).ok_or(Refused::NoSuchSession)?;
        match Mirror(headers).standard("mcp-protocol-version") {
            Mirrored::Absent | Mirrored::NotHere => Ok(live),
            Mirrored::Value(version)
                if Revision::from_name(&version).is_some_and(|revision| revision.era() == Era::Legacy) =>
            {
                Ok(live)
            }
            Mirrored::Value(_) | Mirrored::Invalid => {
                let served = admit::served(&self.shared.options).join(", ");
                Err(refuse(&format!("MCP-Protocol-Version is none that is served; {served} are")))
            }
        }
    }

    /// A request of a legacy session.
    pub(super) async fn legacy(
        &self,
        sent: Sent<'_>,
        id: RequestId,
        request: Request,
    ) -> Result<Response, Refused> {
        if request.method == "initialize" {
            return self.initialize(sent, id, request).await;
        }
        let live = self.session(sent.headers, &sent.owner, Some(&id))?;
        // A call may have questions and take its time: its client can come back for it from the first byte on.
        let is_streamed_at_once = sent.accepted.stream && request.method == "tools/call";
        let outlets = self.run(&live, id, request)?;
        let form = if is_streamed_at_once {
            Form::Stream(Some(Next::KeepAlive))
        } else {
            self.form(sent.accepted, &outlets, &sent.line, &|message| live.unheard(message)).await
        };
        Ok(match form {
            Form::Whole(last) => self.json(StatusCode::OK, last.message),
            Form::Stream(first) => streamed(Body::reading(live.stream(outlets, 1, first))),
            // It was cancelled: there is no answer, and none is waited for.
            Form::Nothing => empty(StatusCode::ACCEPTED),
        })
    }

    /// Opens a session; its id leaves with a result that says so, and with no error.
    async fn initialize(&self, sent: Sent<'_>, id: RequestId, request: Request) -> Result<Response, Refused> {
        let session = Session::open(&request, sent.owner.clone(), Transport::Http)
            .map_err(|text| Refusal::new(Some(id.clone()), -32602, text))?;
        let live = Arc::new(Live::new(session, &self.shared, &self.replay));
        // Before anybody can name it, so that it is there once somebody can.
        let name = new_name().ok_or_else(|| Refused::Busy(Some(id.clone())))?;
        let now = self.shared.clock.now().mono;
        let inserted = self.sessions().insert(now, name.clone(), Arc::clone(&live));
        let evicted = inserted.map_err(|_| Refused::Busy(Some(id.clone())))?;
        if let Some(evicted) = evicted {
            evicted.end();
        }
        let unopened = Unopened { site: self, name: &name, owner: &sent.owner, is_open: false };
        let outlets = self.run(&live, id, request)?;
        // One object if it may be one, however long it takes: what stands in it decides whether there is a session.
        let accepted = Accepted { json: sent.accepted.json, stream: !sent.accepted.json };
        let form = self.form(accepted, &outlets, &sent.line, &|message| live.unheard(message)).await;
        let mut response = match form {
            Form::Whole(last) if last.is_error => return Ok(self.json(StatusCode::OK, last.message)),
            Form::Whole(last) => self.json(StatusCode::OK, last.message),
            Form::Stream(first) => streamed(Body::reading(live.stream(outlets, 1, first))),
            Form::Nothing => return Err(Refused::Ended),
        };
        unopened.open();
        if let Ok(name) = HeaderValue::from_str(&name) {
            response.headers_mut().insert(SESSION_ID, name);
        }
        Ok(response)
    }

    /// Starts one request; its messages come from the outlets.
    fn run(&self, live: &Arc<Live>, id: RequestId, request: Request) -> Result<Outlets, Refused> {
        let outlets = Outlets::new(self.shared.options.buffer, self.shared.buffered().clone());
        let (service, options) = (&*self.shared.service, &self.shared.options);
        let admitted = admit::legacy(id.clone(), request, live.session.caller(), service, options)?;
        let permit = self.shared.admit().ok_or(Refused::Busy(Some(id)))?;
        self.start(live, admitted, &outlets, permit)?;
        outlets.close();
        Ok(outlets)
    }

    fn start(
        &self,
        live: &Arc<Live>,
        admitted: Admitted,
        outlets: &Outlets,
        permit: Permit,
    ) -> Result<(), Refusal> {
        let id = admitted.spec.id.clone();
        let peer = Peer::default();
        lock(&live.table)
            .open(id.clone(), admitted.spec.operation, peer.clone())
            .map_err(|in_use| Refusal::new(Some(id.clone()), -32600, &in_use.to_string()))?;
        let way = Way {
            outlet: outlets.open(Some(permit)),
            keep_alive: Some(self.shared.options.keep_alive),
            // Whoever takes nothing may come back for it; a connection that stalls is closed by itself.
            stall: None,
        };
        let freed = Arc::clone(live);
        let free = move || drop(lock(&freed.table).release(&id));
        let session = Some(Arc::clone(&live.session));
        let answering = drive::answer(self.shared.clone(), admitted, session, peer, way, free);
        tokio::spawn(drive::respond(answering));
        Ok(())
    }

    /// Several messages in one body, of the one revision that has them (LEG-23): requests and notifications, or
    /// responses. Answered as one array or one stream.
    pub(super) async fn batch(&self, sent: Sent<'_>, body: &[u8]) -> Result<Response, Refused> {
        let refuse = |code, text: &str| Err(Refusal::new(None, code, text).into());
        let live = self.session(sent.headers, &sent.owner, None)?;
        if live.session.revision() != Revision::V2025_03_26 {
            return refuse(-32600, "batches are not served in this session's version; send one message");
        }
        let Some(elements) = batch::elements(body) else {
            return refuse(-32700, "the body is no JSON array of up to 100 messages; send one, or send less");
        };
        let limit = self.shared.options.max_message_bytes;
        let messages: Vec<_> =
            elements.iter().map(|element| admit::read(element.get().as_bytes(), limit)).collect();
        let requests = messages.iter().filter(|it| matches!(it, Ok(Incoming::Request { .. }))).count();
        let responses = messages.iter().filter(|it| matches!(it, Ok(Incoming::Response { .. }))).count();
        if messages.is_empty() || (requests > 0 && responses > 0) {
            return refuse(
                -32600,
                "a batch holds requests and notifications, or responses; send one of these",
            );
        }
        let permits: Option<Vec<_>> = (0..requests).map(|_| self.shared.admit()).collect();
        let mut permits = permits.ok_or(Refused::Busy(None))?.into_iter();
        let outlets = Outlets::new(self.shared.options.buffer, self.shared.buffered().clone());
        let mut answers = 0;
        for message in messages {
            let started = match message {
                Ok(Incoming::Request { id, request }) => {
                    self.element(&live, id, request, &outlets, &mut permits)
                }
                Ok(Incoming::Cancelled(notice)) => {
                    live.cancel(&notice);
                    continue;
                }
                Ok(Incoming::Notification { method }) => {
                    live.hear(&method, &self.shared.service).await;
                    continue;
                }
                Ok(Incoming::Response { id, reply }) => {
                    live.answer(id.as_ref(), reply);
                    continue;
                }
                Err(Some(refusal)) => Err(refusal),
                Err(None) => continue,
            };
            answers += 1;
            if let Err(refusal) = started {
                outlets.open(None).end_with(refusal.to_message());
            }
        }
        outlets.close();
        if answers == 0 {
            return Ok(empty(StatusCode::ACCEPTED));
        }
        if sent.accepted.stream {
            let first = Some(Next::KeepAlive);
            return Ok(streamed(Body::reading(live.stream(outlets, answers, first))));
        }
        let mut array = Vec::new();
        while let Some(answer) = alone(&outlets, &sent.line, &|message| live.unheard(message)).await {
            array.push(if array.is_empty() { b'[' } else { b',' });
            array.extend_from_slice(&answer.message);
        }
        if array.is_empty() {
            return Ok(empty(StatusCode::ACCEPTED));
        }
        array.push(b']');
        Ok(self.json(StatusCode::OK, Bytes::from(array)))
    }

    /// One request of a batch.
    fn element(
        &self,
        live: &Arc<Live>,
        id: RequestId,
        request: Request,
        outlets: &Outlets,
        permits: &mut impl Iterator<Item = Permit>,
    ) -> Result<(), Refusal> {
        if request.method == "initialize" {
            return Err(Refusal::new(Some(id), -32600, "initialize is never part of a batch; send it alone"));
        }
        let (service, options) = (&*self.shared.service, &self.shared.options);
        let admitted = admit::legacy(id, request, live.session.caller(), service, options)?;
        // There is one for each.
        permits.next().map_or(Ok(()), |permit| self.start(live, admitted, outlets, permit))
    }

    /// GET: the standalone stream, or what follows an event of any stream (LEG-36, LEG-42).
    pub(super) fn listen(&self, headers: &HeaderMap, owner: &TaskOwner) -> Result<Response, Refused> {
        if !Accepted::of(headers).is_some_and(|accepted| accepted.stream) {
            return Err(Refused::NotAcceptable);
        }
        let live = self.session(headers, owner, None)?;
        let reading = if headers.contains_key("last-event-id") {
            let event = only(headers, "last-event-id").and_then(EventId::parse);
            event.and_then(|event| live.resume(event.stream, event.place)).ok_or_else(|| {
                let text = "nothing is kept of the stream that Last-Event-ID names; send the request again";
                Refusal::new(None, -32600, text)
            })?
        } else if self.shared.ending.is_cancelled() {
            return Err(Refused::Busy(None));
        } else {
            live.listen()
        };
        Ok(streamed(Body::reading(reading)))
    }

    /// DELETE: the client needs the session no longer (LEG-56).
    pub(super) fn end_session(&self, headers: &HeaderMap, owner: &TaskOwner) -> Result<Response, Refused> {
        self.session(headers, owner, None)?;
        self.close(only(headers, SESSION_ID).unwrap_or_default(), owner);
        Ok(empty(StatusCode::NO_CONTENT))
    }

    fn close(&self, name: &str, owner: &TaskOwner) {
        let removed = self.sessions().remove(name, owner);
        if let Some(live) = removed {
            live.end();
        }
    }
}

/// A session that ends again, unless its client is told of it.
struct Unopened<'a> {
    site: &'a Site,
    name: &'a str,
    owner: &'a TaskOwner,
    is_open: bool,
}

impl Unopened<'_> {
    fn open(mut self) {
        self.is_open = true;
    }
}

impl Drop for Unopened<'_> {
    fn drop(&mut self) {
        if !self.is_open {
            self.site.close(self.name, self.owner);
        }
    }
}

/// 128 random bits as visible ASCII (LEG-51). `None` if the system has none.
fn new_name() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leg_51_a_session_id_is_visible_ascii_of_128_random_bits() {
        let (one, other) = (new_name().unwrap(), new_name().unwrap());
        assert_ne!(one, other);
        assert!(one.len() == 32 && one.bytes().all(|byte| matches!(byte, b'!'..=b'~')), "{one}");
    }

    #[test]
    fn http_20_a_modern_version_outweighs_a_session_id() {
        let is = |sent: &[(&'static str, &str)]| {
            is_legacy(
                &sent.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect(),
            )
        };
        let (session, modern) = (("mcp-session-id", "1"), ("mcp-protocol-version", "2026-07-28"));
        assert!(is(&[session]));
        assert!(!is(&[session, modern]) && !is(&[modern]) && !is(&[]));
        assert!(is(&[("mcp-protocol-version", "2025-06-18")]));
        assert!(is(&[session, ("mcp-protocol-version", "tomorrow")]));
    }
}
