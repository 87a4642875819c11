//! `steadfast serve`: the bundled sample server.

use std::process::ExitCode;
use std::sync::Arc;

use steadfast::core::task::TaskOwner;
use steadfast::server::http::{Key, Keys, Listener, Settings};
use steadfast::server::{self, Options};
use steadfast_store::Ledger;

use crate::exit::{Code, Failure, Outcome};
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
    /// Demand a bearer key of every HTTP request: NAME=SHA256, the name of who bears it and the digest of the key, as
    /// `printf %s KEY | sha256sum` prints it; may be given several times. Only with it may ADDR be reached by others.
    #[arg(long = "key", value_name = "NAME=SHA256", requires = "http")]
    keys: Vec<String>,
    /// Let pages of this origin call, beside those of this machine; may be given several times.
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "http")]
    origins: Vec<String>,
    /// Let the endpoint be reached under this name, beside localhost; may be given several times.
    #[arg(long = "allow-host", value_name = "HOST", requires = "http")]
    hosts: Vec<String>,
    /// What is told on stderr, from this level on; never arguments, results or keys.
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: Log,
    /// Which of the bundled servers.
    #[arg(long, value_name = "NAME", default_value = "shop")]
    builtin: Builtin,
    /// Keep charges and stock in this file, such as sqlite:shop.db; without it they end with the process.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

/// Levels of the log.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Log {
    Error,
    Warn,
    Info,
    Debug,
}

/// The bundled servers.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Builtin {
    /// Charges and stock that keys protect, and tools that misbehave.
    Shop,
    /// One of everything that the protocol offers, for whoever tests a client.
    Everything,
}

/// The keys of the command line; `None` if there are none.
fn keys(given: &[String]) -> Result<Option<Keys>, Failure> {
    let keys = given.iter().map(|given| {
        let Some((name, sha256)) = given.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            // Not quoted: it may be the key itself.
            return Err(Failure::new(Code::Usage, "--key takes NAME=SHA256; put a name before the digest"));
        };
        let owner = TaskOwner { tenant: "local".into(), principal: name.into() };
        Ok(Key::new(name, sha256, owner, Vec::new())?)
    });
    let keys = keys.collect::<Result<Keys, Failure>>()?;
    Ok((!given.is_empty()).then_some(keys))
}

pub(crate) fn run(args: Args) -> Outcome {
    let level = match args.log {
        Log::Error => tracing::Level::ERROR,
        Log::Warn => tracing::Level::WARN,
        Log::Info => tracing::Level::INFO,
        Log::Debug => tracing::Level::DEBUG,
    };
    // stdout belongs to the protocol (STD-02).
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false).init();
    // Without a store of its own the sample server keeps one for as long as it runs.
    let folder = tempfile::tempdir()?;
    let path = match &args.store {
        Some(url) => store::path(url)?,
        None => folder.path().join("shop.db"),
    };
    let ledger = Arc::new(Ledger::open(path, steadfast_store::Options::default())?);
    crate::exit::run_async(async {
        let server = match args.builtin {
            Builtin::Shop => steadfast_shop::server(ledger)?,
            Builtin::Everything => steadfast_shop::everything::server(ledger)?,
        };
        let service = Arc::new(server.clone());
        if let Some(address) = &args.http {
            let settings = Settings {
                allowed_origins: args.origins,
                allowed_hosts: args.hosts,
                keys: keys(&args.keys)?,
                ..Settings::default()
            };
            let listener = Listener::bind_with(address, settings).await?;
            eprintln!("steadfast: listening on http://{}/mcp", listener.address());
            listener.serve("/mcp", service, Options::default(), crate::exit::asked_to_end()).await?;
        } else {
            let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
            let ended = crate::exit::asked_to_end();
            server::stdio::serve(stdin, stdout, service, Options::default(), ended).await?;
        }
        server.leave().await;
        Ok(ExitCode::SUCCESS)
    })
}
