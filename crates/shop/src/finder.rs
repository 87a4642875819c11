//! The tools by which a caller whose answer was lost finds what was committed under its key.

use std::sync::Arc;

use serde_json::Value;
use steadfast::core::fingerprint::{Key, Scope};
use steadfast::server::toolkit::{Call, DefinitionError, Failure, Tool, ToolResult};
use steadfast_store::Ledger;

use crate::NAME;

/// The key to look for.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wanted {
    /// The idempotencyKey of the call whose answer was lost.
    key: String,
}

/// A tool that finds the committed answers of one operation.
pub(crate) fn tool(
    ledger: &Arc<Ledger>,
    name: &str,
    description: &str,
    operation: &'static str,
) -> Result<Tool, DefinitionError> {
    let ledger = Arc::clone(ledger);
    Tool::new(name, description, move |call: Call, Wanted { key }| {
        let ledger = Arc::clone(&ledger);
        async move { find(&ledger, &call, operation, &key) }
    })
}

fn find(ledger: &Ledger, call: &Call, operation: &str, key: &str) -> Result<ToolResult, Failure> {
    let key =
        Key::new(key).map_err(|_| Failure::failed("key must be a string of 1 to 255 printable bytes"))?;
    let owner = call.dialogue().context().caller().principal.clone();
    let scope = Scope { tenant: owner.tenant, principal: owner.principal, server: NAME.to_owned() };
    match ledger.answer(&scope, &key)? {
        Some((found, answer)) if found == operation => {
            let answer: Value = serde_json::from_slice(&answer.bytes).map_err(|_| {
                Failure::failed("the stored answer cannot be read; restore the store from a backup")
            })?;
            Ok(ToolResult::structured(answer))
        }
        _ => Err(Failure::failed(format!("no {operation} was committed under this key"))),
    }
}
