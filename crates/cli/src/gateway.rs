//! `steadfast gateway`: between a host and a server.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use steadfast::core::exchange::Limits;
use steadfast::server::{self, Options};
use steadfast_gateway::config::Config;
use steadfast_gateway::route::{Forward, Route};

use crate::exit::{Code, Failure, Outcome};

/// How much longer the host's clocks run than the server's, so that the error that arrives is the one that knows.
const OUTER_MARGIN: Duration = Duration::from_secs(5);

/// How long the server's process may take to leave after its stdin was closed.
const CHILD_GRACE: Duration = Duration::from_secs(5);

/// Stands between an MCP host and a server: two clocks, the right cancel signal and one end for every call.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  steadfast gateway --config steadfast.toml --http 127.0.0.1:8808\n\nThe server NAME is then reached at http://127.0.0.1:8808/mcp/NAME under its own tool names."
)]
pub(crate) struct Args {
    /// The configuration, TOML or JSON by the file's ending.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Listen for hosts on HOST:PORT, whatever the configuration says; port 0 lets the system choose.
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Be the server of the host that started this process.
    #[arg(long)]
    stdio: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let config = Config::read(&args.config)?;
    let limits = config.limits()?;
    let outer = Limits::new(limits.idle() + OUTER_MARGIN, limits.maximum() + OUTER_MARGIN)?;
    let options = Options { limits: outer, legacy: false, ..Options::default() };
    let folder = args.config.parent().unwrap_or(Path::new("."));
    let http = args.http.or(config.listen.http.clone());
    let stdio = args.stdio || config.listen.stdio;
    if http.is_none() && !stdio {
        return Err(Failure::new(Code::Usage, "the gateway has no host side; give --http ADDR or --stdio"));
    }
    let (name, server) = config.only_server()?;
    crate::exit::run_async(async {
        let route = Arc::new(Route::open(name, server, folder, limits)?);
        let service = Arc::new(Forward(Arc::clone(&route)));
        let listener = match &http {
            Some(address) => Some(server::http::Listener::bind(address).await?),
            None => None,
        };
        let over_http = async {
            match listener {
                Some(listener) => {
                    eprintln!("steadfast: listening on http://{}/mcp/{name}", listener.address());
                    let path = format!("/mcp/{name}");
                    listener.serve(&path, service.clone(), options, std::future::pending::<()>()).await
                }
                None => std::future::pending().await,
            }
        };
        let over_stdio = async {
            if stdio {
                let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
                server::stdio::serve(stdin, stdout, service.clone(), options, std::future::pending()).await
            } else {
                std::future::pending().await
            }
        };
        tokio::select! {
            ended = over_http => ended?,
            ended = over_stdio => ended?,
            () = crate::exit::asked_to_end() => {}
        }
        route.close(CHILD_GRACE).await;
        Ok(ExitCode::SUCCESS)
    })
}
