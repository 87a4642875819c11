//! The trace that a call belongs to, and the span of each attempt in it.

use steadfast_core::error::Kind;
use steadfast_core::hop::Transport;
use steadfast_core::trace::Trace;
use tracing::field::Empty;

use super::record::Record;

/// The trace that a call belongs to; every attempt is a span of its own in it (TRC-06).
#[derive(Clone, Debug)]
pub(super) struct Span {
    id: String,
    flags: String,
    /// What other tracing systems add, handed on as it came.
    state: Option<String>,
    seed: u64,
}

impl Span {
    /// The caller's trace, or a new one.
    pub(super) fn of(caller: Option<&Trace>, seed: u64) -> Self {
        match caller {
            Some(trace) => Self {
                id: trace.id().to_owned(),
                flags: trace.parent()[53..55].to_owned(),
                state: trace.state().map(str::to_owned),
                seed,
            },
            None => {
                let mut bytes = [0_u8; 16];
                // Without randomness there is the client's own number, which is unlike others' at least.
                if getrandom::fill(&mut bytes).is_err() {
                    bytes[..8].copy_from_slice(&seed.to_be_bytes());
                }
                let id = bytes.iter().fold(String::new(), |id, byte| id + &format!("{byte:02x}"));
                Self { id, flags: "00".to_owned(), state: None, seed }
            }
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// `tracestate`, where the caller has one.
    pub(super) fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The id of the span of one request.
    pub(super) fn span_id(&self, serial: i64) -> String {
        let span = steadfast_core::rng::Rng::new(self.seed ^ serial.unsigned_abs()).next_u64() | 1;
        format!("{span:016x}")
    }

    /// `traceparent` of the request with that span.
    pub(super) fn parent(&self, span_id: &str) -> String {
        format!("00-{}-{span_id}-{}", self.id, self.flags)
    }
}

/// The span of one attempt, under the names of OpenTelemetry's conventions for MCP clients. It says nothing that the
/// record does not: the resource URI, the session id and the server's address, which the conventions have too, may be
/// private (G15).
pub(super) fn begin(record: &Record) -> tracing::Span {
    let name = record.tool_name.as_deref();
    let of = |method: &str| name.filter(|_| record.method == method);
    let title = name.map_or_else(|| record.method.clone(), |name| format!("{} {name}", record.method));
    tracing::info_span!(
        "mcp.client",
        otel.name = title,
        otel.kind = "client",
        otel.status_code = Empty,
        mcp.method.name = record.method,
        gen_ai.operation.name = of("tools/call").map(|_| "execute_tool"),
        gen_ai.tool.name = of("tools/call"),
        gen_ai.prompt.name = of("prompts/get"),
        mcp.protocol.version = Empty,
        jsonrpc.request.id = Empty,
        network.transport = Empty,
        network.protocol.name = Empty,
        rpc.response.status_code = Empty,
        error.type = Empty,
        steadfast.call.id = record.call_id,
        steadfast.server = record.server_key,
        steadfast.attempt = Empty,
        steadfast.outcome = Empty,
        trace_id = record.trace_id,
        span_id = Empty,
    )
}

/// Says how the attempt ended.
pub(super) fn end(span: &tracing::Span, record: &Record) {
    let some = |field: &'static str, value: Option<&str>| {
        if let Some(value) = value {
            span.record(field, value);
        }
    };
    let kind = record.error_kind.as_deref();
    let code = record.error_code.as_deref();
    some("mcp.protocol.version", record.protocol_version.as_deref());
    some("jsonrpc.request.id", record.request_id.as_deref());
    some("span_id", record.span_id.as_deref());
    if let Some(transport) = record.transport.as_deref() {
        let http = transport == Transport::Http.as_str();
        span.record("network.transport", if http { "tcp" } else { "pipe" });
        some("network.protocol.name", http.then_some("http"));
    }
    some("rpc.response.status_code", code.filter(|_| kind == Some(Kind::Protocol.as_str())));
    some("error.type", kind.map(|_| code.unwrap_or("tool_error")));
    some("otel.status_code", kind.map(|_| "ERROR"));
    span.record("steadfast.attempt", record.attempt);
    some("steadfast.outcome", Some(&record.outcome));
}
