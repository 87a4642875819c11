//! JSON-RPC over raw JSON: what a message is for is typed, what it carries stays the bytes that came.
//!
//! Here a message is told apart and refused; [`views`] look into what it carries, [`write`](mod@write) makes one
//! line of each. Nothing here recurses: a parser that does would follow 200,000 levels.

pub mod views;
pub mod write;

pub use views::{
    ErrorObject, NotAString, Params, ParamsError, SUBSCRIPTION_ID, cancel_notice_of, error_object_of,
    params_of, progress_of, subscription_of,
};
pub use write::{cancelled, error, notification, progress, request, response};

use alloc::borrow::Cow;
use core::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::exchange::Reply;
use crate::ids::RequestId;

/// The deepest nesting that is read: what serde_json follows by itself, so that what passes here can be parsed later.
/// JSON libraries of other languages give up at 1,000 or earlier.
pub const MAX_DEPTH: usize = 127;

/// The largest message in bytes, unless configured otherwise (`max_message`).
pub const MAX_BYTES: usize = 16 << 20;

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
        /// The `result` or the `error`, an object as it was sent (MSG-08, MSG-09).
        reply: Reply<&'a RawValue>,
    },
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// More bytes than are taken; it was not looked at.
    #[error("the message has more than {limit} bytes; send less, or raise max_message")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Not JSON in UTF-8.
    #[error("the message is not JSON in UTF-8; send one JSON-RPC object")]
    NotJson,
    /// More levels than [`MAX_DEPTH`].
    #[error("the message nests deeper than {MAX_DEPTH} levels; flatten it")]
    TooDeep {
        /// Its id, where that could be read.
        id: Option<RequestId>,
        /// What it was meant to be.
        meant: Meant,
    },
    /// JSON, but no message.
    #[error("the message is no JSON-RPC 2.0 request, notification or response: {why}; send one of these")]
    NotAMessage {
        /// Its id, where that could be read.
        id: Option<RequestId>,
        /// What it was meant to be.
        meant: Meant,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// What a refused message was meant to be, by the members it has. It decides whether anybody waits: a request is
/// answered under its id (MSG-06), a response fails the request that it names, a notification is never answered
/// (MSG-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meant {
    /// It has a `method` and an `id`.
    Request,
    /// It has a `method` and no `id`.
    Notification,
    /// It has a `result` or an `error`, and no `method`.
    Response,
    /// It has none of these, or is no object.
    Unclear,
}

impl EnvelopeError {
    /// The JSON-RPC code: -32700 for what is no JSON, -32600 for what is no message.
    pub const fn code(&self) -> i64 {
        match self {
            Self::NotJson => -32700,
            Self::TooLarge { .. } | Self::TooDeep { .. } | Self::NotAMessage { .. } => -32600,
        }
    }

    /// The id of the refused message, where it could be read.
    pub const fn id(&self) -> Option<&RequestId> {
        match self {
            Self::TooDeep { id, .. } | Self::NotAMessage { id, .. } => id.as_ref(),
            Self::NotJson | Self::TooLarge { .. } => None,
        }
    }

    /// What the refused message was meant to be.
    pub const fn meant(&self) -> Meant {
        match self {
            Self::TooDeep { meant, .. } | Self::NotAMessage { meant, .. } => *meant,
            Self::NotJson | Self::TooLarge { .. } => Meant::Unclear,
        }
    }
}

/// Reads one message of up to [`MAX_BYTES`].
///
/// # Errors
/// As [`parse_within`].
pub fn parse(bytes: &[u8]) -> Result<Message<'_>, EnvelopeError> {
    parse_within(MAX_BYTES, bytes)
}

/// Reads one message of up to `limit` bytes.
///
/// # Errors
/// What is larger, no JSON, nests too deep, or is no message: arrays are none (MSG-20), nor is anything whose id is a
/// boolean, a fraction, null, an array or an object (MSG-02, MSG-03), nor what has two of the envelope's own members
/// of one name, since two readers may take different ones, nor what has both a result and an error.
pub fn parse_within(limit: usize, bytes: &[u8]) -> Result<Message<'_>, EnvelopeError> {
    if bytes.len() > limit {
        return Err(EnvelopeError::TooLarge { limit });
    }
    let text = core::str::from_utf8(bytes).map_err(|_| EnvelopeError::NotJson)?;
    let too_deep = depth(text) > MAX_DEPTH;
    let Ok(raw) = serde_json::from_str::<Raw<'_>>(text) else {
        return Err(match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) if text.trim_start().starts_with('[') => {
                no_message(None, Meant::Unclear, "it is an array, and batches are not served")
            }
            Ok(_) if text.trim_start().starts_with('{') => {
                no_message(None, Meant::Unclear, "the name of a member holds half a character")
            }
            Ok(_) => no_message(None, Meant::Unclear, "it is no object"),
            Err(_) => EnvelopeError::NotJson,
        });
    };
    let id = raw.id.map(|raw| RequestId::from_json(raw.get()));
    let readable = if raw.twice == Some("id") { None } else { id.clone().and_then(Result::ok) };
    let meant = raw.meant();
    if too_deep {
        return Err(EnvelopeError::TooDeep { id: readable, meant });
    }
    raw.read(id).map_err(|why| no_message(readable, meant, why))
}

const fn no_message(id: Option<RequestId>, meant: Meant, why: &'static str) -> EnvelopeError {
    EnvelopeError::NotAMessage { id, meant, why }
}

/// The members of an envelope as they were sent; `null` is a value and not an absent one.
#[derive(Default)]
struct Raw<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// A member that occurs twice.
    twice: Option<&'static str>,
}

impl<'a> Raw<'a> {
    const fn meant(&self) -> Meant {
        match (&self.method, &self.id, &self.result, &self.error) {
            (Some(_), Some(_), _, _) => Meant::Request,
            (Some(_), None, _, _) => Meant::Notification,
            (None, _, Some(_), _) | (None, _, None, Some(_)) => Meant::Response,
            (None, _, None, None) => Meant::Unclear,
        }
    }

    fn read<E>(self, id: Option<Result<RequestId, E>>) -> Result<Message<'a>, &'static str> {
        const BAD_ID: &str = "its id is neither a string nor a 64-bit integer";
        if self.twice.is_some() {
            return Err("a member occurs twice");
        }
        if self.jsonrpc.and_then(text_of).is_none_or(|version| version != "2.0") {
            return Err("its jsonrpc member is not \"2.0\"");
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let method = text_of(method).ok_or("its method is no string")?;
                if !self.params.is_none_or(is_object) {
                    return Err("its params are no object");
                }
                match id {
                    None => Ok(Message::Notification { method, params: self.params }),
                    Some(Ok(id)) => Ok(Message::Request { id, method, params: self.params }),
                    Some(Err(_)) => Err(BAD_ID),
                }
            }
            (None, Some(result), None) => match id {
                Some(Ok(_)) if !is_object(result) => Err("its result is no object"),
                Some(Ok(id)) => Ok(Message::Response { id: Some(id), reply: Reply::Result(result) }),
                None | Some(Err(_)) => Err("a result needs the id of its request"),
            },
            (None, None, Some(error)) => {
                let id = match id {
                    Some(Ok(id)) => Some(id),
                    None => None,
                    Some(Err(_)) if self.id.is_some_and(|raw| raw.get() == "null") => None,
                    Some(Err(_)) => return Err(BAD_ID),
                };
                if !is_object(error) {
                    return Err("its error is no object");
                }
                Ok(Message::Response { id, reply: Reply::Error(error) })
            }
            (None, None, None) => Err("it has no method, no result and no error"),
            (Some(_), _, _) | (None, Some(_), Some(_)) => {
                Err("it has more than one of method, result and error")
            }
        }
    }
}

/// The names that belong to an envelope; others are passed over.
#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Name {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Raw<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Envelope;
        impl<'de> Visitor<'de> for Envelope {
            type Value = Raw<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw<'de>, A::Error> {
                let mut raw = Raw::default();
                while let Some((name, value)) = map.next_entry::<Name, &'de RawValue>()? {
                    let (name, member) = match name {
                        Name::Jsonrpc => ("jsonrpc", &mut raw.jsonrpc),
                        Name::Id => ("id", &mut raw.id),
                        Name::Method => ("method", &mut raw.method),
                        Name::Params => ("params", &mut raw.params),
                        Name::Result => ("result", &mut raw.result),
                        Name::Error => ("error", &mut raw.error),
                        Name::Other => continue,
                    };
                    // An id that occurs twice is remembered above all: it cannot be answered under.
                    if member.replace(value).is_some() && raw.twice != Some("id") {
                        raw.twice = Some(name);
                    }
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(Envelope)
    }
}

/// The text of a JSON string; borrowed unless it has escapes.
fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(serde::Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

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

#[cfg(test)]
mod tests {
    use alloc::string::String;

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
            Err(error) => alloc::format!("{} {:?} {:?}", error.code(), error.id(), error.meant()),
        }
    }

    #[test]
    fn msg_06_messages_are_told_apart_and_payloads_keep_their_bytes() {
        for (text, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":1.0, "m":1e2}}"#,
                r#"request 1 a {"n":1.0, "m":1e2}"#,
            ),
            (r#" {"method":"a\u0062","id":"1","jsonrpc":"2.0","x":[{"id":2}]} "#, r#"request "1" ab -"#),
            (r#"{"jsonrpc":"\u0032.0","method":"n"}"#, "notification n"),
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
            ("", "-32700 None Unclear"),
            ("{", "-32700 None Unclear"),
            ("{}x", "-32700 None Unclear"),
            ("[1,]", "-32700 None Unclear"),
            ("\u{feff}{}", "-32700 None Unclear"),
            ("[]", "-32600 None Unclear"),
            ("1", "-32600 None Unclear"),
            ("{}", "-32600 None Unclear"),
            (r#"{"\ud800":1}"#, "-32600 None Unclear"),
            (r#"{"jsonrpc":"1.0","id":7,"method":"a"}"#, "-32600 Some(7) Request"),
            (r#"{"id":7,"method":"a"}"#, "-32600 Some(7) Request"),
            (r#"{"jsonrpc":"2.0","id":7}"#, "-32600 Some(7) Unclear"),
            (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, "-32600 Some(7) Request"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":[]}"#, "-32600 Some(7) Request"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":null}"#, "-32600 Some(7) Request"),
            (r#"{"jsonrpc":"2.0","method":"a","params":[]}"#, "-32600 None Notification"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"a","result":{}}"#, "-32600 Some(7) Request"),
            (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#, "-32600 Some(7) Response"),
            (r#"{"jsonrpc":"2.0","id":7,"result":1}"#, "-32600 Some(7) Response"),
            (r#"{"jsonrpc":"2.0","id":7,"error":"x"}"#, "-32600 Some(7) Response"),
            (r#"{"jsonrpc":"2.0","result":{}}"#, "-32600 None Response"),
            (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, "-32600 None Response"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, "-32600 None Request"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, "-32600 None Request"),
            (r#"{"jsonrpc":"2.0","id":true,"method":"a"}"#, "-32600 None Request"),
            (r#"{"jsonrpc":"2.0","id":{},"error":{}}"#, "-32600 None Response"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        assert_eq!(parse(b"\xff").unwrap_err(), EnvelopeError::NotJson);
    }

    #[test]
    fn d_11_a_member_that_occurs_twice_is_refused() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}"#, "-32600 None Request"),
            (
                r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"a","params":{},"params":{}}"#,
                "-32600 None Request",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, "-32600 Some(1) Request"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"\u0070arams":{}}"#,
                "-32600 Some(1) Request",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#, "-32600 Some(1) Response"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        // Members that are not the envelope's are nobody's business here.
        assert_eq!(kind(r#"{"jsonrpc":"2.0","x":1,"x":2,"method":"a"}"#), "notification a");
    }

    #[test]
    fn i_27_size_and_depth_are_bounded_and_the_sender_still_learns_which_request_it_was() {
        let nested = |levels: usize| {
            let inner = alloc::format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            alloc::format!(r#"{{"jsonrpc":"2.0","id":7,"method":"a","params":{{"x":{inner}}}}}"#)
        };
        let too_deep = EnvelopeError::TooDeep { id: Some(7.into()), meant: Meant::Request };
        assert!(parse(nested(MAX_DEPTH - 2).as_bytes()).is_ok());
        assert_eq!(parse(nested(MAX_DEPTH - 1).as_bytes()).unwrap_err(), too_deep);
        assert_eq!(parse(nested(200_000).as_bytes()).unwrap_err(), too_deep);
        assert_eq!(parse("[".repeat(200_000).as_bytes()).unwrap_err(), EnvelopeError::NotJson);
        assert!(parse(br#"{"jsonrpc":"2.0","method":"a","params":{"x":"[[[\"[[{{"}}"#).is_ok());

        let message = br#"{"jsonrpc":"2.0","method":"a"}"#;
        assert!(parse_within(message.len(), message).is_ok());
        let limit = message.len() - 1;
        assert_eq!(parse_within(limit, message).unwrap_err(), EnvelopeError::TooLarge { limit });
    }

    proptest! {
        #[test]
        fn i_27_parse_takes_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn i_27_parse_takes_anything_like_a_message(
            parts in proptest::collection::vec(proptest::sample::select(&PARTS[..]), 0..12),
        ) {
            let text = parts.concat();
            if let Ok(Message::Request { params: Some(raw), .. } | Message::Notification { params: Some(raw), .. }) =
                parse(text.as_bytes())
            {
                let _ = (params_of(raw.get()), progress_of(raw.get()), cancel_notice_of(Some(raw.get())));
            }
        }
    }

    const PARTS: [&str; 20] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"jsonrpc\":\"2.0\"",
        "\"id\"",
        "\"id\":1",
        "\"method\":\"a\"",
        "\"params\":{",
        "\"_meta\":{",
        "\"progressToken\":",
        "\"requestId\":",
        "\"result\":{}",
        "\"error\":{}",
        "null",
        "1.5",
        "\"\\ud800\"",
        " ",
    ];
}
