//! `steadfast review`: judges a description of an operation.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use steadfast::core::review::{Operation, Review, review};
use steadfast_sim::fixtures::{self, Behaviour};
use steadfast_sim::lab::{self, Row, Scenario};

use crate::exit::{Code, Failure, Outcome};
use crate::ui;

/// Judges a description of an operation: race table, retry class, idempotency boundary, flow control, reconnect plan,
/// failure fixtures; and refuses to call it production-ready where it is not.
#[derive(clap::Args)]
#[command(
    after_help = "The description is TOML or JSON by the file's ending; examples/operations/ has some. Exit code 1 if the operation is not production-ready.\n\nExample:\n  steadfast review examples/operations/charge_account.toml"
)]
pub(crate) struct Args {
    /// The description.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A review, with the races on the operation's hop and its fixtures as they ran.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    review: Review,
    race_table: Vec<Row>,
    fixture_runs: Vec<FixtureRun>,
}

/// One fixture, run both ways.
#[derive(Serialize)]
struct FixtureRun {
    name: &'static str,
    symptom: &'static str,
    right_response: &'static str,
    wrong_behaviour_caught: bool,
    ours_holds: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let operation = read(&args.file)?;
    let review = review(&operation);
    let race_table = Scenario::ALL.map(|scenario| lab::play(scenario, operation.hop()).0).to_vec();
    let fixture_runs = review
        .fixtures
        .iter()
        .filter_map(|name| fixtures::named(name))
        .map(|fixture| FixtureRun {
            name: fixture.name,
            symptom: fixture.symptom,
            right_response: fixture.right_response,
            wrong_behaviour_caught: fixture.run(Behaviour::Wrong).is_err(),
            ours_holds: fixture.run(Behaviour::Ours).is_ok(),
        })
        .collect();
    let report = Report { review, race_table, fixture_runs };
    if args.json {
        ui::json(&report)?;
    } else {
        report.print()?;
    }
    Ok(if report.review.production_ready { ExitCode::SUCCESS } else { Code::Negative.into() })
}

fn read(file: &Path) -> Result<Operation, Failure> {
    let failed = |why: String| {
        let why = why.trim_end().replace('\n', " ");
        Failure::new(Code::Usage, format!("the description {} cannot be used: {why}", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    if file.extension().is_some_and(|ending| ending == "json") {
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
    } else {
        toml::from_str(&text).map_err(|error| failed(error.to_string()))
    }
}

impl Report {
    fn print(&self) -> std::io::Result<()> {
        let it = &self.review;
        let verdict = if it.production_ready { "production-ready" } else { "NOT production-ready" };
        ui::line(&format!("{}: {verdict}", it.operation))?;
        for refusal in &it.refusals {
            ui::line(&format!("  refused ({}): {}; {}", refusal.rule, refusal.reason, refusal.mend))?;
        }

        ui::line("\nRaces on its hop\n")?;
        let rows: Vec<[String; 5]> = self
            .race_table
            .iter()
            .map(|row| {
                [
                    format!("{:?}", row.scenario),
                    row.terminal.to_owned(),
                    if row.final_response { "yes" } else { "no" }.to_owned(),
                    row.signal.to_owned(),
                    row.ignored.clone(),
                ]
            })
            .collect();
        ui::table(["order", "terminal", "final response", "signal", "ignored"], &rows)?;

        ui::line(&format!("\nRetry class: {}\n", it.retry_class))?;
        let rows: Vec<[String; 3]> = it
            .retry_table
            .iter()
            .map(|row| [row.failure.to_owned(), row.verdict.to_owned(), row.outcome.to_owned()])
            .collect();
        ui::table(["failure of a sent call", "verdict", "outcome if it stops"], &rows)?;

        let key = it.idempotency.key.as_deref().unwrap_or("none");
        ui::line(&format!("\nIdempotency key: {key}, bound to {}", it.idempotency.bound_to))?;
        ui::line(&format!("  after a lost answer: {}", it.idempotency.after_a_lost_answer))?;

        ui::line("\nFlow control")?;
        for check in &it.flow_control {
            ui::line(&format!(
                "  [{}] {} ({})",
                if check.holds { "x" } else { " " },
                check.check,
                check.detail
            ))?;
        }

        let plan = &it.reconnect_plan;
        let list = |items: &[String]| if items.is_empty() { "nothing".to_owned() } else { items.join(", ") };
        ui::line("\nAfter a lost subscription")?;
        ui::line("  listen again under a new request id, the same filter")?;
        ui::line(&format!("  fetch again: {}", list(&plan.refetch)))?;
        ui::line(&format!("  reconcile, never repeat: {}", list(&plan.reconcile)))?;

        ui::line("\nFailures to try it with, each run just now\n")?;
        let word = |good: bool, word: &str| if good { word.to_owned() } else { format!("NOT {word}") };
        let rows: Vec<[String; 3]> = self
            .fixture_runs
            .iter()
            .map(|run| {
                [
                    run.name.to_owned(),
                    word(run.wrong_behaviour_caught, "caught"),
                    word(run.ours_holds, "holds"),
                ]
            })
            .collect();
        ui::table(["fixture", "wrong behaviour", "ours"], &rows)
    }
}
