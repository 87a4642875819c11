//! What is answered instead of a result, and with which status (tables ORDER and STATUS).

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use steadfast_core::envelope::{self, Message};
use steadfast_core::error::Outcome;
use steadfast_core::exchange::Reply;
use steadfast_core::ids::RequestId;
use steadfast_core::sse::encode;

use super::Site;
use super::body::{Body, Pieces, Unread};
use super::guard::Denied;
use crate::message::{self, OwnError};
use crate::server::admit::{self, Refusal};
use crate::server::outlet::Last;

pub(super) type Response = hyper::Response<Body>;

/// `Mcp-Session-Id` (LEG-50).
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Why a request is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// HTTP-26.
    HeadTooLarge,
    /// Another path: answered without a JSON-RPC body, which tells it from an unknown method (HTTP-17).
    NoSuchPath,
    /// Step 1.
    Method,
    Forbidden(Denied),
    Unauthenticated {
        borne: bool,
    },
    /// Step 2.
    NotAcceptable,
    NotJson,
    Unread(Unread),
    /// A broken notification or response: nobody waits to hear about it.
    Broken,
    /// Steps 3 to 12.
    Refusal(Refusal),
    /// LEG-54.
    NoSuchSession,
    /// Step 13; nothing was done for it.
    Busy(Option<RequestId>),
    /// It was running when the server ended.
    Ended,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<Unread> for Refused {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

impl Site {
    pub(super) fn refuse(&self, refused: &Refused) -> Response {
        let text = |status, text: &'static str| {
            let mut response = self.whole(status, Bytes::from_static(text.as_bytes()), "text/plain");
            // A sentence for whoever looks at it; no browser takes it for anything else.
            response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
            response
        };
        let with = |mut response: Response, name, value| {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
            response
        };
        match refused {
            Refused::HeadTooLarge => {
                text(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too large; send less\n")
            }
            Refused::NoSuchPath => text(StatusCode::NOT_FOUND, "there is no MCP endpoint at this path\n"),
            Refused::Method => {
                let said =
                    "send requests by POST; GET and DELETE are for the session that Mcp-Session-Id names\n";
                with(text(StatusCode::METHOD_NOT_ALLOWED, said), ALLOW, "POST")
            }
            Refused::Forbidden(Denied::Origin) => {
                text(StatusCode::FORBIDDEN, "pages of this origin may not call; allow the origin\n")
            }
            Refused::Forbidden(Denied::Host | Denied::Key { .. }) => text(
                StatusCode::FORBIDDEN,
                "Host does not name this server; reach it as localhost, or allow the name\n",
            ),
            Refused::Unauthenticated { borne } => {
                let said = "bear a key that is known here: Authorization: Bearer KEY\n";
                let challenge = if *borne { "Bearer error=\"invalid_token\"" } else { "Bearer" };
                with(text(StatusCode::UNAUTHORIZED, said), WWW_AUTHENTICATE, challenge)
            }
            Refused::NotAcceptable => text(
                StatusCode::NOT_ACCEPTABLE,
                "answers are application/json and text/event-stream, those to a listen only the latter; accept both\n",
            ),
            Refused::NotJson => {
                text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json, not compressed\n")
            }
            Refused::Unread(Unread::TooLarge) => {
                text(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than a message may be; send less\n")
            }
            Refused::Unread(Unread::TooSlow) => {
                text(StatusCode::REQUEST_TIMEOUT, "the body took too long; send it at once\n")
            }
            // After a lost body nobody reads the answer.
            Refused::Unread(Unread::Lost) | Refused::Broken => {
                text(StatusCode::BAD_REQUEST, "the body is no whole JSON-RPC message; send one\n")
            }
            Refused::Refusal(refusal) => {
                let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
                self.json(status, refusal.to_message())
            }
            Refused::NoSuchSession => self.json(
                StatusCode::NOT_FOUND,
                Refusal::new(None, -32600, "there is no such session; initialize a new one").to_message(),
            ),
            Refused::Unread(Unread::NoRoom) => self.busy(None),
            Refused::Busy(id) => self.busy(id.as_ref()),
            Refused::Ended => {
                text(StatusCode::SERVICE_UNAVAILABLE, "the server ended before the answer was there\n")
            }
        }
    }

    /// Refused before anything was done for it: it may be sent again.
    fn busy(&self, id: Option<&RequestId>) -> Response {
        let text = "as much as may be is under way here; wait a moment and send it again";
        let error = OwnError::local("queue_full", Outcome::NotExecuted, text);
        let error = Reply::Error(Bytes::from(error.as_json_rpc_error()));
        let mut response = self.json(StatusCode::SERVICE_UNAVAILABLE, message::response(id, &error));
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }

    /// A final answer as a single JSON object. Its status follows from what it says, whoever said it.
    pub(super) fn answered(&self, Last { message, is_error }: Last) -> Response {
        // A result may be long, and is not read for what is known.
        let status = match is_error.then(|| envelope::parse_within(usize::MAX, &message)) {
            Some(Ok(Message::Response { reply: Reply::Error(error), .. })) => {
                envelope::error_object_of(error.get()).map_or(200, |error| admit::status_of_code(error.code))
            }
            Some(Ok(_) | Err(_)) | None => 200,
        };
        self.json(StatusCode::from_u16(status).unwrap_or_default(), message)
    }

    pub(super) fn json(&self, status: StatusCode, json: Bytes) -> Response {
        self.whole(status, json, "application/json")
    }

    fn whole(&self, status: StatusCode, bytes: Bytes, kind: &'static str) -> Response {
        let mut response = Response::new(Body::whole(Pieces::new(bytes, self.shared.buffered())));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}

/// An event stream.
pub(super) fn streamed(body: Body) -> Response {
    let mut response = Response::new(body);
    for (name, value) in encode::HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Nothing but a status.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::EMPTY);
    *response.status_mut() = status;
    response
}
