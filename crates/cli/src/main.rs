//! The binary `steadfast`: one file a command.

mod call;
mod demo;
mod discover;
mod evidence;
mod exit;
mod explain;
mod gateway;
mod ledger;
mod log;
mod progress;
mod review;
mod serve;
mod server;
mod sim;
mod store;
mod story;
mod tools;
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
    Demo(demo::Args),
    Serve(serve::Args),
    Gateway(gateway::Args),
    Call(call::Args),
    Discover(discover::Args),
    Tools(tools::Args),
    Explain(explain::Args),
    Ledger(ledger::Args),
    Review(review::Args),
    Evidence(evidence::Args),
    Sim(sim::Args),
}

fn main() -> std::process::ExitCode {
    steadfast::client::guard();
    let outcome = match Cli::parse().command {
        Command::Demo(args) => demo::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Gateway(args) => gateway::run(args),
        Command::Call(args) => call::run(args),
        Command::Discover(args) => discover::run(args),
        Command::Tools(args) => tools::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Ledger(args) => ledger::run(args),
        Command::Review(args) => review::run(args),
        Command::Evidence(args) => evidence::run(args),
        Command::Sim(args) => sim::run(args),
    };
    outcome.unwrap_or_else(|failure| failure.report())
}
