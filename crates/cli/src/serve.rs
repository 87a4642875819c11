//! `steadfast serve`: the bundled sample server.

use std::process::ExitCode;

use steadfast::server::{self, Options};

use crate::exit::Outcome;

/// Runs the bundled sample server `shop` over stdio or Streamable HTTP.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  steadfast serve --http 127.0.0.1:9000\n  steadfast call -- steadfast serve --stdio -- echo '{\"a\":1}'"
)]
pub(crate) struct Args {
    /// Speak over this process's stdin and stdout; ends with stdin.
    #[arg(long, conflicts_with = "http", required_unless_present = "http")]
    stdio: bool,
    /// Listen on HOST:PORT at the path /mcp; port 0 lets the system choose. The address is printed on stderr.
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let service = std::sync::Arc::new(steadfast_shop::server());
    tokio::runtime::Runtime::new()?.block_on(async {
        if let Some(address) = &args.http {
            let listener = server::http::Listener::bind(address).await?;
            eprintln!("steadfast: listening on http://{}/mcp", listener.address());
            listener.serve("/mcp", service, Options::default(), crate::exit::asked_to_end()).await?;
        } else {
            server::stdio::serve(tokio::io::stdin(), tokio::io::stdout(), service, Options::default())
                .await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
