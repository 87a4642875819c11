//! Looks into what a message carries: the few members that are read here, nothing else parsed.
//!
//! A member that is read must occur once. Of two, this reader and the next could take different ones: a tool that was
//! checked would not be the tool that is called.

use alloc::borrow::Cow;
use alloc::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{is_object, text_of};
use crate::exchange::{CancelNotice, Finite, Progress};
use crate::ids::{ProgressToken, RequestId, TagError};
use crate::object::Members;

/// What later layers ask of a request's `params`.
#[derive(Clone, Debug, Default)]
pub struct Params<'a> {
    /// `name`: the tool or prompt. Anything but a string counts as absent.
    pub name: Option<Cow<'a, str>>,
    /// `uri`: the resource. Anything but a string counts as absent.
    pub uri: Option<Cow<'a, str>>,
    /// `taskId`. Anything but a string counts as absent.
    pub task_id: Option<Cow<'a, str>>,
    /// `arguments`, as they were sent.
    pub arguments: Option<&'a RawValue>,
    /// `idempotencyKey`. A key that is no string is an error and not an absent one: its sender believes the call
    /// to be keyed.
    pub idempotency_key: Option<Result<Cow<'a, str>, NotAString>>,
    /// `_meta`; nothing but absent members if there is none.
    pub meta: Meta<'a>,
}

/// What later layers ask of `_meta`.
#[derive(Clone, Debug, Default)]
pub struct Meta<'a> {
    /// `io.modelcontextprotocol/protocolVersion`. Anything but a string counts as absent.
    pub protocol_version: Option<Cow<'a, str>>,
    /// `io.modelcontextprotocol/clientCapabilities`. Anything but an object counts as absent.
    pub client_capabilities: Option<&'a RawValue>,
    /// `progressToken`.
    pub progress_token: Option<Result<ProgressToken, TagError>>,
    /// `steadfast/idempotencyKey`; see [`Params::idempotency_key`].
    pub idempotency_key: Option<Result<Cow<'a, str>, NotAString>>,
    /// `io.modelcontextprotocol/logLevel`. Anything but a string is no level (LOG-04).
    pub log_level: Option<Result<Cow<'a, str>, NotAString>>,
    /// `traceparent`, `tracestate` and `baggage` (TRC-01). Anything but a string counts as absent.
    pub trace: [Option<Cow<'a, str>>; 3],
}

/// A member that means something only as a string, and is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the idempotency key or log level is not a JSON string; send it as one")]
pub struct NotAString;

/// Why `params` cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParamsError {
    /// No object, or a member that is read occurs twice.
    #[error("params must be one JSON object that names each member once; send it so")]
    Params,
    /// As [`Self::Params`], of the member `_meta`.
    #[error("params._meta must be one JSON object that names each member once; send it so")]
    Meta,
}

/// Reads what [`Params`] lists. Depth is bounded by the message's.
///
/// # Errors
/// `params` or its `_meta` is no object, or a member that is read occurs twice.
pub fn params_of(params: &str) -> Result<Params<'_>, ParamsError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Raw<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        name: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        uri: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        task_id: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        arguments: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        idempotency_key: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present", rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    let raw: Raw<'_> = object(params).ok_or(ParamsError::Params)?;
    Ok(Params {
        name: raw.name.and_then(text_of),
        uri: raw.uri.and_then(text_of),
        task_id: raw.task_id.and_then(text_of),
        arguments: raw.arguments,
        idempotency_key: raw.idempotency_key.map(|raw| text_of(raw).ok_or(NotAString)),
        meta: raw.meta.map_or(Ok(Meta::default()), |raw| meta_of(raw.get()))?,
    })
}

fn meta_of(meta: &str) -> Result<Meta<'_>, ParamsError> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(
            borrow,
            default,
            deserialize_with = "present",
            rename = "io.modelcontextprotocol/protocolVersion"
        )]
        version: Option<&'a RawValue>,
        #[serde(
            borrow,
            default,
            deserialize_with = "present",
            rename = "io.modelcontextprotocol/clientCapabilities"
        )]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present", rename = "progressToken")]
        token: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present", rename = "steadfast/idempotencyKey")]
        key: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/logLevel")]
        level: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        traceparent: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        tracestate: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        baggage: Option<&'a RawValue>,
    }
    let raw: Raw<'_> = object(meta).ok_or(ParamsError::Meta)?;
    Ok(Meta {
        protocol_version: raw.version.and_then(text_of),
        client_capabilities: raw.capabilities.filter(|raw| is_object(raw)),
        progress_token: raw.token.map(|raw| ProgressToken::from_json(raw.get())),
        idempotency_key: raw.key.map(|raw| text_of(raw).ok_or(NotAString)),
        log_level: raw.level.map(|raw| text_of(raw).ok_or(NotAString)),
        trace: [raw.traceparent, raw.tracestate, raw.baggage].map(|raw| raw.and_then(text_of)),
    })
}

/// The progress that a `notifications/progress` carries, if it can be read (PRG-12: else it is ignored).
pub fn progress_of(params: &str) -> Option<(ProgressToken, Progress)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Raw<'a> {
        #[serde(borrow)]
        progress_token: &'a RawValue,
        #[serde(borrow)]
        progress: &'a RawValue,
        #[serde(borrow, default, deserialize_with = "present")]
        total: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        message: Option<&'a RawValue>,
    }
    let raw: Raw<'_> = object(params)?;
    let token = ProgressToken::from_json(raw.progress_token.get()).ok()?;
    // What is wrong with the ornaments does not take the progress away.
    let total = raw.total.and_then(number_of);
    let message = raw.message.and_then(text_of).map(Arc::from);
    Some((token, Progress { value: number_of(raw.progress)?, total, message }))
}

/// The nearest double to a JSON number, unless that is infinite. Not read by serde_json, which may take a neighbour.
fn number_of(raw: &RawValue) -> Option<Finite> {
    let number = raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
    number.then(|| raw.get().parse().ok().and_then(Finite::new))?
}

/// What a `notifications/cancelled` names (CAN-11).
pub fn cancel_notice_of(params: Option<&str>) -> CancelNotice {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Raw<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
        #[serde(borrow, default, deserialize_with = "present")]
        reason: Option<&'a RawValue>,
    }
    let named = params.and_then(object::<Raw<'_>>).and_then(|raw| {
        let id = RequestId::from_json(raw.request_id.get()).ok()?;
        Some(CancelNotice::Names { id, reason: raw.reason.and_then(text_of).map(Arc::from) })
    });
    named.unwrap_or(CancelNotice::Malformed)
}

/// The member of `_meta` by which a message of a `subscriptions/listen` names it (SUB-08).
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The subscription that a notification belongs to (STD-10).
pub fn subscription_of(params: &str) -> Option<RequestId> {
    // Most name none: those cost no more than this.
    if !params.contains(SUBSCRIPTION_ID) {
        return None;
    }
    let params = Members::parse(params).ok()?;
    let meta = Members::parse(params.get("_meta")?).ok()?;
    RequestId::from_json(meta.get(SUBSCRIPTION_ID)?).ok()
}

/// A JSON-RPC error object (MSG-09).
#[derive(Clone, Debug)]
pub struct ErrorObject<'a> {
    /// Which error.
    pub code: i64,
    /// One sentence.
    pub message: Cow<'a, str>,
    /// Any value, as it was sent; `null` is not absent.
    pub data: Option<&'a RawValue>,
}

/// Reads an `error` member; `None` if its code is no integer or its message no string, as some peers send it.
pub fn error_object_of(error: &str) -> Option<ErrorObject<'_>> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        code: i64,
        #[serde(borrow)]
        message: Cow<'a, str>,
        #[serde(borrow, default, deserialize_with = "present")]
        data: Option<&'a RawValue>,
    }
    let Raw { code, message, data } = object(error)?;
    Some(ErrorObject { code, message, data })
}

/// Reads one JSON object; serde would take an array of the values in order as well.
fn object<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
    json.trim_start().starts_with('{').then(|| serde_json::from_str(json).ok())?
}

/// A member that is there, `null` included: a `null` id is not an absent one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cap_01_params_are_read_without_touching_what_they_carry() {
        let params = params_of(
            r#" {"name":"caf\u00e9","arguments":{"n":1.0, "n":2},"x":1,"x":2,"idempotencyKey":"k1","_meta":{
                "io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{ },
                "progressToken":"1","steadfast/idempotencyKey":7}} "#,
        )
        .unwrap();
        assert_eq!((params.name.as_deref(), params.uri, params.task_id), (Some("café"), None, None));
        assert_eq!(params.arguments.map(RawValue::get), Some(r#"{"n":1.0, "n":2}"#));
        assert_eq!(params.idempotency_key, Some(Ok("k1".into())));
        assert_eq!(params.meta.protocol_version.as_deref(), Some("2026-07-28"));
        assert_eq!(params.meta.client_capabilities.map(RawValue::get), Some("{ }"));
        assert_eq!(params.meta.progress_token, Some(Ok("1".into())));
        assert_eq!(params.meta.idempotency_key, Some(Err(NotAString)));

        let bare = params_of("{}").unwrap();
        assert!(bare.name.is_none() && bare.meta.progress_token.is_none());
        let odd = params_of(
            r#"{"name":1,"uri":"a:b","taskId":"t","idempotencyKey":null,"_meta":{"progressToken":1.5,
                "io.modelcontextprotocol/protocolVersion":1,"io.modelcontextprotocol/clientCapabilities":[]}}"#,
        )
        .unwrap();
        assert_eq!((odd.name, odd.uri.as_deref(), odd.task_id.as_deref()), (None, Some("a:b"), Some("t")));
        assert_eq!(odd.idempotency_key, Some(Err(NotAString)));
        assert!(odd.meta.progress_token.unwrap().is_err());
        assert!(odd.meta.protocol_version.is_none() && odd.meta.client_capabilities.is_none());
    }

    #[test]
    fn d_11_params_that_name_a_member_twice_are_refused() {
        for (params, error) in [
            ("[]", ParamsError::Params),
            (r#"["a","b"]"#, ParamsError::Params),
            ("1", ParamsError::Params),
            ("", ParamsError::Params),
            ("{}{}", ParamsError::Params),
            (r#"{"name":"read","n\u0061me":"delete"}"#, ParamsError::Params),
            (r#"{"_meta":{},"_meta":{}}"#, ParamsError::Params),
            (r#"{"_meta":null}"#, ParamsError::Meta),
            (r#"{"_meta":["2026-07-28"]}"#, ParamsError::Meta),
            (r#"{"_meta":{"progressToken":1,"progressToken":2}}"#, ParamsError::Meta),
        ] {
            assert_eq!(params_of(params).err(), Some(error), "{params}");
        }
    }

    #[test]
    fn can_11_unreadable_cancels_are_malformed() {
        for params in [
            "{}",
            "[1]",
            r#"{"requestId":true}"#,
            r#"{"requestId":null}"#,
            r#"{"requestId":{}}"#,
            r#"{"requestId":1.5}"#,
            r#"{"requestId":1,"requestId":2}"#,
        ] {
            assert_eq!(cancel_notice_of(Some(params)), CancelNotice::Malformed, "{params}");
        }
        assert_eq!(cancel_notice_of(None), CancelNotice::Malformed);
        assert_eq!(
            cancel_notice_of(Some(r#"{"requestId":"7","reason":1}"#)),
            CancelNotice::Names { id: "7".into(), reason: None }
        );
        assert_eq!(
            cancel_notice_of(Some(r#"{"reason":"gone","requestId":7}"#)),
            CancelNotice::Names { id: 7.into(), reason: Some("gone".into()) }
        );
    }

    #[test]
    fn prg_12_unreadable_progress_is_none() {
        for params in [
            "[1,2]",
            r#"{"progress":1}"#,
            r#"{"progressToken":1}"#,
            r#"{"progressToken":1,"progress":"1"}"#,
            r#"{"progressToken":1,"progress":null}"#,
            r#"{"progressToken":1,"progress":"inf"}"#,
            r#"{"progressToken":null,"progress":1}"#,
            r#"{"progressToken":1,"progress":1e999}"#,
            r#"{"progressToken":1,"progress":1,"progress":2}"#,
        ] {
            assert_eq!(progress_of(params), None, "{params}");
        }
        let (token, progress) =
            progress_of(r#"{"progressToken":"a","progress":7,"total":1e999,"message":1}"#).unwrap();
        assert_eq!((token, progress), ("a".into(), Progress::of(7.0).unwrap()));
        // A parser that rounds twice reads a neighbour of this.
        let odd = "194444444444444444444444444444449e9";
        let (_, progress) =
            progress_of(&alloc::format!(r#"{{"progressToken":1,"progress":{odd},"total":{odd}}}"#)).unwrap();
        assert_eq!(progress.value, Finite::new(odd.parse().unwrap()).unwrap());
        assert_eq!(progress.total, Some(progress.value));
    }

    #[test]
    fn msg_09_an_error_object_has_an_integer_code_and_a_text() {
        let error = error_object_of(r#"{"code":-32602,"message":"a\"b","data":null}"#).unwrap();
        assert_eq!(
            (error.code, &*error.message, error.data.map(RawValue::get)),
            (-32602, "a\"b", Some("null"))
        );
        assert!(error_object_of(r#"{"code":1,"message":"a"}"#).unwrap().data.is_none());
        for error in ["{}", r#"{"code":1.5,"message":"a"}"#, r#"{"code":1}"#, r#"[1,"a"]"#] {
            assert!(error_object_of(error).is_none(), "{error}");
        }
    }
}
