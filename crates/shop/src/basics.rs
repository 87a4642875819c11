//! Tools that change nothing: an echo, and a slow one that shows progress and hears a cancel.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast::core::exchange::{Finite, Progress};
use steadfast::server::tools::{Call, ToolResult, Tools};

/// Adds `echo` and `slow`.
pub(crate) fn add(tools: Tools) -> Tools {
    tools
        .with("echo", "Returns its arguments as they came.", json!({ "type": "object" }), |call| async move {
            ToolResult::structured(Value::Object(call.arguments))
        })
        .with(
            "slow",
            "Works in steps, reports each, and stops when it is cancelled.",
            json!({
                "type": "object",
                "properties": {
                    "steps": { "type": "integer", "minimum": 1, "maximum": 1_000_000 },
                    "step_ms": { "type": "integer", "minimum": 0, "maximum": 60_000 },
                },
            }),
            |call| async move {
                let Call { arguments, context, .. } = call;
                let steps = number(&arguments, "steps", 10);
                let step = Duration::from_millis(number(&arguments, "step_ms", 100));
                eprintln!("shop: slow began");
                for done in 1..=steps {
                    tokio::select! {
                        () = tokio::time::sleep(step) => {}
                        () = context.cancelled().cancelled() => {
                            eprintln!("shop: slow was cancelled after {} of {steps} steps", done - 1);
                            return ToolResult::error("cancelled");
                        }
                    }
                    if let (Some(value), total) = (Finite::new(done as f64), Finite::new(steps as f64)) {
                        let message = Some(format!("step {done} of {steps}").as_str().into());
                        context.progress(Progress { value, total, message });
                    }
                }
                ToolResult::text(format!("{steps} steps done"))
            },
        )
}

fn number(arguments: &serde_json::Map<String, Value>, name: &str, default: u64) -> u64 {
    arguments.get(name).and_then(Value::as_u64).unwrap_or(default)
}
