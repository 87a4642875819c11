//! The life of a child from its start to the end of its tree (STD-12, STD-18, I-26).

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::hear::{self, Silence};
use super::tree::{Pipes, Signal, Tree};
use super::write::{self, Broken};
use super::{ENDING, Shared, tail};
use crate::client::leg::Gone;

/// What a killed tree may take to be gone.
pub(super) const LAST_WAIT: Duration = Duration::from_millis(500);
/// What is left in the pipes of an exited child is read for so long at most: a grandchild may hold them open.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// A child that closed a pipe is given so long to exit, so that its end can be told with how it ended.
const LAST_STEPS: Duration = Duration::from_millis(250);
/// An end so soon after a cancel is told as one that it may have caused.
const AFTER_CANCEL: Duration = Duration::from_secs(1);

/// A running child.
pub(super) struct Life {
    shared: Arc<Shared>,
    /// None where there are streams and no process of ours.
    tree: Option<Tree>,
    reader: Running<Silence>,
    writer: Running<Result<(), Broken>>,
    stderr: Running<()>,
}

/// What there is to tell first.
enum Cause {
    Closing,
    Exited,
    Silence(Silence),
    Broken(Broken),
}

impl Life {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        tree: Option<Tree>,
        pipes: Pipes,
        (lines, write_stall): (mpsc::Receiver<Bytes>, Duration),
    ) -> Self {
        let Pipes { stdin, stdout, stderr } = pipes;
        Self {
            reader: Running::spawn(hear::read(stdout, Arc::clone(shared))),
            writer: Running::spawn(write::write(stdin, lines, write_stall)),
            stderr: Running::spawn(tail::drain(stderr, Arc::clone(shared))),
            shared: Arc::clone(shared),
            tree,
        }
    }

    /// Until nothing of the tree is left.
    pub(super) async fn watch(
        mut self,
        mut close: watch::Receiver<Option<Duration>>,
        ended: CancellationToken,
    ) {
        let cause = tokio::select! {
            biased;
            _ = close.wait_for(Option::is_some) => Cause::Closing,
            silence = self.reader.ended() => Cause::Silence(silence),
            broken = broken(&mut self.writer) => Cause::Broken(broken),
            () = exited(&mut self.tree) => Cause::Exited,
        };
        match &cause {
            // What is written already may be answered yet, and what waits to be written may leave: nothing is cut off.
            Cause::Closing => {
                let closed = Gone { why: "the connection was closed".to_owned(), by_us: true };
                self.shared.gone.send_replace(Some(closed));
                self.shared.writer().take();
            }
            Cause::Exited => self.reader.wait(LAST_WORDS).await,
            // A wedged one does not go by itself.
            Cause::Silence(Silence::Noise) | Cause::Broken(Broken::Wedged(_)) => {}
            Cause::Silence(Silence::Closed | Silence::Broken(_)) | Cause::Broken(Broken::Closed) => {
                let _ = timeout(LAST_STEPS, exited(&mut self.tree)).await;
            }
        }
        if !matches!(cause, Cause::Closing) {
            if self.status().is_some() {
                self.stderr.wait(LAST_STEPS).await;
            }
            self.shared.end(Gone { why: self.why(&cause), by_us: false });
            self.writer.abort();
        }
        self.end(close).await;
        if matches!(cause, Cause::Closing) {
            // What it said last may still be on its way.
            self.reader.wait(LAST_STEPS).await;
        }
        self.shared.end(Gone { why: "the connection was closed".to_owned(), by_us: true });
        ended.cancel();
    }

    /// Waits, terminates, kills: each step at its part of the time that the end may take.
    async fn end(&mut self, mut close: watch::Receiver<Option<Duration>>) {
        let Some(tree) = &mut self.tree else { return self.hang_up(close).await };
        let begun = Instant::now();
        let mut steps =
            [(2, Signal::Terminate), (3, Signal::Kill), (4, Signal::Abandon)].into_iter().peekable();
        let mut hurried = true;
        while let Some((quarters, signal)) = steps.peek() {
            let grace = close.borrow_and_update().unwrap_or(ENDING);
            let at = begun + grace * *quarters / 4;
            tokio::select! {
                biased;
                () = tree.gone() => return,
                () = tokio::time::sleep_until(at) => {
                    // Closed, if it was not: a child that does not read must not hold this up.
                    self.writer.abort();
                    tree.signal(*signal);
                    steps.next();
                }
                changed = close.changed(), if hurried => hurried = changed.is_ok(),
            }
        }
        tree.gone().await;
    }

    /// Without a process there is nothing to end but the streams: the peer's may end by itself once ours did.
    async fn hang_up(&mut self, close: watch::Receiver<Option<Duration>>) {
        let grace = close.borrow().unwrap_or_default();
        let _ = timeout(grace, async {
            self.writer.over().await;
            self.reader.over().await;
        })
        .await;
        self.writer.abort();
        self.reader.abort();
    }

    fn status(&self) -> Option<ExitStatus> {
        self.tree.as_ref().and_then(Tree::status)
    }

    fn why(&self, cause: &Cause) -> String {
        let end = self.status().map(in_words);
        let it = if self.tree.is_some() { "its process" } else { "its connection" };
        let mut why = match (cause, end) {
            (Cause::Silence(Silence::Noise), _) => {
                "it wrote nothing but lines that are no messages to its stdout; make it log to stderr"
                    .to_owned()
            }
            (Cause::Broken(Broken::Wedged(stall)), _) => {
                format!("{it} took no byte of what was written to it for {stall:?} and was ended")
            }
            (_, Some(end)) => format!("its process {end}"),
            (Cause::Silence(Silence::Broken(why)), None) => format!("{it} broke: {why}"),
            (Cause::Silence(Silence::Closed) | Cause::Broken(Broken::Closed), None)
                if self.tree.is_none() =>
            {
                "its connection was closed by the other end".to_owned()
            }
            (Cause::Silence(Silence::Closed), None) => {
                "its process closed its stdout and was ended".to_owned()
            }
            (Cause::Broken(Broken::Closed), None) => "its process closed its stdin and was ended".to_owned(),
            (Cause::Exited | Cause::Closing, None) => "its process ended".to_owned(),
        };
        let cancelled = *self.shared.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        if cancelled.is_some_and(|at| at.elapsed() < AFTER_CANCEL) {
            why.push_str(" right after it was told of a cancel");
        }
        if let Some(tail) = self.shared.tail().shown() {
            why.push_str("; its last words on stderr: ");
            why.push_str(&tail);
        }
        why
    }
}

/// The end of the process, where there is one.
async fn exited(tree: &mut Option<Tree>) {
    match tree {
        Some(tree) => tree.exited().await,
        None => std::future::pending().await,
    }
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(_)) => format!("was ended by {status}"),
        (None, None) => format!("ended ({status})"),
    }
}

/// The writer's end, where it is one that tells something: it also ends with the last sender, when there is nothing to
/// write any more.
async fn broken(writer: &mut Running<Result<(), Broken>>) -> Broken {
    match writer.ended().await {
        Err(broken) => broken,
        Ok(()) => std::future::pending().await,
    }
}

/// A task that ends with this.
struct Running<T> {
    task: AbortOnDropHandle<T>,
    is_over: bool,
}

impl<T: Send + 'static> Running<T> {
    fn spawn(task: impl Future<Output = T> + Send + 'static) -> Self {
        let task: JoinHandle<T> = tokio::spawn(task);
        Self { task: AbortOnDropHandle::new(task), is_over: false }
    }

    /// What it came to; for ever if that was told already, or if it was stopped.
    async fn ended(&mut self) -> T {
        if !self.is_over {
            let ended = (&mut self.task).await;
            self.is_over = true;
            if let Ok(ended) = ended {
                return ended;
            }
        }
        std::future::pending().await
    }

    /// Waits until it is over, whatever it came to.
    async fn over(&mut self) {
        if !self.is_over {
            let _ = (&mut self.task).await;
            self.is_over = true;
        }
    }

    /// Lets it go on for so long at most, and stops it.
    async fn wait(&mut self, limit: Duration) {
        let _ = timeout(limit, self.over()).await;
        self.abort();
    }

    fn abort(&mut self) {
        self.is_over = true;
        self.task.abort();
    }
}
