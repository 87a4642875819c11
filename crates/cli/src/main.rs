//! The binary `steadfast`: one file a command.

mod call;
mod exit;
mod gateway;
mod ledger;
mod serve;
mod sim;
mod store;
mod ui;

use clap::{Parser, Subcommand};

/// A reliability layer for the Model Context Protocol.
#[derive(Parser)]
#[command(name = "steadfast", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Args),
    Gateway(gateway::Args),
    Call(call::Args),
    Ledger(ledger::Args),
    Sim(sim::Args),
}

fn main() -> std::process::ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Gateway(args) => gateway::run(args),
        Command::Call(args) => call::run(args),
        Command::Ledger(args) => ledger::run(args),
        Command::Sim(args) => sim::run(args),
    };
    outcome.unwrap_or_else(|failure| failure.report())
}
