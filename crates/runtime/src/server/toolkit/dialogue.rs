//! A handler's conversation with its caller: progress, log entries, the cancel switch, and questions.
//!
//! A question is asked in one way in every era. In the legacy ones it is a request to the client while the call runs, and
//! in a task it is a question of the task. A modern client is answered with the open questions and comes back with their
//! answers: the handler then runs anew from its beginning, and finds at the same place what it asked for. So **ask
//! before you act**: what stands before a question may run once a round.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use steadfast_core::exchange::{Finite, Progress};

use super::failure::{Failure, Why};
use super::questions::Question;
use super::rounds::Rounds;
use super::service::{Inner, Server};
use super::tasks::{self, Worker};
use crate::server::{Caller, Context, Level};

/// A handler's conversation with its caller. Clones are the same.
#[derive(Clone)]
pub struct Dialogue {
    pub(super) server: Arc<Inner>,
    worker: Worker,
    /// Where a question is answered by a new request: the modern era outside a task.
    rounds: Option<Arc<Rounds>>,
}

impl Dialogue {
    pub(super) const fn new(server: Arc<Inner>, worker: Worker, rounds: Option<Arc<Rounds>>) -> Self {
        Self { server, worker, rounds }
    }

    /// The server that was called, for handlers that change what it offers.
    pub fn server(&self) -> Server {
        Server(Arc::clone(&self.server))
    }

    /// The link to the caller, with all that it can do.
    pub const fn context(&self) -> &Context {
        self.worker.context()
    }

    /// Who called.
    pub fn caller(&self) -> &Caller {
        self.context().caller()
    }

    /// Reports that `done` of `total` is done, if the caller wants to know. Never waits: of reports that come faster than
    /// they leave the latest is kept (G9), and what does not rise is not sent.
    pub fn progress(&self, done: f64, total: f64) {
        if let Some(value) = Finite::new(done) {
            self.context().progress(Progress { value, total: Finite::new(total), message: None });
        }
    }

    /// Writes a log entry for the caller, if it wants entries of this level (LOG-01). Never waits. A server whose
    /// handlers do says so by [`super::Builder::logs`].
    pub fn log(&self, level: Level, data: impl Into<Value>) {
        self.context().log(level, None, &data.into());
    }

    /// Comes when the call was cancelled, timed out, or its caller left: stop then, with [`Failure::stopped`].
    pub async fn cancelled(&self) {
        self.context().cancelled().cancelled().await;
    }

    /// The task's id, once the call is a task: a name for what a successor is to find.
    pub fn task(&self) -> Option<String> {
        self.worker.task()
    }

    /// Says how far a task is, for a person.
    pub fn report(&self, message: impl Into<String>) {
        self.worker.report(message);
    }

    /// Asks one thing and gives the client's answer: a declined or cancelled form is an answer too (MRT-30). `key`
    /// names the question within this call and is used once.
    ///
    /// # Errors
    /// To be passed on with `?`: the question is open, the client cannot be asked, or the call ended.
    pub async fn ask(&self, key: &str, question: Question) -> Result<Value, Failure> {
        let mut answers = self.ask_all([(key, question)]).await?;
        Ok(answers.remove(key).unwrap_or_default())
    }

    /// Asks several things at once and gives all answers by key.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_all<'a>(
        &self,
        questions: impl IntoIterator<Item = (&'a str, Question)> + Send,
    ) -> Result<BTreeMap<String, Value>, Failure> {
        let mut open: BTreeMap<String, Question> =
            questions.into_iter().map(|(key, question)| (key.to_owned(), question)).collect();
        let mut answers = BTreeMap::new();
        if let Some(rounds) = &self.rounds {
            answers = rounds.take(&open)?;
            open.retain(|key, _| !answers.contains_key(key));
        }
        if open.is_empty() {
            return Ok(answers);
        }
        if let Some(question) = open.values().find(|question| !self.may_ask(question)) {
            return Err(Failure::not_declared(question.needs()));
        }
        let asked = open.iter().map(|(key, question)| {
            let params = question.params.to_string();
            (key.clone(), tasks::Question { method: question.method.to_owned(), params })
        });
        match self.worker.ask(asked.collect()).await {
            Ok(given) => {
                for (key, answer) in given {
                    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
                    if open.get(&key).is_some_and(|question| !question.is_answered_by(&answer)) {
                        return Err(Failure::failed(format!("the client's answer to {key:?} is not one")));
                    }
                    answers.insert(key, answer);
                }
                Ok(answers)
            }
            Err(tasks::AskError::NotServed) => match &self.rounds {
                Some(rounds) => {
                    rounds.leave(open);
                    Err(Failure(Why::Asked))
                }
                None => Err(Failure::failed("this client cannot be asked")),
            },
            Err(tasks::AskError::Ended) => Err(Failure::stopped()),
            Err(error) => Err(Failure::failed(error.to_string())),
        }
    }

    /// Whether this caller may be asked this.
    pub fn may_ask(&self, question: &Question) -> bool {
        question.may_be_put_to(self.caller())
    }

    /// What [`Self::remember`] was given in an earlier round of this call; nobody could change it on the way.
    pub fn remembered(&self) -> Option<&Value> {
        self.rounds.as_ref().and_then(|rounds| rounds.remembered())
    }

    /// Keeps something for the next round of this call. The client keeps it meanwhile: it can read it, and can neither
    /// change it nor use it for another call (MRT-23). It may come back more than once, so what must happen once needs a
    /// key (MRT-26). Where there are no rounds the handler goes on by itself and has no need of it.
    pub fn remember(&self, value: Value) {
        if let Some(rounds) = &self.rounds {
            rounds.remember(value);
        }
    }
}

impl fmt::Debug for Dialogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialogue").field("server", &self.server.name).finish_non_exhaustive()
    }
}
