//! JSON-RPC over raw JSON: what a message is for is typed, what it carries stays the bytes that came.
//!
//! A message is scanned once for depth and for members that occur twice before anything is parsed: a parser that
//! recurses would follow 200,000 levels, and of two `id` members two readers may take different ones.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::exchange::{CancelNotice, Finite, Progress, Reply};
use crate::ids::{ProgressToken, RequestId};
use crate::object::{self, Members};

/// The deepest nesting that is read. JSON libraries of other languages give up at 1,000 or earlier.
pub const MAX_DEPTH: usize = 128;

/// One JSON-RPC message, borrowed from the bytes it came in.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// It wants an answer.
    Request {
        /// The sender's id.
        id: RequestId,
        /// What is asked for.
        method: Cow<'a, str>,
        /// The object, as it was sent.
        params: Option<&'a RawValue>,
    },
    /// It wants none, and gets none, not even an error (MSG-12).
    Notification {
        /// What happened.
        method: Cow<'a, str>,
        /// The object, as it was sent.
        params: Option<&'a RawValue>,
    },
    /// An answer. Only an error may lack its id (MSG-10).
    Response {
        /// Which request it answers.
        id: Option<RequestId>,
        /// The `result` or the `error`, as it was sent.
        reply: Reply<&'a RawValue>,
    },
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not JSON in UTF-8.
    #[error("the message is not JSON in UTF-8; send one JSON-RPC object")]
    NotJson,
    /// More levels than [`MAX_DEPTH`].
    #[error("the message nests deeper than {MAX_DEPTH} levels; flatten it")]
    TooDeep,
    /// JSON, but no message.
    #[error("the message is no JSON-RPC 2.0 request, notification or response: {why}; send one of these")]
    NotAMessage {
        /// Its id, where that could be read: the error answer carries it (MSG-06).
        id: Option<RequestId>,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl EnvelopeError {
    /// The JSON-RPC code: -32700 for what is no JSON, -32600 for what is no message.
    pub const fn code(&self) -> i64 {
        match self {
            Self::NotJson => -32700,
            Self::TooDeep | Self::NotAMessage { .. } => -32600,
        }
    }

    /// The id of the refused message, where it could be read.
    pub const fn id(&self) -> Option<&RequestId> {
        match self {
            Self::NotAMessage { id, .. } => id.as_ref(),
            Self::NotJson | Self::TooDeep => None,
        }
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A member that is there, `null` included: a `null` id is not an absent one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads one message.
///
/// # Errors
/// What is no JSON, nests too deep, or is no message; arrays are none (MSG-20), nor are ids that are booleans,
/// fractions, null, arrays or objects (MSG-02, MSG-03), nor a message with two members of one name, nor one with
/// both a result and an error.
pub fn parse(bytes: &[u8]) -> Result<Message<'_>, EnvelopeError> {
    let text = core::str::from_utf8(bytes).map_err(|_| EnvelopeError::NotJson)?;
    if depth(text) > MAX_DEPTH {
        return Err(EnvelopeError::TooDeep);
    }
    let whole: &RawValue = serde_json::from_str(text).map_err(|_| EnvelopeError::NotJson)?;
    let no_message = |id: Option<RequestId>, why| Err(EnvelopeError::NotAMessage { id, why });
    if whole.get().starts_with('[') {
        return no_message(None, "it is an array, and batches are not served");
    }
    // serde refuses members that occur twice; what else it could refuse is a value that is no object.
    let Ok(raw) = serde_json::from_str::<Raw<'_>>(whole.get()) else {
        return no_message(None, "it is no object, or a member occurs twice");
    };
    let id = raw.id.map(|raw| RequestId::from_json(raw.get()));
    let readable = id.as_ref().and_then(|id| id.as_ref().ok()).cloned();
    if raw.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
        return no_message(readable, "its jsonrpc member is not \"2.0\"");
    }
    match (raw.method, raw.result, raw.error) {
        (Some(method), None, None) => {
            let Ok(method) = serde_json::from_str::<Method<'_>>(method.get()) else {
                return no_message(readable, "its method is no string");
            };
            if raw.params.is_some_and(|params| !params.get().starts_with('{')) {
                return no_message(readable, "its params are no object");
            }
            match id {
                None => Ok(Message::Notification { method: method.0, params: raw.params }),
                Some(Ok(id)) => Ok(Message::Request { id, method: method.0, params: raw.params }),
                Some(Err(_)) => no_message(None, "its id is neither a string nor a 64-bit integer"),
            }
        }
        (None, Some(result), None) => match id {
            Some(Ok(id)) if result.get().starts_with('{') => {
                Ok(Message::Response { id: Some(id), reply: Reply::Result(result) })
            }
            Some(Ok(id)) => no_message(Some(id), "its result is no object"),
            None | Some(Err(_)) => no_message(None, "a result needs the id of its request"),
        },
        (None, None, Some(error)) => match (raw.id.map(RawValue::get), id) {
            (None | Some("null"), _) => Ok(Message::Response { id: None, reply: Reply::Error(error) }),
            (Some(_), Some(Ok(id))) => Ok(Message::Response { id: Some(id), reply: Reply::Error(error) }),
            (Some(_), _) => no_message(None, "its id is neither a string nor a 64-bit integer"),
        },
        (None, None, None) => no_message(readable, "it has no method, no result and no error"),
        (Some(_), _, _) | (None, Some(_), Some(_)) => {
            no_message(readable, "it has more than one of method, result and error")
        }
    }
}

#[derive(Deserialize)]
struct Method<'a>(#[serde(borrow)] Cow<'a, str>);

/// How deep arrays and objects nest in a text that need not be JSON; iterative, one pass.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The progress that a `notifications/progress` carries, if it can be read (PRG-12: else it is ignored).
pub fn progress_of(params: &str) -> Option<(ProgressToken, Progress)> {
    let members = Members::parse(params).ok()?;
    let number = |name| members.get(name).and_then(|raw| serde_json::from_str::<f64>(raw).ok());
    let token = ProgressToken::from_json(members.get("progressToken")?).ok()?;
    let value = Finite::new(number("progress")?)?;
    let total = number("total").and_then(Finite::new);
    let message = members.get_str("message").map(Arc::from);
    Some((token, Progress { value, total, message }))
}

/// What a `notifications/cancelled` names.
pub fn cancel_notice_of(params: Option<&str>) -> CancelNotice {
    let named = params.and_then(|params| {
        let members = Members::parse(params).ok()?;
        let id = RequestId::from_json(members.get("requestId")?).ok()?;
        Some(CancelNotice::Names { id, reason: members.get_str("reason").map(Arc::from) })
    });
    named.unwrap_or(CancelNotice::Malformed)
}

/// A request as one line. `params` must be a JSON object.
pub fn request(id: &RequestId, method: &str, params: &str) -> String {
    alloc::format!(
        r#"{{"jsonrpc":"2.0","id":{},"method":{},"params":{params}}}"#,
        id.to_json(),
        object::string(method)
    )
}

/// A notification as one line. `params` must be a JSON object.
pub fn notification(method: &str, params: &str) -> String {
    alloc::format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, object::string(method))
}

/// A response as one line; the reply's payload must be one JSON value. Without an id only an error is a message.
pub fn response(id: Option<&RequestId>, reply: Reply<&str>) -> String {
    let id = id.map(|id| alloc::format!(r#""id":{},"#, id.to_json())).unwrap_or_default();
    let (member, payload) = match reply {
        Reply::Result(payload) => ("result", payload),
        Reply::Error(payload) => ("error", payload),
    };
    alloc::format!(r#"{{"jsonrpc":"2.0",{id}"{member}":{payload}}}"#)
}

/// `notifications/progress` under a token of this hop.
pub fn progress(token: &ProgressToken, progress: &Progress) -> String {
    let mut params = Members::default();
    params.set("progressToken", token.to_json());
    params.set("progress", number(progress.value));
    if let Some(total) = progress.total {
        params.set("total", number(total));
    }
    if let Some(message) = &progress.message {
        params.set("message", object::string(message));
    }
    notification("notifications/progress", &params.to_json())
}

/// `notifications/cancelled` naming a request of this hop.
pub fn cancelled(id: &RequestId, reason: Option<&str>) -> String {
    let mut params = Members::default();
    params.set("requestId", id.to_json());
    if let Some(reason) = reason {
        params.set("reason", object::string(reason));
    }
    notification("notifications/cancelled", &params.to_json())
}

/// A finite number as ECMAScript prints it: `1`, not `1.0`.
fn number(number: Finite) -> String {
    String::from(ryu_js::Buffer::new().format_finite(number.get()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(text: &str) -> String {
        match parse(text.as_bytes()) {
            Ok(Message::Request { id, method, params }) => {
                alloc::format!("request {id:?} {method} {}", params.map_or("-", RawValue::get))
            }
            Ok(Message::Notification { method, .. }) => alloc::format!("notification {method}"),
            Ok(Message::Response { id, reply: Reply::Result(raw) }) => {
                alloc::format!("result {id:?} {}", raw.get())
            }
            Ok(Message::Response { id, reply: Reply::Error(raw) }) => {
                alloc::format!("error {id:?} {}", raw.get())
            }
            Err(error) => alloc::format!("{} {:?}", error.code(), error.id()),
        }
    }

    #[test]
    fn msg_06_messages_are_told_apart_and_payloads_keep_their_bytes() {
        for (text, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":1.0, "m":1e2}}"#,
                r#"request 1 a {"n":1.0, "m":1e2}"#,
            ),
            (r#" {"method":"a\u0062","id":"1","jsonrpc":"2.0"} "#, r#"request "1" ab -"#),
            (r#"{"jsonrpc":"2.0","method":"n"}"#, "notification n"),
            (r#"{"jsonrpc":"2.0","id":0,"result":{"x":-0.0}}"#, r#"result Some(0) {"x":-0.0}"#),
            (r#"{"jsonrpc":"2.0","error":{"code":1}}"#, r#"error None {"code":1}"#),
            (r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, "error None {}"),
            (r#"{"jsonrpc":"2.0","id":"","error":{}}"#, r#"error Some("") {}"#),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn msg_20_what_is_no_message_is_refused_with_its_code_and_id() {
        for (text, expected) in [
            ("", "-32700 None"),
            ("{", "-32700 None"),
            ("{}x", "-32700 None"),
            ("[]", "-32600 None"),
            ("1", "-32600 None"),
            ("{}", "-32600 None"),
            (r#"{"jsonrpc":"1.0","id":7,"method":"a"}"#, "-32600 Some(7)"),
            (r#"{"jsonrpc":"2.0","id":7}"#, "-32600 Some(7)"),
            (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, "-32600 Some(7)"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":[]}"#, "-32600 Some(7)"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"a","result":{}}"#, "-32600 Some(7)"),
            (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#, "-32600 Some(7)"),
            (r#"{"jsonrpc":"2.0","id":7,"result":1}"#, "-32600 Some(7)"),
            (r#"{"jsonrpc":"2.0","result":{}}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":true,"method":"a"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":{},"error":{}}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, "-32600 None"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        assert_eq!(parse(b"\xff").unwrap_err(), EnvelopeError::NotJson);
    }

    #[test]
    fn i_27_depth_is_counted_before_anything_recurses() {
        let nested = |levels: usize| {
            let inner = alloc::format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            alloc::format!(r#"{{"jsonrpc":"2.0","method":"a","params":{{"x":{inner}}}}}"#)
        };
        assert!(parse(nested(MAX_DEPTH - 2).as_bytes()).is_ok());
        assert_eq!(parse(nested(MAX_DEPTH - 1).as_bytes()).unwrap_err(), EnvelopeError::TooDeep);
        assert_eq!(parse(nested(200_000).as_bytes()).unwrap_err(), EnvelopeError::TooDeep);
        assert!(parse(br#"{"jsonrpc":"2.0","method":"a","params":{"x":"[[[\"[[{{"}}"#).is_ok());
    }

    #[test]
    fn can_11_unreadable_cancels_are_malformed() {
        for params in ["{}", r#"{"requestId":true}"#, r#"{"requestId":{}}"#, r#"{"requestId":1.5}"#, "[]"] {
            assert_eq!(cancel_notice_of(Some(params)), CancelNotice::Malformed, "{params}");
        }
        assert_eq!(cancel_notice_of(None), CancelNotice::Malformed);
        assert_eq!(
            cancel_notice_of(Some(r#"{"requestId":"7","reason":1}"#)),
            CancelNotice::Names { id: "7".into(), reason: None }
        );
    }

    #[test]
    fn prg_12_unreadable_progress_is_none() {
        for params in [
            r#"{"progress":1}"#,
            r#"{"progressToken":1}"#,
            r#"{"progressToken":1,"progress":"1"}"#,
            r#"{"progressToken":null,"progress":1}"#,
            r#"{"progressToken":1,"progress":1e999}"#,
        ] {
            assert_eq!(progress_of(params), None, "{params}");
        }
    }

    fn any_id() -> impl Strategy<Value = RequestId> {
        prop_oneof![
            any::<i64>().prop_map(RequestId::from),
            ".*".prop_map(|text: String| RequestId::from(&*text))
        ]
    }

    proptest! {
        #[test]
        fn i_27_parse_takes_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn std_01_what_is_built_is_one_line_and_reads_back(id in any_id(), method in ".*", text in ".*",
            value in -1e9..1e9f64)
        {
            let params = alloc::format!(r#"{{"t":{}}}"#, object::string(&text));
            let line = request(&id, &method, &params);
            prop_assert!(!line.contains('\n'));
            let Ok(Message::Request { id: read, method: name, params: Some(raw) }) = parse(line.as_bytes()) else {
                return Err(TestCaseError::fail("not a request"));
            };
            prop_assert_eq!((read, &*name, raw.get()), (id.clone(), &*method, &*params));

            let given = Progress { value: Finite::new(value).unwrap(), total: None, message: Some(text.as_str().into()) };
            let line = progress(&ProgressToken(id.0.clone()), &given);
            let Ok(Message::Notification { params: Some(raw), .. }) = parse(line.as_bytes()) else {
                return Err(TestCaseError::fail("not a notification"));
            };
            prop_assert_eq!(progress_of(raw.get()), Some((ProgressToken(id.0.clone()), given)));

            let line = cancelled(&id, Some(&text));
            let Ok(Message::Notification { params: Some(raw), .. }) = parse(line.as_bytes()) else {
                return Err(TestCaseError::fail("not a notification"));
            };
            prop_assert_eq!(cancel_notice_of(Some(raw.get())), CancelNotice::Names { id, reason: Some(text.as_str().into()) });
        }
    }
}
