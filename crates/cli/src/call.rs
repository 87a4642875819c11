//! `steadfast call`: one tool call from the command line.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use steadfast::client::{Answered, CallOptions, Category, Error};
use steadfast::core::error;
use steadfast::core::exchange::Clock;
use steadfast::core::ijson::{self, Document};
use steadfast::core::object::Members;

use crate::exit::{Code, Failure, Outcome};
use crate::progress::Bar;
use crate::server::{self, Place};
use crate::ui;

/// Calls one tool and prints its result.
#[derive(clap::Args)]
#[command(
    override_usage = "steadfast call [OPTIONS] <URL> <TOOL> [JSON]\n       steadfast call [OPTIONS] --config <FILE> <SERVER> <TOOL> [JSON]\n       steadfast call [OPTIONS] <TOOL> [JSON] -- <COMMAND>...",
    after_help = format!("Examples:\n  steadfast call http://127.0.0.1:9000/mcp echo '{{\"a\":1}}'\n  steadfast call --config steadfast.toml shop echo\n  steadfast call count_slowly '{{\"steps\":20}}' -- steadfast serve --stdio\n\n{}", server::EXIT_CODES)
)]
pub(crate) struct Args {
    /// The server (left out before `-- COMMAND`), the tool's name, and its arguments as a JSON object.
    #[arg(value_name = "SERVER TOOL JSON", num_args = 1..=3, required = true)]
    words: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// The idempotency key of this business intent: the same key never runs twice where someone enforces it.
    #[arg(long, value_name = "K")]
    key: Option<String>,
    /// Print one JSON object that says how the call ended.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    crate::exit::run_async(async {
        let mut words = args.words.iter();
        let session = args.place.open(&mut words)?;
        let Some(tool) = words.next() else {
            return Err(Failure::new(
                Code::Usage,
                "no tool is named; write steadfast call SERVER TOOL [JSON]",
            ));
        };
        let arguments = words.next().map_or("{}", String::as_str);
        check(arguments, args.key.is_some())?;
        if words.next().is_some() {
            return Err(Failure::new(Code::Usage, "too many words; a COMMAND stands behind --"));
        }
        let cancel = crate::exit::cancel_when_asked();
        let bar = Bar::start(std::io::stderr().is_terminal() && !args.json);
        let shown = bar.clone();
        let heard = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&heard);
        let options = CallOptions {
            key: args.key.clone(),
            on_progress: Some(Box::new(move |progress| {
                shown.show(&progress);
                count.fetch_add(1, Ordering::Relaxed);
            })),
            cancel,
            ..CallOptions::default()
        };
        let ended = session.client.call_tool(tool, arguments, options).await;
        bar.clear();
        let call_id = ended.as_ref().map_or_else(Error::call_id, |answered| &answered.call_id);
        let sent = session.client.records(call_id).iter().any(|record| record.sent);
        let result = ended.as_ref().ok().and_then(|answered| serde_json::from_slice(&answered.result).ok());
        let (word, code) = end(&ended, result.as_ref());
        let printed = if args.json {
            let peers_error = match &ended {
                Err(Error::Protocol { raw, .. }) => serde_json::from_str(raw).ok(),
                Ok(_) | Err(Error::Transport { .. } | Error::Local { .. }) => None,
            };
            ui::json(&json!({
                "terminal": word,
                "call_id": call_id,
                "sent": sent,
                "outcome": ended.as_ref().map_or_else(Error::outcome, |_| error::Outcome::Executed).as_str(),
                "progress_events": heard.load(Ordering::Relaxed),
                "remark": ended.as_ref().err().map(ToString::to_string),
                "answer": result.or(peers_error),
            }))
        } else {
            result.as_ref().map_or(Ok(()), print)
        };
        session.end().await;
        printed?;
        match ended {
            Err(error) if !args.json => Err(session.failure(&error, true)),
            Ok(_) | Err(_) => Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from)),
        }
    })
}

/// The arguments leave as they were typed: a number keeps its digits, and a member that stands twice is refused. Under a
/// key they must have a fingerprint too, which no number beyond a double has.
fn check(arguments: &str, keyed: bool) -> Result<(), Failure> {
    let checked =
        if keyed { Document::parse(arguments.as_bytes()).map(drop) } else { ijson::check(arguments) };
    checked.map_err(|fault| Failure::new(Code::Usage, format!("the arguments cannot be sent: {fault}")))?;
    Members::parse(arguments)
        .map(drop)
        .map_err(|_| Failure::new(Code::Usage, "the arguments are not a JSON object; write '{\"name\":1}'"))
}

/// A result for a person: its texts, and of what is no text what it is.
fn print(result: &Value) -> std::io::Result<()> {
    let content = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    if content.is_empty() {
        return ui::said(&result.get("structuredContent").unwrap_or(result).to_string());
    }
    for block in content {
        match (block["text"].as_str(), block["type"].as_str(), block["uri"].as_str()) {
            (Some(text), ..) => ui::said(text)?,
            (None, Some(kind), Some(uri)) => ui::said(&format!("[{kind} {uri}]"))?,
            (None, kind, _) => ui::said(&format!("[{}]", kind.unwrap_or("something else")))?,
        }
    }
    Ok(())
}

/// How a call ended, in a word, and the exit code of what is no success.
fn end(ended: &Result<Answered, Error>, result: Option<&Value>) -> (&'static str, Option<Code>) {
    let error = match ended {
        Ok(_) if result.is_some_and(|result| result["isError"] == true) => {
            return ("tool_error", Some(Code::Tool));
        }
        Ok(_) => return ("completed", None),
        Err(error) => error,
    };
    let word = match error {
        Error::Protocol { .. } => "failed",
        Error::Local { category: Category::ClientCancelled, .. } => "cancelled",
        Error::Local { clock: Some(Clock::Idle), .. } => "timed_out_idle",
        Error::Local { clock: Some(Clock::Maximum), .. } => "timed_out_max",
        Error::Transport { outcome, .. } | Error::Local { outcome, .. } => outcome.as_str(),
    };
    (word, Some(server::code(error, true)))
}
