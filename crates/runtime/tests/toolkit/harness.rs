//! Callers, and a way to ask a server that keeps the order of an endpoint's checks.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use serde_json::{Value, json};
use steadfast::core::exchange::Reply;
use steadfast::core::hop::{Revision, Transport};
use steadfast::core::subscription::Filter;
use steadfast::server::toolkit::{Builder, Server, Tool, ToolResult};
use steadfast::server::{
    Answer, Caller, Capabilities, Context, Heard, Listening, Mirrored, MirroredParams, Request, Service,
};
use steadfast_store::Ledger;

pub(crate) fn builder() -> Builder {
    Server::builder("bench", "1.0")
}

/// A tool without arguments that returns a text.
pub(crate) fn plain(name: &str) -> Tool {
    Tool::raw(name, "Says ok.", json!({ "type": "object" }), |_| async { Ok(ToolResult::text("ok")) })
}

/// A modern caller of this name who declares this.
pub(crate) fn modern(principal: &str, capabilities: &Value) -> Caller {
    let mut caller = Caller::local(Transport::Http);
    caller.principal.principal = principal.into();
    caller.capabilities = Capabilities::from_json(&capabilities.to_string());
    caller
}

/// A modern caller who declares nothing.
pub(crate) fn anybody() -> Caller {
    modern("anybody", &json!({}))
}

/// A caller of a legacy session that declares nothing.
pub(crate) fn legacy(revision: Revision) -> Caller {
    Caller { revision, ..anybody() }
}

/// The `Mcp-Param-*` headers of a request.
pub(crate) struct Headers(pub(crate) HashMap<&'static str, &'static str>);

impl MirroredParams for Headers {
    fn get(&self, name: &str) -> Mirrored {
        self.0.get(name).map_or(Mirrored::Absent, |value| Mirrored::Value((*value).to_owned()))
    }
}

/// No headers at all.
struct Lines;

impl MirroredParams for Lines {
    fn get(&self, _: &str) -> Mirrored {
        Mirrored::NotHere
    }
}

/// Asks a server: the result, or the error.
pub(crate) async fn ask(
    server: &Server,
    caller: &Caller,
    method: &str,
    params: Value,
) -> Result<Value, Value> {
    ask_with(server, caller, method, params, &Lines).await
}

/// As [`ask`], with headers.
pub(crate) async fn ask_with(
    server: &Server,
    caller: &Caller,
    method: &str,
    params: Value,
    headers: &(dyn MirroredParams + Sync),
) -> Result<Value, Value> {
    if !server.knows(method, caller) {
        return Err(json!({ "code": -32601 }));
    }
    let request = Request { method: method.into(), params: params.to_string() };
    if let Some(objection) = server.object(&request, caller, headers) {
        let error: Value = serde_json::from_str(&objection.error).unwrap();
        assert_eq!(error["code"], objection.code);
        return Err(error);
    }
    read(server.answer(request, Context::detached(caller.clone())).await)
}

/// Calls a tool.
pub(crate) async fn call(
    server: &Server,
    caller: &Caller,
    name: &str,
    arguments: Value,
) -> Result<Value, Value> {
    ask(server, caller, "tools/call", json!({ "name": name, "arguments": arguments })).await
}

/// The text of a tool's result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}

fn read(answer: Answer) -> Result<Value, Value> {
    match answer {
        Reply::Result(result) => Ok(serde_json::from_slice(&result).unwrap()),
        Reply::Error(error) => Err(serde_json::from_slice(&error).unwrap()),
    }
}

pub(crate) async fn listen(server: &Server, caller: &Caller, wanted: Filter) -> Listening {
    server.listen(caller, wanted).await.unwrap()
}

/// What waits for a listener now.
pub(crate) fn heard(listening: &Listening) -> Option<Heard> {
    match std::pin::pin!(listening.next()).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(heard) => Some(heard),
        Poll::Pending => None,
    }
}

/// A file with a ledger, as long as it is held.
pub(crate) struct Disk(tempfile::TempDir);

impl Disk {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The ledger as one process has it.
    pub(crate) fn ledger(&self) -> Arc<Ledger> {
        Arc::new(Ledger::open(self.0.path().join("s.db"), steadfast_store::Options::default()).unwrap())
    }
}
