//! A tool: what its author says of it, and what that becomes when it is published.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steadfast_core::hop::Era;

use super::arguments;
use super::call::Call;
use super::catalog::{Audience, Definition};
use super::content::ToolResult;
use super::failure::Failure;
use super::mirror;
use super::questions::Question;
use super::tasks::TaskPolicy;
use crate::schema::Schema;
use crate::schema::mirror::{self as marks, Mirror};
use crate::server::Caller;

type Handled = Pin<Box<dyn Future<Output = Result<ToolResult, Failure>> + Send>>;
type Handler = Arc<dyn Fn(Call) -> Handled + Send + Sync>;
type Capability = &'static [&'static str];

/// What an author says of a tool. Whether it keeps the rules is found when it is added to a server.
#[derive(Clone)]
pub struct Tool {
    name: String,
    description: String,
    title: Option<String>,
    annotations: Option<Value>,
    input: Value,
    output: Option<Value>,
    headers: Vec<(String, String)>,
    needs: Vec<Capability>,
    first: Vec<(&'static str, Question)>,
    task: TaskPolicy,
    audience: Audience,
    handler: Handler,
}

/// A definition that breaks a rule of the protocol, found when it is added to a server.
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
    /// sees it, with the JSON Pointer of each fault. The derived schema must describe an object (VAL-10), and the name has
    /// 1 to 128 letters, digits, `_`, `-` and `.` (TOL-01).
    pub fn new<I, F, R>(name: &str, description: &str, handler: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        F: Fn(Call, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolResult, Failure>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        Self::raw(name, description, schema_of::<I>(), move |call: Call| {
            let handled = arguments::typed::<I>(call.arguments()).map(|input| handler(call, input));
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
    pub fn raw<F, R>(name: &str, description: &str, input_schema: Value, handler: F) -> Self
    where
        F: Fn(Call) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolResult, Failure>> + Send + 'static,
    {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            title: None,
            annotations: None,
            input: input_schema,
            output: None,
            headers: Vec::new(),
            needs: Vec::new(),
            first: Vec::new(),
            task: TaskPolicy::default(),
            audience: Audience::default(),
            handler: Arc::new(move |call| Box::pin(handler(call))),
        }
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
    #[must_use]
    pub fn output<O: JsonSchema>(mut self) -> Self {
        self.output = Some(schema_of::<O>());
        self
    }

    /// Has clients mirror an argument into the header `Mcp-Param-{header}`, for whoever routes by it (HDR-18). Each call
    /// is then checked for it. The argument stands at the root of the schema and is a string, an integer or a boolean;
    /// one that may be `null` may only be absent from now on, since no header says `null`. Not for secrets: headers are
    /// logged on their way (HDR-37).
    #[must_use]
    pub fn mirror(mut self, argument: &str, header: &str) -> Self {
        self.headers.push((argument.to_owned(), header.to_owned()));
        self
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

    /// Checks the definition, and compiles its schemas.
    pub(super) fn publish(self) -> Result<Published, DefinitionError> {
        self.compile().map_err(|why| DefinitionError { what: "tool", name: self.name, why })
    }

    fn compile(&self) -> Result<Published, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if self.name.is_empty() || self.name.len() > 128 || !self.name.bytes().all(is_plain) {
            return Err("a name has 1 to 128 letters, digits, _, - and .".into());
        }
        let mut input = self.input.clone();
        for (argument, header) in &self.headers {
            mirror::annotate(&mut input, argument, header)?;
        }
        let mirrors = marks::of(&input)?;
        let input = Schema::of_input(input).map_err(|error| error.to_string())?;
        let output = self.output.clone().map(Schema::new).transpose().map_err(|error| error.to_string())?;
        Ok(Published {
            name: self.name.clone(),
            shown: self.shown(input.as_json()),
            input: Arc::new(input),
            output: output.map(Arc::new),
            mirrors,
            needs: self.needs.clone(),
            first: self.first.clone(),
            task: self.task,
            audience: self.audience.clone(),
            handler: Arc::clone(&self.handler),
        })
    }

    /// What every caller is shown.
    fn shown(&self, input: &Value) -> Value {
        let mut tool = json!({ "name": self.name, "description": self.description, "inputSchema": input });
        if let Some(title) = &self.title {
            tool["title"] = title.as_str().into();
        }
        if let Some(annotations) = &self.annotations {
            tool["annotations"] = annotations.clone();
        }
        tool
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}

fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    // What the type is called and commented with is for those who read the code; a client reads the tool's own words.
    schema.remove("title");
    schema.remove("description");
    schema.to_value()
}

/// A tool that keeps the rules.
pub(super) struct Published {
    pub(super) name: String,
    shown: Value,
    pub(super) input: Arc<Schema>,
    pub(super) output: Option<Arc<Schema>>,
    pub(super) mirrors: Vec<Mirror>,
    needs: Vec<Capability>,
    pub(super) first: Vec<(&'static str, Question)>,
    pub(super) task: TaskPolicy,
    audience: Audience,
    pub(super) handler: Handler,
}

impl Published {
    /// The first capability that it needs and this caller did not declare.
    pub(super) fn missing(&self, caller: &Caller) -> Option<Capability> {
        self.needs.iter().copied().find(|path| !caller.capabilities.declare(path))
    }

    /// Where a structured result is not what the tool publishes.
    pub(super) fn wrong_output(&self, result: &ToolResult) -> Option<String> {
        let schema = self.output.as_ref().filter(|_| !result.is_error)?;
        match &result.structured {
            Some(data) => schema.check(data).err(),
            None => Some("it has no structured content".into()),
        }
    }
}

impl Definition for Published {
    fn id(&self) -> &str {
        &self.name
    }

    fn audience(&self) -> &Audience {
        &self.audience
    }

    fn to_json(&self, caller: &Caller) -> Value {
        let mut tool = self.shown.clone();
        if let Some(output) = &self.output
            // Elsewhere the structured result is an object (LEG-89).
            && (caller.revision.era() == Era::Modern || output.is_of_objects())
        {
            tool["outputSchema"] = output.as_json().clone();
        }
        if let Some(support) = self.task.support.listed(caller) {
            tool["execution"] = json!({ "taskSupport": support });
        }
        tool
    }
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, schema: Value) -> Tool {
        Tool::raw(name, "", schema, |_| async { Ok(ToolResult::text("")) })
    }

    fn object() -> Value {
        json!({ "type": "object" })
    }

    #[test]
    fn tol_01_a_name_is_what_every_client_can_say() {
        for name in ["a", "A_b-c.9", &"x".repeat(128)] {
            assert!(tool(name, object()).publish().is_ok(), "{name}");
        }
        for name in ["", "a b", "a/b", "\u{e4}", &"x".repeat(129)] {
            assert!(tool(name, object()).publish().is_err(), "{name}");
        }
    }

    #[derive(serde::Deserialize, JsonSchema)]
    struct Order {
        #[allow(dead_code)]
        region: Option<String>,
        #[allow(dead_code)]
        lines: Vec<Line>,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    struct Line {
        #[allow(dead_code)]
        sku: String,
    }

    #[test]
    fn val_10_a_derived_schema_is_one_of_an_object_or_no_tool() {
        let order = Tool::new("order", "", |_, _: Order| async { Ok(ToolResult::text("")) });
        let shown = order.publish().unwrap().shown;
        assert_eq!(shown["inputSchema"]["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(shown["inputSchema"]["required"], json!(["lines"]));
        let number = Tool::new("number", "", |_, _: u32| async { Ok(ToolResult::text("")) });
        assert!(number.publish().unwrap_err().to_string().contains("type \"object\""));
        assert!(
            tool("a", json!({ "type": "object", "properties": { "p": { "type": "nonsense" } } }))
                .publish()
                .is_err()
        );
    }

    // shows: HDR-20, HDR-21
    #[test]
    fn hdr_18_a_mirrored_argument_is_annotated_or_no_tool() {
        let order = || Tool::new("order", "", |_, _: Order| async { Ok(ToolResult::text("")) });
        let shown = order().mirror("region", "Region").publish().unwrap().shown;
        let region = &shown["inputSchema"]["properties"]["region"];
        assert_eq!((&region["x-mcp-header"], &region["type"]), (&json!("Region"), &json!("string")));
        for (argument, header) in [("nothing", "N"), ("lines", "Lines"), ("region", "a b"), ("region", "")] {
            assert!(order().mirror(argument, header).publish().is_err(), "{argument} {header}");
        }
    }
}
