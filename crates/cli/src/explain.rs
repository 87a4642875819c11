//! `steadfast explain`: what is known of one call, in six answers.

use std::process::ExitCode;

use steadfast::client::{Explanation, Record};
use steadfast::core::time::Wall;
use steadfast_store::{CallView, rfc_3339};

use crate::exit::{Code, Failure, Outcome};
use crate::{log, store, ui};

/// Tells of one call whether it was refused here, sent, told alike in headers and body, answered, perhaps executed, and
/// whether its catalog was stale.
#[derive(clap::Args)]
#[command(
    after_help = "The ID is what `steadfast call` prints when a call fails, and with --json always.\n\nExample:\n  steadfast explain 1d2f0c8ab1734e65-1\n\nExit codes: 0 explained; 2 usage; 6 there is no record of this call, or none that can be read."
)]
pub(crate) struct Args {
    /// The call's id.
    id: String,
    /// Look into this store, such as sqlite:steadfast.db, instead of the log in the user's state directory.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let path = match &args.store {
        Some(url) => store::path(url)?,
        None => log::path()?,
    };
    let missing = |why: String| Failure::new(Code::Local, why);
    let records = CallView::open(path)
        .map_err(|error| missing(error.to_string()))?
        .of(&args.id)
        .map_err(|error| missing(error.to_string()))?;
    let records: Vec<Record> = records
        .iter()
        .map(|record| serde_json::from_str(record))
        .collect::<Result<_, _>>()
        .map_err(|_| {
            missing(
                "a record of this call is damaged, or of a newer version; use the newer steadfast".to_owned(),
            )
        })?;
    let explained = Explanation::of(records).ok_or_else(|| {
        missing(format!("there is no record of call {:?}; check the id, or it was too long ago", args.id))
    })?;
    if args.json {
        ui::json(&explained)?;
    } else {
        print(&explained)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(explained: &Explanation) -> std::io::Result<()> {
    let what = [Some(explained.method.as_str()), explained.tool_name.as_deref()];
    let what = what.into_iter().flatten().collect::<Vec<_>>().join(" ");
    ui::said(&ui::one_line(&format!("call {} of {what} to {}", explained.call_id, explained.server_key)))?;
    ui::said(&format!("trace {}\n", explained.trace_id))?;
    let question = |finding: &str| {
        match finding {
            "refused_here" => "refused here?",
            "sent" => "sent?",
            "headers_equal" => "headers equal to the body?",
            "answered" => "answered?",
            "executed" => "executed?",
            "catalog_stale" => "catalog stale?",
            other => other,
        }
        .to_owned()
    };
    let findings: Vec<[String; 3]> = explained
        .findings
        .iter()
        .map(|it| [question(it.question), it.answer.as_str().to_owned(), it.because.clone()])
        .collect();
    ui::table(["question", "answer", "because"], &findings)?;
    ui::line("")?;
    let attempts: Vec<[String; 7]> = explained.attempts.iter().map(row).collect();
    ui::table(["attempt", "request", "over", "ms", "error", "outcome", "ended"], &attempts)
}

fn row(record: &Record) -> [String; 7] {
    let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
    [
        format!("{}.{}", record.round, record.attempt),
        or_dash(record.request_id.as_deref()),
        or_dash(record.transport.as_deref()),
        or_dash(record.network_time_ms.map(|ms| ms.to_string()).as_deref()),
        or_dash(record.error_code.as_deref().or(record.error_kind.as_deref())),
        record.outcome.clone(),
        rfc_3339(Wall::from_unix_millis(record.ended_unix_ms)),
    ]
}
