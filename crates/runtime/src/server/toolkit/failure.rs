//! Why a handler has no result.

use serde_json::{Value, json};

use crate::message::OwnError;

/// Why a handler has no result. Any error becomes one by `?`: its text is what the caller reads, so let it say nothing
/// that the caller may not know.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure(pub(super) Why);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Why {
    /// Questions are open; the handler runs again with their answers.
    Asked,
    /// The handler's own work failed, in words for a model.
    Failed(String),
    /// A JSON-RPC error: the text of the error object.
    Protocol(String),
    /// The client lacks a capability: its path.
    NotDeclared(&'static [&'static str]),
    /// It saw the cancel.
    Stopped,
}

impl Failure {
    /// The handler's own work failed: of a tool a completed call that a model reads (ERR-14), of a prompt or a resource
    /// the error -32603 (ERR-13, ERR-17).
    pub fn failed(text: impl Into<String>) -> Self {
        Self(Why::Failed(text.into()))
    }

    /// A JSON-RPC error. Codes of your own lie outside -32768…-32000 (ERR-06).
    pub fn protocol(code: i64, message: &str, data: Option<Value>) -> Self {
        let mut error = json!({ "code": code, "message": message });
        if let Some(data) = data {
            error["data"] = data;
        }
        Self(Why::Protocol(error.to_string()))
    }

    /// The handler saw that the call was cancelled, and stopped.
    pub const fn stopped() -> Self {
        Self(Why::Stopped)
    }

    /// An error of Steadfast's own kind, as a JSON-RPC error.
    pub fn own(error: &OwnError<'_>) -> Self {
        Self(Why::Protocol(error.as_json_rpc_error()))
    }

    pub(super) const fn not_declared(needs: &'static [&'static str]) -> Self {
        Self(Why::NotDeclared(needs))
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::failed(error.to_string())
    }
}

/// The error for a capability that the client did not declare (CAP-07).
pub(super) fn missing(path: &[&str]) -> String {
    let required = path.iter().rev().fold(json!({}), |inner, name| json!({ *name: inner }));
    json!({
        "code": -32021,
        "message": missing_text(path),
        "data": { "requiredCapabilities": required },
    })
    .to_string()
}

/// The same in words, for whom the code is unknown.
pub(super) fn missing_text(path: &[&str]) -> String {
    format!("this needs the client capability {}; declare it and call again", path.join("."))
}
