//! Local tools as a [`Service`]: `server/discover`, `tools/list` and `tools/call`.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steadfast_core::envelope::{self, NotAString, Params};
use steadfast_core::exchange::Reply;
use steadfast_core::fingerprint::{Carrier, Key};
use steadfast_core::ijson::Document;

use super::{Answering, Context, Request, Service};
use crate::message::{self, OwnError};

/// The argument that carries an idempotency key, as a pointer into the arguments.
const KEY_POINTER: &str = "/idempotencyKey";

/// One call of a tool.
#[derive(Debug)]
pub struct Call {
    /// The arguments, as they came.
    pub arguments: Map<String, Value>,
    /// The business intent, where the caller named one: in `_meta["steadfast/idempotencyKey"]`, in
    /// `params.idempotencyKey` or in the argument `idempotencyKey`.
    pub key: Option<Key>,
    /// With a key: the canonical arguments without the member that carries it, which the key is bound to.
    pub bound: Vec<u8>,
    /// Progress, and the cancel switch.
    pub context: Context,
}

/// What a tool returns: text for a model, and whether it tells of a failure of the tool's own work.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The same content once more as data, where there is any.
    pub structured: Option<Value>,
    /// For a model to read.
    pub text: String,
    /// The tool's own failure; a completed call all the same (ERR-14).
    pub is_error: bool,
    /// Members for the result's `_meta`, such as `steadfast/replayed`.
    pub meta: Map<String, Value>,
}

impl ToolResult {
    /// A result that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { structured: None, text: text.into(), is_error: false, meta: Map::new() }
    }

    /// A result that is data; its text is the same as JSON.
    pub fn structured(value: Value) -> Self {
        Self { text: value.to_string(), structured: Some(value), is_error: false, meta: Map::new() }
    }

    /// A failure of the tool's work.
    pub fn error(text: impl Into<String>) -> Self {
        Self { structured: None, text: text.into(), is_error: true, meta: Map::new() }
    }

    /// An error that was made by Steadfast on this side of the tool, and says what is known of the effect.
    pub fn own_error(error: &OwnError<'_>) -> Self {
        let mut result = Self::error(error.sentence());
        result.meta.insert("steadfast/error".into(), error.member());
        result
    }

    /// Marks the result as an earlier execution's.
    #[must_use]
    pub fn replayed(mut self) -> Self {
        self.meta.insert("steadfast/replayed".into(), Value::Bool(true));
        self
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
        if !self.meta.is_empty() {
            result["_meta"] = Value::Object(self.meta.clone());
        }
        result
    }
}

type Handler = Arc<dyn Fn(Call) -> Pin<Box<dyn Future<Output = ToolResult> + Send>> + Send + Sync>;

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
        F: Fn(Call) -> R + Send + Sync + 'static,
        R: Future<Output = ToolResult> + Send + 'static,
    {
        let tool = Tool {
            description: description.to_owned(),
            input_schema,
            handler: Arc::new(move |call| Box::pin(handler(call))),
        };
        self.tools.insert(name.to_owned(), tool);
        self
    }

    fn complete(&self, mut result: Value) -> super::Answer {
        result["_meta"]["io.modelcontextprotocol/serverInfo"] = self.server.clone();
        Reply::Result(Bytes::from(result.to_string()))
    }

    fn discover(&self) -> super::Answer {
        self.complete(json!({
            "resultType": "complete",
            "supportedVersions": [message::MODERN_VERSION],
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
        let params = match envelope::params_of(params) {
            Ok(params) => params,
            Err(error) => return refuse(error.to_string()),
        };
        let Some(name) = &params.name else { return refuse("params.name must be a string".into()) };
        let Some(tool) = self.tools.get(&**name) else {
            return refuse(format!("there is no tool named {name:?}; ask tools/list for the names"));
        };
        let raw_arguments = params.arguments.map_or("{}", |raw| raw.get());
        let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(raw_arguments) else {
            return refuse("params.arguments must be an object".into());
        };
        let key = match key_of(&params, &arguments) {
            Ok(key) => key,
            Err(error) => return refuse(error),
        };
        let mut bound = Vec::new();
        if key.is_some() {
            // From the text that came: the parsed arguments no longer show what two readers could read differently.
            match Document::parse(raw_arguments.as_bytes()) {
                Ok(mut document) => {
                    document.remove(KEY_POINTER);
                    bound = document.canonical().into_bytes();
                }
                Err(fault) => return refuse(format!("the arguments cannot be bound to a key: {fault}")),
            }
        }
        let this = Arc::clone(self);
        let working = (tool.handler)(Call { arguments, key, bound, context });
        Box::pin(async move { this.complete(working.await.to_json()) })
    }
}

/// The key that the carriers of a call agree on.
fn key_of(params: &Params<'_>, arguments: &Map<String, Value>) -> Result<Option<Key>, String> {
    let mut carried = [None, None, None];
    for (place, key) in carried.iter_mut().zip([&params.meta.idempotency_key, &params.idempotency_key]) {
        *place = key.as_ref().map(|key| key.as_deref()).transpose().map_err(ToString::to_string)?;
    }
    carried[2] = match arguments.get("idempotencyKey") {
        None => None,
        Some(Value::String(key)) => Some(key),
        // A key that is no string is an error and not an absent one: its sender believes the call to be keyed.
        Some(_) => return Err(NotAString.to_string()),
    };
    let carriers = [Carrier::Meta, Carrier::Params, Carrier::Arguments].into_iter().zip(carried);
    Key::from_carriers(carriers).map_err(|error| error.to_string())
}

impl Service for Arc<Tools> {
    fn knows(&self, method: &str, _caller: &super::Caller) -> bool {
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
