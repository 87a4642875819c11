//! Exit codes, and how a failure is told: one sentence on stderr.

use std::fmt::Display;
use std::process::ExitCode;

/// What a command returns: its exit code, or why it could not run.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// The command's own word for how it ended. Documented in `steadfast call --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The tool answered that its work failed (`isError`), or a check found something.
    Negative = 1,
    /// The command line or a file is not usable; also clap's own code.
    Usage = 2,
    /// The peer answered with a JSON-RPC error.
    Protocol = 3,
    /// Not executed: refused, or nothing left.
    NotExecuted = 4,
    /// Unknown: bytes left and no answer came.
    Unknown = 5,
    /// A limit was reached after bytes had left.
    TimedOut = 6,
    /// Cancelled by Ctrl-C, as shells count it.
    Cancelled = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
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

    /// Prints the sentence and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        if self.sentence.is_empty() {
            return ExitCode::SUCCESS;
        }
        eprintln!("steadfast: {}", self.sentence);
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

/// Ready when the process is asked to end, by Ctrl-C or SIGTERM. Asked a second time it ends at once, whatever it still
/// waits for (F082).
pub(crate) async fn asked_to_end() {
    asked().await;
    tokio::spawn(async {
        asked().await;
        eprintln!("steadfast: ended at once; what was running has no known outcome");
        std::process::exit(Code::Cancelled as i32);
    });
}

async fn asked() {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
    let terminated = async {
        match &mut terminate {
            Some(signal) => signal.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
}

/// Runs a command's async part. What still blocks then, as a read of stdin does, does not hold up the end.
pub(crate) fn run_async(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background();
    outcome
}
