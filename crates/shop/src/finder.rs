//! The tools by which a caller whose answer was lost finds what was committed under its key.

use steadfast::server::toolkit::{Call, Failure, Tool, ToolResult};

/// The key to look for.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wanted {
    /// The idempotencyKey of the call whose answer was lost.
    key: String,
}

/// A tool that finds the committed answers of one operation.
pub(crate) fn tool(name: &str, description: &str, operation: &'static str) -> Tool {
    Tool::new(name, description, move |call: Call, Wanted { key }| async move {
        match call.find(operation, &key).await? {
            Some(answer) => Ok(ToolResult::structured(answer)),
            None => Err(Failure::failed(format!("no {operation} was committed under this key"))),
        }
    })
}
