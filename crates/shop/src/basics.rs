//! Tools that change nothing: an echo, tools that behave, and tools that misbehave.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use steadfast::core::error::Outcome;
use steadfast::core::exchange::{Finite, Progress};
use steadfast::message::OwnError;
use steadfast::server::Level;
use steadfast::server::toolkit::{Builder, Call, Content, Failure, Tool, ToolResult};

type Handled = Result<ToolResult, Failure>;

pub(crate) fn add(builder: Builder) -> Builder {
    builder
        .tool(Tool::raw(
            "echo",
            "Returns its arguments as they came.",
            json!({ "type": "object" }),
            |call: Call| async move { Ok(ToolResult::structured(Value::Object(call.arguments().clone()))) },
        ))
        .tool(Tool::new(
            "count_slowly",
            "Counts in steps, reports each, and stops when it is cancelled.",
            |call, count| count_slowly(call, count, true),
        ))
        .tool(Tool::new("stubborn", "Counts in steps and does not hear a cancel.", |call, count| {
            count_slowly(call, count, false)
        }))
        .tool(Tool::new("chatty", "Reports and logs more than anybody can read.", chatty))
        .tool(Tool::new("big_result", "Returns a text of as many bytes as asked for.", big_result))
        .tool(Tool::new("fail_in", "Fails in the way it is told.", fail_in))
}

/// How far to count.
#[derive(Deserialize, schemars::JsonSchema)]
struct Count {
    /// How many steps.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 1_000_000))]
    steps: u32,
    /// How long each takes, in milliseconds.
    #[serde(default = "hundred")]
    #[schemars(range(min = 0, max = 60_000))]
    step_ms: u32,
}

pub(crate) const fn ten() -> u32 {
    10
}

pub(crate) const fn hundred() -> u32 {
    100
}

async fn count_slowly(call: Call, Count { steps, step_ms }: Count, hears: bool) -> Handled {
    let context = call.context();
    let name = if hears { "count_slowly" } else { "stubborn" };
    let step = Duration::from_millis(step_ms.into());
    eprintln!("shop: {name} began");
    for done in 1..=steps {
        tokio::select! {
            () = tokio::time::sleep(step) => {}
            () = call.cancelled(), if hears => {
                eprintln!("shop: {name} was cancelled after {} of {steps} steps", done - 1);
                return Err(Failure::stopped());
            }
        }
        if let (Some(value), total) = (Finite::new(done.into()), Finite::new(steps.into())) {
            let message = Some(format!("step {done} of {steps}").as_str().into());
            context.progress(Progress { value, total, message });
        }
    }
    Ok(ToolResult::text(format!("{steps} steps done")))
}

/// How much to say.
#[derive(Deserialize, schemars::JsonSchema)]
struct Chat {
    /// How many progress events, with a log entry of 1 KiB each for who asked for entries.
    #[serde(default = "thousands")]
    #[schemars(range(min = 1, max = 1_000_000))]
    events: u32,
}

const fn thousands() -> u32 {
    10_000
}

async fn chatty(call: Call, Chat { events }: Chat) -> Handled {
    let context = call.context();
    let entry = json!("x".repeat(1_024));
    for event in 1..=events {
        if context.cancelled().is_cancelled() {
            return Err(Failure::stopped());
        }
        call.progress(event.into(), events.into());
        context.log(Level::Debug, Some("chatty"), &entry);
        tokio::task::yield_now().await;
    }
    Ok(ToolResult::text(format!("{events} events told")))
}

/// How much to return.
#[derive(Deserialize, schemars::JsonSchema)]
struct Size {
    /// The size of the text, in bytes.
    #[schemars(range(min = 0, max = 67_108_864))]
    bytes: usize,
}

async fn big_result(_call: Call, Size { bytes }: Size) -> Handled {
    Ok(ToolResult::of([Content::text("x".repeat(bytes))]))
}

/// How to fail.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Way {
    /// A result with `isError`.
    Tool,
    /// The JSON-RPC error -32603.
    Protocol,
    /// An error that Steadfast makes itself: the outcome is not known.
    Local,
    /// A panic of the handler.
    Panic,
    /// No answer until a limit is reached.
    Never,
}

/// Which of them.
#[derive(Deserialize, schemars::JsonSchema)]
struct Fail {
    /// The kind of the failure.
    kind: Way,
}

async fn fail_in(call: Call, Fail { kind }: Fail) -> Handled {
    match kind {
        Way::Tool => Ok(ToolResult::error("The tool failed, as it was asked to.")),
        Way::Protocol => Err(Failure::protocol(-32603, "The tool broke, as it was asked to.", None)),
        Way::Local => {
            let error = OwnError::local("asked_for", Outcome::Unknown, "this error was asked for");
            Err(Failure::own(&error))
        }
        Way::Panic => panic!("as it was asked to"),
        Way::Never => {
            call.cancelled().await;
            Err(Failure::stopped())
        }
    }
}
