//! Exit codes, and how a failure is told: one sentence on stderr.

use std::fmt::Display;
use std::future::poll_fn;
use std::process::ExitCode;
use std::task::{Context, Poll};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::ui;

/// What a command returns: its exit code, or why it could not run.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// How a command ended, for whoever started it. The commands that speak to a server tell theirs in `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// A check found something, or nothing was found.
    Negative,
    /// The command line or a file is not usable; also clap's own code.
    Usage,
    /// The tool answered that its work failed (`isError`).
    Tool,
    /// The server answered with a JSON-RPC error.
    Protocol,
    /// The way to the server broke; what was asked for certainly did not happen, or changes nothing.
    Transport,
    /// Ended on this side: a limit, a breaker, a validation.
    Local,
    /// It may or may not have been executed.
    Unknown,
    /// What the ledger refuses, as its commands count it.
    Refused,
    /// Cancelled by Ctrl-C, as shells count it.
    Cancelled,
}

impl Code {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Tool => 3,
            Self::Protocol | Self::Refused => 4,
            Self::Transport => 5,
            Self::Local => 6,
            Self::Unknown => 7,
            Self::Cancelled => 130,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    sentence: String,
}

impl Failure {
    pub(crate) fn new(code: Code, sentence: impl Display) -> Self {
        Self { code, sentence: sentence.to_string() }
    }

    /// Says of something that goes on without it what is amiss.
    pub(crate) fn told(&self, what: &str) {
        eprintln!("steadfast: {what}: {}", ui::one_line(&self.sentence));
    }

    /// Prints the sentence and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        if self.sentence.is_empty() {
            return ExitCode::SUCCESS;
        }
        eprintln!("steadfast: {}", ui::one_line(&self.sentence));
        self.code.into()
    }
}

/// Most failures are a command line or a file that cannot be used. A reader that went away, as `head` does, is none.
impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &(dyn std::error::Error + 'static) = &error;
        if any.downcast_ref::<std::io::Error>().is_some_and(|it| it.kind() == std::io::ErrorKind::BrokenPipe)
        {
            return Self { code: Code::Usage, sentence: String::new() };
        }
        Self::new(Code::Usage, error)
    }
}

/// Ready when the process is asked to end, by Ctrl-C or SIGTERM, from this call on. Asked a second time it ends at once,
/// whatever it still waits for (F082).
pub(crate) fn asked_to_end() -> impl Future<Output = ()> {
    let mut signals = Signals::listen();
    async move {
        signals.next().await;
        tokio::spawn(async move {
            signals.next().await;
            eprintln!("steadfast: ended at once; what was running has no known outcome");
            std::process::exit(Code::Cancelled.number().into());
        });
    }
}

/// Thrown once the process is asked to end, so that what runs is cancelled properly; asked a second time it ends at once.
pub(crate) fn cancel_when_asked() -> CancellationToken {
    let cancel = CancellationToken::new();
    let thrown = cancel.clone();
    let asked = asked_to_end();
    tokio::spawn(async move {
        asked.await;
        thrown.cancel();
    });
    cancel
}

/// SIGINT and SIGTERM; one that cannot be listened to never comes.
struct Signals([Option<Signal>; 2]);

impl Signals {
    fn listen() -> Self {
        Self([SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok()))
    }

    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        let heard = |one: &mut Option<Signal>, context: &mut Context<'_>| match one {
            Some(signal) => signal.poll_recv(context).map(drop),
            None => Poll::Pending,
        };
        poll_fn(|context| match heard(interrupt, context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => heard(terminate, context),
        })
        .await;
    }
}

/// Runs a command's async part. What still blocks then, as a read of stdin does, does not hold up the end.
pub(crate) fn run_async(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background();
    outcome
}
