//! `steadfast demo`: the main story in a few seconds.

use std::process::ExitCode;

use serde::Serialize;
use steadfast::core::hop::Hop;
use steadfast_sim::lab::{self, Row, Scenario};

use crate::exit::{Code, Outcome};
use crate::story::{charge, overload, task};
use crate::ui;

/// The tour: both sides of the cancel race, a charge whose response is lost, an overloaded buffer, a task's cancel.
#[derive(clap::Args)]
#[command(
    after_help = "It needs nothing, writes to a temporary folder and ends by itself. Exit code 1 if anything it shows is not as it must be.\n\nExample:\n  steadfast demo --json"
)]
pub(crate) struct Args {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Tour {
    race: Vec<Row>,
    charge: charge::Story,
    overload: overload::Overload,
    task: task::Story,
    as_it_must_be: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let folder = tempfile::tempdir()?;
    let race = [Scenario::A, Scenario::B]
        .into_iter()
        .flat_map(|scenario| Hop::ALL.map(|hop| lab::play(scenario, hop).0))
        .collect();
    let mut tour = Tour {
        race,
        charge: charge::tell(&folder.path().join("charges.db"))?,
        overload: overload::tell()?,
        task: task::tell(&folder.path().join("tasks.db"))?,
        as_it_must_be: false,
    };
    tour.as_it_must_be = tour.judge();
    if args.json {
        ui::json(&tour)?;
    } else {
        tour.print()?;
    }
    Ok(if tour.as_it_must_be { ExitCode::SUCCESS } else { Code::Negative.into() })
}

impl Tour {
    fn judge(&self) -> bool {
        let race = self.race.iter().all(|row| match row.scenario {
            Scenario::A => row.terminal == "cancelled" && !row.final_response && row.signal != "none",
            _ => row.terminal == "completed" && row.final_response && row.signal == "none",
        });
        let outcomes: Vec<&str> = self.charge.attempts.iter().map(|attempt| attempt.outcome).collect();
        let charge = outcomes == ["executed", "executed", "executed", "replayed", "refused"]
            && self.charge.attempts.last().is_some_and(|attempt| attempt.executions == 3);
        let overload = self.overload.final_response_kept
            && self.overload.needs_refetch
            && self.overload.most_waiting <= self.overload.capacity_items + 1;
        let last = |steps: &[task::Step]| steps.last().map(|step| step.status);
        let task = self.task.observed[1].status == "working"
            && last(&self.task.observed) == Some("cancelled")
            && last(&self.task.completed_first) == Some("completed");
        race && charge && overload && task
    }

    fn print(&self) -> std::io::Result<()> {
        ui::line("1  A cancel and a completion race. Whoever is first wins, and there is one end.\n")?;
        let order = |row: &Row| match row.scenario {
            Scenario::A => "cancel first",
            _ => "completion first",
        };
        let rows: Vec<[String; 5]> = self
            .race
            .iter()
            .map(|row| {
                [
                    order(row).to_owned(),
                    format!("{} {}", row.transport.as_str(), row.era),
                    row.terminal.to_owned(),
                    row.signal.to_owned(),
                    row.ignored.clone(),
                ]
            })
            .collect();
        ui::table(["order", "hop", "ends as", "signal on the wire", "ignored"], &rows)?;

        ui::line(
            "\n2  A charge is executed and its response is lost. The retry comes under a new JSON-RPC id.\n",
        )?;
        let rows: Vec<[String; 7]> = self
            .charge
            .attempts
            .iter()
            .map(|attempt| {
                [
                    attempt.request_id.to_string(),
                    attempt.key.unwrap_or("none").to_owned(),
                    attempt.cents.to_string(),
                    attempt.outcome.to_owned(),
                    attempt.receipt.clone().unwrap_or_else(|| "–".to_owned()),
                    attempt.response.to_owned(),
                    attempt.executions.to_string(),
                ]
            })
            .collect();
        ui::table(["id", "key", "cents", "outcome", "receipt", "response", "charges so far"], &rows)?;
        ui::line(
            "\n   Without a key the customer pays twice. With one the retry gets the first receipt, also from a",
        )?;
        ui::line("   process that was started anew, and the key on another amount is refused.")?;

        ui::line("\n3  A tool reports progress faster than its reader takes it.\n")?;
        let it = &self.overload;
        ui::table(
            ["offered", "places", "most waiting", "coalesced", "dropped", "refetch mark", "final response"],
            &[[
                it.offered.to_string(),
                it.capacity_items.to_string(),
                it.most_waiting.to_string(),
                it.coalesced.to_string(),
                it.dropped.to_string(),
                it.needs_refetch.to_string(),
                if it.final_response_kept { "kept" } else { "LOST" }.to_owned(),
            ]],
        )?;
        ui::line(&format!("\n   The reader found: {}.", it.kept.join(", ")))?;

        ui::line("\n4  A task is told to cancel. The acknowledgement is an intent; the worker decides.\n")?;
        let rows: Vec<[String; 3]> =
            [("sees it", &self.task.observed), ("is done first", &self.task.completed_first)]
                .into_iter()
                .flat_map(|(worker, steps)| {
                    steps.iter().map(move |step| {
                        let pending = if step.cancel_pending { " (cancel pending)" } else { "" };
                        [worker.to_owned(), step.event.to_owned(), format!("{}{pending}", step.status)]
                    })
                })
                .collect();
        ui::table(["the worker", "event", "tasks/get says"], &rows)?;
        ui::line(if self.as_it_must_be { "\nAll as it must be." } else { "\nNOT as it must be." })
    }
}
