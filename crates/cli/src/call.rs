//! `steadfast call`: one tool call from the command line.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::client::{Client, Command, Ended, RequestOptions};
use steadfast::core::exchange::requester::End;
use steadfast::core::exchange::{Clock, Limits, Progress, Reply};
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
    if let Some(key) = &args.key {
        params.set("_meta", json!({ "steadfast/idempotencyKey": key }).to_string());
    }
    let params = params.to_json();
    crate::exit::run_async(async {
        let client = match (url, args.command.split_first()) {
            (Some(url), _) => Client::http(url)?,
            (None, Some((program, rest))) => Client::spawn(&Command {
                program: program.into(),
                args: rest.iter().map(Into::into).collect(),
                env: Vec::new(),
                cwd: None,
            })?,
            (None, None) => {
                return Err(Failure::new(Code::Usage, "no server is named; give a URL or -- COMMAND"));
            }
        };
        let cancel = CancellationToken::new();
        let on_ctrl_c = cancel.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                on_ctrl_c.cancel();
            }
        });
        let shown = std::io::stderr().is_terminal() && !args.json;
        let (count, counted) = std::sync::mpsc::channel();
        let options = RequestOptions {
            limits,
            on_progress: Some(Box::new(move |progress| {
                if shown {
                    show(&progress);
                }
                let _ = count.send(());
            })),
            cancel,
            ..RequestOptions::default()
        };
        let ended = client.request("tools/call", &params, options).await?;
        if shown {
            eprint!("\r\x1b[K");
        }
        let code = print(&ended, limits, counted.iter().count(), args.json)?;
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

fn print(ended: &Ended, limits: Limits, progress_events: usize, as_json: bool) -> Outcome {
    let (word, code) = match &ended.end {
        End::Answered(reply) => classify(reply),
        End::Cancelled => ("cancelled", Some(Code::Cancelled)),
        End::TimedOut(clock) if ended.sent => (timed_out(clock.as_str()), Some(Code::TimedOut)),
        End::TimedOut(_) => ("not_executed", Some(Code::NotExecuted)),
        End::Lost | End::CancelledByPeer if ended.sent => ("unknown", Some(Code::Unknown)),
        End::Lost | End::CancelledByPeer => ("not_executed", Some(Code::NotExecuted)),
    };
    let answer: Option<Value> = match &ended.end {
        End::Answered(Reply::Result(raw) | Reply::Error(raw)) => serde_json::from_slice(raw).ok(),
        End::Cancelled | End::CancelledByPeer | End::TimedOut(_) | End::Lost => None,
    };
    let mut stdout = std::io::stdout().lock();
    if as_json {
        let report = json!({
            "terminal": word,
            "sent": ended.sent,
            "progress_events": progress_events,
            "remark": ended.remark,
            "answer": answer,
        });
        writeln!(stdout, "{report}")?;
    } else {
        match answer {
            Some(answer) => {
                for text in
                    answer["content"].as_array().into_iter().flatten().filter_map(|c| c["text"].as_str())
                {
                    writeln!(stdout, "{text}")?;
                }
                if answer.get("content").is_none() {
                    writeln!(stdout, "{answer}")?;
                }
            }
            None => eprintln!("steadfast: {}", told(ended, limits)),
        }
    }
    Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// How a call without an answer ended, what is known of its effect, and what to do.
fn told(ended: &Ended, limits: Limits) -> String {
    let what = match &ended.end {
        End::Cancelled => "the call was cancelled".to_owned(),
        End::TimedOut(Clock::Idle) => {
            format!("the server was silent for {:?}, the limit set by --idle", limits.idle())
        }
        End::TimedOut(Clock::Maximum) => {
            format!("the call took {:?}, the limit set by --max", limits.maximum())
        }
        End::Lost | End::CancelledByPeer | End::Answered(_) => {
            ended.remark.clone().unwrap_or_else(|| "the server went away before its answer".to_owned())
        }
    };
    let effect = if ended.sent {
        "it may have been executed, so look before you repeat it"
    } else {
        "nothing was sent, so nothing was executed"
    };
    format!("{what}; {effect}")
}

/// What an answer says: also that a gateway on the way could not get one, and what is known then (ruling 9).
fn classify(reply: &Reply<Bytes>) -> (&'static str, Option<Code>) {
    let (raw, holder) = match reply {
        Reply::Result(raw) => (raw, "_meta"),
        Reply::Error(raw) => (raw, "data"),
    };
    let value: Value = serde_json::from_slice(raw).unwrap_or_default();
    let own = &value[holder]["steadfast/error"];
    match (own["category"].as_str(), own["outcome"].as_str()) {
        (_, Some("not_executed")) => ("not_executed", Some(Code::NotExecuted)),
        (Some("deadline"), Some("unknown")) => {
            (timed_out(own["clock"].as_str().unwrap_or_default()), Some(Code::TimedOut))
        }
        (_, Some("unknown")) => ("unknown", Some(Code::Unknown)),
        _ => match reply {
            Reply::Result(_) if value["isError"] == true => ("tool_error", Some(Code::Negative)),
            Reply::Result(_) => ("completed", None),
            Reply::Error(_) => ("failed", Some(Code::Protocol)),
        },
    }
}

fn timed_out(clock: &str) -> &'static str {
    if clock == "idle" { "timed_out_idle" } else { "timed_out_max" }
}
