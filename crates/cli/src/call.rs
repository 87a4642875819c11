//! `steadfast call`: one tool call from the command line.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{Answered, CallOptions, Category, Client, Command, Config, Error};
use steadfast::core::error;
use steadfast::core::exchange::{Clock, Limits, Progress};
use steadfast::core::ijson::Document;
use steadfast::core::object::{self, Members};
use steadfast::core::units;
use tokio_util::sync::CancellationToken;

use crate::exit::{Code, Failure, Outcome};

/// How long a child may take to leave after its stdin was closed.
const CHILD_GRACE: Duration = Duration::from_secs(2);

/// Calls one tool and prints its result.
#[derive(clap::Args)]
#[command(
    override_usage = "steadfast call [OPTIONS] <URL> <TOOL> [JSON]\n       steadfast call [OPTIONS] <TOOL> [JSON] -- <COMMAND>...",
    after_help = "Examples:\n  steadfast call http://127.0.0.1:9000/mcp echo '{\"a\":1}'\n  steadfast call count_slowly '{\"steps\":20}' -- steadfast serve --stdio\n\nExit codes: 0 answered; 1 the tool reports a failure; 2 usage; 3 a JSON-RPC error; 4 not executed;\n5 unknown: bytes left and no answer came; 6 a limit was reached; 130 cancelled with Ctrl-C."
)]
pub(crate) struct Args {
    /// The server's URL (left out before `-- COMMAND`), the tool's name, and its arguments as a JSON object.
    #[arg(value_name = "URL TOOL JSON", num_args = 1..=3, required = true)]
    words: Vec<String>,
    /// A server to start and to speak to over stdio.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// The longest silence, such as 500ms, 30s or 5m.
    #[arg(long, value_name = "D", default_value = "5m", value_parser = units::duration)]
    idle: Duration,
    /// The longest time in all.
    #[arg(long, value_name = "D", default_value = "30m", value_parser = units::duration)]
    max: Duration,
    /// The idempotency key of this business intent: the same key never runs twice where someone enforces it.
    #[arg(long, value_name = "K")]
    key: Option<String>,
    /// Print one JSON object that says how the call ended.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let limits = Limits::new(args.idle, args.max)?;
    let mut words = args.words.iter();
    let url = if args.command.is_empty() { words.next() } else { None };
    let Some(tool) = words.next() else {
        return Err(Failure::new(Code::Usage, "no tool is named; write steadfast call URL TOOL [JSON]"));
    };
    // As it was typed: a number keeps its digits, and a member that stands twice is for the guard to refuse.
    let arguments = words.next().map_or("{}", String::as_str);
    let guarded = Document::parse(arguments.as_bytes())
        .map_err(|fault| Failure::new(Code::Usage, format!("the arguments cannot be sent: {fault}")))?;
    if !guarded.is_object() {
        return Err(Failure::new(Code::Usage, "the arguments are not a JSON object; write '{\"name\":1}'"));
    }
    if words.next().is_some() {
        return Err(Failure::new(Code::Usage, "too many words; a COMMAND stands behind --"));
    }
    let mut params = Members::default();
    params.set("name", object::string(tool));
    params.set("arguments", arguments);
    let params = params.to_json();
    crate::exit::run_async(async {
        let client = match (url, args.command.split_first()) {
            (Some(url), _) => Client::of_url(url)?,
            (None, Some((program, rest))) => Client::of_command(Command {
                program: program.into(),
                args: rest.iter().map(Into::into).collect(),
                env: Vec::new(),
                cwd: None,
            }),
            (None, None) => {
                return Err(Failure::new(Code::Usage, "no server is named; give a URL or -- COMMAND"));
            }
        };
        let client = client.config(Config { limits, ..Config::default() }).build();
        let cancel = CancellationToken::new();
        let on_ctrl_c = cancel.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                on_ctrl_c.cancel();
            }
        });
        let shown = std::io::stderr().is_terminal() && !args.json;
        let (count, counted) = std::sync::mpsc::channel();
        let options = CallOptions {
            key: args.key.clone(),
            on_progress: Some(Box::new(move |progress| {
                if shown {
                    show(&progress);
                }
                let _ = count.send(());
            })),
            cancel,
            ..CallOptions::default()
        };
        let ended = client.request("tools/call", &params, options).await;
        if shown {
            eprint!("\r\x1b[K");
        }
        let call_id = ended.as_ref().map_or_else(Error::call_id, |answered| &answered.call_id).to_owned();
        let sent = client.records(&call_id).iter().any(|record| record.sent);
        let code = print(&ended, sent, counted.try_iter().count(), args.json)?;
        client.close(CHILD_GRACE).await;
        Ok(code)
    })
}

/// One line that is written over: how far, and what the server says.
fn show(progress: &Progress) {
    let mut stderr = std::io::stderr().lock();
    let of = progress.total.map(|total| format!(" of {}", total.get())).unwrap_or_default();
    let message = progress.message.as_deref().unwrap_or_default();
    let message: String = message.chars().filter(|c| !c.is_control()).take(60).collect();
    let _ = write!(stderr, "\r\x1b[K{}{of} {message}", progress.value.get());
    let _ = stderr.flush();
}

fn print(ended: &Result<Answered, Error>, sent: bool, progress_events: usize, as_json: bool) -> Outcome {
    let answer: Option<Value> = match ended {
        Ok(answered) => serde_json::from_slice(&answered.result).ok(),
        Err(Error::Protocol { raw, .. }) => serde_json::from_str(raw).ok(),
        Err(Error::Transport { .. } | Error::Local { .. }) => None,
    };
    let (word, code) = match ended {
        Ok(_) if answer.as_ref().is_some_and(|answer| answer["isError"] == true) => {
            ("tool_error", Some(Code::Negative))
        }
        Ok(_) => ("completed", None),
        Err(error) => classify(error),
    };
    let mut stdout = std::io::stdout().lock();
    if as_json {
        let report = json!({
            "terminal": word,
            "sent": sent,
            "progress_events": progress_events,
            "remark": ended.as_ref().err().map(ToString::to_string),
            "answer": answer,
        });
        writeln!(stdout, "{report}")?;
    } else {
        match (ended, answer) {
            (Ok(_) | Err(Error::Protocol { .. }), Some(answer)) => {
                for text in
                    answer["content"].as_array().into_iter().flatten().filter_map(|c| c["text"].as_str())
                {
                    writeln!(stdout, "{text}")?;
                }
                if answer.get("content").is_none() {
                    writeln!(stdout, "{answer}")?;
                }
            }
            (Err(error), _) => eprintln!("steadfast: {error}"),
            (Ok(_), None) => {}
        }
    }
    Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// How a call without a result ended, in a word, and the exit code.
const fn classify(error: &Error) -> (&'static str, Option<Code>) {
    match error {
        Error::Protocol { .. } => ("failed", Some(Code::Protocol)),
        Error::Local { category: Category::ClientCancelled, .. } => ("cancelled", Some(Code::Cancelled)),
        Error::Local { clock: Some(clock), outcome: error::Outcome::Unknown, .. } => match clock {
            Clock::Idle => ("timed_out_idle", Some(Code::TimedOut)),
            Clock::Maximum => ("timed_out_max", Some(Code::TimedOut)),
        },
        Error::Transport { outcome, .. } | Error::Local { outcome, .. } => match outcome {
            error::Outcome::NotExecuted => ("not_executed", Some(Code::NotExecuted)),
            error::Outcome::Executed | error::Outcome::Unknown => ("unknown", Some(Code::Unknown)),
        },
    }
}
