//! Tools whose calls become tasks.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use steadfast::server::toolkit::{
    Builder, Call, Failure, Question, TaskPolicy, TaskSupport, Tool, ToolResult,
};

use super::Handled;
use super::content::nothing;
use super::questions::{field, form};

/// A task that only reads: nothing is unknown of one that was lost.
const fn policy(support: TaskSupport) -> TaskPolicy {
    TaskPolicy {
        support,
        ttl: Duration::from_secs(3_600),
        poll_interval: Duration::from_millis(500),
        writes: false,
        resumes: false,
    }
}

pub(super) fn add(builder: Builder) -> Builder {
    let at_once = policy(TaskSupport::Optional { after: Duration::ZERO });
    let required = policy(TaskSupport::Required);
    builder
        .tool(Tool::new("slow_compute", "Computes for some seconds.", compute).task(at_once))
        .tool(
            Tool::raw(
                "failing_job",
                "A task that ends as a tool fails.",
                nothing(),
                |call: Call| async move {
                    pause(&call, Duration::from_secs(1)).await?;
                    Ok(ToolResult::error("The job failed, as it was asked to."))
                },
            )
            .task(required),
        )
        .tool(
            Tool::raw(
                "protocol_error_job",
                "A task that ends with a JSON-RPC error.",
                nothing(),
                |call: Call| async move {
                    pause(&call, Duration::from_millis(200)).await?;
                    Err(Failure::protocol(-32603, "The job broke, as it was asked to.", None))
                },
            )
            .task(required),
        )
        .tool(Tool::new("confirm_delete", "Asks before it deletes nothing.", confirm_delete).task(at_once))
        .tool(Tool::raw("multi_input", "Asks two things at once.", nothing(), multi_input).task(at_once))
        .tool(
            Tool::raw("test_tool_with_task", "Asks for a name, then becomes a task.", nothing(), greeting)
                .task(required)
                .asks_first("user_name", question()),
        )
}

/// Waits, or stops when it is cancelled.
async fn pause(call: &Call, time: Duration) -> Result<(), Failure> {
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        () = call.cancelled() => Err(Failure::stopped()),
    }
}

/// How long to compute.
#[derive(Deserialize, schemars::JsonSchema)]
struct Compute {
    /// Seconds, up to an hour.
    #[schemars(range(min = 0.0, max = 3600.0))]
    seconds: f64,
    /// What to call it.
    #[serde(default)]
    label: Option<String>,
}

async fn compute(call: Call, Compute { seconds, label }: Compute) -> Handled {
    let label = label.unwrap_or_else(|| "Computed".into());
    call.report(format!("{label}: computing"));
    pause(&call, Duration::from_secs_f64(seconds)).await?;
    Ok(ToolResult::text(format!("{label} for {seconds} s")))
}

/// What to delete.
#[derive(Deserialize, schemars::JsonSchema)]
struct Delete {
    /// The name of a file that is not touched.
    filename: String,
}

async fn confirm_delete(call: Call, Delete { filename }: Delete) -> Handled {
    let question = form(&format!("Delete {filename}?"), "confirm", "boolean");
    let answer = call.ask("confirm", question).await?;
    let confirmed = answer["content"]["confirm"] == true;
    Ok(ToolResult::text(if confirmed { format!("Deleted {filename}") } else { format!("Kept {filename}") }))
}

async fn multi_input(call: Call) -> Handled {
    let question = |message: &str| {
        let properties = json!({ "name": { "type": "string" }, "confirm": { "type": "boolean" } });
        Question::form(message, json!({ "type": "object", "properties": properties }))
    };
    let answers = call.ask_all([("first", question("First?")), ("second", question("Second?"))]).await?;
    Ok(ToolResult::text(format!("{} answers", answers.len())))
}

fn question() -> Question {
    form("What is your name?", "name", "string")
}

async fn greeting(call: Call) -> Handled {
    let answer = call.ask("user_name", question()).await?;
    Ok(ToolResult::text(format!("Hello, {}!", field(&answer, "name"))))
}
