//! `tools/call`, `prompts/get` and `resources/read`: from params to an answer.

use std::pin::Pin;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steadfast_core::envelope;
use steadfast_core::exchange::Reply;
use steadfast_core::hop::Era;

use super::arguments;
use super::call::{Call, Keyed};
use super::content::ToolResult;
use super::dialogue::Dialogue;
use super::failure::{self, Failure, Why};
use super::lists::refuse;
use super::prompts::{Message, PromptArguments};
use super::resources::Contents;
use super::rounds::Rounds;
use super::sealed::Origin;
use super::service::Inner;
use super::tasks::{Done, TaskPolicy, TaskSupport, Worker, Workshop};
use super::tool::Published;
use crate::schema;
use crate::server::{Answer, Caller, Context, Request};

/// What one call needs, apart from who asks for it.
struct Prepared {
    tool: Arc<Published>,
    arguments: Arc<Map<String, Value>>,
    keyed: Keyed,
    rounds: Option<Arc<Rounds>>,
    origin: Origin,
}

impl Inner {
    /// `tools/call`.
    pub(super) async fn call(self: &Arc<Self>, params: &str, context: &Context) -> Answer {
        let prepared = match self.prepare(params, context.caller()).await {
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
                let answer = tasks.run(&name, policy, params, context, work).await;
                self.signed(context.caller(), answer)
            }
            (None, _) | (Some(_), TaskSupport::Never) => {
                match Arc::clone(self).work(prepared, Worker::of_call(context.clone())).await {
                    Done::Answered(answer) => answer,
                    Done::Stopped => stopped(),
                }
            }
        }
    }

    /// Checks the shape, the key, the state, the capabilities and the values, in this order. The error is the answer.
    async fn prepare(&self, params: &str, caller: &Arc<Caller>) -> Result<Prepared, Answer> {
        let bad = |text: &str| refuse(-32602, text);
        let view = envelope::params_of(params).map_err(|error| bad(&error.to_string()))?;
        let name = view.name.as_deref().ok_or_else(|| bad("params.name must be a string"))?;
        let tool = self
            .tools
            .get(caller, name)
            .ok_or_else(|| bad(&format!("there is no tool named {name:?}; ask tools/list for the names")))?;
        let raw = view.arguments.map_or("{}", |raw| raw.get());
        // What it says for a model to read and to mend (AMB-44).
        let wrong = |text: String| self.tool_result(caller, ToolResult::error(text));
        if !schema::is_bounded(raw) {
            return Err(wrong(format!(
                "the arguments hold more than {} values; send fewer",
                schema::MAX_VALUES
            )));
        }
        let arguments = arguments::read(raw).map_err(|text| bad(&text))?;
        let keyed = Keyed::of(&view, raw, &arguments).map_err(|text| bad(&text))?;
        let origin = Origin {
            caller: Arc::clone(caller),
            method: "tools/call",
            name: name.to_owned(),
            arguments: raw.to_owned(),
        };
        let rounds = self.rounds(params, &origin)?;
        if let Some(path) = tool.missing(caller) {
            return Err(self.not_declared(caller, path));
        }
        match schema::checked(&tool.input, Value::Object(arguments)).await {
            Ok(Value::Object(arguments)) => {
                Ok(Prepared { tool, arguments: Arc::new(arguments), keyed, rounds, origin })
            }
            Ok(_) => Err(bad("params.arguments must be an object")),
            Err(faults) => Err(wrong(format!("the arguments are not valid: {faults}"))),
        }
    }

    /// Asks what a tool must know before it begins, and before a task is made of it (TSK-14). `None` once it is known.
    async fn ask_first(self: &Arc<Self>, prepared: &Prepared, context: &Context) -> Option<Answer> {
        let Prepared { tool, rounds, origin, .. } = prepared;
        // A legacy client is asked when the handler asks.
        let rounds = rounds.as_ref().filter(|_| !tool.first.is_empty())?;
        let worker = Worker::of_call(context.clone());
        let dialogue = Dialogue::new(Arc::clone(self), worker, Some(Arc::clone(rounds)));
        let failure = dialogue.ask_all(tool.first.iter().cloned()).await.err()?;
        match self.ended(tool, Err(failure), Some(rounds), origin) {
            Done::Answered(answer) => Some(answer),
            Done::Stopped => Some(stopped()),
        }
    }

    /// Runs the handler.
    async fn work(self: Arc<Self>, prepared: Prepared, worker: Worker) -> Done {
        let Prepared { tool, arguments, keyed, rounds, origin } = prepared;
        let dialogue = Dialogue::new(Arc::clone(&self), worker, rounds.clone());
        let handled = (tool.handler)(Call { arguments, keyed, dialogue }).await;
        self.ended(&tool, handled, rounds.as_ref(), &origin)
    }

    fn ended(
        &self,
        tool: &Published,
        handled: Result<ToolResult, Failure>,
        rounds: Option<&Arc<Rounds>>,
        origin: &Origin,
    ) -> Done {
        let caller = &*origin.caller;
        Done::Answered(match handled {
            Ok(result) => match tool.wrong_output(&result) {
                None => self.tool_result(caller, result),
                // The server's own fault, and the value is not handed out (ERR-19).
                Some(faults) => {
                    let name = &tool.name;
                    refuse(
                        -32603,
                        &format!(
                            "the tool {name:?} returned what its output schema does not allow: {faults}"
                        ),
                    )
                }
            },
            Err(Failure(Why::Failed(text))) => self.tool_result(caller, ToolResult::error(text)),
            Err(Failure(Why::NotDeclared(path))) => self.not_declared(caller, path),
            Err(failure) => match self.failed(failure, rounds, origin) {
                Some(answer) => answer,
                None => return Done::Stopped,
            },
        })
    }

    /// What any of the three methods answers a failure with; `None` if it stopped.
    fn failed(&self, Failure(why): Failure, rounds: Option<&Arc<Rounds>>, origin: &Origin) -> Option<Answer> {
        Some(match (why, rounds) {
            (Why::Asked, Some(rounds)) => self.input_required(rounds, origin),
            // Only rounds leave questions.
            (Why::Asked, None) => refuse(-32603, "a question was left and nobody can answer it"),
            (Why::Protocol(error), _) => Reply::Error(Bytes::from(error)),
            (Why::NotDeclared(path), _) => match origin.caller.revision.era() {
                Era::Modern => Reply::Error(Bytes::from(failure::missing(path))),
                Era::Legacy => refuse(-32603, &failure::missing_text(path)),
            },
            (Why::Failed(text), _) => refuse(-32603, &text),
            (Why::Stopped, _) => return None,
        })
    }

    /// What a tool's caller without a capability gets (CAP-07); a legacy client has no code for it, so a model reads it.
    fn not_declared(&self, caller: &Caller, path: &'static [&'static str]) -> Answer {
        match caller.revision.era() {
            Era::Modern => Reply::Error(Bytes::from(failure::missing(path))),
            Era::Legacy => self.tool_result(caller, ToolResult::error(failure::missing_text(path))),
        }
    }

    fn tool_result(&self, caller: &Caller, result: ToolResult) -> Answer {
        self.complete(caller, result.into_json(caller.revision))
    }

    /// `prompts/get`.
    pub(super) async fn get_prompt(self: &Arc<Self>, params: &str, context: Context) -> Answer {
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
        let origin = Origin {
            caller: Arc::clone(&caller),
            method: "prompts/get",
            name: prompt.name.clone(),
            arguments: raw.to_owned(),
        };
        let rounds = match self.rounds(params, &origin) {
            Ok(rounds) => rounds,
            Err(answer) => return answer,
        };
        let dialogue = Dialogue::new(Arc::clone(self), Worker::of_call(context), rounds.clone());
        match (prompt.get)(dialogue, arguments).await {
            Ok(messages) => {
                let messages: Vec<&Value> = messages.iter().map(Message::as_json).collect();
                let result = json!({ "description": prompt.description(), "messages": messages });
                self.complete(&caller, result)
            }
            Err(failure) => self.failed(failure, rounds.as_ref(), &origin).unwrap_or_else(stopped),
        }
    }

    /// `resources/read`.
    pub(super) async fn read_resource(self: &Arc<Self>, params: &str, context: Context) -> Answer {
        let caller = Arc::clone(context.caller());
        let view = match envelope::params_of(params) {
            Ok(view) => view,
            Err(error) => return refuse(-32602, &error.to_string()),
        };
        let Some(uri) = view.uri.as_deref() else { return refuse(-32602, "params.uri must be a string") };
        let origin = Origin {
            caller: Arc::clone(&caller),
            method: "resources/read",
            name: uri.to_owned(),
            arguments: "{}".to_owned(),
        };
        let rounds = match self.rounds(params, &origin) {
            Ok(rounds) => rounds,
            Err(answer) => return answer,
        };
        let dialogue = Dialogue::new(Arc::clone(self), Worker::of_call(context), rounds.clone());
        let reading = match self.resources.get(&caller, uri) {
            Some(resource) => (resource.read)(dialogue),
            None => match self.templates.find(&caller, |template| template.matches(uri)) {
                Some((template, variables)) => template.read(dialogue, uri, variables),
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
            Err(failure) => self.failed(failure, rounds.as_ref(), &origin).unwrap_or_else(stopped),
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

/// The exchange has ended: nobody reads this.
fn stopped() -> Answer {
    refuse(-32603, "the call was cancelled")
}

/// ERR-11, LEG-88.
fn not_found(caller: &Caller, uri: &str) -> Answer {
    let code = if caller.revision.era() == Era::Modern { -32602 } else { -32002 };
    let error = json!({ "code": code, "message": "Resource not found", "data": { "uri": uri } });
    Reply::Error(Bytes::from(error.to_string()))
}
