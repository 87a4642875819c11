//! A tool: its definition, checked when it is made, and its handler.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steadfast_core::hop::Era;

use super::call::Call;
use super::catalog::{Audience, Definition};
use super::content::ToolResult;
use super::failure::Failure;
use super::mirror::{self, Mirror};
use super::questions::Question;
use super::schema::Schema;
use super::tasks::TaskPolicy;
use crate::server::Caller;

pub(super) type Handled = Pin<Box<dyn Future<Output = Result<ToolResult, Failure>> + Send>>;
type Handler = Arc<dyn Fn(Call) -> Handled + Send + Sync>;

/// One tool.
#[derive(Clone)]
pub struct Tool {
    pub(super) name: String,
    description: String,
    title: Option<String>,
    annotations: Option<Value>,
    pub(super) input: Arc<Schema>,
    pub(super) output: Option<Arc<Schema>>,
    pub(super) mirrors: Arc<[Mirror]>,
    pub(super) needs: Vec<&'static [&'static str]>,
    pub(super) first: Vec<(&'static str, Question)>,
    pub(super) task: TaskPolicy,
    audience: Audience,
    pub(super) handler: Handler,
}

/// A definition that breaks a rule of the protocol, found when the server is built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name:?} cannot be published: {why}")]
pub struct DefinitionError {
    /// `tool`, `template` …
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// One sentence.
    pub why: String,
}

impl Tool {
    /// A tool whose arguments are a type: its schema is derived, and what does not fit is refused before the handler
    /// sees it, with the JSON Pointer of each fault.
    ///
    /// # Errors
    /// The name or the derived schema breaks a rule (TOL-01, VAL-10).
    pub fn new<I, F, R>(name: &str, description: &str, handler: F) -> Result<Self, DefinitionError>
    where
        I: DeserializeOwned + JsonSchema,
        F: Fn(Call, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolResult, Failure>> + Send + 'static,
    {
        let schema = schemars::generate::SchemaSettings::draft2020_12().into_generator();
        let schema = schema.into_root_schema_for::<I>().to_value();
        let handler = Arc::new(handler);
        Self::raw(name, description, schema, move |call: Call| {
            let input = I::deserialize(&*call.arguments);
            let handled = input.map(|input| handler(call, input));
            async move {
                match handled {
                    Ok(handled) => handled.await,
                    // What a schema cannot say of a type.
                    Err(error) => Err(Failure::failed(format!("the arguments are not valid: {error}"))),
                }
            }
        })
    }

    /// A tool with a schema of its own, and the arguments as they came.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn raw<F, R>(
        name: &str,
        description: &str,
        input_schema: Value,
        handler: F,
    ) -> Result<Self, DefinitionError>
    where
        F: Fn(Call) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolResult, Failure>> + Send + 'static,
    {
        let fault = |why: String| DefinitionError { what: "tool", name: name.to_owned(), why };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > 128 || !name.bytes().all(is_plain) {
            return Err(fault("a name has 1 to 128 letters, digits, _, - and .".into()));
        }
        let mirrors = mirror::of(&input_schema).map_err(fault)?;
        let input = Schema::of_input(input_schema).map_err(|error| fault(error.to_string()))?;
        Ok(Self {
            name: name.to_owned(),
            description: description.to_owned(),
            title: None,
            annotations: None,
            input: Arc::new(input),
            output: None,
            mirrors: mirrors.into(),
            needs: Vec::new(),
            first: Vec::new(),
            task: TaskPolicy::default(),
            audience: Audience::default(),
            handler: Arc::new(move |call| Box::pin(handler(call))),
        })
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.title = Some(title.to_owned());
        self
    }

    /// Hints for hosts, such as `readOnlyHint`. Nobody decides anything by them (G6).
    #[must_use]
    pub fn annotations(mut self, annotations: Value) -> Self {
        self.annotations = Some(annotations);
        self
    }

    /// Publishes the type of the structured result; every result is checked against it (ERR-19).
    ///
    /// # Errors
    /// The derived schema breaks a rule.
    pub fn output<O: JsonSchema>(mut self) -> Result<Self, DefinitionError> {
        let schema = schemars::generate::SchemaSettings::draft2020_12().into_generator();
        let schema = Schema::new(schema.into_root_schema_for::<O>().to_value());
        let schema = schema.map_err(|error| DefinitionError {
            what: "tool",
            name: self.name.clone(),
            why: error.to_string(),
        })?;
        self.output = Some(Arc::new(schema));
        Ok(self)
    }

    /// Has clients mirror an argument into the header `Mcp-Param-{header}`, for whoever routes by it (HDR-18). Each call
    /// is then checked for it. An argument that may be `null` may only be absent from now on, since no header says
    /// `null`. Not for secrets: headers are logged on their way (HDR-37).
    ///
    /// # Errors
    /// There is no such argument at the root of the schema, it is no string, integer or boolean, or the header is no
    /// token or occurs twice (HDR-20, HDR-21).
    pub fn mirror(mut self, argument: &str, header: &str) -> Result<Self, DefinitionError> {
        let fault = |why: String| DefinitionError { what: "tool", name: self.name.clone(), why };
        let mut schema = self.input.as_json().clone();
        mirror::annotate(&mut schema, argument, header).map_err(fault)?;
        self.mirrors = mirror::of(&schema).map_err(fault)?.into();
        self.input = Arc::new(Schema::of_input(schema).map_err(|error| fault(error.to_string()))?);
        Ok(self)
    }

    /// Only these callers may see and call it; by default all may. For every other there is no such tool.
    #[must_use]
    pub fn only_for(mut self, rule: impl Fn(&Caller) -> bool + Send + Sync + 'static) -> Self {
        self.audience = Audience::only(rule);
        self
    }

    /// A client capability without which the call is refused before anything is done, as `&["sampling"]` (CAP-07).
    #[must_use]
    pub fn needs(mut self, capability: &'static [&'static str]) -> Self {
        self.needs.push(capability);
        self
    }

    /// Something to ask before the call, and before a task is made of it (TSK-14). The handler gets the answer by
    /// asking under the same key.
    #[must_use]
    pub fn asks_first(mut self, key: &'static str, question: Question) -> Self {
        self.first.push((key, question));
        self
    }

    /// How its calls become tasks; by default they never do.
    #[must_use]
    pub const fn task(mut self, policy: TaskPolicy) -> Self {
        self.task = policy;
        self
    }

    /// The first capability that it needs and this caller did not declare.
    pub(super) fn missing(&self, caller: &Caller) -> Option<&'static [&'static str]> {
        self.needs.iter().copied().find(|path| !caller.capabilities.declare(path))
    }
}

impl Definition for Tool {
    fn id(&self) -> &str {
        &self.name
    }

    fn audience(&self) -> &Audience {
        &self.audience
    }

    fn to_json(&self, caller: &Caller) -> Value {
        let mut tool = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input.as_json(),
        });
        if let Some(title) = &self.title {
            tool["title"] = title.as_str().into();
        }
        if let Some(annotations) = &self.annotations {
            tool["annotations"] = annotations.clone();
        }
        if let Some(output) = &self.output
            // Elsewhere the structured result is an object (LEG-89).
            && (caller.revision.era() == Era::Modern || output.as_json().get("type").and_then(Value::as_str) == Some("object"))
        {
            tool["outputSchema"] = output.as_json().clone();
        }
        if let Some(support) = self.task.support.listed(caller) {
            tool["execution"] = json!({ "taskSupport": support });
        }
        tool
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}
