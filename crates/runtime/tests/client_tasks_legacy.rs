//! What a client makes of the tasks of 2025-11-25: real children over real pipes, and our own server over HTTP.

mod follow;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use follow::{GRACE, LIMIT, Peer, Stage};
use serde_json::{Value, json};
use steadfast::client::{
    Answered, Answering, CallOptions, Category, Client, Config, Error, FolderJournal, Forgetful, Handler,
    Question, TaskJournal,
};
use steadfast::core::era::Wish;
use steadfast::core::error::Outcome;
use steadfast::core::task::Status;
use steadfast::core::task::follow::Pace;
use steadfast::server::Options;
use steadfast::server::http::Listener;
use steadfast::server::toolkit::{
    Call, Failure, Question as Asks, Server, TaskPolicy, TaskSupport, Tool, ToolResult,
};
use steadfast_store::Ledger;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A host that agrees to everything, and claims to make tasks of the server's requests.
#[derive(Default)]
struct Agrees(Mutex<Vec<Question>>);

impl Handler for Agrees {
    fn capabilities(&self) -> String {
        r#"{"elicitation":{"form":{}},"tasks":{"requests":{"elicitation":{"create":{}}}}}"#.to_owned()
    }

    fn answer<'a>(&'a self, question: Question) -> Answering<'a> {
        self.0.lock().unwrap().push(question);
        Box::pin(std::future::ready(Ok(accept().to_string())))
    }
}

fn accept() -> Value {
    json!({ "action": "accept", "content": { "sure": true } })
}

fn config() -> Config {
    let pace = Pace { floor: Duration::from_millis(1), ceiling: Duration::from_secs(60) };
    Config { name: "stage".to_owned(), era: Wish::Legacy, task_pace: pace, ..Config::default() }
}

fn client(stage: &Stage, journal: impl TaskJournal + 'static) -> Client {
    stage.client().config(config()).handler(Arc::new(Agrees::default())).tasks(Arc::new(journal)).build()
}

type Called = JoinHandle<Result<Answered, Error>>;

fn call(client: &Client, options: CallOptions) -> Called {
    let client = client.clone();
    tokio::spawn(async move { client.call_tool("render", r#"{"pages":12}"#, options).await })
}

async fn end(called: Called) -> Result<Value, Error> {
    let end = tokio::time::timeout(LIMIT, called).await.unwrap().unwrap();
    end.map(|answered| serde_json::from_slice(&answered.result).unwrap())
}

fn takes_tasks() -> Value {
    json!({ "tools": {}, "tasks": { "cancel": {}, "requests": { "tools": { "call": {} } } } })
}

/// The next child after its handshake, and what it was told there.
async fn opened(stage: &Stage, revision: &str, capabilities: Value) -> (Peer, Value) {
    let mut peer = stage.next().await;
    let asked = peer.hears("initialize").await;
    let info = json!({ "name": "old", "version": "1" });
    let result = json!({ "protocolVersion": revision, "capabilities": capabilities, "serverInfo": info });
    peer.answer(&asked, result).await;
    peer.hears("notifications/initialized").await;
    (peer, asked["params"]["capabilities"].clone())
}

/// Tells of its one tool, which says so of tasks.
async fn lists(peer: &mut Peer, support: Option<&str>) {
    let asked = peer.hears("tools/list").await;
    let mut tool = json!({ "name": "render", "inputSchema": { "type": "object" } });
    if let Some(support) = support {
        tool["execution"] = json!({ "taskSupport": support });
    }
    peer.answer(&asked, json!({ "tools": [tool] })).await;
}

/// A task as the server tells it, changed so many seconds after it was created.
fn task(status: &str, seconds: u32) -> Value {
    json!({
        "taskId": "old-1", "status": status, "createdAt": "2026-12-07T10:00:00Z",
        "lastUpdatedAt": format!("2026-12-07T10:00:{seconds:02}Z"), "ttl": 600_000, "pollInterval": 1,
    })
}

/// One that is not asked for again while a test lasts.
fn quiet(status: &str, seconds: u32) -> Value {
    let mut task = task(status, seconds);
    task["pollInterval"] = json!(3_600_000);
    task
}

fn done(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "_meta": { RELATED: { "taskId": "old-1" } } })
}

/// A server whose one tool runs only as a task, and the call that became one, told by this state.
async fn becomes_task(stage: &Stage, first: Value) -> (Peer, Value) {
    let (mut peer, _) = opened(stage, "2025-11-25", takes_tasks()).await;
    lists(&mut peer, Some("required")).await;
    let call = peer.hears("tools/call").await;
    peer.answer(&call, json!({ "task": first })).await;
    (peer, call)
}

// shows: LEG-100, LEG-101, LEG-106, LEG-107, LEG-108, LEG-110, LEG-114
#[tokio::test]
async fn leg_103_a_tool_that_runs_only_as_a_task_is_called_as_one_and_polled_to_its_result() {
    let stage = Stage::new();
    let client = client(&stage, Forgetful);
    let called = call(&client, CallOptions::default());
    let (mut peer, declared) = opened(&stage, "2025-11-25", takes_tasks()).await;
    assert_eq!(declared["elicitation"], json!({ "form": {} }));
    assert_eq!(declared.get("tasks"), None, "no task is made here of what the server asks");
    lists(&mut peer, Some("required")).await;
    let asked = peer.hears("tools/call").await;
    assert_eq!(asked["params"]["task"], json!({ "ttl": 30 * 60 * 1_000 }));
    assert_eq!(asked["params"]["arguments"], json!({ "pages": 12 }));
    peer.answer(&asked, json!({ "task": task("working", 0) })).await;
    for seconds in 0..3 {
        let get = peer.hears("tasks/get").await;
        assert_eq!(get["params"]["taskId"], "old-1");
        assert_eq!(get["params"]["_meta"].get(RELATED), None, "the id alone names it");
        // What it says unasked is not waited for, and nothing is made of it.
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task("completed", 9) });
        peer.say(told).await;
        peer.answer(&get, task("working", seconds)).await;
    }
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("completed", 3)).await;
    let wanted = peer.hears("tasks/result").await;
    assert_eq!(wanted["params"]["taskId"], "old-1");
    peer.answer(&wanted, done("12 pages")).await;
    assert_eq!(end(called).await.unwrap(), done("12 pages"));

    // A server that made no task of it has answered.
    let called = call(&client, CallOptions::default());
    let asked = peer.hears("tools/call").await;
    assert_eq!(asked["params"]["task"], json!({ "ttl": 30 * 60 * 1_000 }), "the tools are listed once");
    peer.answer(&asked, json!({ "content": [] })).await;
    assert_eq!(end(called).await.unwrap(), json!({ "content": [] }));
    client.close(GRACE).await;
}

// shows: LEG-101
#[tokio::test]
async fn leg_102_no_other_call_asks_to_be_a_task() {
    let able = takes_tasks;
    for (revision, capabilities, support, follows) in [
        ("2025-11-25", able(), None, true),
        ("2025-11-25", able(), Some("forbidden"), true),
        ("2025-11-25", able(), Some("optional"), true),
        ("2025-11-25", json!({ "tools": {} }), Some("required"), true),
        ("2025-11-25", json!({ "tools": {}, "tasks": { "requests": {} } }), Some("required"), true),
        ("2025-06-18", able(), Some("required"), true),
        // Nobody would follow it.
        ("2025-11-25", able(), Some("required"), false),
    ] {
        let case = format!("{revision} {capabilities} {support:?} {follows}");
        let stage = Stage::new();
        let client =
            if follows { client(&stage, Forgetful) } else { stage.client().config(config()).build() };
        let listing = tokio::spawn({
            let client = client.clone();
            async move { client.list_tools(CallOptions::default()).await.map(drop) }
        });
        let (mut peer, _) = opened(&stage, revision, capabilities).await;
        lists(&mut peer, support).await;
        listing.await.unwrap().unwrap();
        let called = call(&client, CallOptions::default());
        let asked = peer.hears("tools/call").await;
        assert_eq!(asked["params"].get("task"), None, "{case}");
        // Nor is what looks like a task one.
        peer.answer(&asked, json!({ "content": [], "task": task("working", 0) })).await;
        assert_eq!(end(called).await.unwrap()["content"], json!([]), "{case}");
        client.close(GRACE).await;
    }
}

// shows: LEG-107, LEG-108, LEG-115
#[tokio::test]
async fn leg_111_each_end_of_a_task_is_the_end_of_its_call() {
    let failed = json!({ "content": [], "isError": true });
    let error = json!({ "code": -32_050, "message": "no paper", "data": { "tray": 2 } });
    // The server's own trouble, and one that looks like a task that nobody knows.
    let trouble = json!({ "code": -32_603, "message": "jammed" });
    let invalid = json!({ "code": -32_602, "message": "pages must be even" });
    for (status, outcome) in [
        ("failed", json!({ "result": failed })),
        ("failed", json!({ "error": error })),
        ("failed", json!({ "error": trouble })),
        ("failed", json!({ "error": invalid })),
        ("completed", json!({ "error": { "code": -32_602, "message": "no such task" } })),
        ("cancelled", Value::Null),
        ("unknown", Value::Null),
    ] {
        let stage = Stage::new();
        let client = client(&stage, Forgetful);
        let called = call(&client, CallOptions::default());
        let (mut peer, _) = becomes_task(&stage, task("working", 0)).await;
        let get = peer.hears("tasks/get").await;
        if status == "unknown" {
            peer.refuse(&get, -32_602, "no such task").await;
        } else {
            peer.answer(&get, task(status, 1)).await;
        }
        if let Value::Object(outcome) = &outcome {
            let wanted = peer.hears("tasks/result").await;
            let mut answer = json!({ "jsonrpc": "2.0", "id": wanted["id"] });
            answer.as_object_mut().unwrap().extend(outcome.clone());
            peer.say(answer).await;
        }
        match (status, end(called).await) {
            ("failed", Ok(result)) => assert_eq!(result, outcome["result"], "isError is a result"),
            ("failed", Err(Error::Protocol { raw, .. })) => {
                assert_eq!(serde_json::from_str::<Value>(&raw).unwrap(), outcome["error"]);
            }
            ("cancelled", Err(Error::Local { category, outcome, .. })) => {
                assert_eq!((category, outcome), (Category::ClientCancelled, Outcome::Unknown));
            }
            ("completed" | "unknown", Err(Error::Transport { category, outcome, .. })) => {
                assert_eq!((category, outcome), (Category::TransportLost, Outcome::Unknown));
            }
            (status, end) => panic!("{status} {outcome}: {end:?}"),
        }
        client.close(GRACE).await;
    }
}

// shows: LEG-105, LEG-110
#[tokio::test]
async fn leg_109_a_server_that_asks_is_given_a_stream_and_answered_there() {
    let stage = Stage::new();
    let client = client(&stage, Forgetful);
    let called = call(&client, CallOptions::default());
    let (mut peer, _) = becomes_task(&stage, task("working", 0)).await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("input_required", 1)).await;
    let mut stream = Value::Null;
    let answer = loop {
        let heard = peer.hear().await;
        match heard["method"].as_str() {
            Some("tasks/result") => {
                assert_eq!(stream, Value::Null, "one stream is enough");
                assert_eq!(heard["params"]["taskId"], "old-1");
                stream = heard;
                let related = json!({ RELATED: { "taskId": "old-1" } });
                // Nothing was declared of such tasks, so it is answered as any other.
                let params = json!({ "message": "sure?", "task": { "ttl": 1 }, "_meta": related });
                peer.say(
                    json!({ "jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": params }),
                )
                .await;
            }
            Some("tasks/get") => peer.answer(&heard, task("input_required", 1)).await,
            Some(other) => panic!("{other}"),
            None => break heard,
        }
    };
    assert_eq!(answer["id"], 7);
    let mut expected = accept();
    expected["_meta"] = json!({ RELATED: { "taskId": "old-1" } });
    assert_eq!(answer["result"], expected);
    peer.answer(&stream, done("12 pages")).await;
    assert_eq!(end(called).await.unwrap(), done("12 pages"), "no poll has to tell so");
    client.close(GRACE).await;
}

#[tokio::test]
async fn leg_112_who_gives_up_the_call_gives_up_the_task_by_its_id() {
    for over in [false, true] {
        let stage = Stage::new();
        let folder = tempfile::tempdir().unwrap();
        let client = client(&stage, FolderJournal::at(folder.path()).unwrap());
        let options = CallOptions::default();
        let cancel = options.cancel.clone();
        let called = call(&client, options);
        let (mut peer, _) = becomes_task(&stage, task("working", 0)).await;
        let get = peer.hears("tasks/get").await;
        peer.answer(&get, quiet("working", 1)).await;
        while client.open_tasks().await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
        let Error::Local { category, outcome, .. } = end(called).await.unwrap_err() else { panic!() };
        assert_eq!((category, outcome), (Category::ClientCancelled, Outcome::Unknown));
        // The call itself is never taken back; a poll may be.
        let cancelled = loop {
            let heard = peer.hear().await;
            if heard["method"] != "notifications/cancelled" {
                break heard;
            }
            assert_eq!(heard["params"]["requestId"], get["id"]);
        };
        assert_eq!(cancelled["method"], "tasks/cancel");
        assert_eq!(cancelled["params"]["taskId"], "old-1");
        if over {
            peer.refuse(&cancelled, -32_602, "it is over").await;
        } else {
            peer.answer(&cancelled, task("cancelled", 2)).await;
        }
        let forgotten = async {
            while !client.open_tasks().await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, forgotten).await.expect("nobody wants it any more");
        client.close(GRACE).await;
    }
}

#[tokio::test]
async fn leg_112_what_is_given_up_before_it_is_a_task_is_cancelled_once_it_is_one() {
    for becomes in [true, false] {
        let stage = Stage::new();
        let folder = tempfile::tempdir().unwrap();
        let client = client(&stage, FolderJournal::at(folder.path()).unwrap());
        let options = CallOptions::default();
        let cancel = options.cancel.clone();
        let called = call(&client, options);
        let (mut peer, _) = opened(&stage, "2025-11-25", takes_tasks()).await;
        lists(&mut peer, Some("required")).await;
        let asked = peer.hears("tools/call").await;
        cancel.cancel();
        // The wait ends at once, and the call is not taken back.
        let Error::Local { category, outcome, .. } = end(called).await.unwrap_err() else { panic!() };
        assert_eq!((category, outcome), (Category::ClientCancelled, Outcome::Unknown));
        if becomes {
            peer.answer(&asked, json!({ "task": quiet("working", 0) })).await;
            let cancelled = peer.hears("tasks/cancel").await;
            assert_eq!(cancelled["params"]["taskId"], "old-1");
            assert_eq!(client.open_tasks().await.unwrap().len(), 1, "until the server was told");
            peer.answer(&cancelled, task("cancelled", 1)).await;
            let forgotten = async {
                while !client.open_tasks().await.unwrap().is_empty() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(LIMIT, forgotten).await.expect("nobody wants it any more");
        } else {
            peer.answer(&asked, done("12 pages")).await;
        }
        let again = call(&client, CallOptions::default());
        let asked = peer.hears("tools/call").await;
        peer.answer(&asked, done("24 pages")).await;
        assert_eq!(end(again).await.unwrap(), done("24 pages"));
        client.close(GRACE).await;
    }
}

// shows: LEG-108, G6
#[tokio::test]
async fn leg_107_a_task_outlives_the_server_and_the_host_and_its_call_is_never_sent_again() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let journal = || FolderJournal::at(folder.path()).unwrap();
    let first = client(&stage, journal());
    let called = call(&first, CallOptions::default());
    let (mut peer, _) = becomes_task(&stage, task("working", 0)).await;
    peer.hears("tasks/get").await;
    drop(peer);
    let (mut peer, _) = opened(&stage, "2025-11-25", takes_tasks()).await;
    peer.hears("tasks/get").await;
    let closing = tokio::spawn(async move { first.close(GRACE).await });
    let Error::Local { category, .. } = end(called).await.unwrap_err() else { panic!() };
    assert_eq!(category, Category::Closed);
    drop(peer);
    closing.await.unwrap();

    let second = client(&stage, journal());
    let handle = second.open_tasks().await.unwrap().pop().unwrap();
    let waiting = tokio::spawn(async move { handle.wait(CallOptions::default()).await });
    let (mut peer, _) = opened(&stage, "2025-11-25", takes_tasks()).await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("completed", 1)).await;
    let wanted = peer.hears("tasks/result").await;
    peer.answer(&wanted, done("12 pages")).await;
    assert_eq!(end(waiting).await.unwrap(), done("12 pages"));
    assert!(second.open_tasks().await.unwrap().is_empty());
    second.close(GRACE).await;
}

#[tokio::test]
async fn leg_113_progress_is_told_under_the_token_of_the_call_until_the_task_is_over() {
    let stage = Stage::new();
    let client = client(&stage, Forgetful);
    let (tell, mut told) = mpsc::unbounded_channel();
    let options = CallOptions {
        on_progress: Some(Box::new(move |progress| {
            let _ = tell.send(progress.value.get());
        })),
        ..CallOptions::default()
    };
    let called = call(&client, options);
    let (mut peer, asked) = becomes_task(&stage, quiet("working", 0)).await;
    let token = &asked["params"]["_meta"]["progressToken"];
    assert!(token.is_string());
    // The server may need the stream for it.
    let stream = peer.hears("tasks/result").await;
    let progress = |token: &Value, value: u32| {
        let related = json!({ RELATED: { "taskId": "old-1" } });
        let params = json!({ "progressToken": token, "progress": value, "_meta": related });
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
    };
    // Neither that of another call nor what does not rise is progress.
    peer.say(progress(&json!("p-999"), 7)).await;
    for value in [1, 1, 2] {
        peer.say(progress(token, value)).await;
    }
    for expected in [1.0, 2.0] {
        assert_eq!(tokio::time::timeout(LIMIT, told.recv()).await.unwrap(), Some(expected));
    }
    peer.answer(&stream, done("12 pages")).await;
    peer.say(progress(token, 3)).await;
    assert_eq!(end(called).await.unwrap(), done("12 pages"));
    assert_eq!(told.recv().await, None);
    client.close(GRACE).await;
}

const POLICY: TaskPolicy = TaskPolicy {
    support: TaskSupport::Required,
    ttl: Duration::from_secs(3_600),
    poll_interval: Duration::from_millis(5),
    writes: true,
    resumes: false,
};

/// Our own server. Its tool `confirm` says how far it is, asks once that was heard, and answers; `wait` ends when it is
/// cancelled.
fn server(folder: &std::path::Path, heard: &Arc<Notify>) -> Server {
    let ledger = Arc::new(Ledger::open(folder.join("t.db"), steadfast_store::Options::default()).unwrap());
    let heard = Arc::clone(heard);
    let confirm = move |call: Call| {
        let heard = Arc::clone(&heard);
        async move {
            call.progress(1.0, 2.0);
            heard.notified().await;
            let sure = json!({ "type": "object", "properties": { "sure": { "type": "boolean" } } });
            let answer = call.ask("sure", Asks::form("Sure?", sure)).await?;
            Ok(ToolResult::structured(json!({ "sure": answer["content"]["sure"] })))
        }
    };
    let wait = |call: Call| async move {
        call.cancelled().await;
        Err::<ToolResult, _>(Failure::stopped())
    };
    let object = || json!({ "type": "object" });
    Server::builder("shop", "1")
        .store(ledger)
        .tool(Tool::raw("confirm", "Asks.", object(), confirm).task(POLICY))
        .tool(Tool::raw("wait", "Waits.", object(), wait).task(POLICY))
        .build()
        .unwrap()
}

// shows: LEG-100, LEG-103, LEG-108, LEG-109, LEG-112, LEG-113
#[tokio::test]
async fn leg_101_our_own_server_of_2025_11_25_is_followed_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let heard = Arc::new(Notify::new());
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.address();
    let (close, closed) = oneshot::channel::<()>();
    let service = Arc::new(server(folder.path(), &heard));
    let serving = tokio::spawn(async move {
        let closed = async { drop(closed.await) };
        listener.serve("/mcp", service, Options::default(), closed).await.unwrap();
    });
    let host = Arc::new(Agrees::default());
    let client = Client::of_url(&format!("http://{address}/mcp"))
        .unwrap()
        .config(config())
        .handler(Arc::clone(&host) as _)
        .tasks(Arc::new(FolderJournal::at(folder.path().join("tasks")).unwrap()))
        .build();
    let begin = |tool: &'static str, options: CallOptions| -> Called {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool(tool, "{}", options).await })
    };

    let options = CallOptions {
        on_progress: Some(Box::new(move |progress| {
            assert_eq!(progress.value.get().to_string(), "1");
            heard.notify_one();
        })),
        ..CallOptions::default()
    };
    let result = end(begin("confirm", options)).await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "sure": true }));
    assert!(result["_meta"][RELATED]["taskId"].is_string());
    assert_eq!(host.0.lock().unwrap().len(), 1);
    assert!(client.open_tasks().await.unwrap().is_empty());

    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let called = begin("wait", options);
    let noted = async {
        loop {
            match client.open_tasks().await.unwrap().pop() {
                Some(handle) => break handle,
                None => tokio::task::yield_now().await,
            }
        }
    };
    let handle = tokio::time::timeout(LIMIT, noted).await.unwrap();
    assert_eq!(handle.get(CallOptions::default()).await.unwrap().status, Status::Working);
    cancel.cancel();
    let Error::Local { category, .. } = end(called).await.unwrap_err() else { panic!() };
    assert_eq!(category, Category::ClientCancelled);
    let observed = async {
        while handle.get(CallOptions::default()).await.unwrap().status != Status::Cancelled {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, observed).await.expect("the task was cancelled");
    client.close(GRACE).await;
    close.send(()).unwrap();
    tokio::time::timeout(LIMIT, serving).await.unwrap().unwrap();
}
