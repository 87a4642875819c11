//! Tools that tell something while they run: progress, log entries, changes, a connection that ends early.

use std::time::Duration;

use serde_json::json;
use steadfast::core::subscription::Change;
use steadfast::server::toolkit::{Builder, Call, Tool, ToolResult};
use steadfast::server::{Changes, Level};

use super::Handled;
use super::content::nothing;

/// Between two things that are told.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn add(builder: Builder) -> Builder {
    let changes = builder.changes().clone();
    let change = |name: &str, description: &str, changes: Changes, change: Change| {
        Tool::raw(name, description, nothing(), move |_| {
            changes.publish(&change);
            async { Ok(ToolResult::text("The change was told.")) }
        })
    };
    builder
        .tool(Tool::raw("test_tool_with_progress", "Reports 0, 50 and 100 of 100.", nothing(), progress))
        .tool(Tool::raw("test_tool_with_logging", "Writes three log entries.", nothing(), logging))
        .tool(Tool::raw("test_logging_tool", "Writes one log entry.", nothing(), |call: Call| async move {
            call.context().log(Level::Info, Some("everything"), &json!("Logged"));
            Ok(ToolResult::text("Logged, if you asked for it."))
        }))
        .tool(change(
            "test_trigger_tool_change",
            "Says that the tools changed.",
            changes.clone(),
            Change::Tools,
        ))
        .tool(change(
            "test_trigger_prompt_change",
            "Says that the prompts changed.",
            changes,
            Change::Prompts,
        ))
        .tool(Tool::raw(
            "test_reconnection",
            "Ends its connection before its answer, where a client may come back for it.",
            nothing(),
            |call: Call| async move {
                call.context().hang_up(Duration::from_millis(100));
                tokio::time::sleep(PAUSE * 4).await;
                Ok(ToolResult::text("Reconnection test completed"))
            },
        ))
}

async fn progress(call: Call) -> Handled {
    for value in [0.0, 50.0, 100.0] {
        call.progress(value, 100.0);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(ToolResult::text("Reported three times."))
}

async fn logging(call: Call) -> Handled {
    for entry in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        call.context().log(Level::Info, Some("everything"), &json!(entry));
        tokio::time::sleep(PAUSE).await;
    }
    Ok(ToolResult::text("Logged three times."))
}
