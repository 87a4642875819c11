//! Tasks: a call that a server answers by a handle is followed to its end, over lost answers, connections and our own
//! process, and is never sent again for any of it (TSK).
//!
//! A task of 2025-11-25 is followed by the same machine. What is its own: a call asks to be one, what came of it is
//! asked for apart, and its questions come as requests, for which the server may need the stream of that (LEG-100 to
//! LEG-118).
//!
//! When to ask, which questions are new and when it is over is decided by
//! [`Follower`](steadfast_core::task::follow::Follower).

mod answer;
mod begin;
mod follow;
mod journal;
mod outcome;
mod wire;

use std::fmt;
use std::io;
use std::sync::Arc;

use serde_json::json;
use steadfast_core::error::Outcome;
use steadfast_core::hop::{Era, Revision};
use steadfast_core::object::Members;
use steadfast_core::task::Status;
use steadfast_core::task::follow::Seen;

use super::attempts::{Ask, Done, Kinds, ResultKind};
use super::handler::{Answering, Handler, Question};
use super::{Answered, CallOptions, Category, Client, Error};
use follow::Following;

pub(super) use begin::Beginning;
pub use journal::{FolderJournal, Forgetful, TaskEntry, TaskJournal};

/// One task of this client's server. What is done with the handle changes nothing of the task but what is asked for:
/// dropping it, or giving up a wait, cancels nothing (TSK-68).
#[derive(Clone)]
pub struct TaskHandle {
    client: Client,
    entry: TaskEntry,
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("server", &self.client.name()).finish_non_exhaustive()
    }
}

impl TaskHandle {
    /// Its id: whoever has it may be who may see it, so it belongs in no log.
    pub fn id(&self) -> &str {
        &self.entry.task_id
    }

    /// The tool whose call it is, where that is known here.
    pub fn tool(&self) -> Option<&str> {
        self.entry.tool.as_deref()
    }

    /// The id in the log of the call that it is; empty where that is not known here.
    pub fn call_id(&self) -> &str {
        &self.entry.call_id
    }

    /// Where it stands now: `tasks/get`.
    ///
    /// # Errors
    /// As [`Client::call_tool`]; the server knows no such task, or answers with what is none.
    pub async fn get(&self, options: CallOptions) -> Result<Seen<String>, Error> {
        let (done, seen) = self.asked(options).await?;
        seen.map_err(|why| self.unreadable(&done, why))
    }

    /// Answers open questions: `tasks/update`. `responses` is one JSON object of answers by key. What is not open is
    /// ignored by the server.
    ///
    /// # Errors
    /// As [`Client::call_tool`].
    pub async fn update(&self, responses: &str, options: CallOptions) -> Result<(), Error> {
        self.ask("tasks/update", Some(responses), options).await.map(drop)
    }

    /// Asks the server to stop working on it: `tasks/cancel`. Its acknowledgement promises nothing: the task may end
    /// otherwise, and what it did it did (TSK-42).
    ///
    /// # Errors
    /// As [`Client::call_tool`].
    pub async fn cancel(&self, options: CallOptions) -> Result<(), Error> {
        self.ask("tasks/cancel", None, options).await?;
        Ok(())
    }

    /// What came of it, if it is over: what the call would have been answered with.
    ///
    /// # Errors
    /// As [`Self::get`] and [`Self::wait`].
    pub async fn result(&self, options: CallOptions) -> Result<Option<Answered>, Error> {
        let (done, seen) = self.asked(options).await?;
        let seen = seen.map_err(|why| self.unreadable(&done, why))?;
        let end = match seen.status {
            Status::Working | Status::InputRequired { .. } => return Ok(None),
            Status::Completed { result } => follow::End::Completed(result),
            Status::Failed { error } => follow::End::Failed(error),
            Status::Cancelled => follow::End::Cancelled,
        };
        follow::told(&self.client, &self.entry, &[], end, done.revision, done.attempts).map(Some)
    }

    /// Follows it to its end: by polling as often as the server says, and by what a subscription of this client that
    /// names it hears. Its questions are answered by the host, each key once. The deadline and the cancel switch of
    /// `options` end the wait, not the task.
    ///
    /// # Errors
    /// It failed, was cancelled, or is not known any more; or the wait ended before it.
    pub async fn wait(&self, options: CallOptions) -> Result<Answered, Error> {
        let began = self.client.pipeline.clock.now().mono;
        let revision = Revision::V2026_07_28;
        let following =
            Following { handle: self, first: None, rejects: &[], owns: false, revision, began, token: None };
        following.run(options).await
    }

    async fn asked(&self, options: CallOptions) -> Result<(Done, Result<Seen<String>, &'static str>), Error> {
        let more = CallOptions {
            cancel: options.cancel.clone(),
            deadline: options.deadline,
            run: options.run.clone(),
            ..CallOptions::default()
        };
        let done = self.ask("tasks/get", None, options).await?;
        let seen = match done.revision.era() {
            Era::Modern => wire::seen(&done.result, &self.entry.task_id),
            Era::Legacy => match wire::seen_in_2025(&done.result, &self.entry.task_id) {
                Ok(seen) => Ok(self.with_outcome(seen, more).await?),
                Err(why) => Err(why),
            },
        };
        Ok((done, seen))
    }

    /// Such a request carries the same capabilities as the call did, whatever has become of the host (TSK-69).
    async fn ask(
        &self,
        method: &str,
        responses: Option<&str>,
        mut options: CallOptions,
    ) -> Result<Done, Error> {
        let mut params = Members::default();
        params.set("taskId", json!(self.entry.task_id).to_string());
        if let Some(responses) = responses {
            params.set("inputResponses", responses.to_owned());
        }
        params.set(
            "_meta",
            format!("{{{}:{}}}", json!(crate::message::META_CAPABILITIES), self.entry.capabilities),
        );
        let params = params.to_json();
        // AMB-22: a task's state may call itself one.
        let kinds = Kinds { task: method == "tasks/get", ..Kinds::of(method, false) };
        // Who waits for the result of a task waits as long as it takes (ruling 18), and holds nobody up.
        let waits = method == "tasks/result";
        let ask = Ask { aside: waits, ..self.client.plain(method, &params, kinds, &options) };
        self.client.pipeline.ask(ask, &mut options).await
    }

    fn unreadable(&self, done: &Done, why: &str) -> Error {
        unreadable(self.client.name(), &done.call_id, why)
    }
}

fn unreadable(server: &str, call_id: &str, why: &str) -> Error {
    Error::Transport {
        category: Category::InvalidResponse,
        sent: true,
        outcome: Outcome::Unknown,
        sentence: format!("server {server} answered with what is no task: {why}"),
        call_id: call_id.to_owned(),
    }
}

impl Client {
    /// A task by its id, as this or an earlier process was told it.
    pub fn task(&self, id: &str) -> TaskHandle {
        self.handle(id, None, "")
    }

    fn handle(&self, id: &str, tool: Option<&str>, call_id: &str) -> TaskHandle {
        TaskHandle { client: self.clone(), entry: self.entry(id, tool, call_id) }
    }

    /// The tasks of this server and authorization context that were begun, here or in an earlier process, and whose end
    /// nobody has seen: each can be waited for (TSK-20).
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn open_tasks(&self) -> io::Result<Vec<TaskHandle>> {
        let Some(journal) = self.tasks.clone() else { return Ok(Vec::new()) };
        let config = &self.pipeline.config;
        let (server, context) = (config.name.clone(), config.context.clone());
        let listed = tokio::task::spawn_blocking(move || journal.open(&server, &context));
        let entries = listed.await.map_err(io::Error::other)??;
        Ok(entries.into_iter().map(|entry| TaskHandle { client: self.clone(), entry }).collect())
    }

    /// A call became a task: its id is kept before anything else (F104), and it is followed to its end.
    pub(super) async fn follow(
        &self,
        done: Done,
        tool: Option<&str>,
        rejects: &[i64],
        options: CallOptions,
    ) -> Result<Done, Error> {
        let read = match done.revision.era() {
            Era::Modern => wire::id_of(&done.result)
                .and_then(|id| wire::seen(&done.result, &id).map(|first| (id, Some(first)))),
            Era::Legacy => outcome::created(&done.result),
        };
        let (id, first) = read.map_err(|why| unreadable(self.name(), &done.call_id, why))?;
        let left =
            self.pipeline.must_end(done.began, &options).saturating_since(self.pipeline.clock.now().mono);
        let ttl = first.as_ref().and_then(|first| first.ttl);
        if ttl.is_some_and(|ttl| ttl < left.min(self.pipeline.config.limits.maximum())) {
            tracing::warn!(
                server = self.name(), call = %done.call_id, ?ttl,
                "the server keeps this task for less time than it may take"
            );
        }
        let handle = self.handle(&id, tool, &done.call_id);
        handle.note(|journal, entry| journal.begun(entry)).await;
        let following = Following {
            handle: &handle,
            first,
            rejects,
            owns: true,
            revision: done.revision,
            began: done.began,
            token: done.token(),
        };
        let Answered { result, revision, .. } = following.run(options).await?;
        Ok(Done { result, revision, kind: ResultKind::Complete, ..done })
    }

    fn entry(&self, id: &str, tool: Option<&str>, call_id: &str) -> TaskEntry {
        TaskEntry {
            server: self.name().to_owned(),
            context: self.pipeline.config.context.clone(),
            task_id: id.to_owned(),
            tool: tool.map(str::to_owned),
            call_id: call_id.to_owned(),
            capabilities: self.pipeline.handler.capabilities(),
            answered: std::collections::BTreeSet::new(),
        }
    }
}

impl TaskHandle {
    /// Notes something of it. The task goes on at the server whether or not that can be noted.
    async fn note(
        &self,
        change: impl FnOnce(&dyn TaskJournal, &TaskEntry) -> io::Result<()> + Send + 'static,
    ) {
        let Some(journal) = self.client.tasks.clone() else { return };
        let entry = self.entry.clone();
        let noted = tokio::task::spawn_blocking(move || change(&*journal, &entry)).await;
        if let Err(error) = noted.map_err(io::Error::other).flatten() {
            tracing::error!(
                server = self.client.name(), call = %self.entry.call_id,
                "a task could not be noted, so a restart would lose it: {error}"
            );
        }
    }
}

/// A host that knows tasks, and says so with every request.
pub(super) struct Declaring(pub(super) Arc<dyn Handler>);

impl Handler for Declaring {
    fn capabilities(&self) -> String {
        let declared = self.0.capabilities();
        let mut capabilities = Members::parse(&declared).unwrap_or_default();
        let declare = |extensions: &mut Members<'_>| extensions.set(EXTENSION, "{}");
        // Extensions that are no object declare nothing.
        if capabilities.edit("extensions", declare).is_err() {
            capabilities.set("extensions", json!({ EXTENSION: {} }).to_string());
        }
        capabilities.to_json()
    }

    fn answer<'a>(&'a self, question: Question) -> Answering<'a> {
        self.0.answer(question)
    }

    fn log(&self, server: &str, params: &str) {
        self.0.log(server, params);
    }

    fn list_changed(&self, server: &str, method: &str) {
        self.0.list_changed(server, method);
    }
}

/// TSK-01, TSK-66.
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
