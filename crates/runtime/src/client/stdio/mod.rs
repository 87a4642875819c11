//! A server as a child process, spoken to over its pipes, or one at the other end of any pair of byte streams.
//!
//! Set-up is the connection itself, framing is one message a line, and cancelling is `notifications/cancelled`: all
//! that is said of a child's pipes holds for a socket too (STD-22, STD-23, STD-24). One task writes, one reads, one keeps the end of stderr, and [`life`] watches over the three and ends the whole
//! process tree. A connection lives once: what a child still says or does after its end reaches nobody (STD-19).

mod check;
pub(super) mod guard;
mod hear;
mod life;
mod streams;
mod tail;
#[cfg(test)]
mod tests;
mod tree;
mod write;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use steadfast_core::envelope;
use steadfast_core::exchange::{CancelSignal, InFlight, Reply};
use steadfast_core::hop::Hop;
use steadfast_core::ids::RequestId;
use steadfast_core::policy::Failure;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::ClientError;
use super::leg::{Detail, Gone, Heard, Inbox, Launch, Leg, Outgoing};
use crate::message;
use tail::Tail;
use tree::{Pipes, Tree};

pub(super) use check::{Checked, check};
pub(super) use streams::Opener;
pub use streams::{Opened, Streams};

/// Lines that may wait for the child to read them.
const WRITE_QUEUE: usize = 64;
/// Events of one request that may wait for its task; one place is kept for its end.
const EVENT_QUEUE: usize = 64;
/// What the tree of a child that ended by itself, or that nobody needs any more, may take to go.
const ENDING: Duration = Duration::from_secs(2);

/// What to start: no shell, the arguments as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// A path, where a relative one starts at `cwd`, or a name that is looked up on the child's `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables set on top of our own environment.
    pub env: Vec<(OsString, OsString)>,
    /// The directory to run in; ours if absent.
    pub cwd: Option<PathBuf>,
}

/// A child and its pipes, until it ends. Dropped, it ends too, though nobody waits for that.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    /// How long the tree may take to go, once it shall.
    close: watch::Sender<Option<Duration>>,
    /// The tree is gone.
    ended: CancellationToken,
}

/// What the tasks of a connection share.
#[derive(Debug)]
struct Shared {
    /// Gone once nothing sent could be answered any more. With the last sender the child's stdin closes.
    writer: Mutex<Option<mpsc::Sender<Bytes>>>,
    table: Mutex<InFlight<mpsc::Sender<Heard>>>,
    inbox: Inbox,
    tail: Mutex<Tail>,
    started: Instant,
    lived: OnceLock<Duration>,
    /// When the child was last told of a cancel: some servers die of it (F028).
    cancelled: Mutex<Option<Instant>>,
    gone: watch::Sender<Option<Gone>>,
}

impl Connection {
    /// Starts it. `write_stall` is how long it may take no byte of what is written to it.
    ///
    /// # Errors
    /// The system refuses to start it.
    pub(super) async fn start(
        command: &Command,
        program: Checked,
        write_stall: Duration,
        inbox: Inbox,
    ) -> Result<Self, ClientError> {
        let refused =
            |source| ClientError::Spawn { command: command.program.to_string_lossy().into_owned(), source };
        let (mut tree, pipes) = Tree::start(command, &program).map_err(refused)?;
        tree.started().await.map_err(refused)?;
        Ok(Self::begin(Some(tree), pipes, write_stall, inbox))
    }

    /// Speaks over streams that are open.
    pub(super) fn over(streams: Streams, write_stall: Duration, inbox: Inbox) -> Self {
        let Streams { reader, writer } = streams;
        let pipes = Pipes { stdin: writer, stdout: reader, stderr: Box::new(tokio::io::empty()) };
        Self::begin(None, pipes, write_stall, inbox)
    }

    fn begin(tree: Option<Tree>, pipes: Pipes, write_stall: Duration, inbox: Inbox) -> Self {
        let (writer, lines) = mpsc::channel(WRITE_QUEUE);
        let shared = Arc::new(Shared {
            writer: Mutex::new(Some(writer)),
            table: Mutex::new(InFlight::new(Hop::ALL[0])),
            inbox,
            tail: Mutex::default(),
            started: Instant::now(),
            lived: OnceLock::new(),
            cancelled: Mutex::default(),
            gone: watch::Sender::new(None),
        });
        let (close, closing) = watch::channel(None);
        let ended = CancellationToken::new();
        let life = life::Life::begin(&shared, tree, pipes, (lines, write_stall));
        tokio::spawn(life.watch(closing, ended.clone()));
        Self { shared, close, ended }
    }

    pub(super) fn leg(&self, outgoing: Outgoing<'_>) -> Leg {
        let Outgoing { spec, method, params, headers: _ } = outgoing;
        let line = Bytes::from(envelope::request(&spec.id, method, params) + "\n");
        let (to_task, heard) = mpsc::channel(EVENT_QUEUE + 1);
        // In this order a request of a connection that ends now is either told so or finds no writer. Our ids come from
        // a counter, so the id is free; were it not, the request would end as lost.
        let _ = self.shared.table().open(spec.id.clone(), spec.operation, to_task);
        let writer = self.shared.writer().clone();
        let shared = Arc::clone(&self.shared);
        let prepare = async move {
            let closed = || Detail::failed(Failure::NothingLeft, shared.why_gone());
            let place = writer.ok_or_else(closed)?.reserve_owned().await.map_err(|_| closed())?;
            let launch: Launch = Box::new(move || {
                place.send(line);
            });
            Ok(launch)
        };
        let shared = Arc::clone(&self.shared);
        let for_signal = self.shared.writer().clone();
        let signal = move |signal: &CancelSignal| match signal {
            CancelSignal::Notification { id, reason } | CancelSignal::PostNotification { id, reason } => {
                if let Some(writer) = for_signal.clone() {
                    shared.cancel(writer, id, reason.as_deref());
                }
            }
            CancelSignal::CloseStream => {}
        };
        Leg { prepare: Box::pin(prepare), heard, signal: Box::new(signal) }
    }

    /// The request ended. Ids are never used again, so a late answer finds nobody, and nothing is kept for one that
    /// never comes (F022, I-24).
    pub(super) fn forget(&self, id: &RequestId) {
        self.shared.table().release(id);
    }

    pub(super) fn notify(&self, method: &str, params: &str) {
        self.shared.write(Bytes::from(envelope::notification(method, params) + "\n"));
    }

    pub(super) fn respond(&self, id: &RequestId, response: &Reply<Bytes>) {
        let mut line = message::response(Some(id), response).to_vec();
        line.push(b'\n');
        self.shared.write(line.into());
    }

    pub(super) async fn gone(&self) -> Gone {
        let mut gone = self.shared.gone.subscribe();
        let gone = gone.wait_for(Option::is_some).await.ok().and_then(|gone| gone.clone());
        gone.unwrap_or(Gone { why: "the connection was given up".to_owned(), by_us: true })
    }

    /// Lets the child go: its stdin closes, and what of its tree is still there after half of `grace` is terminated, and
    /// killed after three quarters. Of several callers the most hurried one counts. Returns when nothing is left, and
    /// at the latest a little after `grace`.
    pub(super) async fn close(&self, grace: Duration) {
        self.close.send_if_modified(|wish| {
            let hurries = wish.is_none_or(|earlier| grace < earlier);
            if hurries {
                *wish = Some(grace);
            }
            hurries
        });
        let limit = grace.saturating_add(life::LAST_WAIT);
        let _ = tokio::time::timeout(limit, self.ended.cancelled()).await;
    }

    /// How the child ended by itself, and how long it had run; `None` as long as it runs, and if it was closed.
    pub(super) fn end(&self) -> Option<(Duration, String)> {
        let gone = self.shared.gone.borrow().clone().filter(|gone| !gone.by_us)?;
        Some((*self.shared.lived.get()?, gone.why))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close.send_if_modified(|wish| wish.is_none() && wish.replace(ENDING).is_none());
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, InFlight<mpsc::Sender<Heard>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Option<mpsc::Sender<Bytes>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: Bytes) {
        if let Some(writer) = self.writer().clone() {
            write::leave(writer, line);
        }
    }

    fn cancel(&self, writer: mpsc::Sender<Bytes>, id: &RequestId, reason: Option<&str>) {
        *self.cancelled.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        write::leave(writer, Bytes::from(envelope::cancelled(id, reason) + "\n"));
    }

    fn why_gone(&self) -> String {
        self.gone.borrow().as_ref().map_or_else(|| "its stdin is closed".to_owned(), |gone| gone.why.clone())
    }

    /// Nothing will be answered any more: every pending request ends as lost, once (I-26, STD-18).
    fn end(&self, gone: Gone) {
        let _ = self.lived.set(self.started.elapsed());
        let why = gone.why.clone();
        self.gone.send_if_modified(|told| told.is_none() && told.replace(gone).is_none());
        self.writer().take();
        for (_, to_task) in self.table().drain() {
            // One place is kept for this.
            let _ = to_task.try_send(Detail::failed(Failure::ConnectionLost, why.clone()).lost());
        }
    }
}
