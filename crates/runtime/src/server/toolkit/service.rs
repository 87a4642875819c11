//! A server of the toolkit as what stands behind an endpoint.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steadfast_core::envelope;
use steadfast_core::exchange::Reply;
use steadfast_core::hop::{Era, Revision};
use steadfast_core::object::Members;
use steadfast_core::subscription::{Change, Filter};
use steadfast_store::Ledger;

use super::builder::Builder;
use super::catalog::{Catalog, Definition, Put};
use super::failure::missing;
use super::mirror;
use super::prompts::Prompt;
use super::resources::{Resource, Shape, Template};
use super::run::Successor;
use super::sealed::Seal;
use super::tasks::{TaskSupport, Tasks};
use super::tool::{DefinitionError, Published, Tool};
use crate::message;
use crate::server::caller::TASKS_EXTENSION;
use crate::server::{
    Answer, Answering, Caller, Changes, Context, Listening, MirroredParams, Objection, Request, Service,
};

/// A server. Clones are the same.
#[derive(Clone, Debug)]
pub struct Server(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) name: String,
    pub(super) info: Value,
    pub(super) instructions: Option<String>,
    pub(super) tools: Catalog<Published>,
    pub(super) resources: Catalog<Resource>,
    pub(super) templates: Catalog<Shape>,
    pub(super) prompts: Catalog<Prompt>,
    pub(super) changes: Changes,
    pub(super) tasks: Option<Tasks>,
    pub(super) successor: Arc<Successor>,
    pub(super) ledger: Option<Arc<Ledger>>,
    pub(super) seal: Seal,
    pub(super) changing: bool,
    pub(super) logs: bool,
    pub(super) fresh_ms: u64,
    pub(super) page_size: usize,
    pub(super) question_timeout: Duration,
}

impl Server {
    /// Begins a server that says this of itself.
    pub fn builder(name: &str, version: &str) -> Builder {
        Builder::new(name, version)
    }

    /// Adds a tool, or replaces the one of its name, and tells who listens, as all methods here that change a set of a
    /// server that was built as [`super::Builder::changing`]. Says whether callers see a difference.
    ///
    /// # Errors
    /// The definition breaks a rule; the old one stays.
    pub fn put_tool(&self, tool: Tool) -> Result<bool, DefinitionError> {
        let tool = tool.publish()?;
        if tool.task.support != TaskSupport::Never && self.0.tasks.is_none() {
            let why = "it makes tasks, and this server was built without a tool that does".to_owned();
            return Err(DefinitionError { what: "tool", name: tool.name, why });
        }
        Ok(self.put(&self.0.tools, tool, Change::Tools))
    }

    /// Takes a tool away. Says whether there was one; calls under way go on.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.remove(&self.0.tools, name, Change::Tools)
    }

    /// Adds a resource, or replaces the one of its URI.
    pub fn put_resource(&self, resource: Resource) -> bool {
        self.put(&self.0.resources, resource, Change::Resources)
    }

    /// Takes a resource away. Says whether there was one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.remove(&self.0.resources, uri, Change::Resources)
    }

    /// Adds a template, or replaces the one of its pattern.
    ///
    /// # Errors
    /// The pattern cannot be read; the old one stays.
    pub fn put_template(&self, template: Template) -> Result<bool, DefinitionError> {
        Ok(self.put(&self.0.templates, template.publish()?, Change::Resources))
    }

    /// Takes a template away. Says whether there was one.
    pub fn remove_template(&self, pattern: &str) -> bool {
        self.remove(&self.0.templates, pattern, Change::Resources)
    }

    /// Adds a prompt, or replaces the one of its name.
    pub fn put_prompt(&self, prompt: Prompt) -> bool {
        self.put(&self.0.prompts, prompt, Change::Prompts)
    }

    /// Takes a prompt away. Says whether there was one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.remove(&self.0.prompts, name, Change::Prompts)
    }

    fn put<T: Definition>(&self, catalog: &Catalog<T>, definition: T, change: Change) -> bool {
        let is_seen = catalog.put(definition) != Put::Unchanged;
        if is_seen {
            self.0.changes.publish(&change);
        }
        is_seen
    }

    fn remove<T: Definition>(&self, catalog: &Catalog<T>, name: &str, change: Change) -> bool {
        let removed = catalog.remove(name);
        if removed {
            self.0.changes.publish(&change);
        }
        removed
    }

    /// Says that what a resource holds has changed.
    pub fn resource_updated(&self, uri: &str) {
        self.0.changes.publish(&Change::Resource(uri.to_owned()));
    }

    /// Where changes are told.
    pub fn changes(&self) -> &Changes {
        &self.0.changes
    }

    /// Ends the work on tasks that is done in this process: what a successor can go on with is let go for it at once.
    pub async fn leave(&self) {
        if let Some(tasks) = &self.0.tasks {
            tasks.leave().await;
        }
    }
}

impl Inner {
    /// The result of a method, with what every result of this revision has (MSG-13, CAP-09, LEG-15).
    pub(super) fn complete(&self, caller: &Caller, result: Value) -> Answer {
        self.result(caller, "complete", result)
    }

    pub(super) fn result(&self, caller: &Caller, kind: &str, mut result: Value) -> Answer {
        if caller.revision.era() == Era::Modern {
            result["resultType"] = kind.into();
            result["_meta"]["io.modelcontextprotocol/serverInfo"] = self.info.clone();
        }
        Reply::Result(Bytes::from(result.to_string()))
    }

    /// A finished result with the server's name, where the revision has it in every one (CAP-09).
    pub(super) fn signed(&self, caller: &Caller, answer: Answer) -> Answer {
        let Reply::Result(result) = &answer else { return answer };
        if caller.revision.era() == Era::Legacy {
            return answer;
        }
        let text = std::str::from_utf8(result).unwrap_or_default();
        let Ok(mut members) = Members::parse(text) else { return answer };
        let name = |meta: &mut Members<'_>| {
            meta.set("io.modelcontextprotocol/serverInfo", self.info.to_string());
        };
        match members.edit("_meta", name) {
            Ok(()) => Reply::Result(Bytes::from(members.to_json())),
            Err(_) => answer,
        }
    }

    /// As [`Self::complete`], with the caching hints of the modern era (CCH-01). `public`: it is the same for everybody.
    pub(super) fn cacheable(&self, caller: &Caller, mut result: Value, public: bool) -> Answer {
        if caller.revision.era() == Era::Modern {
            result["ttlMs"] = self.fresh_ms.into();
            result["cacheScope"] = if public { "public" } else { "private" }.into();
        }
        self.complete(caller, result)
    }

    /// What this caller may use: each feature that is listed answers, and no other (DSC-08, CAP-14, CAP-21).
    fn capabilities(&self, caller: &Caller) -> Value {
        let mut capabilities = Map::new();
        let mut declare = |name: &str, value: Value| drop(capabilities.insert(name.to_owned(), value));
        let list = if self.changing { json!({ "listChanged": true }) } else { json!({}) };
        if self.has_tools() {
            declare("tools", list.clone());
        }
        if self.has_resources() {
            let mut resources = list.clone();
            resources["subscribe"] = true.into();
            declare("resources", resources);
        }
        if self.has_prompts() {
            declare("prompts", list);
        }
        if self.has_completions() {
            declare("completions", json!({}));
        }
        if self.logs {
            declare("logging", json!({}));
        }
        if self.tasks.is_some() {
            match caller.revision.era() {
                Era::Modern => declare("extensions", json!({ TASKS_EXTENSION: {} })),
                Era::Legacy => {
                    if let Some(tasks) = Tasks::legacy_capability(caller) {
                        declare("tasks", tasks);
                    }
                }
            }
        }
        capabilities.into()
    }

    fn has_tools(&self) -> bool {
        self.changing || !self.tools.is_empty()
    }

    fn has_resources(&self) -> bool {
        self.changing || !self.resources.is_empty() || !self.templates.is_empty()
    }

    fn has_prompts(&self) -> bool {
        self.changing || !self.prompts.is_empty()
    }

    fn has_completions(&self) -> bool {
        self.prompts.has(|it| it.complete.is_some()) || self.templates.has(|it| it.complete().is_some())
    }

    fn discover(&self, caller: &Caller) -> Answer {
        let mut result = json!({
            "supportedVersions": Revision::ALL.map(Revision::as_str),
            "capabilities": self.capabilities(caller),
        });
        if let Some(instructions) = &self.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        self.cacheable(caller, result, true)
    }

    fn initialize(&self, caller: &Caller) -> Answer {
        let mut result = json!({
            "protocolVersion": caller.revision.as_str(),
            "capabilities": self.capabilities(caller),
            "serverInfo": self.info,
        });
        if let Some(instructions) = &self.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        Reply::Result(Bytes::from(result.to_string()))
    }

    /// Whether this caller may read this URI (AMB-35).
    fn has_resource(&self, caller: &Caller, uri: &str) -> bool {
        self.resources.get(caller, uri).is_some()
            || self.templates.find(caller, |template| template.matches(uri)).is_some()
    }
}

impl Service for Server {
    fn knows(&self, method: &str, caller: &Caller) -> bool {
        let inner = &self.0;
        let modern = caller.revision.era() == Era::Modern;
        match method {
            "server/discover" | "subscriptions/listen" => modern,
            "initialize" => !modern,
            "tools/list" | "tools/call" => inner.has_tools(),
            "resources/list" | "resources/templates/list" | "resources/read" => inner.has_resources(),
            "resources/subscribe" | "resources/unsubscribe" => !modern && inner.has_resources(),
            "prompts/list" | "prompts/get" => inner.has_prompts(),
            "completion/complete" => inner.has_completions(),
            "logging/setLevel" => !modern && inner.logs,
            _ => inner.tasks.is_some() && Tasks::knows(method, caller),
        }
    }

    fn answer(&self, request: Request, context: Context) -> Answering {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let caller = Arc::clone(context.caller());
            match request.method.as_str() {
                "server/discover" => inner.discover(&caller),
                "initialize" => inner.initialize(&caller),
                "tools/call" => inner.call(&request.params, &context).await,
                "prompts/get" => inner.get_prompt(&request.params, context).await,
                "resources/read" => inner.read_resource(&request.params, context).await,
                "completion/complete" => inner.complete_argument(&caller, &request.params),
                method => {
                    if let Some(tasks) = &inner.tasks
                        && let Some(answer) = tasks.answer(&request, &context).await
                    {
                        return inner.signed(&caller, answer);
                    }
                    inner.list(method, &caller, &request.params)
                }
            }
        })
    }

    fn object(&self, request: &Request, caller: &Caller, headers: &dyn MirroredParams) -> Option<Objection> {
        if let Some(objection) = Tasks::object(request, caller).filter(|_| self.0.tasks.is_some()) {
            return Some(objection);
        }
        if request.method != "tools/call" {
            return None;
        }
        // What has not the method's shape is answered like any call.
        let params = envelope::params_of(&request.params).ok()?;
        let tool = self.0.tools.get(caller, params.name.as_deref()?)?;
        if !tool.mirrors.is_empty() {
            let arguments = params.arguments.map_or("{}", |raw| raw.get());
            let arguments: Value = serde_json::from_str(arguments).ok()?;
            if let Err(text) = mirror::check(&tool.mirrors, &arguments, headers) {
                return Some(Objection { code: -32020, error: message::error_body(-32020, &text) });
            }
        }
        if caller.revision.era() == Era::Legacy {
            // Here a missing capability is the tool's own error, which a model reads.
            return None;
        }
        if let Some(path) = tool.missing(caller) {
            return Some(Objection { code: -32021, error: missing(path) });
        }
        if tool.task.support == TaskSupport::Required && !caller.capabilities.declare_tasks() {
            let error = missing(&["extensions", TASKS_EXTENSION]);
            return Some(Objection { code: -32021, error });
        }
        None
    }

    fn listen(
        &self,
        caller: &Caller,
        wanted: Filter,
    ) -> Pin<Box<dyn Future<Output = Option<Listening>> + Send>> {
        let inner = Arc::clone(&self.0);
        let caller = caller.clone();
        Box::pin(async move {
            let Filter { tools, prompts, resources, uris, tasks } = wanted;
            let uris: BTreeSet<String> =
                uris.into_iter().filter(|uri| inner.has_resource(&caller, uri)).collect();
            // A task's changes before its listener is registered would be lost: registered first, narrowed then.
            let listening = inner.changes.listen(Filter {
                tools: tools && inner.changing,
                prompts: prompts && inner.changing,
                resources: resources && inner.changing,
                uris,
                tasks: BTreeSet::new(),
            });
            if let Some(kept) = inner.tasks.as_ref().filter(|_| !tasks.is_empty()) {
                let mut granted = listening.granted();
                granted.tasks = kept.grant(&caller, tasks).await;
                listening.regrant(granted);
            }
            Some(listening)
        })
    }
}
