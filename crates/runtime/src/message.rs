//! The messages that the runtime itself writes: metadata of a hop, mirrored headers, errors of our own.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::Bytes;
use serde_json::{Value, json};
use steadfast_core::envelope::{self, Params};
use steadfast_core::error::{Kind, Outcome};
use steadfast_core::exchange::{Clock, Reply};
use steadfast_core::hop::{Era, Revision};
use steadfast_core::ids::{ProgressToken, RequestId};
use steadfast_core::object::{self, Members, NotAnObject};

/// The modern revision.
pub const MODERN_VERSION: &str = Revision::V2026_07_28.as_str();
/// The `_meta` key of the protocol version.
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The `_meta` key of the client's capabilities.
pub const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The `_meta` key of an idempotency key (product.md).
pub const META_KEY: &str = "steadfast/idempotencyKey";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// The largest message taken from a peer, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The code of errors made here: outside -32768…-32000, so that nobody takes it for the peer's (ERR-06, ERR-08).
pub const OWN_ERROR_CODE: i64 = -31_000;

/// What `_meta` says of one request on one hop.
#[derive(Clone, Copy, Debug)]
pub struct Metadata<'a> {
    /// The revision spoken; of a legacy one `_meta` says nothing.
    pub revision: Revision,
    /// The client's capabilities, one JSON object; members that the params bring along win (CAP-20).
    pub capabilities: &'a str,
    /// The progress token, if progress is asked for.
    pub token: Option<&'a ProgressToken>,
    /// The idempotency key, where it travels in `_meta`.
    pub key: Option<&'a str>,
    /// `traceparent`.
    pub trace_parent: Option<&'a str>,
    /// `tracestate`, beside a `traceparent`.
    pub trace_state: Option<&'a str>,
    /// `io.modelcontextprotocol/logLevel`.
    pub log_level: Option<&'a str>,
}

impl Metadata<'_> {
    /// A modern request of a client that can do nothing beyond it.
    pub const NONE: Self = Self {
        revision: Revision::V2026_07_28,
        capabilities: "{}",
        token: None,
        key: None,
        trace_parent: None,
        trace_state: None,
        log_level: None,
    };
}

/// `params` as they leave on a new hop: version, capabilities and progress token are this hop's own, every other
/// member and `_meta` key keeps its bytes.
///
/// # Errors
/// `params`, or its `_meta`, is not a JSON object.
pub fn params_with(params: &str, metadata: &Metadata<'_>) -> Result<String, NotAnObject> {
    let mut params = Members::parse(params)?;
    let before = params.get("_meta").is_some();
    let mut left = true;
    params.edit("_meta", |meta| {
        match metadata.revision.era() {
            Era::Modern => {
                meta.set(META_VERSION, object::string(metadata.revision.as_str()));
                if meta.get(META_CAPABILITIES).is_none() {
                    meta.set(META_CAPABILITIES, metadata.capabilities.to_owned());
                }
                if meta.get(META_CLIENT).is_none() {
                    let info = json!({ "name": "steadfast", "version": env!("CARGO_PKG_VERSION") });
                    meta.set(META_CLIENT, info.to_string());
                }
                if let Some(level) = metadata.log_level {
                    meta.set(META_LOG_LEVEL, object::string(level));
                }
            }
            Era::Legacy => {
                for modern in [META_VERSION, META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL] {
                    meta.remove(modern);
                }
            }
        }
        match metadata.token {
            Some(token) => meta.set("progressToken", token.to_json()),
            None => meta.remove("progressToken"),
        }
        if let Some(key) = metadata.key {
            meta.set(META_KEY, object::string(key));
        }
        if let Some(parent) = metadata.trace_parent {
            meta.set("traceparent", object::string(parent));
            // One of another trace than the parent's would be worse than none.
            match metadata.trace_state {
                Some(state) => meta.set("tracestate", object::string(state)),
                None => meta.remove("tracestate"),
            }
        }
        left = meta.to_json() != "{}";
    })?;
    if !left && !before {
        params.remove("_meta");
    }
    Ok(params.to_json())
}

/// The string in a JSON object at a JSON Pointer (RFC 6901) through members.
pub(crate) fn string_at(json: &str, pointer: &str) -> Option<String> {
    let (member, rest) = step(pointer)?;
    let members = Members::parse(json).ok()?;
    match rest {
        "" => members.get_str(&member),
        rest => string_at(members.get(&member)?, rest),
    }
}

/// A JSON object with a string put in at a JSON Pointer through members; all else keeps its bytes.
///
/// # Errors
/// The pointer leads nowhere.
pub(crate) fn with_string_at(json: &str, pointer: &str, text: &str) -> Result<String, &'static str> {
    let nowhere =
        "the key's pointer does not lead through objects of the arguments; check `key` in the contract";
    let (member, rest) = step(pointer).ok_or(nowhere)?;
    let mut members = Members::parse(json).map_err(|_| nowhere)?;
    let value = match rest {
        "" => object::string(text),
        rest => with_string_at(members.get(&member).unwrap_or("{}"), rest, text)?,
    };
    members.set(&member, value);
    Ok(members.to_json())
}

fn step(pointer: &str) -> Option<(String, &str)> {
    let pointer = pointer.strip_prefix('/')?;
    let (member, rest) = pointer.find('/').map_or((pointer, ""), |at| pointer.split_at(at));
    Some((member.replace("~1", "/").replace("~0", "~"), rest))
}

/// A header value as it stands for a body value: as it is where it is safe, else in the Base64 form (HDR-05..08).
pub fn encode_header(value: &str) -> String {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && value.trim_matches(' ') == value;
    if plain && !(value.starts_with(BASE64_START) && value.ends_with(BASE64_END)) {
        return value.to_owned();
    }
    format!("{BASE64_START}{}{BASE64_END}", BASE64.encode(value))
}

/// The body value that a header value stands for; `None` if it is broken inside the markers (HDR-13).
pub fn decode_header(value: &str) -> Option<String> {
    let value = value.trim_matches([' ', '\t']);
    match value.strip_prefix(BASE64_START).and_then(|inner| inner.strip_suffix(BASE64_END)) {
        None => Some(value.to_owned()),
        Some(inner) => String::from_utf8(BASE64.decode(inner).ok()?).ok(),
    }
}

const BASE64_START: &str = "=?base64?";
const BASE64_END: &str = "?=";

/// The headers that mirror a request's body (HDR-01..04).
pub(crate) fn mirror_headers(method: &str, params: &str) -> Vec<(&'static str, String)> {
    let mut headers =
        vec![("mcp-protocol-version", MODERN_VERSION.to_owned()), ("mcp-method", encode_header(method))];
    let params = envelope::params_of(params).unwrap_or_default();
    let name = mirrored_name(method, &params).flatten();
    headers.extend(name.map(|name| ("mcp-name", encode_header(name))));
    headers
}

/// What `Mcp-Name` mirrors of a request, by its method: `None` where it mirrors nothing, `Some(None)` where the body
/// lacks the member (HDR-03, HDR-04).
pub(crate) fn mirrored_name<'a>(method: &str, params: &'a Params<'_>) -> Option<Option<&'a str>> {
    match method {
        "tools/call" | "prompts/get" => Some(params.name.as_deref()),
        "resources/read" => Some(params.uri.as_deref()),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some(params.task_id.as_deref()),
        _ => None,
    }
}

/// A response whose payload is one JSON value. Without an id only an error is a message.
pub(crate) fn response(id: Option<&RequestId>, reply: &Reply<Bytes>) -> Bytes {
    let text = |bytes| std::str::from_utf8(bytes).unwrap_or("null");
    Bytes::from(match reply {
        Reply::Result(payload) => envelope::response(id, Reply::Result(text(payload))),
        Reply::Error(payload) => envelope::response(id, Reply::Error(text(payload))),
    })
}

/// A reply that outlives the message it came in.
pub(crate) fn owned(reply: &Reply<&serde_json::value::RawValue>) -> Reply<Bytes> {
    let copy = |raw: &serde_json::value::RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
    match reply {
        Reply::Result(raw) => Reply::Result(copy(raw)),
        Reply::Error(raw) => Reply::Error(copy(raw)),
    }
}

/// Params that outlive the message they came in; `{}` where it has none.
pub(crate) fn params_bytes(params: Option<&serde_json::value::RawValue>) -> Bytes {
    Bytes::copy_from_slice(params.map_or("{}", serde_json::value::RawValue::get).as_bytes())
}

/// The body of a JSON-RPC error: `code` and `message`.
pub fn error_body(code: i64, message: &str) -> String {
    json!({ "code": code, "message": message }).to_string()
}

/// An error that was made here and says so, in either of its two shapes (product.md "Errors").
#[derive(Clone, Copy, Debug)]
pub struct OwnError<'a> {
    /// Where it was made.
    pub kind: Kind,
    /// What happened, in a word: `deadline`, `transport_lost`, `client_cancelled`, `validation` …
    pub category: &'a str,
    /// What is known of the effect.
    pub outcome: Outcome,
    /// Which clock fired, if one did.
    pub clock: Option<Clock>,
    /// The server's configured name, where one is meant.
    pub server: Option<&'a str>,
    /// One sentence for people and models.
    pub text: &'a str,
}

impl<'a> OwnError<'a> {
    /// One that was made on this side, not by a clock and not about a server.
    pub const fn local(category: &'a str, outcome: Outcome, text: &'a str) -> Self {
        Self { kind: Kind::Local, category, outcome, clock: None, server: None, text }
    }

    /// The member `steadfast/error`.
    pub(crate) fn member(&self) -> Value {
        let mut error = json!({
            "kind": self.kind.as_str(),
            "category": self.category,
            "retryable": false,
            "outcome": self.outcome.as_str(),
        });
        if let Some(clock) = self.clock {
            error["clock"] = clock.as_str().into();
        }
        if let Some(server) = self.server {
            error["server"] = server.into();
        }
        error
    }

    /// What happened, and what is known of the effect.
    pub(crate) fn sentence(&self) -> String {
        let effect = match self.outcome {
            Outcome::NotExecuted => "it was not executed",
            Outcome::Executed => "it was executed",
            Outcome::Unknown => "it may have been executed, so look before you repeat it",
        };
        format!("{}; {effect}", self.text)
    }

    /// As the result of a `tools/call`, which a model reads.
    pub fn as_tool_result(&self) -> String {
        json!({
            "resultType": "complete",
            "content": [{ "type": "text", "text": self.sentence() }],
            "isError": true,
            "_meta": { "steadfast/error": self.member() },
        })
        .to_string()
    }

    /// As the `error` of any other request.
    pub fn as_json_rpc_error(&self) -> String {
        json!({
            "code": OWN_ERROR_CODE,
            "message": self.sentence(),
            "data": { "steadfast/error": self.member() },
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hdr_05_header_values_are_encoded_as_the_table_says() {
        for (value, header) in [
            ("eu-north", "eu-north"),
            ("north sea", "north sea"),
            (" north", "=?base64?IG5vcnRo?="),
            ("Åland", "=?base64?w4VsYW5k?="),
            ("a\tb", "=?base64?YQli?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
            ("", ""),
            ("отчёт", "=?base64?0L7RgtGH0ZHRgg==?="),
        ] {
            assert_eq!(encode_header(value), header, "{value:?}");
            assert_eq!(decode_header(header).as_deref(), Some(value), "{header:?}");
        }
        for literal in ["=?BASE64?w4VsYW5k?=", "=?base64?w4VsYW5k", "w4VsYW5k?="] {
            assert_eq!(decode_header(literal).as_deref(), Some(literal));
        }
        for broken in ["=?base64?w4VsYQ?=", "=?base64?w4V!YW5k?=", "=?base64?/w==?="] {
            assert_eq!(decode_header(broken), None, "{broken}");
        }
    }

    #[test]
    fn msg_25_only_the_hops_own_metadata_changes() {
        let params =
            r#"{"name":"a","arguments":{"n":1.0},"_meta":{"x":1e2,"progressToken":1,"traceparent":"00-7"}}"#;
        let token = "p-9".into();
        let out = params_with(params, &Metadata { token: Some(&token), ..Metadata::NONE }).unwrap();
        assert!(out.starts_with(r#"{"name":"a","arguments":{"n":1.0},"_meta":{"x":1e2,"progressToken":"p-9","traceparent":"00-7","#), "{out}");
        let meta: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(meta["_meta"][META_VERSION], MODERN_VERSION);
        assert_eq!(meta["_meta"][META_CAPABILITIES], json!({}));

        let out = params_with(params, &Metadata::NONE).unwrap();
        assert!(!out.contains("progressToken"));

        let old = Metadata { revision: Revision::V2025_06_18, ..Metadata::NONE };
        assert_eq!(params_with(r#"{"a":1}"#, &old).unwrap(), r#"{"a":1}"#, "a legacy server is told nothing");
        assert_eq!(
            params_with(&out, &old).unwrap(),
            r#"{"name":"a","arguments":{"n":1.0},"_meta":{"x":1e2,"traceparent":"00-7"}}"#
        );
        assert!(params_with("[]", &Metadata::NONE).is_err());
        assert!(params_with(r#"{"_meta":1}"#, &Metadata::NONE).is_err());
    }
}
