//! A client and our own server over HTTP, with durable tasks: what both make of subscriptions and tasks together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{
    Answering, CallOptions, Category, Client, Config, Error, FolderJournal, Handler, ListenEvent, Question,
    Subscription,
};
use steadfast::core::error::Outcome;
use steadfast::core::subscription::{Change, Filter, Refetch};
use steadfast::core::task::Status;
use steadfast::core::task::follow::Pace;
use steadfast::server::Options;
use steadfast::server::http::Listener;
use steadfast::server::toolkit::{
    Call, Contents, Failure, Question as Asks, Resource, Server, TaskPolicy, TaskSupport, Tool, ToolResult,
};
use steadfast_store::Ledger;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long something that must happen may take; far more than it does.
const LIMIT: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(5);

struct Agrees;

impl Handler for Agrees {
    fn capabilities(&self) -> String {
        r#"{"elicitation":{"form":{}}}"#.to_owned()
    }

    fn answer<'a>(&'a self, _question: Question) -> Answering<'a> {
        Box::pin(std::future::ready(Ok(r#"{"action":"accept","content":{"sure":true}}"#.to_owned())))
    }
}

const POLICY: TaskPolicy = TaskPolicy {
    support: TaskSupport::Optional { after: Duration::ZERO },
    ttl: Duration::from_secs(3_600),
    poll_interval: Duration::from_millis(5),
    writes: true,
    resumes: false,
};

fn tool(name: &str) -> Tool {
    Tool::raw(name, "Says ok.", json!({ "type": "object" }), |_| async { Ok(ToolResult::text("ok")) })
}

/// A server whose tool `confirm` asks before it says so, and whose tool `wait` ends when it is cancelled.
fn server(folder: &std::path::Path) -> Server {
    let ledger = Arc::new(Ledger::open(folder.join("t.db"), steadfast_store::Options::default()).unwrap());
    let object = || json!({ "type": "object" });
    let confirm = |call: Call| async move {
        let sure = json!({ "type": "object", "properties": { "sure": { "type": "boolean" } } });
        let answer = call.ask("sure", Asks::form("Sure?", sure)).await?;
        Ok(ToolResult::structured(json!({ "sure": answer["content"]["sure"] })))
    };
    let wait = |call: Call| async move {
        call.cancelled().await;
        Err::<ToolResult, _>(Failure::stopped())
    };
    Server::builder("shop", "1")
        .store(ledger)
        .changing()
        .tool(Tool::raw("confirm", "Asks.", object(), confirm).task(POLICY))
        .tool(Tool::raw("wait", "Waits.", object(), wait).task(POLICY))
        .resource(Resource::new("x://stock", "stock", "What is there.", "text/plain", |_| async {
            Ok(vec![Contents::text("x://stock", "text/plain", "7")])
        }))
        .build()
        .unwrap()
}

/// A server that listens.
struct Site {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Site {
    async fn open(server: &Server, address: &str) -> Self {
        let listener = Listener::bind(address).await.unwrap();
        let address = listener.address();
        let (end, ended) = oneshot::channel::<()>();
        let service = Arc::new(server.clone());
        let serving = tokio::spawn(async move {
            let ended = async { drop(ended.await) };
            listener.serve("/mcp", service, Options::default(), ended).await.unwrap();
        });
        Self { address, end, serving }
    }

    /// Ends as a signal makes it.
    async fn close(self) {
        self.end.send(()).unwrap();
        tokio::time::timeout(LIMIT, self.serving).await.unwrap().unwrap();
    }

    fn client(&self, folder: &std::path::Path) -> Client {
        let pace = Pace { floor: Duration::from_millis(1), ceiling: Duration::from_secs(1) };
        let journal = FolderJournal::at(folder.join("tasks")).unwrap();
        Client::of_url(&format!("http://{}/mcp", self.address))
            .unwrap()
            .config(Config { name: "shop".to_owned(), task_pace: pace, ..Config::default() })
            .handler(Arc::new(Agrees))
            .tasks(Arc::new(journal))
            .build()
    }
}

async fn next(subscription: &mut Subscription) -> ListenEvent {
    tokio::time::timeout(LIMIT, subscription.next()).await.expect("nothing happened").expect("it is over")
}

async fn until(what: &str, happens: impl Fn() -> bool) {
    let wait = async {
        while !happens() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("{what} did not happen"));
}

// shows: TSK-29, TSK-69, HDR-04
#[tokio::test]
async fn tsk_45_a_task_over_http_is_followed_through_its_question_to_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let site = Site::open(&server, "127.0.0.1:0").await;
    let client = site.client(folder.path());
    let (told, states) = std::sync::mpsc::channel();
    // The server refuses a request about a task whose Mcp-Name is not its id.
    let options = CallOptions {
        on_note: Some(Box::new(move |method, params| {
            let task: Value = serde_json::from_slice(params).unwrap();
            let _ = told.send((method.to_owned(), task["status"].as_str().unwrap_or_default().to_owned()));
        })),
        ..CallOptions::default()
    };
    let answered =
        tokio::time::timeout(LIMIT, client.call_tool("confirm", "{}", options)).await.unwrap().unwrap();
    let result: Value = serde_json::from_slice(&answered.result).unwrap();
    assert_eq!(result["structuredContent"], json!({ "sure": true }));
    let last = states.into_iter().last();
    assert_eq!(
        last,
        Some(("notifications/tasks".to_owned(), "completed".to_owned())),
        "each state is handed on"
    );
    assert!(client.open_tasks().await.unwrap().is_empty());
    client.close(GRACE).await;
    site.close().await;
}

// shows: TSK-44, G14
#[tokio::test]
async fn tsk_41_over_http_a_call_that_is_given_up_ends_the_work_and_a_lost_host_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let site = Site::open(&server, "127.0.0.1:0").await;
    let begin = |client: Client, options: CallOptions| {
        tokio::spawn(async move { client.call_tool("wait", "{}", options).await })
    };
    let open = |client: Client| async move {
        loop {
            match client.open_tasks().await.unwrap().pop() {
                Some(handle) => break handle,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    };

    // A host that ends revokes nothing, and the next one goes on.
    let first = site.client(folder.path());
    let called = begin(first.clone(), CallOptions::default());
    let id = tokio::time::timeout(LIMIT, open(first.clone())).await.unwrap().id().to_owned();
    first.close(GRACE).await;
    let Error::Local { category, .. } = called.await.unwrap().unwrap_err() else { panic!() };
    assert_eq!(category, Category::Closed);
    let second = site.client(folder.path());
    let handle = second.open_tasks().await.unwrap().pop().unwrap();
    assert_eq!(handle.id(), id);
    assert_eq!(handle.get(CallOptions::default()).await.unwrap().status, Status::Working);
    handle.cancel(CallOptions::default()).await.unwrap();
    let ended = tokio::time::timeout(LIMIT, handle.wait(CallOptions::default())).await.unwrap().unwrap_err();
    let Error::Local { category, outcome, .. } = ended else { panic!("{ended}") };
    assert_eq!((category, outcome), (Category::ClientCancelled, Outcome::Unknown));
    assert!(second.open_tasks().await.unwrap().is_empty());

    // Who gives up the call gives up the task, and does not wait for it.
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let called = begin(second.clone(), options);
    let handle = tokio::time::timeout(LIMIT, open(second.clone())).await.unwrap();
    cancel.cancel();
    let Error::Local { category, .. } = called.await.unwrap().unwrap_err() else { panic!() };
    assert_eq!(category, Category::ClientCancelled);
    let observed = async {
        while handle.get(CallOptions::default()).await.unwrap().status != Status::Cancelled {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, observed).await.expect("the worker saw the cancel");
    second.close(GRACE).await;
    site.close().await;
}

// shows: SUB-12, SUB-19, SUB-22, CCH-19
#[tokio::test]
async fn sub_22_over_http_a_server_that_restarts_is_listened_to_again_and_the_catalog_is_fresh() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let site = Site::open(&server, "127.0.0.1:0").await;
    let client = site.client(folder.path());
    let filter = Filter { tools: true, uris: ["x://stock".to_owned()].into(), ..Filter::default() };
    let mut subscription = client.listen(filter.clone());
    let acknowledged = ListenEvent::Acknowledged { missing: Filter::default(), facts: None };
    assert_eq!(next(&mut subscription).await, acknowledged);
    let names = async |client: &Client| {
        let listed = client.list_tools(CallOptions::default()).await.unwrap();
        listed.definitions.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&client).await.len(), 2);
    server.put_tool(tool("third")).unwrap();
    assert!(matches!(next(&mut subscription).await, ListenEvent::Changed { change: Change::Tools, .. }));
    assert_eq!(names(&client).await.len(), 3, "what was kept is stale by the notice");
    server.resource_updated("x://stock");
    let ListenEvent::Changed { change, .. } = next(&mut subscription).await else { panic!() };
    assert_eq!(change, Change::Resource("x://stock".into()));

    // It ends gracefully; while it is away something changes.
    let address = site.address.to_string();
    site.close().await;
    let stale = vec![Refetch::Tools, Refetch::Resource("x://stock".into())];
    assert_eq!(next(&mut subscription).await, ListenEvent::Ended { graceful: true, stale: stale.clone() });
    server.put_tool(tool("fourth")).unwrap();
    let site = Site::open(&server, &address).await;
    // Its next use brings the subscription back.
    assert_eq!(names(&client).await.len(), 4, "nothing that was kept is taken for fresh");
    match next(&mut subscription).await {
        ListenEvent::Acknowledged { missing, facts } => {
            assert_eq!(missing, Filter::default());
            assert!(facts.unwrap().offers("tools"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(next(&mut subscription).await, ListenEvent::Gap(stale));
    server.put_tool(tool("fifth")).unwrap();
    assert!(matches!(next(&mut subscription).await, ListenEvent::Changed { change: Change::Tools, .. }));

    // Closing the stream is what ends it.
    assert_eq!(server.changes().listeners(), 1);
    subscription.close().await;
    until("its end at the server", || server.changes().listeners() == 0).await;
    client.close(GRACE).await;
    site.close().await;
}
