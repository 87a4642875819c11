//! What a request must carry before anything is done for it (table ORDER, steps 3 to 12).

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use steadfast_core::envelope::{self, Meant, Message, Params};
use steadfast_core::exchange::{CancelNotice, Limits, Operation, Reply, Spec};
use steadfast_core::hop::{Era, Revision, Transport};
use steadfast_core::ids::RequestId;
use steadfast_core::task::TaskOwner;
use steadfast_core::trace::Trace;

use super::caller::{Caller, Capabilities, Level};
use super::listen;
use super::{Mirrored, MirroredParams, Options, Request, Service};
use crate::message::{self, META_CAPABILITIES, META_VERSION};

/// A request that is refused: the JSON-RPC error that says so, and its HTTP status (table STATUS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) id: Option<RequestId>,
    pub(super) status: u16,
    /// The JSON text of `error`.
    pub(super) body: String,
}

impl Refusal {
    /// One that was found before the method was looked at: -32602 is then 400.
    pub(super) fn new(id: Option<RequestId>, code: i64, text: &str) -> Self {
        let status = if code == -32601 { 404 } else { 400 };
        Self { id, status, body: message::error_body(code, text) }
    }

    /// Params without the method's shape: an answer like any handler's (AMB-08).
    fn shape(id: &RequestId, text: &str) -> Self {
        Self { id: Some(id.clone()), status: 200, body: message::error_body(-32602, text) }
    }

    /// The whole message. Without a readable id the member is left out (AMB-38).
    pub(super) fn to_message(&self) -> Bytes {
        message::response(self.id.as_ref(), &Reply::Error(Bytes::copy_from_slice(self.body.as_bytes())))
    }
}

/// The status of a JSON-RPC error that a handler gave (table STATUS).
pub(super) const fn status_of_code(code: i64) -> u16 {
    match code {
        -32601 => 404,
        -32700 | -32600 | -32020 | -32021 | -32022 => 400,
        _ => 200,
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
    Notification {
        method: String,
    },
    /// A response: in the legacy eras to a question of ours, in the modern one to nothing (MSG-19).
    Response {
        id: Option<RequestId>,
        reply: Reply<Bytes>,
    },
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
        Ok(Message::Notification { method, .. }) => {
            Ok(Incoming::Notification { method: method.into_owned() })
        }
        Ok(Message::Response { id, reply }) => Ok(Incoming::Response { id, reply: message::owned(&reply) }),
        Err(error) => Err(match error.meant() {
            Meant::Notification | Meant::Response => None,
            Meant::Request | Meant::Unclear => {
                Some(Refusal::new(error.id().cloned(), error.code(), &error.to_string()))
            }
        }),
    }
}

/// A request that may run.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) spec: Spec,
    pub(super) request: Request,
    pub(super) caller: Arc<Caller>,
    /// Where it stands in its caller's trace; the headers of the same names describe the hop alone (TRC-08).
    pub(super) trace: Option<Arc<Trace>>,
}

/// The headers of a request, as far as they mirror its body. [`NoHeaders`] where a transport has none.
pub(super) trait Headers: MirroredParams {
    /// A standard header: `mcp-protocol-version`, `mcp-method`, `mcp-name`.
    fn standard(&self, name: &str) -> Mirrored;
    /// As what [`Service::object`] looks at.
    fn params(&self) -> &dyn MirroredParams;
}

/// Stdio.
#[derive(Debug)]
pub(super) struct NoHeaders;

impl MirroredParams for NoHeaders {
    fn get(&self, _name: &str) -> Mirrored {
        Mirrored::NotHere
    }
}

impl Headers for NoHeaders {
    fn standard(&self, _name: &str) -> Mirrored {
        Mirrored::NotHere
    }

    fn params(&self) -> &dyn MirroredParams {
        self
    }
}

/// Whose rules a request obeys: decided by its body, and where that says nothing by the version header (AMB-07,
/// VER-21). Params that cannot be read are refused in the modern way.
pub(super) fn era_of(request: &Request, version_header: &Mirrored) -> Era {
    let modern_header = matches!(version_header, Mirrored::Value(version)
        if Revision::from_name(version).is_some_and(|revision| revision.era() == Era::Modern));
    if modern_header {
        return Era::Modern;
    }
    match envelope::params_of(&request.params) {
        Ok(params) if params.meta.protocol_version.is_none() => {
            // A method that only the modern era has can be no other era's; of the rest the legacy path decides.
            match request.method.as_str() {
                "server/discover" | "subscriptions/listen" => Era::Modern,
                _ => Era::Legacy,
            }
        }
        _ => Era::Modern,
    }
}

/// The versions that an endpoint serves, as `supportedVersions` and `-32022` list them (AMB-16, DSC-07).
pub(super) fn served(options: &Options) -> Vec<&'static str> {
    let all = Revision::ALL.into_iter();
    all.filter(|revision| options.legacy || revision.era() == Era::Modern).map(Revision::as_str).collect()
}

/// Steps 6 to 12 for a request of the modern era.
pub(super) fn modern(
    id: RequestId,
    request: Request,
    principal: TaskOwner,
    transport: Transport,
    headers: &dyn Headers,
    service: &dyn Service,
    options: &Options,
) -> Result<Admitted, Refusal> {
    let refuse = |code, text: &str| Err(Refusal::new(Some(id.clone()), code, text));
    let params = match envelope::params_of(&request.params) {
        Ok(params) => params,
        Err(error) => return refuse(-32602, &error.to_string()),
    };
    let served = served(options);
    let Some(version) = &params.meta.protocol_version else {
        return refuse(-32602, &format!("_meta lacks {META_VERSION}; {} is served", served.join(", ")));
    };
    let Some(capabilities) = params.meta.client_capabilities else {
        return refuse(-32602, &format!("_meta lacks {META_CAPABILITIES}; send an object, {{}} for none"));
    };
    if let Err(text) = mirrored(headers, &request.method, &params) {
        return refuse(-32020, &text);
    }
    let revision = match Revision::from_name(version) {
        Some(revision) if revision.era() == Era::Modern => revision,
        _ => {
            let body = json!({
                "code": -32022,
                "message": "this protocol version is not served with per-request metadata; use one of data.supported",
                "data": { "requested": version, "supported": served },
            });
            return Err(Refusal { id: Some(id), status: 400, body: body.to_string() });
        }
    };
    let level = match &params.meta.log_level {
        None => Ok(None),
        Some(Ok(name)) => Level::from_name(name).map(Some).ok_or(()),
        Some(Err(_)) => Err(()),
    };
    let caller = Caller {
        principal,
        revision,
        transport,
        capabilities: Capabilities::from_json(capabilities.get()),
        level: level.unwrap_or_default(),
    };
    if !service.knows(&request.method, &caller) {
        return refuse(-32601, &format!("no such method: {}", request.method));
    }
    if level.is_err() {
        return Err(Refusal::shape(
            &id,
            "the log level is not one of debug … emergency; send one of the eight",
        ));
    }
    let spec = admit(&id, &request, &caller, &params, headers, service, options)?;
    let trace = trace_of(&params);
    Ok(Admitted { spec, request, caller: Arc::new(caller), trace })
}

/// Steps 9 to 12 for a request of a legacy session.
pub(super) fn legacy(
    id: RequestId,
    request: Request,
    caller: Caller,
    service: &dyn Service,
    options: &Options,
) -> Result<Admitted, Refusal> {
    let params = match envelope::params_of(&request.params) {
        Ok(params) => params,
        Err(error) => return Err(Refusal::shape(&id, &error.to_string())),
    };
    // `ping` is the endpoint's own (LEG-74).
    if request.method != "ping" && !service.knows(&request.method, &caller) {
        let body = message::error_body(-32601, &format!("no such method: {}", request.method));
        return Err(Refusal { id: Some(id), status: 200, body });
    }
    let spec = admit(&id, &request, &caller, &params, &NoHeaders, service, options)?;
    let trace = trace_of(&params);
    Ok(Admitted { spec, request, caller: Arc::new(caller), trace })
}

fn trace_of(params: &Params<'_>) -> Option<Arc<Trace>> {
    let [parent, state, baggage] = params.meta.trace.each_ref().map(Option::as_deref);
    Trace::of(parent, state, baggage).map(Arc::new)
}

fn admit(
    id: &RequestId,
    request: &Request,
    caller: &Caller,
    params: &Params<'_>,
    headers: &dyn Headers,
    service: &dyn Service,
    options: &Options,
) -> Result<Spec, Refusal> {
    let token = match params.meta.progress_token.clone().transpose() {
        Ok(token) => token,
        Err(error) => return Err(Refusal::shape(id, &error.to_string())),
    };
    let operation = Operation::of_method(&request.method);
    let objection = match operation {
        Operation::Listen => listen::wanted(request, caller).err(),
        Operation::Ordinary | Operation::Initialize | Operation::Probe | Operation::Augmented => {
            service.object(request, caller, headers.params())
        }
    };
    if let Some(objection) = objection {
        let status = match caller.revision.era() {
            Era::Modern => status_of_code(objection.code),
            Era::Legacy => 200,
        };
        return Err(Refusal { id: Some(id.clone()), status, body: objection.error });
    }
    Ok(Spec {
        id: id.clone(),
        operation,
        hop: caller.hop(),
        // It answers when a task ends, whenever that is (ruling 18).
        limits: if request.method == "tasks/result" { Limits::NONE } else { options.limits },
        token,
        progress_interval: options.progress_interval,
    })
}

/// Whether the standard headers say what the body says (HDR-12, HDR-17, AMB-45).
fn mirrored(headers: &dyn Headers, method: &str, params: &Params<'_>) -> Result<(), String> {
    let check = |header: &str, body: Option<&str>, required: bool| match (headers.standard(header), body) {
        (Mirrored::NotHere, _) => Ok(()),
        (Mirrored::Absent, _) if !required => Ok(()),
        (Mirrored::Absent, _) => Err(format!("the header {header} is missing; send it equal to the body")),
        (Mirrored::Invalid, _) => Err(format!(
            "the header {header} occurs twice or cannot be decoded; send it once, encoded as the specification says"
        )),
        (Mirrored::Value(given), Some(body)) if given == body => Ok(()),
        (Mirrored::Value(_), _) => {
            Err(format!("the header {header} does not say what the body says; make them equal"))
        }
    };
    check("mcp-protocol-version", params.meta.protocol_version.as_deref(), true)?;
    check("mcp-method", Some(method), true)?;
    match message::mirrored_name(method, params) {
        // Deployed clients leave it out on task requests (AMB-45).
        Some(name) => check("mcp-name", name, name.is_some() && !method.starts_with("tasks/")),
        None => Ok(()),
    }
}
