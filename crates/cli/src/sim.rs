//! `steadfast sim`: the machines that ship, under every order of events.

use std::process::ExitCode;

use steadfast_sim::replay::Target;
use steadfast_sim::{explore, lab, replay};

use crate::exit::{Code, Outcome};
use crate::ui;

/// Runs the decision core under chosen orders of events.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  steadfast sim lab\n  steadfast sim explore --json\n  steadfast sim replay SCOPE:0.2.1"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Four event orders on both transports and in both eras: what ends, what is signalled, what is ignored.
    #[command(
        after_help = "A cancel, then completion; B completion, then cancel; C progress until past the maximum;\nD the client abandons the request by its transport's own means.\n\nExample:\n  steadfast sim lab --json"
    )]
    Lab {
        /// Print an array of 16 rows.
        #[arg(long)]
        json: bool,
    },
    /// Every order of every small world, judged by every checker; and planted bugs that the checkers must catch.
    #[command(
        after_help = "Exit code 1 if an invariant is broken or a planted bug is not caught.\n\nExample:\n  steadfast sim explore --json"
    )]
    Explore {
        /// Print one object with scopes, planted bugs and a digest.
        #[arg(long)]
        json: bool,
    },
    /// One order again, event by event.
    #[command(
        after_help = "Examples:\n  steadfast sim replay exchange-stdio-modern:0.1.0\n  steadfast sim replay exchange-stdio-modern --seed 7"
    )]
    Replay {
        /// SCOPE:CHOICES as explore prints it, or SCOPE with --seed.
        #[arg(value_name = "ORDER")]
        order: String,
        /// Draw the choices from this seed.
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// Print one object instead of one JSON line an event.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Lab { json } => print_lab(json),
        Command::Explore { json } => print_exploration(json),
        Command::Replay { order, seed, json } => print_replay(&order, seed, json),
    }
}

fn print_lab(json: bool) -> Outcome {
    let rows = lab::run();
    if json {
        ui::json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let word = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let rows: Vec<[String; 7]> = rows
        .iter()
        .map(|row| {
            let row = serde_json::to_value(row).unwrap_or_default();
            ["scenario", "transport", "era", "terminal", "final_response", "signal", "ignored"]
                .map(|name| word(row[name].clone()))
        })
        .collect();
    ui::table(["scenario", "transport", "era", "terminal", "final response", "signal", "ignored"], &rows)?;
    Ok(ExitCode::SUCCESS)
}

fn print_exploration(json: bool) -> Outcome {
    let report = explore::run();
    if json {
        ui::json(&report)?;
    } else {
        let scopes: Vec<[String; 4]> = report
            .scopes
            .iter()
            .map(|it| {
                [it.name.into(), it.orders.to_string(), it.states.to_string(), it.violations.to_string()]
            })
            .collect();
        ui::table(["scope", "orders", "states", "violations"], &scopes)?;
        ui::line("")?;
        let planted: Vec<[String; 4]> = report
            .planted
            .iter()
            .map(|it| {
                let invariant = serde_json::to_value(it.invariant).unwrap_or_default();
                let caught =
                    if it.caught { format!("in {} events", it.transcript_len) } else { "NOT CAUGHT".into() };
                [invariant.as_str().unwrap_or_default().to_owned(), it.bug.into(), caught, it.replay.clone()]
            })
            .collect();
        ui::table(["invariant", "planted bug", "caught", "replay"], &planted)?;
        for broken in report.scopes.iter().filter_map(|scope| scope.first_violation.as_ref()) {
            ui::line(&format!("\nbroken: {}\n  steadfast sim replay {}", broken.violation, broken.replay))?;
        }
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { Code::Negative.into() })
}

fn print_replay(order: &str, seed: Option<u64>, json: bool) -> Outcome {
    let target = match seed {
        Some(seed) => Target::seeded(order, seed),
        None => order.parse()?,
    };
    let replayed = replay::run(&target)?;
    if json {
        ui::json(&replayed)?;
    } else {
        for event in &replayed.transcript {
            ui::line(event)?;
        }
        let violation = replayed.violation.as_ref().map_or_else(|| "none".to_owned(), |it| format!("{it:?}"));
        eprintln!("order     {}\ndigest    {}\nviolation {violation}", replayed.replay, replayed.digest);
    }
    Ok(ExitCode::SUCCESS)
}
