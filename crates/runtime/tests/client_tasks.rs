//! What a client makes of tasks: real children over real pipes.

mod follow;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use follow::{GRACE, LIMIT, Peer, Stage, pass};
use serde_json::{Value, json};
use steadfast::client::{
    Answered, Answering, CallOptions, Category, Client, Config, Context, Error, FolderJournal, Forgetful,
    Handler, ListenEvent, NoAnswer, Question, TaskEntry, TaskJournal,
};
use steadfast::core::error::Outcome;
use steadfast::core::subscription::{Change, Filter};
use steadfast::core::task::Status;
use steadfast::core::task::follow::Pace;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A host that answers what it was given to answer, when it is let, and counts what it was asked.
#[derive(Default)]
struct Desk {
    answers: Mutex<VecDeque<Result<String, NoAnswer>>>,
    asked: Mutex<Vec<Question>>,
    /// Asked questions wait for it, if it is there.
    gate: Option<Notify>,
}

impl Desk {
    fn with(answers: &[Value]) -> Arc<Self> {
        let answers = answers.iter().map(|answer| Ok(answer.to_string())).collect();
        Arc::new(Self { answers: Mutex::new(answers), ..Self::default() })
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Handler for Desk {
    fn capabilities(&self) -> String {
        r#"{"elicitation":{}}"#.to_owned()
    }

    fn answer<'a>(&'a self, question: Question) -> Answering<'a> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(question);
            if let Some(gate) = &self.gate {
                gate.notified().await;
            }
            self.answers.lock().unwrap().pop_front().unwrap_or(Err(NoAnswer::Refused))
        })
    }
}

fn accept() -> Value {
    json!({ "action": "accept", "content": { "sure": true } })
}

/// As fast as may be: the child lives in real time.
fn config() -> Config {
    let pace = Pace { floor: Duration::from_millis(1), ceiling: Duration::from_secs(60) };
    Config { name: "stage".to_owned(), task_pace: pace, ..Config::default() }
}

fn client(stage: &Stage, desk: &Arc<Desk>, journal: impl TaskJournal + 'static) -> Client {
    stage.client().config(config()).handler(Arc::clone(desk) as _).tasks(Arc::new(journal)).build()
}

type Called = JoinHandle<Result<Answered, Error>>;

fn call(client: &Client, options: CallOptions) -> Called {
    let client = client.clone();
    tokio::spawn(async move { client.call_tool("charge", r#"{"cents":1}"#, options).await })
}

/// A task as the server tells it, changed so many seconds after it was created.
fn task(status: &str, seconds: u32, more: Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": "tk-1", "status": status, "createdAt": "2026-12-07T10:00:00Z",
        "lastUpdatedAt": format!("2026-12-07T10:00:{seconds:02}Z"), "ttlMs": 600_000, "pollIntervalMs": 1,
    });
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

fn created() -> Value {
    task("working", 0, json!({ "resultType": "task" }))
}

fn done(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

fn question() -> Value {
    json!({ "method": "elicitation/create", "params": { "message": "sure?" } })
}

/// The call became a task.
async fn becomes_task(peer: &mut Peer) -> Value {
    let call = peer.hears("tools/call").await;
    peer.answer(&call, created()).await;
    call
}

async fn outcome_of(called: Called) -> (Category, Outcome, String) {
    match tokio::time::timeout(LIMIT, called).await.unwrap().unwrap().unwrap_err() {
        Error::Local { category, outcome, call_id, .. }
        | Error::Transport { category, outcome, call_id, .. } => (category, outcome, call_id),
        error @ Error::Protocol { .. } => panic!("{error}"),
    }
}

// shows: TSK-01, TSK-04, TSK-19, TSK-66, TSK-69
#[tokio::test]
async fn tsk_04_a_call_gives_its_result_whether_or_not_the_server_made_a_task_of_it() {
    let stage = Stage::new();
    let desk = Desk::with(&[]);
    let client = client(&stage, &desk, Forgetful);
    let called = call(&client, CallOptions::default());
    let mut peer = stage.modern(json!({})).await;
    let plain = peer.hears("tools/call").await;
    let declared = json!({ "elicitation": {}, "extensions": { EXTENSION: {} } });
    assert_eq!(plain["params"]["_meta"][CAPABILITIES], declared);
    peer.answer(&plain, done("at once")).await;
    let result: Value = serde_json::from_slice(&called.await.unwrap().unwrap().result).unwrap();
    assert_eq!(result, done("at once"));

    let called = call(&client, CallOptions::default());
    becomes_task(&mut peer).await;
    for second in [0, 1, 2] {
        let get = peer.hears("tasks/get").await;
        assert_eq!(get["params"]["taskId"], "tk-1");
        assert_eq!(get["params"]["_meta"][CAPABILITIES], declared, "the same as of the call");
        peer.answer(&get, task("working", second, json!({}))).await;
    }
    let get = peer.hears("tasks/get").await;
    let result = json!({ "content": [], "isError": true, "n": 1 });
    // AMB-22: what it calls itself is looked over.
    peer.answer(&get, task("completed", 3, json!({ "result": result, "resultType": "task" }))).await;
    let answered = called.await.unwrap().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&answered.result).unwrap(), result, "isError is a result");
    client.close(GRACE).await;
}

// shows: TSK-03
#[tokio::test]
async fn tsk_05_a_task_in_answer_to_anything_else_or_that_nobody_asked_for_is_no_answer() {
    let stage = Stage::new();
    let desk = Desk::with(&[]);
    let able = client(&stage, &desk, Forgetful);
    let read = tokio::spawn({
        let able = able.clone();
        async move { able.read_resource("x://a", CallOptions::default()).await }
    });
    let mut peer = stage.modern(json!({})).await;
    // A read is tried as often as may be, and never followed.
    let mut reads = 0;
    let error = loop {
        let heard = tokio::select! {
            heard = peer.hear() => heard,
            () = async { while !read.is_finished() { tokio::task::yield_now().await } } => break read.await,
        };
        assert_eq!(heard["method"], "resources/read");
        reads += 1;
        peer.answer(&heard, created()).await;
    };
    let Error::Transport { category, .. } = error.unwrap().unwrap_err() else { panic!() };
    assert_eq!(category, Category::InvalidResponse);
    assert!(reads >= 1);
    able.close(GRACE).await;

    let plain = stage.client().config(config()).build();
    let called = call(&plain, CallOptions::default());
    let mut peer = stage.modern(json!({})).await;
    let asked = peer.hears("tools/call").await;
    assert_eq!(asked["params"]["_meta"][CAPABILITIES], json!({}));
    peer.answer(&asked, created()).await;
    let (category, outcome, _) = outcome_of(called).await;
    assert_eq!((category, outcome), (Category::InvalidResponse, Outcome::Unknown));
    plain.close(GRACE).await;
}

// shows: TSK-67, RTY-02, RTY-08, TMO-10
#[tokio::test]
async fn g6_following_fails_and_is_tried_again_and_the_call_never_is() {
    let stage = Stage::new();
    let desk = Desk::with(&[]);
    let client = client(&stage, &desk, Forgetful);
    let called = call(&client, CallOptions::default());
    let mut peer = stage.modern(json!({})).await;
    becomes_task(&mut peer).await;
    // No answer, the server's trouble, what is no task, another task, and the end of its process.
    let silent = peer.hears("tasks/get").await;
    pass(Duration::from_secs(31)).await;
    assert_eq!(peer.hears("notifications/cancelled").await["params"]["requestId"], silent["id"]);
    let get = peer.hears("tasks/get").await;
    peer.refuse(&get, -32_603, "the store is busy").await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, json!({ "resultType": "complete" })).await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("failed", 1, json!({ "taskId": "tk-2", "error": { "code": 1, "message": "" } })))
        .await;
    peer.hears("tasks/get").await;
    drop(peer);
    let mut peer = stage.next().await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("completed", 2, json!({ "result": done("once") }))).await;
    called.await.unwrap().unwrap();
    client.close(GRACE).await;
}

// shows: TSK-29, TSK-30, TSK-31, TSK-32, TSK-35, TSK-40, TSK-53
#[tokio::test]
async fn tsk_32_each_question_is_asked_once_and_answered_once_however_often_it_is_seen() {
    let stage = Stage::new();
    let desk = Desk::with(&[accept(), json!({ "action": "decline" })]);
    let client = client(&stage, &desk, Forgetful);
    let called = call(&client, CallOptions::default());
    let mut peer = stage.modern(json!({})).await;
    becomes_task(&mut peer).await;
    let mut answers = Vec::new();
    // An answer is acknowledged long before it is visible; then another question comes; then all is answered.
    for polls in 0.. {
        let heard = peer.hear().await;
        if heard["method"] == "tasks/update" {
            answers.push(heard["params"]["inputResponses"].clone());
            assert_eq!(heard["params"]["taskId"], "tk-1");
            peer.answer(&heard, json!({ "resultType": "complete" })).await;
            continue;
        }
        assert_eq!(heard["method"], "tasks/get");
        let state = match (answers.len(), polls) {
            (0, _) | (1, ..12) => task("input_required", 1, json!({ "inputRequests": { "a": question() } })),
            (1, _) => {
                let both = json!({ "a": question(), "b": question() });
                task("input_required", 2, json!({ "inputRequests": both }))
            }
            _ => task("completed", 3, json!({ "result": done("paid") })),
        };
        let over = state["status"] == "completed";
        peer.answer(&heard, state).await;
        if over {
            break;
        }
    }
    called.await.unwrap().unwrap();
    let decline = json!({ "b": { "action": "decline" } });
    assert_eq!(answers, [json!({ "a": accept() }), decline], "a declined elicitation is an answer");
    let asked = desk.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    // It is the same question to the same host as of a call without a task.
    let same = Question {
        server: "stage".to_owned(),
        method: "elicitation/create".to_owned(),
        params: r#"{"message":"sure?"}"#.to_owned(),
    };
    assert_eq!(asked[0], same);
    client.close(GRACE).await;
}

#[tokio::test]
async fn tsk_35_a_question_that_is_not_open_any_more_is_not_answered() {
    let stage = Stage::new();
    let desk = Arc::new(Desk { gate: Some(Notify::new()), ..Desk::default() });
    desk.answers.lock().unwrap().push_back(Ok(accept().to_string()));
    let client = client(&stage, &desk, Forgetful);
    let called = call(&client, CallOptions::default());
    let mut peer = stage.modern(json!({})).await;
    becomes_task(&mut peer).await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("input_required", 1, json!({ "inputRequests": { "a": question() } }))).await;
    // While somebody thinks about it, it is polled on, and somebody else answers.
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("working", 2, json!({}))).await;
    let get = peer.hears("tasks/get").await;
    assert_eq!(desk.asked(), 1);
    desk.gate.as_ref().unwrap().notify_one();
    peer.answer(&get, task("working", 2, json!({}))).await;
    for _ in 0..5 {
        let get = peer.hears("tasks/get").await;
        peer.answer(&get, task("working", 2, json!({}))).await;
    }
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("completed", 3, json!({ "result": done("paid") }))).await;
    called.await.unwrap().unwrap();
    client.close(GRACE).await;
}

#[tokio::test]
async fn tsk_29_a_question_of_a_task_that_is_over_is_taken_back() {
    let stage = Stage::new();
    let desk = Arc::new(Desk { gate: Some(Notify::new()), ..Desk::default() });
    let client = client(&stage, &desk, Forgetful);
    let called = call(&client, CallOptions::default());
    let mut peer = stage.modern(json!({})).await;
    becomes_task(&mut peer).await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("input_required", 1, json!({ "inputRequests": { "a": question() } }))).await;
    let get = peer.hears("tasks/get").await;
    assert_eq!(desk.asked(), 1);
    // It did without.
    peer.answer(&get, task("completed", 2, json!({ "result": done("paid") }))).await;
    tokio::time::timeout(LIMIT, called).await.unwrap().unwrap().unwrap();
    // A question that is still thought about would hold the desk.
    client.close(GRACE).await;
    drop(client);
    let taken_back = async {
        while Arc::strong_count(&desk) > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, taken_back).await.expect("nobody thinks about it any more");
}

// shows: MRT-21, AMB-32, TSK-41
#[tokio::test]
async fn mrt_21_a_question_that_has_no_answer_ends_the_call_and_the_task() {
    let stage = Stage::new();
    let desk = Desk::with(&[]);
    let client = client(&stage, &desk, Forgetful);
    let called = call(&client, CallOptions::default());
    let mut peer = stage.modern(json!({})).await;
    becomes_task(&mut peer).await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("input_required", 1, json!({ "inputRequests": { "a": question() } }))).await;
    loop {
        let heard = peer.hear().await;
        match heard["method"].as_str().unwrap() {
            "tasks/get" => {
                let requests = json!({ "inputRequests": { "a": question() } });
                peer.answer(&heard, task("input_required", 1, requests)).await;
            }
            "tasks/cancel" => break peer.answer(&heard, json!({ "resultType": "complete" })).await,
            other => panic!("{other}"),
        }
    }
    let (category, outcome, _) = outcome_of(called).await;
    assert_eq!((category, outcome, desk.asked()), (Category::Questions, Outcome::Unknown, 1));
    client.close(GRACE).await;
}

// shows: TSK-44, TSK-68, CAN-17
#[tokio::test]
async fn tsk_41_a_call_that_is_given_up_cancels_its_task_by_its_own_method() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::with(&[]);
    let client = client(&stage, &desk, FolderJournal::at(folder.path()).unwrap());
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let called = call(&client, options);
    let mut peer = stage.modern(json!({})).await;
    becomes_task(&mut peer).await;
    let get = peer.hears("tasks/get").await;
    cancel.cancel();
    // The caller is back before the server says anything.
    let (category, outcome, _) = outcome_of(called).await;
    assert_eq!((category, outcome), (Category::ClientCancelled, Outcome::Unknown));
    assert_eq!(client.open_tasks().await.unwrap().len(), 1, "until the server knows");
    let (mut read_given_up, mut task_cancelled) = (false, false);
    while !task_cancelled {
        let heard = peer.hear().await;
        match heard["method"].as_str().unwrap() {
            // It is about the read, and cancels no task (TSK-68).
            "notifications/cancelled" => {
                assert_eq!(heard["params"]["requestId"], get["id"]);
                read_given_up = true;
            }
            "tasks/cancel" => {
                assert_eq!(heard["params"]["taskId"], "tk-1");
                peer.answer(&heard, json!({ "resultType": "complete" })).await;
                task_cancelled = true;
            }
            other => panic!("{other}"),
        }
    }
    if !read_given_up {
        peer.hears("notifications/cancelled").await;
    }
    while !client.open_tasks().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    client.close(GRACE).await;
}

#[tokio::test]
async fn tsk_68_a_wait_that_is_given_up_cancels_the_read_and_not_the_task() {
    let stage = Stage::new();
    let desk = Desk::with(&[]);
    let client = client(&stage, &desk, Forgetful);
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let handle = client.task("tk-1");
    let waiting = tokio::spawn(async move { handle.wait(options).await });
    let mut peer = stage.modern(json!({})).await;
    let get = peer.hears("tasks/get").await;
    cancel.cancel();
    assert_eq!(outcome_of(waiting).await.0, Category::ClientCancelled);
    assert_eq!(peer.hears("notifications/cancelled").await["params"]["requestId"], get["id"]);
    // Nothing else is said of it; it can be asked for, and cancelled, at will.
    let handle = client.task("tk-1");
    let asked = tokio::spawn(async move {
        let seen = handle.get(CallOptions::default()).await.unwrap();
        assert_eq!(seen.status, Status::Working);
        assert_eq!(handle.result(CallOptions::default()).await.unwrap(), None);
        handle.update(r#"{"k":{"action":"cancel"}}"#, CallOptions::default()).await.unwrap();
        handle.cancel(CallOptions::default()).await.unwrap();
        handle.result(CallOptions::default()).await.unwrap_err()
    });
    for method in ["tasks/get", "tasks/get"] {
        let get = peer.hears(method).await;
        peer.answer(&get, task("working", 1, json!({}))).await;
    }
    let update = peer.hears("tasks/update").await;
    assert_eq!(update["params"]["inputResponses"], json!({ "k": { "action": "cancel" } }));
    peer.answer(&update, json!({ "resultType": "complete" })).await;
    let cancel = peer.hears("tasks/cancel").await;
    peer.answer(&cancel, json!({ "resultType": "complete" })).await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("cancelled", 2, json!({}))).await;
    let Error::Local { category, outcome, .. } = asked.await.unwrap() else { panic!() };
    assert_eq!((category, outcome), (Category::ClientCancelled, Outcome::Unknown));
    client.close(GRACE).await;
}

// shows: F106, G14, D-09
#[tokio::test]
async fn tsk_20_a_restarted_host_goes_on_with_its_tasks_and_asks_nothing_twice() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let journal = || FolderJournal::at(folder.path()).unwrap();
    let desk = Desk::with(&[accept()]);
    let first = client(&stage, &desk, journal());
    let called = call(&first, CallOptions::default());
    let mut peer = stage.modern(json!({})).await;
    becomes_task(&mut peer).await;
    let mut updated = false;
    let answered = || {
        let kept = journal().open("stage", &Context::default()).unwrap();
        kept.first().is_some_and(|entry| entry.answered.contains("a"))
    };
    while !(updated && answered()) {
        let heard = peer.hear().await;
        if heard["method"] == "tasks/update" {
            updated = true;
            peer.answer(&heard, json!({ "resultType": "complete" })).await;
        } else {
            let requests = json!({ "inputRequests": { "a": question() } });
            peer.answer(&heard, task("input_required", 1, requests)).await;
        }
    }
    // The host ends, and revokes nothing.
    let closing = tokio::spawn(async move { first.close(GRACE).await });
    let (category, outcome, call_id) = outcome_of(called).await;
    assert_eq!((category, outcome), (Category::Closed, Outcome::Unknown));
    drop(peer);
    closing.await.unwrap();

    let desk = Desk::with(&[]);
    let second = client(&stage, &desk, journal());
    let mut open = second.open_tasks().await.unwrap();
    assert_eq!(open.len(), 1);
    let handle = open.pop().unwrap();
    assert_eq!((handle.id(), handle.tool(), handle.call_id()), ("tk-1", Some("charge"), &*call_id));
    let waiting = tokio::spawn(async move { handle.wait(CallOptions::default()).await });
    let mut peer = stage.modern(json!({})).await;
    let get = peer.hears("tasks/get").await;
    assert_eq!(get["params"]["_meta"][CAPABILITIES]["extensions"], json!({ EXTENSION: {} }));
    let requests = json!({ "inputRequests": { "a": question() } });
    peer.answer(&get, task("input_required", 1, requests)).await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("completed", 2, json!({ "result": done("paid") }))).await;
    waiting.await.unwrap().unwrap();
    assert_eq!(desk.asked(), 0, "it was answered before the restart");
    assert!(second.open_tasks().await.unwrap().is_empty());
    second.close(GRACE).await;
}

/// A journal that says what the client had sent when it was told.
struct Watched(Arc<Mutex<Vec<String>>>);

impl TaskJournal for Watched {
    fn begun(&self, _entry: &TaskEntry) -> std::io::Result<()> {
        self.0.lock().unwrap().push("begun".to_owned());
        Err(std::io::Error::other("the disk is full"))
    }

    fn answered(&self, _entry: &TaskEntry, _key: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn ended(&self, _entry: &TaskEntry) -> std::io::Result<()> {
        self.0.lock().unwrap().push("ended".to_owned());
        Ok(())
    }

    fn open(&self, _server: &str, _context: &Context) -> std::io::Result<Vec<TaskEntry>> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn f104_the_id_is_kept_first_and_a_task_that_is_gone_is_unknown_and_not_failed() {
    let stage = Stage::new();
    let noted = Arc::new(Mutex::new(Vec::new()));
    let desk = Desk::with(&[]);
    let client = client(&stage, &desk, Watched(Arc::clone(&noted)));
    let called = call(&client, CallOptions::default());
    let mut peer = stage.modern(json!({})).await;
    becomes_task(&mut peer).await;
    let get = peer.hears("tasks/get").await;
    assert_eq!(*noted.lock().unwrap(), ["begun"], "before anything is asked; and a full disk hinders nobody");
    peer.answer(&get, task("working", 1, json!({}))).await;
    let get = peer.hears("tasks/get").await;
    peer.refuse(&get, -32_602, "no such task").await;
    let (category, outcome, call_id) = outcome_of(called).await;
    assert_eq!((category, outcome), (Category::TransportLost, Outcome::Unknown));
    assert_eq!(client.records(&call_id)[0].method, "tools/call", "the call's own id");
    assert_eq!(*noted.lock().unwrap(), ["begun", "ended"]);
    client.close(GRACE).await;
}

// shows: TSK-25, TSK-27, RTY-04
#[tokio::test]
async fn tsk_27_a_failed_task_is_the_error_that_the_call_would_have_had() {
    let own = json!({ "steadfast/error": {
        "kind": "local", "category": "deadline", "outcome": "not_executed", "retryable": false,
    } });
    for (error, code, expected) in [
        (json!({ "code": -32_000, "message": "broken", "data": 7 }), Some(-32_000), Outcome::Unknown),
        (json!({ "code": -32_601, "message": "no such tool" }), Some(-32_601), Outcome::NotExecuted),
        (json!({ "code": -31_000, "message": "late", "data": own }), None, Outcome::NotExecuted),
    ] {
        let stage = Stage::new();
        let client = client(&stage, &Desk::with(&[]), Forgetful);
        let called = call(&client, CallOptions::default());
        let mut peer = stage.modern(json!({})).await;
        becomes_task(&mut peer).await;
        let get = peer.hears("tasks/get").await;
        peer.answer(&get, task("failed", 1, json!({ "error": error }))).await;
        let failed = called.await.unwrap().unwrap_err();
        assert_eq!(failed.outcome(), expected, "{error}");
        match (&failed, code) {
            (Error::Protocol { code, raw, .. }, Some(expected)) => {
                assert_eq!(*code, expected);
                assert_eq!(serde_json::from_str::<Value>(raw).unwrap(), error);
            }
            (Error::Local { category, .. }, None) => assert_eq!(*category, Category::Deadline),
            other => panic!("{other:?}"),
        }
        client.close(GRACE).await;
    }
}

#[tokio::test]
async fn ruling_13_the_callers_deadline_ends_the_wait_and_leaves_the_task_to_be_found() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::with(&[]);
    let client = client(&stage, &desk, FolderJournal::at(folder.path()).unwrap());
    let called = call(&client, CallOptions { deadline: Some(LIMIT), ..CallOptions::default() });
    let mut peer = stage.modern(json!({})).await;
    becomes_task(&mut peer).await;
    let get = peer.hears("tasks/get").await;
    peer.answer(&get, task("working", 1, json!({ "pollIntervalMs": 3_600_000 }))).await;
    // It is waited for the next poll, or for the deadline: whatever the server says, that is first.
    while !called.is_finished() {
        pass(Duration::from_secs(10)).await;
        tokio::task::yield_now().await;
    }
    let Error::Local { category, clock, outcome, call_id, .. } = called.await.unwrap().unwrap_err() else {
        panic!()
    };
    assert_eq!((category, clock.is_some(), outcome), (Category::Deadline, true, Outcome::Unknown));
    let open = client.open_tasks().await.unwrap();
    assert_eq!(open[0].call_id(), call_id);
    client.close(GRACE).await;
}

// shows: TSK-54, TSK-55, TSK-57, TSK-58
#[tokio::test]
async fn tsk_57_a_subscription_that_names_the_task_tells_its_end_and_a_late_poll_turns_nothing_back() {
    let stage = Stage::new();
    let desk = Desk::with(&[]);
    let client = client(&stage, &desk, Forgetful);
    let called = call(&client, CallOptions::default());
    let mut peer = stage.modern(json!({})).await;
    becomes_task(&mut peer).await;
    let get = peer.hears("tasks/get").await;
    let mut subscription = client.listen(Filter { tasks: ["tk-1".to_owned()].into(), ..Filter::default() });
    let listen = peer.hears("subscriptions/listen").await;
    assert_eq!(listen["params"]["_meta"][CAPABILITIES]["extensions"], json!({ EXTENSION: {} }), "SUB-26");
    peer.acknowledge(&listen, json!({ "taskIds": ["tk-1"] })).await;
    assert!(matches!(subscription.next().await, Some(ListenEvent::Acknowledged { .. })));
    let mut whole = task("completed", 9, json!({ "result": done("told") }));
    whole.as_object_mut().unwrap().remove("resultType");
    peer.notify(&listen["id"], "notifications/tasks", whole).await;
    // The poll is still under way, and its answer is older.
    let answered = tokio::time::timeout(LIMIT, called).await.unwrap().unwrap().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&answered.result).unwrap(), done("told"));
    assert_eq!(
        peer.hears("notifications/cancelled").await["params"]["requestId"],
        get["id"],
        "its read ends with it"
    );
    peer.answer(&get, task("working", 1, json!({}))).await;
    match subscription.next().await {
        Some(ListenEvent::Changed { change: Change::Task(id), params }) => {
            let told: Value = serde_json::from_slice(&params).unwrap();
            assert_eq!((&*id, &told["status"]), ("tk-1", &json!("completed")));
        }
        other => panic!("{other:?}"),
    }
    client.close(GRACE).await;
}
