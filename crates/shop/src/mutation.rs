//! What the shop's mutations share: how an effect becomes a tool's result, and how a key finds one again.

use std::sync::Arc;

use serde_json::{Value, json};
use steadfast::core::error::{Kind, Outcome};
use steadfast::core::fingerprint::{Key, Scope};
use steadfast::message::OwnError;
use steadfast::server::tools::{Call, ToolResult, Tools};
use steadfast_store::{Effect, ExecuteError, Executed, Execution, Ledger, Refusal};
use tokio::sync::oneshot;

use crate::NAME;

/// Runs an effect under the call's key, or, without one, each time it is called.
pub(crate) async fn run<F>(ledger: Arc<Ledger>, call: Call, operation: &'static str, effect: F) -> ToolResult
where
    F: FnMut(&Effect<'_>) -> Result<Value, Refusal> + Send + 'static,
{
    let (told, outcome) = oneshot::channel();
    let execution = Execution { scope: Scope::local(NAME), key: call.key, operation, arguments: &call.bound };
    ledger.execute_then(execution, as_bytes(effect), move |executed| {
        // A caller that left does not need to know: the record does.
        let _ = told.send(executed);
    });
    match outcome.await {
        Ok(Ok(executed)) => result(&executed),
        Ok(Err(error)) => refused(&error),
        Err(_) => refused(&ExecuteError::Store(steadfast_store::StoreError::Closed)),
    }
}

/// An effect whose answer is data, as the ledger stores it.
fn as_bytes<F>(mut effect: F) -> impl FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal> + Send + 'static
where
    F: FnMut(&Effect<'_>) -> Result<Value, Refusal> + Send + 'static,
{
    move |inside| effect(inside).map(|answer| answer.to_string().into_bytes())
}

/// Adds the tool by which a caller whose answer was lost finds what was committed under its key.
pub(crate) fn add_finder(
    tools: Tools,
    ledger: &Arc<Ledger>,
    name: &str,
    description: &str,
    operation: &'static str,
) -> Tools {
    let ledger = Arc::clone(ledger);
    let schema = json!({
        "type": "object",
        "properties": { "key": { "type": "string" } },
        "required": ["key"],
    });
    tools.with(name, description, schema, move |call| {
        let ledger = Arc::clone(&ledger);
        async move { find(&ledger, operation, call.arguments.get("key").unwrap_or(&Value::Null)) }
    })
}

/// The committed answer of one operation under a key.
fn find(ledger: &Ledger, operation: &str, key: &Value) -> ToolResult {
    let Some(key) = key.as_str().and_then(|key| Key::new(key).ok()) else {
        return ToolResult::error("key must be a string of 1 to 255 printable bytes");
    };
    match ledger.answer(&Scope::local(NAME), &key) {
        Ok(Some((found, answer))) if found == operation => match serde_json::from_slice(&answer.bytes) {
            Ok(answer) => ToolResult::structured(answer),
            Err(_) => ToolResult::error("the stored answer cannot be read; restore the store from a backup"),
        },
        Ok(_) => ToolResult::error(format!("no {operation} was committed under this key")),
        Err(error) => ToolResult::error(error.to_string()),
    }
}

fn result(executed: &Executed) -> ToolResult {
    // Rebuilt from the stored bytes, for the first caller as for every later one (D-13).
    let Ok(answer) = serde_json::from_slice(&executed.answer) else {
        return ToolResult::error("the stored answer cannot be read; restore the store from a backup");
    };
    let result = ToolResult::structured(answer);
    if executed.replayed { result.replayed() } else { result }
}

fn refused(error: &ExecuteError) -> ToolResult {
    let (category, outcome) = match error {
        // The tool's own word, as any tool's.
        ExecuteError::Refused(refusal) => return ToolResult::error(refusal.to_string()),
        ExecuteError::Mismatch => ("key_mismatch", Outcome::NotExecuted),
        ExecuteError::Running => ("key_in_use", Outcome::NotExecuted),
        ExecuteError::Unknown => ("unknown", Outcome::Unknown),
        ExecuteError::Arguments(_) => ("validation", Outcome::NotExecuted),
        ExecuteError::Store(_) => ("store", Outcome::NotExecuted),
    };
    let text = error.to_string();
    ToolResult::own_error(&OwnError {
        kind: Kind::Local,
        category,
        outcome,
        clock: None,
        server: None,
        text: &text,
    })
}
