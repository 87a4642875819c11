//! Questions to the user, asked in one way in every era.
//!
//! In the legacy eras a question is a request to the client while the call runs, and in a task it is a question of the
//! task. A modern client is answered with the open questions and comes back with their answers: the handler then runs
//! anew from its beginning, and finds at the same place what it asked for. So **ask before you act**: what stands before
//! a question may run once a round.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::schema::Schema;
use super::tasks::{self, Worker};
use crate::message;
use crate::message::OwnError;
use crate::server::Context;
use crate::server::caller::Capabilities;

/// Something to ask the user, the model behind the client, or the client itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    method: &'static str,
    params: Value,
}

impl Question {
    /// A form: `schema` is an object of primitive fields, as `elicitation/create` takes it.
    pub fn form(message: impl Into<String>, schema: Value) -> Self {
        Self {
            method: "elicitation/create",
            params: json!({ "mode": "form", "message": message.into(), "requestedSchema": schema }),
        }
    }

    /// A page that the user is sent to.
    pub fn url(message: impl Into<String>, url: &str, id: &str) -> Self {
        Self {
            method: "elicitation/create",
            params: json!({ "mode": "url", "message": message.into(), "url": url, "elicitationId": id }),
        }
    }

    /// Something for the client's model: the params of `sampling/createMessage`.
    pub const fn sampling(params: Value) -> Self {
        Self { method: "sampling/createMessage", params }
    }

    /// Which roots the client has.
    pub fn roots() -> Self {
        Self { method: "roots/list", params: json!({}) }
    }

    fn to_json(&self) -> Value {
        json!({ "method": self.method, "params": self.params })
    }

    /// The capability that a client needs to be asked (MRT-07, CAP-19), and whether it has it.
    fn needs(&self) -> &'static [&'static str] {
        match (self.method, self.params["mode"].as_str()) {
            ("elicitation/create", Some("url")) => &["elicitation", "url"],
            ("elicitation/create", _) => &["elicitation", "form"],
            ("roots/list", _) => &["roots"],
            _ => &["sampling"],
        }
    }

    /// Whether an answer has the shape of one, and a form's content what its schema says (MRT-27).
    fn is_answered_by(&self, answer: &Value) -> bool {
        match self.method {
            "elicitation/create" => match answer["action"].as_str() {
                Some("accept") if self.params["mode"] == "form" => {
                    let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
                    Schema::new(self.params["requestedSchema"].clone())
                        .is_ok_and(|schema| content.is_object() && schema.check(&content).is_ok())
                }
                Some("accept" | "decline" | "cancel") => true,
                _ => false,
            },
            "roots/list" => answer["roots"].is_array(),
            _ => answer["role"].is_string() && !answer["content"].is_null(),
        }
    }
}

/// Why a handler has no result.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure(pub(super) Why);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Why {
    /// Questions are open; the handler runs again with their answers.
    Asked,
    /// The tool's own failure, in words for a model.
    Failed(String),
    /// A JSON-RPC error: the text of the error object.
    Protocol(String),
    /// It saw the cancel.
    Stopped,
}

impl Failure {
    /// The tool's own work failed: a completed call that a model reads (ERR-14).
    pub fn failed(text: impl Into<String>) -> Self {
        Self(Why::Failed(text.into()))
    }

    /// A JSON-RPC error.
    pub fn protocol(code: i64, message: &str, data: Option<Value>) -> Self {
        let mut error = json!({ "code": code, "message": message });
        if let Some(data) = data {
            error["data"] = data;
        }
        Self(Why::Protocol(error.to_string()))
    }

    /// The handler saw that the call was cancelled, and stopped.
    pub const fn stopped() -> Self {
        Self(Why::Stopped)
    }

    /// An error of Steadfast's own kind, as a JSON-RPC error.
    pub fn own(error: &OwnError<'_>) -> Self {
        Self(Why::Protocol(error.as_json_rpc_error()))
    }

    fn not_declared(needs: &[&str]) -> Self {
        let error = missing(needs);
        Self(Why::Protocol(error))
    }
}

/// The error for a capability that the client did not declare (CAP-07).
pub(super) fn missing(path: &[&str]) -> String {
    let required = path.iter().rev().fold(json!({}), |inner, name| json!({ *name: inner }));
    json!({
        "code": -32021,
        "message": format!("this needs the client capability {}; declare it and call again", path.join(".")),
        "data": { "requiredCapabilities": required },
    })
    .to_string()
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::failed(error.to_string())
    }
}

/// A handler's conversation with its caller. Clones are the same.
#[derive(Clone, Debug)]
pub struct Dialogue {
    worker: Worker,
    /// Where a question is answered by a new request: the modern era outside a task.
    rounds: Option<Arc<Rounds>>,
}

/// What earlier rounds brought and what this one leaves.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// What this request and its state answer.
    answers: BTreeMap<String, Value>,
    remembered: Option<Value>,
    left: Mutex<Left>,
}

/// What a round that ended without a result leaves.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) open: BTreeMap<String, Question>,
    pub(super) remember: Option<Value>,
    /// What was asked before and is answered: it travels on in the state.
    pub(super) taken: BTreeMap<String, Value>,
}

impl Dialogue {
    pub(super) const fn new(worker: Worker, rounds: Option<Arc<Rounds>>) -> Self {
        Self { worker, rounds }
    }

    /// The link to the caller: progress, log entries, the cancel switch.
    pub const fn context(&self) -> &Context {
        self.worker.context()
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
        let questions: BTreeMap<String, Question> =
            questions.into_iter().map(|(key, question)| (key.to_owned(), question)).collect();
        if let Some(rounds) = &self.rounds
            && questions.keys().all(|key| rounds.answers.contains_key(key))
        {
            return rounds.take(&questions);
        }
        if let Some(question) = questions.values().find(|question| !self.may_ask(question)) {
            return Err(Failure::not_declared(question.needs()));
        }
        let asked = questions.iter().map(|(key, question)| {
            let params = question.params.to_string();
            (key.clone(), tasks::Question { method: question.method.to_owned(), params })
        });
        match self.worker.ask(asked.collect()).await {
            Ok(answers) => answers
                .into_iter()
                .map(|(key, answer)| {
                    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
                    let question = questions.get(&key);
                    if question.is_some_and(|question| !question.is_answered_by(&answer)) {
                        return Err(Failure::failed(format!("the client's answer to {key:?} is not one")));
                    }
                    Ok((key, answer))
                })
                .collect(),
            Err(tasks::AskError::NotServed) => match &self.rounds {
                Some(rounds) => rounds.ask(questions),
                None => Err(Failure::failed("this client cannot be asked")),
            },
            Err(tasks::AskError::NotDeclared(_)) => {
                Err(Failure::not_declared(questions.values().next().map_or(&[], Question::needs)))
            }
            Err(tasks::AskError::Ended) => Err(Failure::stopped()),
            Err(error) => Err(Failure::failed(error.to_string())),
        }
    }

    /// Whether this caller may be asked this.
    pub fn may_ask(&self, question: &Question) -> bool {
        self.capabilities().declare(question.needs())
    }

    /// What [`Self::remember`] was given in an earlier round of this call; nobody could change it on the way.
    pub fn remembered(&self) -> Option<&Value> {
        self.rounds.as_ref().and_then(|rounds| rounds.remembered.as_ref())
    }

    /// Keeps something for the next round of this call, sealed within the client (MRT-23). Where there are no rounds the
    /// handler goes on by itself and has no need of it.
    pub fn remember(&self, value: Value) {
        if let Some(rounds) = &self.rounds {
            rounds.left().remember = Some(value);
        }
    }

    fn capabilities(&self) -> &Capabilities {
        &self.context().caller().capabilities
    }
}

impl Rounds {
    pub(super) fn new(answers: BTreeMap<String, Value>, remembered: Option<Value>) -> Self {
        Self { answers, remembered, left: Mutex::default() }
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, questions: &BTreeMap<String, Question>) -> Result<BTreeMap<String, Value>, Failure> {
        let mut answers = BTreeMap::new();
        for (key, question) in questions {
            let Some(answer) = self.answers.get(key) else { continue };
            if !question.is_answered_by(answer) {
                let text =
                    format!("inputResponses.{key} is no answer to its question; send what it asks for");
                return Err(Failure(Why::Protocol(message::error_body(-32602, &text))));
            }
            self.left().taken.insert(key.clone(), answer.clone());
            answers.insert(key.clone(), answer.clone());
        }
        Ok(answers)
    }

    /// Leaves the questions that are not answered yet. Of several that are asked together, those that are need not be
    /// answered again (MRT-29).
    fn ask<T>(&self, questions: BTreeMap<String, Question>) -> Result<T, Failure> {
        self.take(&questions)?;
        let mut left = self.left();
        left.open.extend(questions.into_iter().filter(|(key, _)| !self.answers.contains_key(key)));
        Err(Failure(Why::Asked))
    }

    /// What this round leaves.
    pub(super) fn end(&self) -> Left {
        std::mem::take(&mut *self.left())
    }
}

impl Left {
    /// The questions as a modern client is answered with them (MRT-06).
    pub(super) fn requests(&self) -> Map<String, Value> {
        self.open.iter().map(|(key, question)| (key.clone(), question.to_json())).collect()
    }
}
