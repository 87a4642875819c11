//! How a server is put together.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast_store::{Ledger, StoreError};

use super::catalog::{Catalog, Definition, Put};
use super::prompts::Prompt;
use super::resources::{Resource, Shape, Template};
use super::run::Successor;
use super::sealed::Seal;
use super::service::{Inner, Server};
use super::tasks::{TaskOptions, TaskSupport, Tasks, Workshop};
use super::tool::{DefinitionError, Published, Tool};
use crate::server::Changes;

/// A server that is not finished yet.
#[derive(Debug)]
pub struct Builder {
    name: String,
    version: String,
    instructions: Option<String>,
    tools: Catalog<Published>,
    resources: Catalog<Resource>,
    templates: Catalog<Shape>,
    prompts: Catalog<Prompt>,
    has_tasks: bool,
    changing: bool,
    logs: bool,
    ledger: Option<Arc<Ledger>>,
    task_options: TaskOptions,
    fresh_for: Duration,
    page_size: usize,
    question_timeout: Duration,
    changes: Changes,
    fault: Option<DefinitionError>,
}

/// Why there is no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A definition breaks a rule.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A task must be durable before its handle is given out (TSK-13).
    #[error("a tool makes tasks and the server has no store to keep them in; give it one with `store`")]
    NoStore,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No key for the state that travels through clients.
    #[error("the system gave no random bytes for the key that seals request states; try again")]
    NoEntropy,
}

impl Builder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            instructions: None,
            tools: Catalog::new("tools"),
            resources: Catalog::new("resources"),
            templates: Catalog::new("templates"),
            prompts: Catalog::new("prompts"),
            has_tasks: false,
            changing: false,
            logs: false,
            ledger: None,
            task_options: TaskOptions::default(),
            fresh_for: Duration::from_secs(60),
            page_size: 100,
            question_timeout: Duration::from_secs(15 * 60),
            changes: Changes::new(),
            fault: None,
        }
    }

    /// Where changes are told, for handlers that make some.
    pub const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// What a model should know of this server.
    #[must_use]
    pub fn instructions(mut self, text: &str) -> Self {
        self.instructions = Some(text.to_owned());
        self
    }

    /// The file that keeps keys, tasks, and the key that seals request states.
    #[must_use]
    pub fn store(mut self, ledger: Arc<Ledger>) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// What bounds tasks.
    #[must_use]
    pub const fn task_options(mut self, options: TaskOptions) -> Self {
        self.task_options = options;
        self
    }

    /// Adds a tool. Tools are listed in the order in which they were added.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        match tool.publish() {
            Ok(tool) => {
                self.has_tasks |= tool.task.support != TaskSupport::Never;
                let fault = add("tool", &self.tools, tool);
                self.fault(fault)
            }
            Err(fault) => self.fault(Some(fault)),
        }
    }

    /// Adds a resource.
    #[must_use]
    pub fn resource(self, resource: Resource) -> Self {
        let fault = add("resource", &self.resources, resource);
        self.fault(fault)
    }

    /// Adds a template of resources.
    #[must_use]
    pub fn template(self, template: Template) -> Self {
        let fault = match template.publish() {
            Ok(template) => add("template", &self.templates, template),
            Err(fault) => Some(fault),
        };
        self.fault(fault)
    }

    /// Adds a prompt.
    #[must_use]
    pub fn prompt(self, prompt: Prompt) -> Self {
        let fault = add("prompt", &self.prompts, prompt);
        self.fault(fault)
    }

    /// Keeps the first.
    fn fault(mut self, fault: Option<DefinitionError>) -> Self {
        self.fault = self.fault.or(fault);
        self
    }

    /// The sets of tools, prompts and resources may change while the server runs: callers are told so.
    #[must_use]
    pub const fn changing(mut self) -> Self {
        self.changing = true;
        self
    }

    /// Handlers write log entries for their callers (LOG-06).
    #[must_use]
    pub const fn logs(mut self) -> Self {
        self.logs = true;
        self
    }

    /// How long a listing counts as fresh (`ttlMs`); 60 s unless said otherwise.
    #[must_use]
    pub const fn fresh_for(mut self, time: Duration) -> Self {
        self.fresh_for = time;
        self
    }

    /// How many definitions one page of a list holds; 100 unless said otherwise.
    #[must_use]
    pub const fn page_size(mut self, size: usize) -> Self {
        self.page_size = if size == 0 { 1 } else { size };
        self
    }

    /// How long a question may stay open between two rounds of a modern call; 15 min unless said otherwise (MRT-25).
    #[must_use]
    pub const fn question_timeout(mut self, time: Duration) -> Self {
        self.question_timeout = time;
        self
    }

    /// The server, if everything in it keeps the rules.
    ///
    /// # Errors
    /// A definition breaks a rule, a task has nowhere to be kept, or the store or the system fails.
    pub fn build(self) -> Result<Server, BuildError> {
        if let Some(fault) = self.fault {
            return Err(fault.into());
        }
        if self.has_tasks && self.ledger.is_none() {
            return Err(BuildError::NoStore);
        }
        let seal = match &self.ledger {
            // Of its own for each server of a file: their tools may have the same names.
            Some(ledger) => ledger.key_for(&format!("request state of {}", self.name)),
            None => {
                let mut key = [0; 32];
                getrandom::fill(&mut key).map_err(|_| BuildError::NoEntropy)?;
                key
            }
        };
        let changes = self.changes;
        let tasks = self
            .ledger
            .as_ref()
            .filter(|_| self.has_tasks)
            .map(|ledger| Tasks::new(ledger.tasks(), changes.clone(), &self.name, self.task_options));
        let info: Value = json!({ "name": self.name, "version": self.version });
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| Inner {
            successor: Arc::new(Successor(Weak::clone(inner))),
            name: self.name,
            info,
            instructions: self.instructions,
            tools: self.tools,
            resources: self.resources,
            templates: self.templates,
            prompts: self.prompts,
            changes,
            tasks,
            ledger: self.ledger,
            seal: Seal::new(seal),
            changing: self.changing,
            logs: self.logs,
            fresh_ms: u64::try_from(self.fresh_for.as_millis()).unwrap_or(u64::MAX),
            page_size: self.page_size,
            question_timeout: self.question_timeout,
        });
        if let Some(tasks) = &inner.tasks {
            let successor: Arc<dyn Workshop> = Arc::clone(&inner.successor) as Arc<dyn Workshop>;
            tasks.tend(Arc::downgrade(&successor));
        }
        Ok(Server(inner))
    }
}

/// Adds a definition under a name that is not taken (TOL-01).
fn add<T: Definition>(what: &'static str, catalog: &Catalog<T>, definition: T) -> Option<DefinitionError> {
    let name = definition.id().to_owned();
    let why = || "there is one of this name already; give each its own".to_owned();
    (catalog.put(definition) != Put::Added).then(|| DefinitionError { what, name, why: why() })
}
