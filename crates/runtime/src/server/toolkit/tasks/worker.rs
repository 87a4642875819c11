//! What the work of a call is given: the link to its caller, and where it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use steadfast_core::exchange::Reply;
use steadfast_core::object::{self, Members};
use steadfast_core::task::{Input, Status};
use steadfast_store::{TaskFailure, Work};
use tokio::sync::watch;

use super::{Tasks, blocking, lock};
use crate::server::context::AskError as NotAsked;
use crate::server::{Answer, Context};

/// The member of an answer that holds the error with which a client refused a question.
const REFUSED: &str = "steadfast/error";

/// How the work of a call ended.
#[derive(Debug)]
pub enum Done {
    /// With what the call is answered with.
    Answered(Answer),
    /// It saw the cancel and stopped. A task becomes `cancelled` by this and by nothing else (D-09).
    Stopped,
}

/// A question to the user or the model behind the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The JSON text of its params: an object.
    pub params: String,
}

/// Why there is no answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// CAP-05, AMB-20.
    #[error("the caller did not declare what {0} needs; do without, or answer with an error that says so")]
    NotDeclared(
        /// The question's method.
        String,
    ),
    /// A modern call that is no task.
    #[error("this client cannot be asked while the call runs; return the questions as input_required")]
    NotServed,
    /// TSK-33, TSK-34.
    #[error("the question {0:?} was asked before in this task; ask under a new key")]
    KeyReused(
        /// The key.
        String,
    ),
    /// The client answered with a JSON-RPC error.
    #[error("the client refused the question {key:?}; do without its answer")]
    Refused {
        /// The question's key.
        key: String,
        /// The JSON text of the error.
        error: String,
    },
    /// Nobody will answer any more.
    #[error("the call ended or was cancelled before the question was answered; stop working")]
    Ended,
    /// The store.
    #[error(transparent)]
    Store(TaskFailure),
}

/// The work's side of one call. Clones are the same.
#[derive(Clone, Debug)]
pub struct Worker {
    context: Context,
    link: Arc<Link>,
}

#[derive(Debug)]
struct Link {
    /// None of a call that never becomes a task.
    tasks: Option<Tasks>,
    stage: watch::Sender<Stage>,
    /// The latest that the work said of itself, for `statusMessage`.
    report: watch::Sender<Option<String>>,
    /// The keys that this worker asked under. A successor may ask under those of its predecessor.
    asked: Mutex<BTreeSet<String>>,
}

/// What a call is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// No task, and it will not be one.
    Call,
    /// Not yet a task.
    Promotable,
    /// Not yet a task, and it wants to be one to ask something.
    Wanting,
    /// A task.
    Task(Arc<Work>),
}

/// The other end of a [`Worker`].
pub(super) struct Desk(Arc<Link>);

impl Worker {
    /// For a call that never becomes a task.
    pub fn of_call(context: Context) -> Self {
        let link = Link {
            tasks: None,
            stage: watch::Sender::new(Stage::Call),
            report: watch::Sender::new(None),
            asked: Mutex::default(),
        };
        Self { context, link: Arc::new(link) }
    }

    pub(super) fn new(tasks: &Tasks, context: Context, stage: Stage) -> (Self, Desk) {
        let link = Arc::new(Link {
            tasks: Some(tasks.clone()),
            stage: watch::Sender::new(stage),
            report: watch::Sender::new(None),
            asked: Mutex::default(),
        });
        (Self { context, link: Arc::clone(&link) }, Desk(link))
    }

    /// The link to the caller: its cancel switch is thrown when the call, or the task, is to stop. In a task, log
    /// entries and modern progress go nowhere (TSK-59).
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// The task's id, once the call is a task: a name for what a successor is to find.
    pub fn task(&self) -> Option<String> {
        match &*self.link.stage.borrow() {
            Stage::Task(held) => Some(held.id().to_owned()),
            Stage::Call | Stage::Promotable | Stage::Wanting => None,
        }
    }

    /// Says how far a task is, for a person. Never waits: the latest is kept, and stored at most four times a second.
    pub fn report(&self, message: impl Into<String>) {
        self.link.report.send_replace(Some(message.into()));
    }

    /// Asks one thing or several at once, and waits for all answers: JSON texts by key. A task is `input_required`
    /// meanwhile; a call that may become a task becomes one for it. A successor that asks under a key of its
    /// predecessor gets the answer that was given.
    ///
    /// # Errors
    /// Nobody can be asked, or will answer; the client refused; or the key was used.
    pub async fn ask(
        &self,
        questions: BTreeMap<String, Question>,
    ) -> Result<BTreeMap<String, String>, AskError> {
        for (key, question) in &questions {
            if !self.is_declared(question) {
                return Err(AskError::NotDeclared(question.method.clone()));
            }
            if !lock(&self.link.asked).insert(key.clone()) {
                return Err(AskError::KeyReused(key.clone()));
            }
        }
        match (self.held().await, &self.link.tasks) {
            (Some(held), Some(tasks)) => self.ask_by_task(tasks, held, questions).await,
            (Some(_) | None, _) => self.ask_by_call(questions).await,
        }
    }

    /// The task, once it is one.
    async fn held(&self) -> Option<Arc<Work>> {
        let wants = |stage: &mut Stage| {
            let promotable = matches!(stage, Stage::Promotable);
            if promotable {
                *stage = Stage::Wanting;
            }
            promotable
        };
        self.link.stage.send_if_modified(wants);
        let mut stage = self.link.stage.subscribe();
        let settled = stage.wait_for(|stage| matches!(stage, Stage::Call | Stage::Task(_))).await;
        match settled.as_deref() {
            Ok(Stage::Task(held)) => Some(Arc::clone(held)),
            Ok(Stage::Call | Stage::Promotable | Stage::Wanting) | Err(_) => None,
        }
    }

    async fn ask_by_task(
        &self,
        tasks: &Tasks,
        held: Arc<Work>,
        questions: BTreeMap<String, Question>,
    ) -> Result<BTreeMap<String, String>, AskError> {
        let mut changed = tasks.0.board.watch(held.id());
        let mut asked = false;
        loop {
            changed.mark_unchanged();
            let looking = Arc::clone(&held);
            let seen = blocking(move || looking.look()).await.map_err(stored)?;
            if self.context.cancelled().is_cancelled() || seen.task.status().is_final() {
                return Err(AskError::Ended);
            }
            if questions.keys().all(|key| seen.answers.contains_key(key)) {
                let answers = seen.answers.into_iter().filter(|(key, _)| questions.contains_key(key));
                return answers.map(read).collect();
            }
            if !asked {
                asked = true;
                let is_new = |key: &String| {
                    let open = matches!(seen.task.status(), Status::InputRequired { open } if open.contains_key(key));
                    !open && !seen.answers.contains_key(key)
                };
                let new = questions.iter().filter(|(key, _)| is_new(key));
                let new: BTreeMap<_, _> = new.map(|(key, it)| (key.clone(), it.to_json())).collect();
                if !new.is_empty() {
                    let asking = Arc::clone(&held);
                    let asking = blocking(move || asking.handle(Input::Ask(new)));
                    let (_, task) = asking.await.map_err(stored)?;
                    tasks.0.saw(held.id(), &task);
                    continue;
                }
            }
            tokio::select! {
                changed = changed.changed() => changed.map_err(|_| AskError::Ended)?,
                () = self.context.cancelled().cancelled() => return Err(AskError::Ended),
            }
        }
    }

    /// The legacy way: the client is asked while the call runs, one question after the other.
    async fn ask_by_call(
        &self,
        questions: BTreeMap<String, Question>,
    ) -> Result<BTreeMap<String, String>, AskError> {
        let mut answers = BTreeMap::new();
        for (key, question) in questions {
            let reply = self.context.ask(&question.method, &question.params).await;
            let reply = reply.map_err(|error| match error {
                NotAsked::NotServed => AskError::NotServed,
                NotAsked::Ended | NotAsked::NoRoom => AskError::Ended,
            })?;
            match reply {
                Reply::Result(answer) => answers.insert(key, text(&answer)),
                Reply::Error(error) => return Err(AskError::Refused { key, error: text(&error) }),
            };
        }
        Ok(answers)
    }

    /// Whether the call that asks declared what the question needs; later requests do not matter (AMB-20).
    fn is_declared(&self, question: &Question) -> bool {
        let capabilities = &self.context.caller().capabilities;
        match question.method.as_str() {
            "elicitation/create" => {
                let mode = Members::parse(&question.params).ok().and_then(|params| params.get_str("mode"));
                capabilities.declare(&["elicitation", mode.as_deref().unwrap_or("form")])
            }
            "sampling/createMessage" => capabilities.declare(&["sampling"]),
            "roots/list" => capabilities.declare(&["roots"]),
            _ => false,
        }
    }
}

impl Question {
    fn to_json(&self) -> String {
        let mut members = Members::default();
        members.set("method", object::string(&self.method));
        members.set("params", self.params.as_str());
        members.to_json()
    }
}

impl Desk {
    pub(super) fn set(&self, stage: Stage) {
        self.0.stage.send_replace(stage);
    }

    /// Comes once the work wants to be a task.
    pub(super) async fn wanting(&self) {
        let mut stage = self.0.stage.subscribe();
        // The sender is held by this very value.
        let _ = stage.wait_for(|stage| matches!(stage, Stage::Wanting)).await;
    }

    pub(super) fn reports(&self) -> watch::Receiver<Option<String>> {
        self.0.report.subscribe()
    }
}

/// An answer, or the error that a legacy client gave in its place.
fn read((key, answer): (String, String)) -> Result<(String, String), AskError> {
    let refused = Members::parse(&answer).ok().and_then(|it| it.get(REFUSED).map(str::to_owned));
    match refused {
        None => Ok((key, answer)),
        Some(error) => Err(AskError::Refused { key, error }),
    }
}

/// The error of a client as the answer that is stored.
pub(super) fn refusal(error: &str) -> String {
    let mut members = Members::default();
    members.set(REFUSED, error);
    members.to_json()
}

pub(super) fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn stored(failure: TaskFailure) -> AskError {
    match failure {
        TaskFailure::NotFound | TaskFailure::Held(_) | TaskFailure::Over(_) => AskError::Ended,
        TaskFailure::TooMany { .. } | TaskFailure::Refused(_) | TaskFailure::Store(_) => {
            AskError::Store(failure)
        }
    }
}
