//! A server written with the official Rust SDK: `interop-rmcp-server --era modern|legacy (--stdio | --http)`.
//!
//! It speaks the one era only. Its tools are those of `shop` that interop/run-servers needs, and `open_till`, which adds
//! another tool.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, ElicitRequest, ElicitRequestParams, ElicitResult, GetTaskParams, GetTaskResult,
    Implementation, InputRequest, InputRequests, InputRequiredResult, JsonObject, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::sync::broadcast;

type Answer<T> = Result<T, ErrorData>;

const WIDGETS: &str = "inventory://widget";

#[derive(Clone, Copy)]
enum Change {
    Stock,
    Tools,
}

/// What all connections share.
struct Shop {
    modern: bool,
    state: Mutex<State>,
    changes: broadcast::Sender<Change>,
    tasks: TaskManager,
}

#[derive(Default)]
struct State {
    stock: i64,
    tills: u32,
    /// Sessions of the legacy era, and those of them that asked for the stock.
    sessions: Vec<Peer<RoleServer>>,
    subscribers: Vec<Peer<RoleServer>>,
    /// What the next listener of the modern era is to hear.
    listeners: VecDeque<broadcast::Receiver<Change>>,
}

/// One connection, session or request, as the SDK sees fit.
#[derive(Clone)]
struct Counter(Arc<Shop>);

impl Counter {
    async fn count(
        &self,
        steps: u64,
        step: Duration,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        for done in 1..=steps {
            tokio::select! {
                () = tokio::time::sleep(step) => {}
                () = context.ct.cancelled() => {
                    eprintln!("count_slowly was cancelled after {} of {steps} steps", done - 1);
                    return text("stopped");
                }
            }
            if let Some(token) = context.meta.get_progress_token() {
                let event = ProgressNotificationParam::new(token, done as f64).with_total(steps as f64);
                let _ = context.peer.notify_progress(event).await;
            }
        }
        text(format!("{steps} steps done"))
    }

    fn job(&self, steps: u64, step: Duration) -> CallToolResponse {
        let task = self.0.tasks.spawn(TaskOptions::new().with_poll_interval_ms(20), move |task| {
            Box::pin(async move {
                for _ in 0..steps {
                    tokio::select! {
                        () = tokio::time::sleep(step) => {}
                        () = task.cancelled() => {
                            eprintln!("long_job was cancelled");
                            return Err(TaskExit::Cancelled);
                        }
                    }
                }
                Ok(CallToolResult::success(vec![ContentBlock::text(format!("{steps} steps done"))]))
            })
        });
        CallToolResponse::Task(CreateTaskResult::new(task))
    }

    /// Tells the listeners of the modern era and the sessions of the legacy one.
    async fn change(&self, change: Change) {
        let _ = self.0.changes.send(change);
        let peers = {
            let state = self.0.state.lock().expect("no holder panics");
            match change {
                Change::Stock => state.subscribers.clone(),
                Change::Tools => state.sessions.clone(),
            }
        };
        for peer in peers {
            // A session that has ended is none to be told.
            let _ = match change {
                Change::Stock => {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(WIDGETS)).await
                }
                Change::Tools => peer.notify_tool_list_changed().await,
            };
        }
    }

    async fn ask(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Answer<CallToolResponse> {
        let schema =
            json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
        let question = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: "What is your name?".into(),
            requested_schema: serde_json::from_value(schema).expect("a schema of one field"),
        };
        let content = if self.0.modern {
            let Some(answers) = &request.input_responses else {
                let question = InputRequest::Elicitation(ElicitRequest::new(question));
                let asked = InputRequests::from([("name".to_string(), question)]);
                return Ok(InputRequiredResult::new(Some(asked), Some("asked".into())).into());
            };
            if request.request_state.as_deref() != Some("asked") {
                return Err(ErrorData::invalid_params("the requestState did not come back", None));
            }
            answers.get("name").map(|answer| answer["content"].clone())
        } else {
            let answer: ElicitResult = context
                .peer
                .create_elicitation(question)
                .await
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            answer.content
        };
        let name = content.as_ref().and_then(|content| content["name"].as_str()).unwrap_or("nobody");
        Ok(text(format!("Hello, {name}.")))
    }
}

impl ServerHandler for Counter {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe();
        // The tasks of 2025-11-25 are others, which this SDK does not speak.
        let capabilities =
            if self.0.modern { capabilities.enable_tasks().build() } else { capabilities.build() };
        ServerConfig::new(capabilities).with_server_info(Implementation::new("interop-rmcp", "1.0.0"))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(if self.0.modern {
            &[ProtocolVersion::V_2026_07_28]
        } else {
            &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25]
        })
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.0.state.lock().expect("no holder panics").sessions.push(context.peer);
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListToolsResult> {
        let count = json!({ "type": "object", "properties": {
            "steps": { "type": "integer", "minimum": 1 }, "step_ms": { "type": "integer", "minimum": 0 } },
            "required": ["steps", "step_ms"] });
        let mut tools = vec![
            tool("echo", json!({ "type": "object" })),
            tool("count_slowly", count.clone()),
            tool("reserve_inventory", json!({ "type": "object", "required": ["sku", "quantity", "tenant"] })),
            tool("open_till", json!({ "type": "object" })),
            tool("ask_name", json!({ "type": "object" })),
        ];
        if self.0.modern {
            tools.push(tool("long_job", count));
        }
        let tills = self.0.state.lock().expect("no holder panics").tills;
        tools.extend((1..=tills).map(|number| tool(format!("till_{number}"), json!({ "type": "object" }))));
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Answer<CallToolResponse> {
        let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
        let number = |name: &str| arguments[name].as_u64().unwrap_or_default();
        let step = Duration::from_millis(number("step_ms"));
        match &*request.name {
            "echo" => Ok(text(arguments.to_string())),
            "count_slowly" => Ok(self.count(number("steps"), step, &context).await),
            "long_job" => Ok(self.job(number("steps"), step)),
            "reserve_inventory" => {
                self.0.state.lock().expect("no holder panics").stock -= 1;
                self.change(Change::Stock).await;
                Ok(text("reserved"))
            }
            "open_till" => {
                self.0.state.lock().expect("no holder panics").tills += 1;
                self.change(Change::Tools).await;
                Ok(text("opened"))
            }
            "ask_name" => self.ask(&request, &context).await,
            name => Err(ErrorData::invalid_params(format!("there is no tool {name}"), None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListResourcesResult> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new(WIDGETS, "widget")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Answer<ReadResourceResponse> {
        if request.uri != WIDGETS {
            return Err(ErrorData::resource_not_found("there is no such resource", None));
        }
        let stock = self.0.state.lock().expect("no holder panics").stock;
        Ok(ReadResourceResult::new(vec![ResourceContents::text(format!("{stock} available"), WIDGETS)])
            .into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // From the acknowledgement on nothing may be lost, and the SDK sends it before it calls `listen`.
        let heard = self.0.changes.subscribe();
        self.0.state.lock().expect("no holder panics").listeners.push_back(heard);
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Answer<()> {
        let heard = self.0.state.lock().expect("no holder panics").listeners.pop_front();
        let mut changes = heard.ok_or_else(|| ErrorData::internal_error("nothing was accepted", None))?;
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // One that this listener did not ask for is refused by its sink.
            let _ = match change {
                Ok(Change::Stock) => context.sink().notify_resource_updated(WIDGETS).await,
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Err(_) => return Ok(()),
            };
        }
    }

    async fn subscribe(&self, _: SubscribeRequestParams, context: RequestContext<RoleServer>) -> Answer<()> {
        self.0.state.lock().expect("no holder panics").subscribers.push(context.peer);
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Answer<()> {
        self.0.state.lock().expect("no holder panics").subscribers.clear();
        Ok(())
    }

    async fn get_task(&self, request: GetTaskParams, _: RequestContext<RoleServer>) -> Answer<GetTaskResult> {
        Ok(GetTaskResult::new(self.0.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: RequestContext<RoleServer>) -> Answer<()> {
        self.0.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Answer<()> {
        self.0.tasks.cancel_task(&request.task_id)
    }
}

fn tool(name: impl Into<Cow<'static, str>>, schema: Value) -> Tool {
    let schema: JsonObject = serde_json::from_value(schema).expect("an object");
    Tool::new(name, "As shop's.", schema)
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

async fn serve_http(counter: Counter) -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    let service = StreamableHttpService::new(
        move || Ok::<_, io::Error>(counter.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // A client that leaves early is what this server is there to see.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let counter = Counter(Arc::new(Shop {
        modern: has("modern"),
        state: Mutex::new(State { stock: 1000, ..State::default() }),
        changes: broadcast::channel(16).0,
        tasks: TaskManager::new(),
    }));
    if has("--stdio") {
        counter.serve(rmcp::transport::stdio()).await?.waiting().await?;
        Ok(())
    } else {
        serve_http(counter).await
    }
}
