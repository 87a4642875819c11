//! What a request must carry before anything is done for it (table ORDER, steps 3 to 9).

use steadfast_core::envelope::{self, Meant, Message};
use steadfast_core::exchange::{CancelNotice, Operation, Reply, Spec};
use steadfast_core::hop::Hop;
use steadfast_core::ids::RequestId;

use super::{Options, Request, Service};
use crate::message::{self, META_CAPABILITIES, META_VERSION, SUPPORTED_VERSIONS};

/// A request that is refused: the JSON-RPC error that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) id: Option<RequestId>,
    pub(super) code: i64,
    /// The JSON text of `error`.
    pub(super) body: String,
}

impl Refusal {
    pub(super) fn new(id: Option<RequestId>, code: i64, text: &str) -> Self {
        Self { id, code, body: message::error_body(code, text) }
    }

    /// The whole message. Without a readable id the member is left out (AMB-38).
    pub(super) fn to_message(&self) -> bytes::Bytes {
        message::response(
            self.id.as_ref(),
            &Reply::Error(bytes::Bytes::copy_from_slice(self.body.as_bytes())),
        )
    }
}

/// A message of the peer, as a server sees it.
#[derive(Clone, Debug)]
pub(super) enum Incoming {
    Request {
        id: RequestId,
        request: Request,
    },
    Cancelled(CancelNotice),
    /// Any other notification.
    Notification,
    /// A response, which a modern client never sends (MSG-19).
    Response,
}

/// Reads one message; what is none is refused. `None` for what nobody waits to hear about: a broken notification is
/// never answered (MSG-12), nor is a broken response.
pub(super) fn read(bytes: &[u8], limit_bytes: usize) -> Result<Incoming, Option<Refusal>> {
    match envelope::parse_within(limit_bytes, bytes) {
        Ok(Message::Request { id, method, params }) => {
            let params = params.map_or("{}", |params| params.get()).to_owned();
            Ok(Incoming::Request { id, request: Request { method: method.into_owned(), params } })
        }
        Ok(Message::Notification { method, params }) if method == "notifications/cancelled" => {
            Ok(Incoming::Cancelled(envelope::cancel_notice_of(params.map(|params| params.get()))))
        }
        Ok(Message::Notification { .. }) => Ok(Incoming::Notification),
        Ok(Message::Response { .. }) => Ok(Incoming::Response),
        Err(error) => Err(match error.meant() {
            Meant::Notification | Meant::Response => None,
            Meant::Request | Meant::Unclear => {
                Some(Refusal::new(error.id().cloned(), error.code(), &error.to_string()))
            }
        }),
    }
}

/// Checks the metadata of a modern request and makes its exchange's [`Spec`].
pub(super) fn admit(
    hop: Hop,
    id: RequestId,
    request: &Request,
    service: &dyn Service,
    options: &Options,
) -> Result<Spec, Refusal> {
    let refuse = |code, text: &str| Err(Refusal::new(Some(id.clone()), code, text));
    let params = match envelope::params_of(&request.params) {
        Ok(params) => params,
        Err(error) => return refuse(-32602, &error.to_string()),
    };
    let served = SUPPORTED_VERSIONS.join(", ");
    let Some(version) = params.meta.protocol_version else {
        return refuse(-32602, &format!("_meta lacks {META_VERSION}; {served} is served"));
    };
    if params.meta.client_capabilities.is_none() {
        return refuse(-32602, &format!("_meta lacks {META_CAPABILITIES}; send an object, {{}} for none"));
    }
    if !SUPPORTED_VERSIONS.contains(&&*version) {
        let body = serde_json::json!({
            "code": -32022,
            "message": "this protocol version is not served",
            "data": { "requested": version, "supported": SUPPORTED_VERSIONS },
        });
        return Err(Refusal { id: Some(id), code: -32022, body: body.to_string() });
    }
    if !service.knows(&request.method) {
        return refuse(-32601, &format!("no such method: {}", request.method));
    }
    let token = match params.meta.progress_token.transpose() {
        Ok(token) => token,
        Err(error) => return refuse(-32602, &error.to_string()),
    };
    Ok(Spec {
        id,
        operation: Operation::of_method(&request.method),
        hop,
        limits: options.limits,
        token,
        progress_interval: options.progress_interval,
    })
}
