//! Tool calls as durable tasks: the extension `io.modelcontextprotocol/tasks` of 2026-07-28, and the tasks of 2025-11-25
//! over the same store.
//!
//! A task is durable before its handle leaves (TSK-13), and it outlives the connection, the session and the process
//! that made it (G14). Its worker runs apart from the exchange; both sides meet in the store only, so a caller may ask
//! another process of the same file. Who waits is woken at once by what happens here, and by what happens in other
//! processes at the next look.

mod board;
mod methods;
mod questions;
mod run;
mod shape;
mod shift;
mod tend;
mod worker;

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use steadfast_core::hop::Revision;
use steadfast_core::subscription::Change;
use steadfast_core::task::Task;
use steadfast_store::{StoreError, TaskFailure};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::server::{Caller, Changes, Request};
use board::Board;
use questions::Forward;
pub use worker::{AskError, Done, Question, Worker};

/// Makes tool calls durable tasks and answers `tasks/*`. Clones are the same.
#[derive(Clone)]
pub struct Tasks(Arc<Inner>);

/// What bounds the tasks of one server.
#[derive(Clone, Copy, Debug)]
pub struct TaskOptions {
    /// How many unfinished tasks one principal may have (LEG-117).
    pub max_open: u32,
    /// The shortest retention: a caller that asks for less is given this (LEG-106, F104).
    pub min_ttl: Duration,
    /// The longest retention (LEG-117).
    pub max_ttl: Duration,
    /// How often other processes' changes are looked for: answers, cancels, ends.
    pub look_every: Duration,
    /// How often tasks without a worker, and those whose retention is over, are looked for.
    pub sweep_every: Duration,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            max_open: 100,
            min_ttl: Duration::from_secs(60),
            max_ttl: Duration::from_secs(7 * 24 * 3_600),
            look_every: Duration::from_secs(1),
            sweep_every: Duration::from_secs(5),
        }
    }
}

/// How a tool's calls become tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskPolicy {
    /// Whether, and when.
    pub support: TaskSupport,
    /// How long a task is kept from its creation, within the server's own bounds.
    pub ttl: Duration,
    /// How often a caller should ask.
    pub poll_interval: Duration,
    /// Whether the tool changes anything: then the outcome of a task whose worker was lost is unknown (G8).
    pub writes: bool,
    /// Whether a successor can go on where a lost worker stopped. Only then the call's params are stored, until the
    /// task ends.
    pub resumes: bool,
}

impl Default for TaskPolicy {
    /// Never a task; what it changes is not known, so it is taken for a write.
    fn default() -> Self {
        Self {
            support: TaskSupport::Never,
            ttl: Duration::from_secs(3_600),
            poll_interval: Duration::from_secs(1),
            writes: true,
            resumes: false,
        }
    }
}

/// Whether a tool's calls become tasks (ruling 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSupport {
    /// `never`; in 2025-11-25 `forbidden`.
    Never,
    /// `auto`: a call that is unanswered after this long, where its caller declared the extension. In 2025-11-25
    /// `optional`: the caller says so itself, and the call is a task at once.
    Optional {
        /// How long a call may take before it becomes a task; zero for at once.
        after: Duration,
    },
    /// `always`, and refused to callers without tasks (TSK-06); in 2025-11-25 `required`.
    Required,
}

impl TaskSupport {
    /// The word of `execution.taskSupport` in a listing of 2025-11-25; `None` for every other revision.
    pub fn listed(self, caller: &Caller) -> Option<&'static str> {
        (caller.revision == Revision::V2025_11_25).then_some(match self {
            Self::Never => "forbidden",
            Self::Optional { .. } => "optional",
            Self::Required => "required",
        })
    }
}

/// What looks after orphans needs to know of the tools.
pub trait Workshop: Send + Sync {
    /// How the calls of this tool become tasks; `None` if there is no such tool any more.
    fn policy(&self, operation: &str) -> Option<TaskPolicy>;

    /// Goes on with a `tools/call` whose worker is gone. A question that was answered before is not asked again.
    /// `None` if it cannot be done.
    fn resume(&self, request: Request, worker: Worker) -> Option<Pin<Box<dyn Future<Output = Done> + Send>>>;
}

struct Inner {
    store: steadfast_store::Tasks,
    changes: Changes,
    server: String,
    options: TaskOptions,
    board: Board,
    workshop: OnceLock<Weak<dyn Workshop>>,
    tended: AtomicBool,
    ending: CancellationToken,
    shifts: TaskTracker,
    /// Progress of the legacy tasks of this process, for whoever waits for their results (LEG-113).
    forwards: Mutex<HashMap<String, Forward>>,
    /// Questions that legacy clients are being asked now, by task and key.
    asking: watch::Sender<HashSet<(String, String)>>,
}

impl Tasks {
    /// The tasks of one server, whose name tells its orphans from another's in the same file.
    pub fn new(store: steadfast_store::Tasks, changes: Changes, server: &str, options: TaskOptions) -> Self {
        Self(Arc::new(Inner {
            store,
            changes,
            server: server.to_owned(),
            options,
            board: Board::default(),
            workshop: OnceLock::new(),
            tended: AtomicBool::new(false),
            ending: CancellationToken::new(),
            shifts: TaskTracker::new(),
            forwards: Mutex::default(),
            asking: watch::Sender::default(),
        }))
    }
}

impl Inner {
    /// Asks the store something on a thread that may wait.
    async fn stored<T, F>(&self, ask: F) -> Result<T, TaskFailure>
    where
        T: Send + 'static,
        F: FnOnce(&steadfast_store::Tasks) -> Result<T, TaskFailure> + Send + 'static,
    {
        let store = self.store.clone();
        blocking(move || ask(&store)).await
    }

    /// Wakes who waits for this task and tells who listens, unless this state of it was told before.
    fn saw(&self, id: &str, task: &Task<String>) {
        if self.board.saw(id, task.updated_at()) {
            let change = Change::Task(id.to_owned());
            if self.changes.is_heard(&change) {
                self.changes.publish_with(&change, shape::whole(id, task).to_json().into());
            }
        }
    }
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("server", &self.0.server).finish_non_exhaustive()
    }
}

/// The store waits for its disk, which no thread of the reactor may.
async fn blocking<T: Send + 'static>(
    ask: impl FnOnce() -> Result<T, TaskFailure> + Send + 'static,
) -> Result<T, TaskFailure> {
    tokio::task::spawn_blocking(ask).await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
