//! `steadfast discover`: what a server says of itself.

use std::process::ExitCode;

use serde_json::{Value, json};
use steadfast::client::{CallOptions, Facts};

use crate::exit::Outcome;
use crate::server::{self, Place};
use crate::ui;

/// Finds out which revision a server speaks, and prints what it says of itself.
#[derive(clap::Args)]
#[command(
    override_usage = "steadfast discover [OPTIONS] <URL>\n       steadfast discover [OPTIONS] --config <FILE> <SERVER>\n       steadfast discover [OPTIONS] -- <COMMAND>...",
    after_help = format!("Example:\n  steadfast discover -- steadfast serve --stdio\n\n{}", server::EXIT_CODES)
)]
pub(crate) struct Args {
    /// The server: its URL, or its name in the configuration; left out before `-- COMMAND`.
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    crate::exit::run_async(async {
        let session = args.place.open(&mut args.server.iter())?;
        let cancel = crate::exit::cancel_when_asked();
        let facts = session.client.discover(CallOptions { cancel, ..CallOptions::default() }).await;
        session.end().await;
        print(&facts.map_err(|error| session.failure(&error, false))?, args.json)?;
        Ok(ExitCode::SUCCESS)
    })
}

fn print(facts: &Facts, as_json: bool) -> std::io::Result<()> {
    let parsed = |json: &str| serde_json::from_str(json).unwrap_or(Value::Null);
    let (capabilities, info) = (parsed(&facts.capabilities), facts.info.as_deref().map(parsed));
    if as_json {
        return ui::json(&json!({
            "revision": facts.revision.as_str(),
            "era": facts.revision.era().as_str(),
            "capabilities": capabilities,
            "serverInfo": info,
            "instructions": facts.instructions,
        }));
    }
    let info = info.unwrap_or_default();
    let word = |name: &str| info[name].as_str().unwrap_or_default();
    let names: Vec<&str> =
        capabilities.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    ui::said(&format!("revision      {} ({})", facts.revision.as_str(), facts.revision.era().as_str()))?;
    ui::said(&format!("server        {} {}", word("name"), word("version")))?;
    ui::said(&format!("capabilities  {}", names.join(", ")))?;
    if let Some(instructions) = &facts.instructions {
        ui::said(&format!("instructions  {}", instructions.replace('\n', "\n              ")))?;
    }
    Ok(())
}
