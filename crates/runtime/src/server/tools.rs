//! Local tools as a [`Service`]: `server/discover`, `tools/list` and `tools/call`.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steadfast_core::exchange::Reply;
use steadfast_core::object::Members;

use super::{Answering, Context, Request, Service};
use crate::message;

/// What a tool returns: text for a model, and whether it tells of a failure of the tool's own work.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The same content once more as data, where there is any.
    pub structured: Option<Value>,
    /// For a model to read.
    pub text: String,
    /// The tool's own failure; a completed call all the same (ERR-14).
    pub is_error: bool,
}

impl ToolResult {
    /// A result that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { structured: None, text: text.into(), is_error: false }
    }

    /// A result that is data; its text is the same as JSON.
    pub fn structured(value: Value) -> Self {
        Self { text: value.to_string(), structured: Some(value), is_error: false }
    }

    /// A failure of the tool's work.
    pub fn error(text: impl Into<String>) -> Self {
        Self { structured: None, text: text.into(), is_error: true }
    }

    fn to_json(&self) -> Value {
        let mut result = json!({
            "resultType": "complete",
            "content": [{ "type": "text", "text": self.text }],
        });
        if let Some(structured) = &self.structured {
            result["structuredContent"] = structured.clone();
        }
        if self.is_error {
            result["isError"] = Value::Bool(true);
        }
        result
    }
}

type Handler = Arc<
    dyn Fn(Map<String, Value>, Context) -> Pin<Box<dyn Future<Output = ToolResult> + Send>> + Send + Sync,
>;

struct Tool {
    description: String,
    input_schema: Value,
    handler: Handler,
}

/// A set of tools under one server name, listed in the order of their names (STA-08).
pub struct Tools {
    server: Value,
    tools: BTreeMap<String, Tool>,
}

impl Tools {
    /// An empty set. `name` and `version` are what the server says of itself.
    pub fn new(name: &str, version: &str) -> Self {
        Self { server: json!({ "name": name, "version": version }), tools: BTreeMap::new() }
    }

    /// Adds a tool. `input_schema` is a JSON Schema whose root has `type: "object"` (VAL-10).
    #[must_use]
    pub fn with<F, R>(mut self, name: &str, description: &str, input_schema: Value, handler: F) -> Self
    where
        F: Fn(Map<String, Value>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = ToolResult> + Send + 'static,
    {
        let tool = Tool {
            description: description.to_owned(),
            input_schema,
            handler: Arc::new(move |arguments, context| Box::pin(handler(arguments, context))),
        };
        self.tools.insert(name.to_owned(), tool);
        self
    }

    fn complete(&self, mut result: Value) -> super::Answer {
        result["_meta"] = json!({ "io.modelcontextprotocol/serverInfo": self.server });
        Reply::Result(Bytes::from(result.to_string()))
    }

    fn discover(&self) -> super::Answer {
        self.complete(json!({
            "resultType": "complete",
            "supportedVersions": message::SUPPORTED_VERSIONS,
            "capabilities": { "tools": {} },
            "ttlMs": 60_000,
            "cacheScope": "public",
        }))
    }

    fn list(&self) -> super::Answer {
        let tools: Vec<Value> = self
            .tools
            .iter()
            .map(|(name, tool)| {
                json!({ "name": name, "description": tool.description, "inputSchema": tool.input_schema })
            })
            .collect();
        self.complete(json!({
            "resultType": "complete",
            "tools": tools,
            "ttlMs": 60_000,
            "cacheScope": "public",
        }))
    }

    fn call(self: &Arc<Self>, params: &str, context: Context) -> Answering {
        let refuse = |text: String| -> Answering {
            let error = message::error_body(-32602, &text);
            Box::pin(async move { Reply::Error(Bytes::from(error)) })
        };
        let Ok(params) = Members::parse(params) else { return refuse("params must be an object".into()) };
        let Some(name) = params.get_str("name") else { return refuse("params.name must be a string".into()) };
        let Some(tool) = self.tools.get(&name) else {
            return refuse(format!("there is no tool named {name:?}; ask tools/list for the names"));
        };
        let arguments = match params.get("arguments").map(serde_json::from_str::<Map<String, Value>>) {
            None => Map::new(),
            Some(Ok(arguments)) => arguments,
            Some(Err(_)) => return refuse("params.arguments must be an object".into()),
        };
        let this = Arc::clone(self);
        let working = (tool.handler)(arguments, context);
        Box::pin(async move { this.complete(working.await.to_json()) })
    }
}

impl Service for Arc<Tools> {
    fn knows(&self, method: &str) -> bool {
        matches!(method, "server/discover" | "tools/list" | "tools/call")
    }

    fn answer(&self, request: Request, context: Context) -> Answering {
        match request.method.as_str() {
            "server/discover" => {
                let answer = self.discover();
                Box::pin(async move { answer })
            }
            "tools/list" => {
                let answer = self.list();
                Box::pin(async move { answer })
            }
            "tools/call" => self.call(&request.params, context),
            other => {
                let error = message::error_body(-32601, &format!("no such method: {other}"));
                Box::pin(async move { Reply::Error(Bytes::from(error)) })
            }
        }
    }
}
