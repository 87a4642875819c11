//! Prompts, and the completion of their arguments.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use super::catalog::{Audience, Definition};
use super::content::Content;
use super::dialogue::Dialogue;
use super::failure::Failure;
use super::resources::Complete;
use crate::server::Caller;

/// The arguments of a prompt, by name.
pub type PromptArguments = BTreeMap<String, String>;
type Getting = Pin<Box<dyn Future<Output = Result<Vec<Message>, Failure>> + Send>>;
type Get = dyn Fn(Dialogue, PromptArguments) -> Getting + Send + Sync;

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Message(Value);

impl Message {
    /// What a user would say.
    pub fn user(content: &Content) -> Self {
        Self(json!({ "role": "user", "content": content.as_json() }))
    }

    /// What an assistant would say.
    pub fn assistant(content: &Content) -> Self {
        Self(json!({ "role": "assistant", "content": content.as_json() }))
    }

    pub(super) const fn as_json(&self) -> &Value {
        &self.0
    }
}

/// One prompt.
#[derive(Clone)]
pub struct Prompt {
    pub(super) name: String,
    description: String,
    arguments: Vec<(String, String, bool)>,
    pub(super) get: Arc<Get>,
    pub(super) complete: Option<Arc<Complete>>,
    audience: Audience,
}

impl Prompt {
    /// A prompt whose messages `get` gives.
    pub fn new<F, R>(name: &str, description: &str, get: F) -> Self
    where
        F: Fn(Dialogue, PromptArguments) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Message>, Failure>> + Send + 'static,
    {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            arguments: Vec::new(),
            get: Arc::new(move |dialogue, arguments| Box::pin(get(dialogue, arguments))),
            complete: None,
            audience: Audience::default(),
        }
    }

    /// An argument that must be given.
    #[must_use]
    pub fn required(mut self, name: &str, description: &str) -> Self {
        self.arguments.push((name.to_owned(), description.to_owned(), true));
        self
    }

    /// An argument that may be given.
    #[must_use]
    pub fn optional(mut self, name: &str, description: &str) -> Self {
        self.arguments.push((name.to_owned(), description.to_owned(), false));
        self
    }

    /// Completes an argument: told its name and what was typed so far.
    #[must_use]
    pub fn completes(mut self, complete: impl Fn(&str, &str) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.complete = Some(Arc::new(complete));
        self
    }

    /// Only these callers may see it; by default all may. For every other there is no such prompt.
    #[must_use]
    pub fn only_for(mut self, rule: impl Fn(&Caller) -> bool + Send + Sync + 'static) -> Self {
        self.audience = Audience::only(rule);
        self
    }

    pub(super) fn has_argument(&self, name: &str) -> bool {
        self.arguments.iter().any(|(argument, _, _)| argument == name)
    }

    /// The first argument that must be given and is not.
    pub(super) fn missing(&self, given: &PromptArguments) -> Option<&str> {
        let missing =
            self.arguments.iter().find(|(name, _, required)| *required && !given.contains_key(name));
        missing.map(|(name, _, _)| name.as_str())
    }

    pub(super) fn description(&self) -> &str {
        &self.description
    }
}

impl Definition for Prompt {
    fn id(&self) -> &str {
        &self.name
    }

    fn audience(&self) -> &Audience {
        &self.audience
    }

    fn to_json(&self, _: &Caller) -> Value {
        let arguments: Vec<Value> = self
            .arguments
            .iter()
            .map(|(name, description, required)| {
                json!({ "name": name, "description": description, "required": required })
            })
            .collect();
        let mut prompt = json!({ "name": self.name, "description": self.description });
        if !arguments.is_empty() {
            prompt["arguments"] = arguments.into();
        }
        prompt
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("name", &self.name).finish_non_exhaustive()
    }
}
