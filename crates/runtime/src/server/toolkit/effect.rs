//! Effects that commit together with the record of their key (G7).

use std::sync::Arc;

use serde_json::Value;
use steadfast_core::error::Outcome;
use steadfast_core::fingerprint::{Key, Scope};
use steadfast_store::{Effect, ExecuteError, Executed, Execution, Ledger, Refusal, StoreError};
use tokio::sync::oneshot;

use super::content::ToolResult;
use super::failure::Failure;
use crate::message::OwnError;

/// Runs an effect at most once under its key, or, without one, each time: see [`super::Call::execute`].
pub(super) async fn execute<F>(
    ledger: &Arc<Ledger>,
    scope: Scope,
    key: Option<Key>,
    bound: &[u8],
    operation: &'static str,
    effect: F,
) -> ToolResult
where
    F: FnMut(&Effect<'_>) -> Result<Value, Refusal> + Send + 'static,
{
    let (told, outcome) = oneshot::channel();
    let execution = Execution { scope, key, operation, arguments: bound };
    ledger.execute_then(execution, as_bytes(effect), move |executed| {
        // A caller that left does not need to know: the record does.
        let _ = told.send(executed);
    });
    match outcome.await {
        Ok(Ok(executed)) => result(&executed),
        Ok(Err(error)) => refused(&error),
        Err(_) => refused(&ExecuteError::Store(StoreError::Closed)),
    }
}

/// The committed answer of one operation under a key: see [`super::Call::find`].
pub(super) async fn find(
    ledger: &Arc<Ledger>,
    scope: Scope,
    operation: &'static str,
    key: Key,
) -> Result<Option<Value>, Failure> {
    let ledger = Arc::clone(ledger);
    // The file is read on a thread that may wait for its disk.
    let found = tokio::task::spawn_blocking(move || ledger.answer(&scope, &key));
    let found = found.await.unwrap_or(Err(StoreError::Closed))?;
    match found {
        Some((committed, answer)) if committed == operation => {
            serde_json::from_slice(&answer.bytes).map(Some).map_err(|_| Failure::failed(UNREADABLE))
        }
        Some(_) | None => Ok(None),
    }
}

const UNREADABLE: &str = "the stored answer cannot be read; restore the store from a backup";

/// An effect whose answer is data, as the ledger stores it.
fn as_bytes<F>(mut effect: F) -> impl FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal> + Send + 'static
where
    F: FnMut(&Effect<'_>) -> Result<Value, Refusal> + Send + 'static,
{
    move |inside| effect(inside).map(|answer| answer.to_string().into_bytes())
}

fn result(executed: &Executed) -> ToolResult {
    // Rebuilt from the stored bytes, for the first caller as for every later one (D-13).
    let Ok(answer) = serde_json::from_slice(&executed.answer) else {
        return ToolResult::error(UNREADABLE);
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
    ToolResult::own_error(&OwnError::local(category, outcome, &text))
}
