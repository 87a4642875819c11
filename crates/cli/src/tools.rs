//! `steadfast tools`: what a server offers, whole or searched.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::value::RawValue;
use steadfast::client::{CallOptions, Found, Listed};

use crate::exit::Outcome;
use crate::server::{self, Place};
use crate::ui;

/// Lists the tools of a server, or those that fit best to a few words.
#[derive(clap::Args)]
#[command(
    override_usage = "steadfast tools [OPTIONS] <URL> [WORDS]...\n       steadfast tools [OPTIONS] --config <FILE> <SERVER> [WORDS]...\n       steadfast tools [OPTIONS] [WORDS]... -- <COMMAND>...",
    after_help = format!("A tool whose definition cannot be used is left out, and named with the reason.\n\nExamples:\n  steadfast tools -- steadfast serve --stdio\n  steadfast tools http://127.0.0.1:9000/mcp charge account\n\n{}", server::EXIT_CODES)
)]
pub(crate) struct Args {
    /// The server (left out before `-- COMMAND`), and words to look for in names, tags, titles and descriptions.
    #[arg(value_name = "SERVER WORDS")]
    words: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// How many a search may find.
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Print JSON: whole definitions as they came, or of a search what is needed to choose.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    crate::exit::run_async(async {
        let mut words = args.words.iter();
        let session = args.place.open(&mut words)?;
        let query = words.map(String::as_str).collect::<Vec<_>>().join(" ");
        let options = CallOptions { cancel: crate::exit::cancel_when_asked(), ..CallOptions::default() };
        if query.is_empty() {
            let listed = session.client.list_tools(options).await;
            session.end().await;
            print(&listed.map_err(|error| session.failure(&error, false))?, args.json)?;
        } else {
            let found = session.client.search_tools(&query, args.limit, options).await;
            session.end().await;
            print_found(&found.map_err(|error| session.failure(&error, false))?, args.json)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

#[derive(Serialize)]
struct Report {
    tools: Vec<Box<RawValue>>,
    left_out: Vec<Left>,
    /// Why it is not all.
    cut: Option<&'static str>,
    call_id: String,
}

#[derive(Serialize)]
struct Left {
    name: String,
    reason: String,
}

fn print(listed: &Listed, json: bool) -> std::io::Result<()> {
    if json {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).ok();
        return ui::json(&Report {
            tools: listed.definitions.iter().filter_map(|tool| raw(&tool.json)).collect(),
            left_out: listed
                .left_out
                .iter()
                .map(|left| Left { name: left.name.clone(), reason: left.reason.clone() })
                .collect(),
            cut: listed.cut,
            call_id: listed.call_id.clone(),
        });
    }
    let rows: Vec<[String; 2]> = listed
        .definitions
        .iter()
        .map(|tool| {
            let said = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
            [tool.name.clone(), said.lines().next().unwrap_or_default().to_owned()]
        })
        .collect();
    ui::table(["tool", "what it says of itself"], &rows)?;
    for left in listed.left_out.iter() {
        ui::said(&ui::one_line(&format!("left out: {}: {}", left.name, left.reason)))?;
    }
    listed.cut.map_or(Ok(()), |cut| ui::line(&format!("not all of them: {cut}")))
}

#[derive(Serialize)]
struct FoundReport<'a> {
    tools: Vec<FoundTool<'a>>,
    /// How many were searched.
    of: usize,
}

#[derive(Serialize)]
struct FoundTool<'a> {
    name: &'a str,
    title: Option<&'a str>,
    summary: &'a str,
    tags: &'a [String],
}

fn print_found(found: &Found, json: bool) -> std::io::Result<()> {
    if json {
        let tools = found
            .tools
            .iter()
            .map(|it| FoundTool {
                name: &it.name,
                title: it.title.as_deref(),
                summary: &it.summary,
                tags: &it.tags,
            })
            .collect();
        return ui::json(&FoundReport { tools, of: found.of });
    }
    let rows: Vec<[String; 2]> =
        found.tools.iter().map(|tool| [tool.name.clone(), tool.summary.clone()]).collect();
    ui::table(["tool", "what it says of itself"], &rows)?;
    ui::line(&format!("{} of {} tools", found.tools.len(), found.of))
}
