//! The official Rust client against `shop`: `interop-rmcp --era modern|legacy --stderr FILE (--url URL | --command JSON)`.
//!
//! Prints one line a check, as interop/run reads them.

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientConfig, ClientRequest,
    ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, GetTaskParams,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, ReadResourceRequestParams, ReadResourceResult,
    ResourceUpdatedNotificationParam, ServerNotification, SubscribeRequestParams, SubscriptionFilter,
    TaskPayload, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RequestHandle, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Checked = Result<(), Box<dyn Error>>;

const WIDGETS: &str = "inventory://widget";
const PATIENCE: Duration = Duration::from_secs(10);

/// What the host does with what the server sends on its own.
#[derive(Clone)]
struct Host {
    progress: mpsc::UnboundedSender<(ProgressToken, f64)>,
    updated: mpsc::UnboundedSender<String>,
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        config()
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let mut answer = ElicitResult::new(ElicitationAction::Decline);
        if let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = request
            && let Some(field) = requested_schema.properties.keys().next()
        {
            answer = ElicitResult::new(ElicitationAction::Accept).with_content(json!({ field: "Ada" }));
        }
        Ok(answer)
    }

    async fn on_progress(&self, event: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.progress.send((event.progress_token, event.progress));
    }

    async fn on_resource_updated(
        &self,
        event: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.updated.send(event.uri);
    }
}

fn config() -> ClientConfig {
    let config = json!({
        "protocolVersion": "2025-11-25",
        "clientInfo": { "name": "interop-rmcp", "version": "1.0.0" },
        "capabilities": { "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } },
    });
    serde_json::from_value(config).expect("a client's own description")
}

struct Run {
    client: RunningService<RoleClient, Host>,
    progress: mpsc::UnboundedReceiver<(ProgressToken, f64)>,
    updated: mpsc::UnboundedReceiver<String>,
    stderr: PathBuf,
    modern: bool,
}

impl Run {
    async fn check(&mut self, name: &str) -> Checked {
        match name {
            "list" => self.list().await,
            "call" => self.call().await,
            "progress" => self.progress().await,
            "abort" => self.abort().await,
            "timeout" => self.timeout().await,
            "subscription" => self.subscription().await,
            "task" => self.task().await,
            "question" => self.question().await,
            _ => Err(format!("there is no check {name}").into()),
        }
    }

    async fn list(&mut self) -> Checked {
        let tools = self.client.list_all_tools().await?;
        for name in ["echo", "count_slowly", "reserve_inventory", "long_job", "ask_name"] {
            ensure(tools.iter().any(|tool| tool.name == name), || format!("no tool {name}"))?;
        }
        Ok(())
    }

    async fn call(&mut self) -> Checked {
        let result = self.client.call_tool(tool("echo", json!({ "word": "grüße", "n": 1 }))).await?;
        ensure(text(&result).contains("grüße"), || format!("{result:?}"))
    }

    async fn progress(&mut self) -> Checked {
        while self.progress.try_recv().is_ok() {}
        let result =
            self.client.call_tool(tool("count_slowly", json!({ "steps": 5, "step_ms": 30 }))).await?;
        ensure(result.is_error != Some(true), || format!("{result:?}"))?;
        let mut seen = Vec::new();
        while let Ok((_, value)) = self.progress.try_recv() {
            seen.push(value);
        }
        ensure(seen.len() >= 2, || format!("{} progress notifications", seen.len()))?;
        // This client hands its notifications to tasks of their own and so mixes up their order itself.
        seen.sort_by(f64::total_cmp);
        ensure(seen.windows(2).all(|pair| pair[0] < pair[1]), || format!("a value came twice: {seen:?}"))
    }

    async fn abort(&mut self) -> Checked {
        while self.progress.try_recv().is_ok() {}
        let call = self.start("count_slowly", json!({ "steps": 1001, "step_ms": 50 }), None).await?;
        let token = call.progress_token.clone();
        tokio::time::timeout(PATIENCE, async {
            while self.progress.recv().await.is_some_and(|(of, _)| of != token) {}
        })
        .await?;
        call.cancel(Some("enough".into())).await?;
        self.stopped(1001).await?;
        // interop/run reads the wire from here on: steps of 50 ms would show by now.
        self.client.call_tool(tool("echo", json!({ "mark": "after the abort" }))).await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.client.call_tool(tool("echo", json!({ "mark": "long after the abort" }))).await?;
        Ok(())
    }

    async fn timeout(&mut self) -> Checked {
        let limit = Some(Duration::from_millis(300));
        let call = self.start("count_slowly", json!({ "steps": 1002, "step_ms": 50 }), limit).await?;
        match call.await_response().await {
            Err(rmcp::ServiceError::Timeout { .. }) => self.stopped(1002).await,
            other => Err(format!("expected the client's own timeout: {other:?}").into()),
        }
    }

    #[allow(deprecated)] // the legacy era subscribes by what the library has marked as gone from the modern one
    async fn subscription(&mut self) -> Checked {
        let before = self.stock().await?;
        if self.modern {
            let filter = SubscriptionFilter::builder().resource_subscriptions([WIDGETS]).build();
            let mut subscription = self.client.listen(filter).await?;
            self.reserve().await?;
            match tokio::time::timeout(PATIENCE, subscription.next()).await?? {
                Some(ServerNotification::ResourceUpdatedNotification(event))
                    if event.params.uri == WIDGETS => {}
                other => return Err(format!("expected an update of {WIDGETS}: {other:?}").into()),
            }
            subscription.cancel().await?;
        } else {
            self.client.subscribe(SubscribeRequestParams::new(WIDGETS)).await?;
            self.reserve().await?;
            let uri = tokio::time::timeout(PATIENCE, self.updated.recv()).await?;
            ensure(uri.as_deref() == Some(WIDGETS), || format!("an update of {uri:?}"))?;
            self.client.unsubscribe(UnsubscribeRequestParams::new(WIDGETS)).await?;
        }
        let after = self.stock().await?;
        ensure(after != before, || "the resource reads as before".into())
    }

    async fn task(&mut self) -> Checked {
        let job = tool("long_job", json!({ "steps": 3, "step_ms": 30 }));
        let CallToolResponse::Task(created) = self.client.call_tool_once(job).await? else {
            return Err("the call was answered without a task".into());
        };
        let followed = async {
            loop {
                let now = self.client.get_task(GetTaskParams::new(&created.task.task_id)).await?;
                match now.task.payload {
                    TaskPayload::Working => tokio::time::sleep(Duration::from_millis(20)).await,
                    other => return Ok::<_, Box<dyn Error>>(other),
                }
            }
        };
        match tokio::time::timeout(PATIENCE, followed).await?? {
            TaskPayload::Completed { result } if result.contains_key("content") => Ok(()),
            other => Err(format!("the task ended as {other:?}").into()),
        }
    }

    async fn question(&mut self) -> Checked {
        let result = self.client.call_tool(tool("ask_name", json!({}))).await?;
        ensure(text(&result).contains("Ada"), || format!("{result:?}"))
    }

    /// A call that can be cancelled: dropping this client's future cancels nothing.
    async fn start(
        &self,
        name: &'static str,
        arguments: Value,
        limit: Option<Duration>,
    ) -> Result<RequestHandle<RoleClient>, Box<dyn Error>> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(tool(name, arguments)));
        let options = limit.map_or_else(PeerRequestOptions::no_options, PeerRequestOptions::with_timeout);
        Ok(self.client.send_cancellable_request(request, options).await?)
    }

    /// The handler itself says on stderr that it saw the cancel; the number of steps tells the calls apart.
    async fn stopped(&self, steps: u32) -> Checked {
        let word = format!(" of {steps} steps");
        let seen = async {
            while !std::fs::read_to_string(&self.stderr)?.contains(&word) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, seen).await.map_err(|_| "the handler did not observe the cancel")?
    }

    async fn reserve(&self) -> Checked {
        let arguments = json!({ "sku": "widget", "quantity": 1, "tenant": "interop" });
        let result = self.client.call_tool(tool("reserve_inventory", arguments)).await?;
        ensure(result.is_error != Some(true), || text(&result))
    }

    async fn stock(&self) -> Result<ReadResourceResult, Box<dyn Error>> {
        Ok(self.client.read_resource(ReadResourceRequestParams::new(WIDGETS)).await?)
    }
}

fn tool(name: &'static str, arguments: Value) -> CallToolRequestParams {
    match arguments {
        Value::Object(arguments) => CallToolRequestParams::new(name).with_arguments(arguments),
        _ => CallToolRequestParams::new(name),
    }
}

fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|item| item.as_text()).map(|item| item.text.as_str()).collect()
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(why().into()) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Checked {
    let mut options: HashMap<String, String> = HashMap::new();
    let mut arguments = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        options.insert(name, value);
    }
    let modern = options.get("--era").is_some_and(|era| era == "modern");
    let lifecycle = if modern {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let (progress_in, progress) = mpsc::unbounded_channel();
    let (updated_in, updated) = mpsc::unbounded_channel();
    let host = Host { progress: progress_in, updated: updated_in };
    let client = if let Some(url) = options.get("--url") {
        let transport = StreamableHttpClientTransport::from_uri(Arc::<str>::from(url.as_str()));
        host.serve_with_lifecycle(transport, lifecycle).await?
    } else {
        let command = options.get("--command").ok_or("name --url or --command")?;
        let command: Vec<String> = serde_json::from_str(command)?;
        let mut process = tokio::process::Command::new(&command[0]);
        process.args(&command[1..]);
        host.serve_with_lifecycle(TokioChildProcess::new(process)?, lifecycle).await?
    };
    let stderr = PathBuf::from(options.get("--stderr").ok_or("name --stderr")?);
    let mut run = Run { client, progress, updated, stderr, modern };
    let mut checks = vec!["list", "call", "progress", "abort", "timeout", "subscription", "task", "question"];
    if !modern {
        checks.retain(|check| *check != "task");
    }
    for name in checks {
        match run.check(name).await {
            Ok(()) => println!("ok {name}"),
            Err(why) => println!("failed {name}: {}", why.to_string().replace('\n', " ")),
        }
    }
    run.client.cancel().await?;
    Ok(())
}
