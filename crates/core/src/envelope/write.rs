//! Writing messages, each one line without a line ending in it (STD-01).
//!
//! What a message carries is written with the bytes that came, but for line endings between its tokens: they become
//! spaces, or one indented payload would fall apart into many lines on stdio.

use alloc::string::String;

use crate::exchange::{Finite, Progress, Reply};
use crate::ids::{ProgressToken, RequestId};
use crate::object;

/// A request. `params` must be a JSON object.
pub fn request(id: &RequestId, method: &str, params: &str) -> String {
    let mut line = start(params.len());
    member(&mut line, "id", &id.to_json());
    member(&mut line, "method", &object::string(method));
    end(line, "params", params)
}

/// A notification. `params` must be a JSON object.
pub fn notification(method: &str, params: &str) -> String {
    let mut line = start(params.len());
    member(&mut line, "method", &object::string(method));
    end(line, "params", params)
}

/// A response; the reply's payload must be one JSON object. Without an id only an error is a message (MSG-10).
pub fn response(id: Option<&RequestId>, reply: Reply<&str>) -> String {
    let (name, payload) = match reply {
        Reply::Result(payload) => ("result", payload),
        Reply::Error(payload) => ("error", payload),
    };
    let mut line = start(payload.len());
    if let Some(id) = id {
        member(&mut line, "id", &id.to_json());
    }
    end(line, name, payload)
}

/// An error response. `data` must be one JSON value; the id is left out where it could not be read (MSG-06).
pub fn error(id: Option<&RequestId>, code: i64, message: &str, data: Option<&str>) -> String {
    let data = data.map(|data| alloc::format!(r#","data":{data}"#)).unwrap_or_default();
    let error = alloc::format!(r#"{{"code":{code},"message":{}{data}}}"#, object::string(message));
    response(id, Reply::Error(&error))
}

/// `notifications/progress` under a token of this hop.
pub fn progress(token: &ProgressToken, progress: &Progress) -> String {
    let mut params = alloc::format!(
        r#"{{"progressToken":{},"progress":{}"#,
        token.to_json(),
        number(&mut ryu_js::Buffer::new(), progress.value)
    );
    if let Some(total) = progress.total {
        member(&mut params, "total", number(&mut ryu_js::Buffer::new(), total));
    }
    if let Some(message) = &progress.message {
        member(&mut params, "message", &object::string(message));
    }
    params.push('}');
    notification("notifications/progress", &params)
}

/// `notifications/cancelled` naming a request of this hop.
pub fn cancelled(id: &RequestId, reason: Option<&str>) -> String {
    let mut params = alloc::format!(r#"{{"requestId":{}"#, id.to_json());
    if let Some(reason) = reason {
        member(&mut params, "reason", &object::string(reason));
    }
    params.push('}');
    notification("notifications/cancelled", &params)
}

fn start(payload_bytes: usize) -> String {
    // Enough for an id and a method of ordinary length.
    let mut line = String::with_capacity(payload_bytes + 128);
    line.push_str(r#"{"jsonrpc":"2.0""#);
    line
}

fn member(object: &mut String, name: &str, json: &str) {
    object.push_str(",\"");
    object.push_str(name);
    object.push_str("\":");
    object.push_str(json);
}

/// The last member, whose bytes are somebody else's.
fn end(mut line: String, name: &str, payload: &str) -> String {
    let mut pieces = payload.split(['\n', '\r']);
    member(&mut line, name, pieces.next().unwrap_or_default());
    for piece in pieces {
        line.push(' ');
        line.push_str(piece);
    }
    line.push('}');
    line
}

/// A finite number as ECMAScript prints it: `1`, not `1.0`.
fn number(buffer: &mut ryu_js::Buffer, number: Finite) -> &str {
    buffer.format_finite(number.get())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::envelope::{
        EnvelopeError, Message, cancel_notice_of, error_object_of, params_of, parse, progress_of,
    };
    use crate::exchange::CancelNotice;

    #[test]
    fn std_01_an_indented_payload_stays_one_line_and_one_value() {
        let payload = "{\r\n  \"text\": \"a\\nb\u{2028}\",\n  \"n\": 1.0\r}";
        let line = request(&1.into(), "tools/call", payload);
        assert_eq!(
            line,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{    \"text\": \"a\\nb\u{2028}\",   \"n\": 1.0 }}"
        );
        for line in [
            notification("a", payload),
            response(Some(&1.into()), Reply::Result(payload)),
            error(None, -32600, "a\nb", Some(payload)),
        ] {
            assert!(!line.contains(['\n', '\r']), "{line}");
            assert!(parse(line.as_bytes()).is_ok(), "{line}");
        }
    }

    #[test]
    fn msg_06_an_error_without_a_readable_id_has_none() {
        assert_eq!(
            error(None, -32700, "a", None),
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"a"}}"#
        );
        assert_eq!(
            error(Some(&"1".into()), 1, "a", Some("[0]")),
            r#"{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":"a","data":[0]}}"#
        );
    }

    fn any_id() -> impl Strategy<Value = RequestId> {
        prop_oneof![
            any::<i64>().prop_map(RequestId::from),
            ".*".prop_map(|text: String| RequestId::from(&*text))
        ]
    }

    fn params(line: &str) -> Result<&str, TestCaseError> {
        prop_assert!(!line.contains('\n'));
        match parse(line.as_bytes()) {
            Ok(
                Message::Request { params: Some(params), .. }
                | Message::Notification { params: Some(params), .. },
            ) => Ok(params.get()),
            other => Err(TestCaseError::fail(alloc::format!("no params in {other:?}"))),
        }
    }

    proptest! {
        #[test]
        fn std_01_what_is_written_is_one_line_and_reads_back(
            id in any_id(), method in ".*", text in ".*", code in any::<i64>(), value in any::<f64>(),
        ) {
            let given = alloc::format!(r#"{{"name":{}}}"#, object::string(&text));
            let line = request(&id, &method, &given);
            prop_assert_eq!(params(&line)?, &given);
            let read = params_of(&given).unwrap();
            prop_assert_eq!(read.name.as_deref(), Some(&*text));
            let Ok(Message::Request { id: read, method: name, .. }) = parse(line.as_bytes()) else {
                return Err(TestCaseError::fail(line));
            };
            prop_assert_eq!((&read, &*name), (&id, &*method));

            let line = response(Some(&id), Reply::Result(&given));
            let Ok(Message::Response { id: Some(read), reply: Reply::Result(raw) }) = parse(line.as_bytes()) else {
                return Err(TestCaseError::fail(line));
            };
            prop_assert_eq!((&read, raw.get()), (&id, &*given));

            let line = error(Some(&id), code, &text, Some(&given));
            let Ok(Message::Response { id: Some(read), reply: Reply::Error(raw) }) = parse(line.as_bytes()) else {
                return Err(TestCaseError::fail(line));
            };
            let object = error_object_of(raw.get()).unwrap();
            prop_assert_eq!((&read, object.code, &*object.message), (&id, code, &*text));

            if let Some(value) = Finite::new(value) {
                let token = ProgressToken(id.0.clone());
                let given = Progress { value, total: Some(value), message: Some(text.as_str().into()) };
                prop_assert_eq!(progress_of(params(&progress(&token, &given))?), Some((token, given)));
            }

            let notice = CancelNotice::Names { id: id.clone(), reason: Some(text.as_str().into()) };
            prop_assert_eq!(cancel_notice_of(Some(params(&cancelled(&id, Some(&text)))?)), notice);
        }

        #[test]
        fn msg_07_ids_keep_their_type(id in any_id()) {
            let line = request(&id, "a", "{}");
            let refused = line.replacen("\"2.0\"", "2.0", 1);
            let error: EnvelopeError = parse(refused.as_bytes()).unwrap_err();
            prop_assert_eq!(error.id(), Some(&id));
        }
    }
}
