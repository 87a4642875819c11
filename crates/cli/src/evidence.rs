//! `steadfast evidence`: the eight artifacts that show that operations are reliable (D-25).

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};
use steadfast::core::hop::Hop;
use steadfast::core::policy::classify::{Contract, Effect, Idempotency};
use steadfast::core::policy::{Backoff, table};
use steadfast::core::sse::encode;
use steadfast::core::subscription::{Filter, InFlight, Refetch, reconnect_plan};
use steadfast_sim::fixtures;
use steadfast_sim::lab::{self, Scenario};

use crate::exit::{Code, Failure, Outcome};
use crate::story::{charge, overload, task};
use crate::ui;

/// Writes the eight artifacts that show that the ecosystem is reliable, each made by running what ships.
#[derive(clap::Args)]
#[command(
    after_help = "Existing files of these names are replaced. Exit code 1 if an artifact does not show what it must.\n\nExample:\n  steadfast evidence --out evidence"
)]
pub(crate) struct Args {
    /// The folder to write to; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print the index as JSON.
    #[arg(long)]
    json: bool,
}

/// One artifact: its file, what it shows, and whether it does.
#[derive(Serialize)]
struct Artifact {
    file: &'static str,
    shows: &'static str,
    holds: bool,
    #[serde(skip)]
    content: Value,
}

pub(crate) fn run(args: Args) -> Outcome {
    let folder = tempfile::tempdir()?;
    let artifacts = [
        races(),
        retry_tables(),
        key_record(&folder.path().join("record.db"))?,
        same_key(&folder.path().join("race.db"))?,
        overload()?,
        proxies(),
        reconnect(),
        task_cancel(&folder.path().join("tasks.db"))?,
    ];
    let cannot = |error: std::io::Error| {
        let sentence = format!("{} cannot be written: {error}; choose another folder", args.out.display());
        Failure::new(Code::Usage, sentence)
    };
    fs::create_dir_all(&args.out).map_err(cannot)?;
    for artifact in &artifacts {
        let mut text = serde_json::to_string_pretty(&artifact.content)?;
        text.push('\n');
        fs::write(args.out.join(artifact.file), text).map_err(cannot)?;
    }
    let mut index = String::from("# Evidence\n\n| artifact | what it shows | holds |\n|---|---|---|\n");
    for Artifact { file, shows, holds, .. } in &artifacts {
        index.push_str(&format!("| [{file}]({file}) | {shows} | {} |\n", if *holds { "yes" } else { "NO" }));
    }
    fs::write(args.out.join("index.md"), index).map_err(cannot)?;
    fs::write(args.out.join("index.json"), serde_json::to_string_pretty(&artifacts)? + "\n")
        .map_err(cannot)?;
    if args.json {
        ui::json(&artifacts)?;
    } else {
        let rows = artifacts.each_ref().map(|it| {
            [it.file.to_owned(), it.shows.to_owned(), if it.holds { "yes" } else { "NO" }.to_owned()]
        });
        ui::table(["artifact", "what it shows", "holds"], &rows)?;
        ui::line(&format!("\nIndex: {}", args.out.join("index.md").display()))?;
    }
    Ok(if artifacts.iter().all(|artifact| artifact.holds) {
        ExitCode::SUCCESS
    } else {
        Code::Negative.into()
    })
}

/// The race transcript of each transport and era.
fn races() -> Artifact {
    let mut holds = true;
    let races: Vec<Value> = Scenario::ALL
        .iter()
        .flat_map(|&scenario| Hop::ALL.map(|hop| lab::play(scenario, hop)))
        .map(|(row, transcript)| {
            holds &= (row.terminal == "completed") == row.final_response;
            let events: Vec<Value> =
                transcript.lines().filter_map(|line| serde_json::from_str(&line).ok()).collect();
            json!({ "row": row, "digest": transcript.digest(), "transcript": events })
        })
        .collect();
    Artifact {
        file: "1-race-transcripts.json",
        shows: "the four event orders on each transport and era, event by event",
        holds,
        content: json!(races),
    }
}

/// The whole retry table of every mutation that the sample server exposes, with and without a key.
fn retry_tables() -> Artifact {
    let contract = Contract { effect: Effect::Write, idempotency: Idempotency::Upstream };
    let mut holds = true;
    let mut tables = Vec::new();
    for operation in [steadfast_shop::charges::OPERATION, steadfast_shop::inventory::OPERATION] {
        for has_key in [true, false] {
            let rows = table::rows(contract.class(has_key));
            holds &=
                has_key || rows.iter().all(|row| row.verdict != "retry" || row.outcome == "not_executed");
            let class = contract.class(has_key).as_str();
            tables.push(json!({ "operation": operation, "has_key": has_key, "class": class, "rows": rows }));
        }
    }
    Artifact {
        file: "2-retry-tables.json",
        shows: "what is repeated after which failure, for every exposed mutation; without a key no doubtful call is",
        holds,
        content: json!(tables),
    }
}

fn key_record(path: &std::path::Path) -> Result<Artifact, Failure> {
    let story = charge::tell(path)?;
    let refused =
        story.attempts.iter().any(|attempt| attempt.outcome == "refused" && attempt.executions == 3);
    let holds = refused && story.record.len() == 1;
    let mismatch = fixtures::named("key-reused-with-changed-arguments").map(|fixture| {
        json!({ "name": fixture.name, "symptom": fixture.symptom, "right_response": fixture.right_response })
    });
    Ok(Artifact {
        file: "3-key-record.json",
        shows: "the stored record of a key, and the key refused for another amount",
        holds,
        content: json!({ "record": story.record, "attempts": story.attempts, "mismatch_fixture": mismatch }),
    })
}

fn same_key(path: &std::path::Path) -> Result<Artifact, Failure> {
    let seen = charge::race(path, 100)?;
    Ok(Artifact {
        file: "4-same-key-concurrency.json",
        shows: "two connections racing with one key, 100 times; reopened; an answer spoiled by its caller",
        holds: seen.executions == seen.rounds && seen.equal_answers && seen.untouched,
        content: json!(seen),
    })
}

fn overload() -> Result<Artifact, Failure> {
    let seen = overload::tell()?;
    Ok(Artifact {
        file: "5-overload.json",
        shows: "a queue that nobody empties: progress gives way, the final response stays, the stream is marked",
        holds: seen.final_response_kept && seen.needs_refetch,
        content: json!(seen),
    })
}

fn proxies() -> Artifact {
    let headers: Value = encode::HEADERS.iter().map(|(name, value)| (*name, *value)).collect();
    let holds = headers["x-accel-buffering"] == "no" && encode::KEEP_ALIVE.starts_with(b":");
    Artifact {
        file: "6-sse-headers-and-idle-policy.json",
        shows: "the headers that keep proxies from buffering, and what a quiet stream carries",
        holds,
        content: json!({
            "headers": headers,
            "keep_alive": String::from_utf8_lossy(encode::KEEP_ALIVE),
            "keep_alive_every_seconds": steadfast::server::http::KEEP_ALIVE.as_secs(),
            "a_comment_is_progress": false,
            "idle_limit_is_reset_by": "rising progress under the request's own token, and nothing else",
        }),
    }
}

fn reconnect() -> Artifact {
    let filter = Filter {
        tools: true,
        prompts: true,
        resources: true,
        uris: ["inventory://anvil".to_owned(), "inventory://rope".to_owned()].into(),
        tasks: ["tk_1".to_owned()].into(),
    };
    let in_flight =
        [InFlight { operation: steadfast_shop::inventory::OPERATION.into(), key: Some("order-17".into()) }];
    let plan = reconnect_plan(&filter, &in_flight);
    let fetches: Vec<Value> = plan
        .refetch
        .iter()
        .map(|fetch: &Refetch| json!({ "method": fetch.method(), "subject": fetch.subject() }))
        .collect();
    let delays: Vec<u128> = (0..7).map(|attempt| Backoff::RECONNECT.delay(1, attempt).as_millis()).collect();
    let reconcile: Vec<&str> = plan.reconcile.iter().map(|it| it.operation.as_str()).collect();
    Artifact {
        file: "7-reconnect-plan.json",
        shows: "after a lost subscription: a new id, the same filter, the methods to fetch again, nothing repeated",
        holds: plan.listen == filter
            && plan.refetch.is_sorted()
            && reconcile == [steadfast_shop::inventory::OPERATION],
        content: json!({
            "new_request_id": true,
            "last_event_id": null,
            "refetch": fetches,
            "reconcile": reconcile,
            "delays_ms_of_client_1": delays,
        }),
    }
}

fn task_cancel(path: &std::path::Path) -> Result<Artifact, Failure> {
    let seen = task::tell(path)?;
    let last = |steps: &[task::Step]| steps.last().map(|step| step.status);
    let holds = seen.observed[1].status == "working"
        && last(&seen.observed) == Some("cancelled")
        && last(&seen.completed_first) == Some("completed");
    Ok(Artifact {
        file: "8-task-cancel-trace.json",
        shows: "a task's cancel from acknowledged to observed, across a restart; and a worker that was done first",
        holds,
        content: json!(seen),
    })
}
