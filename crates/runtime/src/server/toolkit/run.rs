//! `tools/call`, `prompts/get` and `resources/read`: from params to an answer.

use std::pin::Pin;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steadfast_core::envelope;
use steadfast_core::exchange::Reply;
use steadfast_core::fingerprint::Scope;
use steadfast_core::hop::Era;
use steadfast_core::ijson::Document;
use steadfast_core::task::TaskOwner;

use super::call::{Call, Keyed};
use super::content::ToolResult;
use super::dialogue::{Dialogue, Failure, Rounds, Why};
use super::lists::refuse;
use super::prompts::{Message, PromptArguments};
use super::resources::Contents;
use super::schema::{INLINE_BYTES, Schema};
use super::sealed::Bound;
use super::service::Inner;
use super::tasks::{Done, TaskPolicy, TaskSupport, Worker, Workshop};
use super::tool::Tool;
use crate::server::{Answer, Caller, Context, Request};

/// What one call needs, apart from who asks for it.
struct Prepared {
    tool: Arc<Tool>,
    arguments: Arc<Map<String, Value>>,
    keyed: Keyed,
    rounds: Option<Arc<Rounds>>,
    binding: Binding,
}

/// What a state is bound to, owned.
struct Binding {
    principal: TaskOwner,
    method: &'static str,
    name: String,
    arguments: Vec<u8>,
}

impl Binding {
    fn new(caller: &Caller, method: &'static str, name: &str, arguments: &str) -> Self {
        // In their canonical form, where they have one: a client may write them anew for each round.
        let canonical = Document::parse(arguments.as_bytes());
        let arguments = canonical
            .map_or_else(|_| arguments.as_bytes().to_vec(), |document| document.canonical().into_bytes());
        Self { principal: caller.principal.clone(), method, name: name.to_owned(), arguments }
    }

    fn bound(&self) -> Bound<'_> {
        Bound {
            principal: &self.principal,
            method: self.method,
            name: &self.name,
            arguments: &self.arguments,
        }
    }
}

impl Inner {
    /// `tools/call`.
    pub(super) async fn call(self: &Arc<Self>, params: &str, context: &Context) -> Answer {
        let caller = Arc::clone(context.caller());
        let prepared = match self.prepare(params, &caller).await {
            Ok(prepared) => prepared,
            Err(answer) => return answer,
        };
        if let Some(answer) = self.ask_first(&prepared, context).await {
            return answer;
        }
        let policy = prepared.tool.task;
        match (&self.tasks, policy.support) {
            (Some(tasks), TaskSupport::Optional { .. } | TaskSupport::Required) => {
                let name = prepared.tool.name.clone();
                let inner = Arc::clone(self);
                let work = move |worker| async move { inner.work(prepared, worker).await };
                tasks.run(&name, policy, params, context, work).await
            }
            (None, _) | (Some(_), TaskSupport::Never) => {
                match Arc::clone(self).work(prepared, Worker::of_call(context.clone())).await {
                    Done::Answered(answer) => answer,
                    // The exchange has ended: nobody reads this.
                    Done::Stopped => refuse(-32603, "the call was cancelled"),
                }
            }
        }
    }

    /// Checks the shape, the values, the key and the state, in this order. The error is the answer.
    async fn prepare(&self, params: &str, caller: &Caller) -> Result<Prepared, Answer> {
        let bad = |text: &str| refuse(-32602, text);
        let view = envelope::params_of(params).map_err(|error| bad(&error.to_string()))?;
        let name = view.name.as_deref().ok_or_else(|| bad("params.name must be a string"))?;
        let tool = self
            .tools
            .get(caller, name)
            .ok_or_else(|| bad(&format!("there is no tool named {name:?}; ask tools/list for the names")))?;
        let raw = view.arguments.map_or("{}", |raw| raw.get());
        let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(raw) else {
            return Err(bad("params.arguments must be an object"));
        };
        let keyed = Keyed::of(&view, raw, &arguments).map_err(|text| bad(&text))?;
        let binding = Binding::new(caller, "tools/call", name, raw);
        let rounds = self.rounds(caller, params, &binding.bound())?;
        let arguments = match check(&tool.input, Value::Object(arguments), raw.len()).await {
            Ok(Value::Object(arguments)) => Arc::new(arguments),
            Ok(_) => return Err(bad("params.arguments must be an object")),
            // For a model to read and to mend (AMB-44).
            Err(faults) => {
                let result = ToolResult::error(format!("the arguments are not valid: {faults}"));
                return Err(self.tool_result(caller, &result));
            }
        };
        Ok(Prepared { tool, arguments, keyed, rounds, binding })
    }

    /// Asks what a tool must know before it begins, and before a task is made of it (TSK-14). `None` once it is known.
    async fn ask_first(&self, prepared: &Prepared, context: &Context) -> Option<Answer> {
        // A legacy client is asked when the handler asks.
        let rounds = prepared.rounds.as_ref().filter(|_| !prepared.tool.first.is_empty())?;
        let dialogue = Dialogue::new(Worker::of_call(context.clone()), Some(Arc::clone(rounds)));
        let failure = dialogue.ask_all(prepared.tool.first.iter().cloned()).await.err()?;
        let ended =
            self.ended(context.caller(), &prepared.tool, Err(failure), Some(rounds), &prepared.binding);
        match ended {
            Done::Answered(answer) => Some(answer),
            Done::Stopped => Some(refuse(-32603, "the call was cancelled")),
        }
    }

    /// Runs the handler.
    async fn work(self: Arc<Self>, prepared: Prepared, worker: Worker) -> Done {
        let Prepared { tool, arguments, keyed, rounds, binding } = prepared;
        let caller = Arc::clone(worker.context().caller());
        let TaskOwner { tenant, principal } = caller.principal.clone();
        let call = Call {
            arguments,
            keyed,
            dialogue: Dialogue::new(worker, rounds.clone()),
            scope: Scope { tenant, principal, server: self.name.clone() },
            ledger: self.ledger.clone(),
        };
        let handled = (tool.handler)(call).await;
        self.ended(&caller, &tool, handled, rounds.as_ref(), &binding)
    }

    fn ended(
        &self,
        caller: &Caller,
        tool: &Tool,
        handled: Result<ToolResult, Failure>,
        rounds: Option<&Arc<Rounds>>,
        binding: &Binding,
    ) -> Done {
        Done::Answered(match handled {
            Ok(result) => match wrong_output(tool, &result) {
                None => self.tool_result(caller, &result),
                // The server's own fault, and the value is not handed out (ERR-19).
                Some(faults) => refuse(
                    -32603,
                    &format!(
                        "the tool {:?} returned what its output schema does not allow: {faults}",
                        tool.name
                    ),
                ),
            },
            Err(Failure(Why::Failed(text))) => self.tool_result(caller, &ToolResult::error(text)),
            // A legacy client has no word for it: a model reads what is missing.
            Err(Failure(Why::Protocol(error)))
                if caller.revision.era() == Era::Legacy && error.contains("-32021") =>
            {
                let said: Value = serde_json::from_str(&error).unwrap_or_default();
                let text = said["message"].as_str().unwrap_or("a client capability is missing");
                self.tool_result(caller, &ToolResult::error(text))
            }
            Err(failure) => match self.failed(caller, failure, rounds, binding) {
                Some(answer) => answer,
                None => return Done::Stopped,
            },
        })
    }

    /// What any of the three methods answers a failure with; `None` if it stopped.
    fn failed(
        &self,
        caller: &Caller,
        Failure(why): Failure,
        rounds: Option<&Arc<Rounds>>,
        binding: &Binding,
    ) -> Option<Answer> {
        Some(match (why, rounds) {
            (Why::Asked, Some(rounds)) => self.input_required(caller, rounds, &binding.bound()),
            // Only rounds leave questions.
            (Why::Asked, None) => refuse(-32603, "a question was left and nobody can answer it"),
            (Why::Protocol(error), _) => Reply::Error(Bytes::from(error)),
            (Why::Failed(text), _) => refuse(-32603, &text),
            (Why::Stopped, _) => return None,
        })
    }

    fn tool_result(&self, caller: &Caller, result: &ToolResult) -> Answer {
        self.complete(caller, result.to_json(caller.revision.era() == Era::Legacy))
    }

    /// `prompts/get`.
    pub(super) async fn get_prompt(&self, params: &str, context: Context) -> Answer {
        let caller = Arc::clone(context.caller());
        let view = match envelope::params_of(params) {
            Ok(view) => view,
            Err(error) => return refuse(-32602, &error.to_string()),
        };
        let Some(prompt) = view.name.as_deref().and_then(|name| self.prompts.get(&caller, name)) else {
            return refuse(-32602, "there is no such prompt; ask prompts/list for the names");
        };
        let raw = view.arguments.map_or("{}", |raw| raw.get());
        let Ok(arguments) = serde_json::from_str::<PromptArguments>(raw) else {
            return refuse(-32602, "params.arguments must be an object of strings");
        };
        if let Some(missing) = prompt.missing(&arguments) {
            return refuse(-32602, &format!("the prompt needs the argument {missing:?}; send it"));
        }
        let binding = Binding::new(&caller, "prompts/get", &prompt.name, raw);
        let rounds = match self.rounds(&caller, params, &binding.bound()) {
            Ok(rounds) => rounds,
            Err(answer) => return answer,
        };
        let dialogue = Dialogue::new(Worker::of_call(context), rounds.clone());
        match (prompt.get)(dialogue, arguments).await {
            Ok(messages) => {
                let messages: Vec<&Value> = messages.iter().map(Message::as_json).collect();
                let result = json!({ "description": prompt.description(), "messages": messages });
                self.complete(&caller, result)
            }
            Err(failure) => self
                .failed(&caller, failure, rounds.as_ref(), &binding)
                .unwrap_or_else(|| refuse(-32603, "the call was cancelled")),
        }
    }

    /// `resources/read`.
    pub(super) async fn read_resource(&self, params: &str, context: Context) -> Answer {
        let caller = Arc::clone(context.caller());
        let view = match envelope::params_of(params) {
            Ok(view) => view,
            Err(error) => return refuse(-32602, &error.to_string()),
        };
        let Some(uri) = view.uri.as_deref() else { return refuse(-32602, "params.uri must be a string") };
        let binding = Binding::new(&caller, "resources/read", uri, "{}");
        let rounds = match self.rounds(&caller, params, &binding.bound()) {
            Ok(rounds) => rounds,
            Err(answer) => return answer,
        };
        let dialogue = Dialogue::new(Worker::of_call(context), rounds.clone());
        let reading = match self.resources.get(&caller, uri) {
            Some(resource) => (resource.read)(dialogue),
            None => match self.templates.find(&caller, |template| template.matches(uri)) {
                Some((template, variables)) => (template.read)(dialogue, uri.to_owned(), variables),
                None => return not_found(&caller, uri),
            },
        };
        match reading.await {
            // Nothing is what a resource that is not there holds (ERR-12).
            Ok(contents) if contents.is_empty() => not_found(&caller, uri),
            Ok(contents) => {
                let contents: Vec<Value> = contents.iter().map(Contents::to_json).collect();
                let mut result = json!({ "contents": contents });
                if caller.revision.era() == Era::Modern {
                    // What a resource holds may change at any time; whoever wants to know listens.
                    result["ttlMs"] = 0.into();
                    result["cacheScope"] = "private".into();
                }
                self.complete(&caller, result)
            }
            Err(failure) => self
                .failed(&caller, failure, rounds.as_ref(), &binding)
                .unwrap_or_else(|| refuse(-32603, "the call was cancelled")),
        }
    }
}

/// What looks after orphaned tasks knows the tools by it. It keeps no server alive.
#[derive(Debug)]
pub(super) struct Successor(pub(super) Weak<Inner>);

impl Workshop for Successor {
    fn policy(&self, operation: &str) -> Option<TaskPolicy> {
        self.0.upgrade().and_then(|inner| inner.tools.any(operation)).map(|tool| tool.task)
    }

    fn resume(&self, request: Request, worker: Worker) -> Option<Pin<Box<dyn Future<Output = Done> + Send>>> {
        let inner = self.0.upgrade()?;
        Some(Box::pin(async move {
            let caller = Arc::clone(worker.context().caller());
            match inner.prepare(&request.params, &caller).await {
                Ok(prepared) => inner.work(prepared, worker).await,
                Err(answer) => Done::Answered(answer),
            }
        }))
    }
}

/// Checks a value; a large one on a thread of its own, so that nobody else waits for it.
async fn check(schema: &Arc<Schema>, value: Value, bytes: usize) -> Result<Value, String> {
    if bytes <= INLINE_BYTES {
        return schema.check(&value).map(|()| value);
    }
    let schema = Arc::clone(schema);
    let checked = tokio::task::spawn_blocking(move || schema.check(&value).map(|()| value)).await;
    checked.unwrap_or_else(|_| Err("they could not be checked".into()))
}

/// Where a structured result is not what the tool publishes.
fn wrong_output(tool: &Tool, result: &ToolResult) -> Option<String> {
    let schema = tool.output.as_ref().filter(|_| !result.is_error)?;
    match &result.structured {
        Some(data) => schema.check(data).err(),
        None => Some("it has no structured content".into()),
    }
}

/// ERR-11, LEG-88.
fn not_found(caller: &Caller, uri: &str) -> Answer {
    let code = if caller.revision.era() == Era::Modern { -32602 } else { -32002 };
    let error = json!({ "code": code, "message": "Resource not found", "data": { "uri": uri } });
    Reply::Error(Bytes::from(error.to_string()))
}
