//! `steadfast serve`: the bundled sample server.

use std::process::ExitCode;
use std::sync::Arc;

use steadfast::server::{self, Options};
use steadfast_store::Ledger;

use crate::exit::Outcome;
use crate::store;

/// Runs the bundled sample server `shop` over stdio or Streamable HTTP.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  steadfast serve --http 127.0.0.1:9000\n  steadfast call echo '{\"a\":1}' -- steadfast serve --stdio"
)]
pub(crate) struct Args {
    /// Speak over this process's stdin and stdout; ends with stdin.
    #[arg(long, conflicts_with = "http", required_unless_present = "http")]
    stdio: bool,
    /// Listen on HOST:PORT at the path /mcp; port 0 lets the system choose. The address is printed on stderr.
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Keep charges and stock in this file, such as sqlite:shop.db; without it they end with the process.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

pub(crate) fn run(args: Args) -> Outcome {
    // Without a store of its own the sample server keeps one for as long as it runs.
    let folder = tempfile::tempdir()?;
    let path = match &args.store {
        Some(url) => store::path(url)?,
        None => folder.path().join("shop.db"),
    };
    let ledger = Arc::new(Ledger::open(path, steadfast_store::Options::default())?);
    let service = Arc::new(steadfast_shop::server(ledger)?);
    crate::exit::run_async(async {
        if let Some(address) = &args.http {
            let listener = server::http::Listener::bind(address).await?;
            eprintln!("steadfast: listening on http://{}/mcp", listener.address());
            listener.serve("/mcp", service, Options::default(), crate::exit::asked_to_end()).await?;
        } else {
            let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
            let ended = crate::exit::asked_to_end();
            server::stdio::serve(stdin, stdout, service, Options::default(), ended).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
