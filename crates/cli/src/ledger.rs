//! `steadfast ledger`: what is claimed, committed and unknown, and how an unknown is settled.

use std::process::ExitCode;

use steadfast::core::fingerprint::{Key, Scope};
use steadfast::core::ledger::Resolution;
use steadfast_store::{Answer, Ledger, LedgerView, Line, Options};

use crate::exit::{Code, Failure, Outcome};
use crate::{store, ui};

/// Looks into the ledger, and settles an unknown record by its key.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  steadfast ledger list --store sqlite:steadfast.db --state unknown\n  steadfast ledger show order-17 --store sqlite:steadfast.db\n  steadfast ledger reconcile order-17 --as rejected --store sqlite:steadfast.db"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// The newest records; the file is opened read-only.
    #[command(after_help = "Example:\n  steadfast ledger list --store sqlite:steadfast.db --state unknown")]
    List {
        #[command(flatten)]
        place: Place,
        /// Only records in this state.
        #[arg(long, value_parser = ["claimed", "awaiting_input", "held_by_task", "committed", "rejected", "unknown"])]
        state: Option<String>,
        /// At most so many.
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// The records under one key; the file is opened read-only.
    #[command(after_help = "Example:\n  steadfast ledger show order-17 --store sqlite:steadfast.db --json")]
    Show {
        /// The key, as its caller wrote it.
        key: String,
        #[command(flatten)]
        place: Place,
    },
    /// Settles an unknown record by what you found out; any other record stays as it is.
    #[command(
        after_help = "Examples:\n  steadfast ledger reconcile order-17 --as rejected --store sqlite:steadfast.db\n  steadfast ledger reconcile order-17 --as committed --result '{\"content\":[]}' --store sqlite:steadfast.db"
    )]
    Reconcile {
        /// The key, as its caller wrote it.
        key: String,
        /// What happened: it was executed, or it certainly was not.
        #[arg(long = "as", value_name = "STATE", value_parser = ["committed", "rejected"])]
        resolution: String,
        /// The result to replay from now on, a JSON object; needed with --as committed.
        #[arg(long, value_name = "JSON", required_if_eq("resolution", "committed"))]
        result: Option<String>,
        /// Which server's record, where the key stands under several.
        #[arg(long, value_name = "NAME")]
        server: Option<String>,
        /// Whose record, where several tenants use the key.
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Whose record, where several principals use the key.
        #[arg(long, value_name = "NAME")]
        principal: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(clap::Args)]
struct Place {
    /// The store, such as sqlite:steadfast.db.
    #[arg(long, value_name = "URL", default_value = "sqlite:steadfast.db")]
    store: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::List { place, state, limit } => {
            let lines = view(&place)?.list(state.as_deref(), limit)?;
            print(&lines, place.json)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Show { key, place } => {
            let lines = view(&place)?.show(&key)?;
            print(&lines, place.json)?;
            Ok(if lines.is_empty() { Code::Negative.into() } else { ExitCode::SUCCESS })
        }
        Command::Reconcile { key, resolution, result, server, tenant, principal, place } => {
            reconcile(&key, &resolution, result, [tenant, principal, server], &place)
        }
    }
}

fn view(place: &Place) -> Result<LedgerView, Failure> {
    Ok(LedgerView::open(store::path(&place.store)?, Options::default())?)
}

fn print(lines: &[Line], json: bool) -> std::io::Result<()> {
    if json {
        return ui::json(&lines);
    }
    let rows: Vec<[String; 6]> = lines
        .iter()
        .map(|line| {
            [
                line.key.clone(),
                line.state.to_owned(),
                line.operation.clone(),
                line.server.clone(),
                format!("{}/{}", line.tenant, line.principal),
                line.settled_at.clone().unwrap_or_else(|| line.claimed_at.clone()),
            ]
        })
        .collect();
    ui::table(["key", "state", "operation", "server", "whose", "since"], &rows)
}

fn reconcile(
    key: &str,
    resolution: &str,
    result: Option<String>,
    whose: [Option<String>; 3],
    place: &Place,
) -> Outcome {
    let path = store::path(&place.store)?;
    // Looking first keeps a mistyped path from becoming a new, empty store.
    let mut found = LedgerView::open(&path, Options::default())?.show(key)?;
    found.retain(|line| {
        let scope = [&line.tenant, &line.principal, &line.server];
        whose.iter().zip(scope).all(|(wanted, found)| wanted.as_ref().is_none_or(|wanted| wanted == found))
    });
    let line = match &found[..] {
        [line] => line,
        [] => {
            return Err(Failure::new(Code::Refused, "there is no record under this key; see ledger list"));
        }
        _ => {
            let sentence =
                "this key stands under several scopes; name one with --tenant, --principal and --server";
            return Err(Failure::new(Code::Usage, sentence));
        }
    };
    let resolution = match (resolution, result) {
        ("committed", Some(result)) => {
            if !serde_json::from_str::<serde_json::Value>(&result).is_ok_and(|value| value.is_object()) {
                return Err(Failure::new(
                    Code::Usage,
                    "--result is not a JSON object; write '{\"content\":[…]}'",
                ));
            }
            Resolution::Committed(Answer { version: String::new(), bytes: result.into_bytes() })
        }
        _ => Resolution::Rejected,
    };
    let scope =
        Scope { tenant: line.tenant.clone(), principal: line.principal.clone(), server: line.server.clone() };
    let ledger = Ledger::open(&path, Options::default())?;
    match ledger.reconcile(&scope, &Key::new(key)?, resolution)? {
        Ok(()) => {
            drop(ledger);
            let lines = view(place)?.show(key)?;
            print(&lines, place.json)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(Failure::new(Code::Refused, error)),
    }
}
