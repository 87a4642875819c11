//! Which server a command speaks to, and what its failures exit with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use steadfast::client::{Builder, Category, Client, Command, Config, Error};
use steadfast::core::error::Outcome;
use steadfast::core::exchange::Limits;
use steadfast::core::units;
use steadfast_gateway::config;
use steadfast_store::CallLog;

use crate::exit::{Code, Failure};
use crate::log;

/// How long a child may take to leave after its stdin was closed.
const CHILD_GRACE: Duration = Duration::from_secs(2);

/// What every command that speaks to a server says of its exit codes.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 answered; 2 usage; 3 the tool reports a failure; 4 the server answered with a JSON-RPC error;\n\
    5 transport: the way to the server broke; 6 local: a limit or a check on this side; 7 it may or may not have\n\
    been executed; 130 cancelled with Ctrl-C. A second Ctrl-C ends the command at once.";

/// The server: a URL, SERVER of the configuration, or a command behind `--`.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// The configuration that names SERVER, TOML or JSON by the file's ending.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The longest silence, such as 500ms, 30s or 5m [default: the configuration's, or 5m; at most --max]
    #[arg(long, value_name = "D", value_parser = units::duration)]
    idle: Option<Duration>,
    /// The longest time in all [default: the configuration's, or 30m]
    #[arg(long, value_name = "D", value_parser = units::duration)]
    max: Option<Duration>,
    /// A server to start and to speak to over stdio.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Place {
    /// Speaks to the server, which the first of the words names unless a command does. Nothing leaves yet.
    pub(crate) fn open<'a>(&self, words: &mut impl Iterator<Item = &'a String>) -> Result<Session, Failure> {
        let client = self.client(words)?;
        let (client, log) = match log::open() {
            Ok(log) => (client.recorder(Arc::clone(&log) as _), Some(log)),
            Err(failure) => {
                // No reason not to call.
                failure.told("the call log cannot be used");
                (client, None)
            }
        };
        Ok(Session { client: client.build(), log })
    }

    fn client<'a>(&self, words: &mut impl Iterator<Item = &'a String>) -> Result<Builder, Failure> {
        let read = self.config.as_deref().map(config::Config::read).transpose()?;
        let known = read.as_ref().map_or(Ok(Limits::DEFAULT), config::Config::limits)?;
        let limits = self.limits(known)?;
        let named = |name: String| Config { name, limits, ..Config::default() };
        let (config, client) = if let Some((program, rest)) = self.command.split_first() {
            let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
            let command = Command {
                program: program.into(),
                args: rest.iter().map(Into::into).collect(),
                env: Vec::new(),
                cwd: None,
            };
            (named(name), Client::of_command(command))
        } else {
            let word = words.next().ok_or_else(|| {
                Failure::new(
                    Code::Usage,
                    "no server is named; give a URL, SERVER --config FILE, or -- COMMAND",
                )
            })?;
            match &read {
                // Its address stays out of names, and so out of the log: it may be private (G15).
                _ if word.contains("://") => (named("server".to_owned()), Client::of_url(word)?),
                Some(config) => {
                    let folder = self.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
                    let server = config.server(word)?;
                    (server.treatment(word, limits), server.client(folder)?)
                }
                None => {
                    let sentence = format!(
                        "{word:?} is no URL, and no configuration names it; write http://HOST:PORT/PATH, or add --config FILE"
                    );
                    return Err(Failure::new(Code::Usage, sentence));
                }
            }
        };
        Ok(client.config(config))
    }

    /// A maximum alone moves the idle limit with it: whoever asks for a short call means no contradiction.
    fn limits(&self, known: Limits) -> Result<Limits, Failure> {
        let max = self.max.unwrap_or(known.maximum());
        let idle = self.idle.unwrap_or(known.idle().min(max));
        Ok(Limits::new(idle, max)?)
    }
}

/// A client whose calls leave records.
pub(crate) struct Session {
    pub(crate) client: Client,
    log: Option<Arc<CallLog>>,
}

impl Session {
    /// Ends the connection, once what is known of its calls is stored.
    pub(crate) async fn end(&self) {
        if let Some(Err(error)) = self.log.as_ref().map(|log| log.flush()) {
            Failure::new(Code::Local, error).told("not all is in the call log");
        }
        self.client.close(CHILD_GRACE).await;
    }

    /// What a command fails with for want of a result.
    pub(crate) fn failure(&self, error: &Error, may_change: bool) -> Failure {
        let more = match error.call_id() {
            id if self.log.is_some() && !id.is_empty() => format!(" (steadfast explain {id})"),
            _ => String::new(),
        };
        Failure::new(code(error, may_change), format!("{error}{more}"))
    }
}

/// What a request without a result exits with. Where it may have changed something, that nobody knows comes first.
pub(crate) const fn code(error: &Error, may_change: bool) -> Code {
    match error {
        Error::Protocol { .. } => Code::Protocol,
        Error::Local { category: Category::ClientCancelled, .. } => Code::Cancelled,
        Error::Transport { outcome: Outcome::Unknown, .. }
        | Error::Local { outcome: Outcome::Unknown, .. }
            if may_change =>
        {
            Code::Unknown
        }
        Error::Transport { .. } => Code::Transport,
        Error::Local { .. } => Code::Local,
    }
}
