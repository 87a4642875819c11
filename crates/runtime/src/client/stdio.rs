//! A server as a child process, spoken to over its pipes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::envelope::{self, Message};
use steadfast_core::exchange::requester::Input;
use steadfast_core::exchange::{CancelSignal, InFlight, Reply};
use steadfast_core::hop::Hop;
use steadfast_core::ids::RequestId;
use steadfast_core::policy::Failure;
use steadfast_core::stdio::Line;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ClientError;
use super::leg::{Detail, Gone, Heard, Inbound, Inbox, Launch, Leg, Outgoing};
use crate::message::MAX_MESSAGE_BYTES;
use crate::{lines, message};

/// Lines that may wait for the child to read them.
const WRITE_QUEUE: usize = 64;
/// Events of one request that may wait for its task; one place is kept for its answer.
const EVENT_QUEUE: usize = 64;

type Table = Arc<Mutex<InFlight<mpsc::Sender<Heard>>>>;
type Writer = Arc<Mutex<Option<mpsc::Sender<Bytes>>>>;

/// What to start: no shell, the arguments as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// A path, or a name found on `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables set on top of our own environment.
    pub env: Vec<(OsString, OsString)>,
    /// The directory to run in; ours if absent.
    pub cwd: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct Connection {
    child: tokio::sync::Mutex<Child>,
    /// Gone once the connection is closing or the child has closed its stdout: nothing sent then could be answered. With
    /// the last sender the child's stdin closes.
    writer: Writer,
    table: Table,
    ended: CancellationToken,
}

impl Connection {
    pub(super) fn spawn(command: &Command, inbox: Inbox) -> Result<Self, ClientError> {
        let mut start = tokio::process::Command::new(&command.program);
        start.args(&command.args).envs(command.env.iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = &command.cwd {
            start.current_dir(cwd);
        }
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        // A group of its own: a terminal's Ctrl-C is ours to translate into a cancel, and not the child's to die of.
        #[cfg(unix)]
        start.process_group(0);
        let spawn_error =
            |source| ClientError::Spawn { command: command.program.to_string_lossy().into_owned(), source };
        let mut child = start.spawn().map_err(spawn_error)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) =
            pipes.ok_or_else(|| spawn_error(std::io::Error::other("its pipes are missing")))?;
        let (writer, lines) = mpsc::channel(WRITE_QUEUE);
        let table = Table::new(Mutex::new(InFlight::new(Hop::ALL[0])));
        tokio::spawn(write(stdin, lines));
        let writer = Writer::new(Mutex::new(Some(writer)));
        let ended = CancellationToken::new();
        tokio::spawn(read(stdout, Arc::clone(&table), Arc::clone(&writer), inbox, ended.clone()));
        Ok(Self { child: child.into(), writer, table, ended })
    }

    pub(super) fn leg(&self, outgoing: Outgoing<'_>) -> Leg {
        let Outgoing { spec, method, params, headers: _ } = outgoing;
        let line = Bytes::from(envelope::request(&spec.id, method, params) + "\n");
        let (to_task, heard) = mpsc::channel(EVENT_QUEUE + 1);
        // Our ids come from a counter, so the id is free; were it not, the request would end as lost.
        let _ = lock(&self.table).open(spec.id.clone(), spec.operation, to_task);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let for_signal = writer.clone();
        let prepare = async move {
            let closed = || Detail::failed(Failure::NothingLeft, "the server's stdin is closed");
            let place = writer.ok_or_else(closed)?.reserve_owned().await.map_err(|_| closed())?;
            let launch: Launch = Box::new(move || {
                place.send(line);
            });
            Ok(launch)
        };
        let signal = move |signal: &CancelSignal| match signal {
            CancelSignal::Notification { id, reason } | CancelSignal::PostNotification { id, reason } => {
                let line = Bytes::from(envelope::cancelled(id, reason.as_deref()) + "\n");
                if let Some(writer) = for_signal.clone() {
                    // In a task of its own: a child that does not read must not hold up whoever gave up on it.
                    tokio::spawn(async move { writer.send(line).await });
                }
            }
            CancelSignal::CloseStream => {}
        };
        Leg { prepare: Box::pin(prepare), heard, signal: Box::new(signal) }
    }

    /// The request ended. Ids are never used again, so a late answer finds nobody, and nothing is kept for one that
    /// never comes (F022, I-24).
    pub(super) fn forget(&self, id: &RequestId) {
        lock(&self.table).release(id);
    }

    pub(super) fn notify(&self, method: &str, params: &str) {
        self.write(Bytes::from(envelope::notification(method, params) + "\n"));
    }

    pub(super) fn respond(&self, id: &RequestId, response: &Reply<Bytes>) {
        let mut line = message::response(Some(id), response).to_vec();
        line.push(b'\n');
        self.write(line.into());
    }

    fn write(&self, line: Bytes) {
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            tokio::spawn(async move { writer.send(line).await });
        }
    }

    pub(super) async fn gone(&self) -> Gone {
        self.ended.cancelled().await;
        Gone { why: "the server closed its stdout".to_owned(), by_us: false }
    }

    pub(super) async fn close(&self, grace: Duration) {
        drop(self.writer.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut child = self.child.lock().await;
        if tokio::time::timeout(grace, child.wait()).await.is_err() {
            let _ = child.start_kill();
            let _ = child.wait().await;
        }
    }
}

/// Writes whole lines, one after another; ends with the last sender and so closes the child's stdin.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Bytes>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

/// Reads until the child closes its stdout, then lets every pending request end as lost, once (I-26).
async fn read(stdout: ChildStdout, table: Table, writer: Writer, inbox: Inbox, ended: CancellationToken) {
    let mut lines = lines::Reader::new(stdout, MAX_MESSAGE_BYTES);
    while let Ok(Some(line)) = lines.next().await {
        match line {
            Line::Message(line) => hear(&table, &line, &inbox),
            // What is no message concerns no request; an unanswered one reaches its own limits.
            Line::Noise(_) | Line::Blank | Line::TooLong { .. } | Line::Unfinished { .. } => {}
        }
    }
    // A leg enters the table before it takes the writer, so in this order none is left waiting in between.
    drop(writer.lock().unwrap_or_else(PoisonError::into_inner).take());
    drop(lock(&table).drain());
    ended.cancel();
}

/// Hands a message to the request it is for. Never waits: one slow request must not hold up the others (F014).
fn hear(table: &Table, line: &[u8], inbox: &Inbox) {
    match envelope::parse(line) {
        // Of two answers the first counts; after it the id leads nowhere. One place is kept for it.
        Ok(Message::Response { id: Some(id), reply }) => {
            if let Some(to_task) = lock(table).release(&id) {
                let _ = to_task.try_send(Input::Response(message::owned(&reply)).into());
            }
        }
        Ok(Message::Notification { method, params: Some(params) }) if method == "notifications/progress" => {
            let Some((token, progress)) = envelope::progress_of(params.get()) else { return };
            let Some(id) = super::request_of(&token) else { return };
            if let Some(to_task) = lock(table).get(&id)
                && to_task.capacity() > 1
            {
                let _ = to_task.try_send(Input::Progress(token, progress).into());
            }
        }
        // An error without an id cannot be given to a request of this connection (MSG-10).
        Ok(Message::Response { id: None, .. }) => drop(inbox.put(Inbound::Stray { id: None })),
        Ok(Message::Request { id, method, params }) => {
            let (method, params) = (method.into_owned(), message::params_bytes(params));
            inbox.put(Inbound::Request { id, method, params, during: None });
        }
        Ok(Message::Notification { method, params }) => {
            inbox.put(Inbound::Notification {
                method: method.into_owned(),
                params: message::params_bytes(params),
            });
        }
        Err(error) => drop(inbox.put(Inbound::Noise { what: error.to_string() })),
    }
}

fn lock(table: &Table) -> std::sync::MutexGuard<'_, InFlight<mpsc::Sender<Heard>>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
