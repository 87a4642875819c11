//! What a client says to a legacy HTTP server: sessions, streams that are taken up again, questions, and the two endpoints
//! of 2024-11-05. The server is a bare socket.

#[path = "client/peer.rs"]
mod peer;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use peer::{Asked, Peer, within};
use serde_json::{Value, json};
use steadfast::client::{
    Answered, Answering, CallOptions, Category, Client, ConnectionState, Credentials, Error, Handler,
    Headers, Question,
};
use steadfast::core::catalog::Changes;
use steadfast::core::error::Outcome;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

type Calling = JoinHandle<Result<Answered, Error>>;

fn call(client: &Client, options: CallOptions) -> Calling {
    let client = client.clone();
    tokio::spawn(async move { client.call_tool("charge", "{}", options).await })
}

async fn done(calling: Calling) -> Result<Value, Error> {
    let done = within("the end of the call", calling).await.unwrap();
    done.map(|done| serde_json::from_slice(&done.result).unwrap())
}

/// Takes what a client posts that wants no answer.
async fn posted(peer: &mut Peer) -> (Value, Option<String>) {
    let asked = peer.next().await;
    let (body, session) = (asked.body.clone(), asked.header("mcp-session-id").map(str::to_owned));
    asked.status(202);
    (body, session)
}

// shows: LEG-01, LEG-03, LEG-04, LEG-06, LEG-09, LEG-11, LEG-16, LEG-21, LEG-22, LEG-36, LEG-52, LEG-56, VER-24
#[tokio::test]
async fn leg_45_each_request_of_a_session_names_it_and_its_version() {
    for (version, session) in [
        ("2025-11-25", Some("~session!1")),
        ("2025-11-25", None),
        ("2025-06-18", Some("2")),
        ("2025-03-26", Some("3")),
    ] {
        let mut peer = Peer::start().await;
        let client = peer.client().build();
        let calling = call(&client, CallOptions::default());
        let probe = peer.next().await;
        assert_eq!(probe.rpc(), "server/discover");
        probe.status(400);
        let hello = peer.next().await;
        let said = &hello.body["params"];
        assert_eq!((hello.rpc(), said["protocolVersion"].as_str()), ("initialize", Some("2025-11-25")));
        assert!(said["capabilities"].is_object() && said["clientInfo"]["name"].is_string(), "{said}");
        for name in ["mcp-session-id", "mcp-protocol-version", "mcp-method"] {
            assert_eq!(hello.header(name), None, "{name}");
        }
        let first_id = hello.body["id"].clone();
        let head = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let result = json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": { "name": "p", "version": "1" } });
        let answer = json!({ "jsonrpc": "2.0", "id": first_id, "result": result });
        hello.whole(200, &format!("Content-Type: application/json\r\n{head}"), &answer.to_string());

        let expected = (version != "2025-03-26").then_some(version);
        let of_session = |asked: &Asked| {
            assert_eq!(asked.header("mcp-session-id"), session);
            assert_eq!(asked.header("mcp-protocol-version"), expected);
            assert_eq!((asked.header("mcp-method"), asked.header("mcp-name")), (None, None));
        };
        let ready = peer.next().await;
        of_session(&ready);
        assert_eq!(ready.rpc(), "notifications/initialized");
        assert!(peer.is_undisturbed(), "nothing else before the server has had that");
        ready.status(202);
        let asked = peer.next().await;
        of_session(&asked);
        assert_eq!(asked.header("accept"), Some("application/json, text/event-stream"));
        assert_ne!(asked.body["id"], first_id);
        assert_eq!(asked.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], Value::Null);
        asked.result(json!({ "content": [] }));
        assert_eq!(done(calling).await.unwrap(), json!({ "content": [] }));

        let closing = tokio::spawn(async move { client.close(Duration::from_secs(20)).await });
        if session.is_some() {
            let last = peer.next().await;
            assert_eq!(last.method, "DELETE");
            of_session(&last);
            last.status(405);
        }
        within("the end", closing).await.unwrap();
    }
}

// shows: LEG-12, LEG-70, CAN-01
#[tokio::test]
async fn leg_27_a_cancel_is_posted_and_the_stream_is_left() {
    let mut peer = Peer::start().await;
    let client = peer.client().build();
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let calling = call(&client, options);
    peer.is_legacy("2025-11-25", Some("s")).await;
    let asked = peer.next().await;
    asked.stream();
    cancel.cancel();
    let error = done(calling).await.unwrap_err();
    assert!(matches!(error, Error::Local { category: Category::ClientCancelled, .. }), "{error:?}");
    let (told, session) = posted(&mut peer).await;
    assert_eq!(told["method"], "notifications/cancelled");
    assert_eq!((&told["params"]["requestId"], session.as_deref()), (&asked.body["id"], Some("s")));
    asked.is_left().await;
}

// shows: LEG-35, LEG-42, LEG-48, SSE-05, F007
#[tokio::test]
async fn leg_34_a_stream_is_taken_up_again_from_its_last_event_and_nothing_is_heard_twice() {
    let mut peer = Peer::start().await;
    let client = peer.client().build();
    let (heard, mut progress) = mpsc::unbounded_channel();
    let on_progress = Box::new(move |it: steadfast::core::exchange::Progress| {
        let _ = heard.send(it.value.get());
    });
    let calling = call(&client, CallOptions { on_progress: Some(on_progress), ..CallOptions::default() });
    peer.is_legacy("2025-11-25", Some("s")).await;
    let asked = peer.next().await;
    let token = asked.body["params"]["_meta"]["progressToken"].clone();
    let step = |at: u64| {
        let params = json!({ "progressToken": token, "progress": at });
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
    };
    let answer = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": { "resumed": true } });
    asked.stream();
    // Real time, as a socket is real; it is a lower bound.
    asked.chunk("id: a-1\nretry: 300\ndata:\n\n");
    asked.event(Some("a-2"), &step(1));
    assert_eq!(within("progress", progress.recv()).await, Some(1.0));
    let ended = Instant::now();
    asked.end();
    let again = peer.next().await;
    assert!(ended.elapsed() >= Duration::from_millis(300), "the time that the server asked for");
    assert_eq!((again.method.as_str(), again.header("last-event-id")), ("GET", Some("a-2")));
    assert_eq!(
        (again.header("mcp-session-id"), again.header("accept")),
        (Some("s"), Some("text/event-stream"))
    );
    again.stream();
    again.event(Some("a-2"), &step(7));
    again.event(Some("a-3"), &step(2));
    assert_eq!(within("progress", progress.recv()).await, Some(2.0), "the event that came twice counts once");
    // This one breaks.
    drop(again);
    let last = peer.next().await;
    assert_eq!(last.header("last-event-id"), Some("a-3"));
    last.stream();
    last.event(Some("a-4"), &answer);
    assert_eq!(done(calling).await.unwrap(), json!({ "resumed": true }));
}

// shows: LEG-48, RTY-01
#[tokio::test]
async fn leg_48_a_stream_that_brings_nothing_is_given_up_and_the_call_is_not_repeated() {
    let mut peer = Peer::start().await;
    let client = peer.client().build();
    let calling = call(&client, CallOptions::default());
    peer.is_legacy("2025-11-25", Some("s")).await;
    let asked = peer.next().await;
    asked.stream();
    asked.chunk("id: a-1\nretry: 1\ndata:\n\n");
    asked.end();
    for _ in 0..5 {
        let again = peer.next().await;
        assert_eq!(again.header("last-event-id"), Some("a-1"));
        again.stream();
        again.end();
    }
    let error = done(calling).await.unwrap_err();
    assert!(matches!(error, Error::Transport { category: Category::StreamEnded, .. }), "{error:?}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(peer.is_undisturbed());
}

// shows: LEG-55, F032, F040, F046
#[tokio::test]
async fn leg_58_one_new_session_serves_all_who_saw_the_old_one_gone() {
    let mut peer = Peer::start().await;
    let client = peer.client().build();
    let calling = call(&client, CallOptions::default());
    peer.is_legacy("2025-11-25", Some("old")).await;
    peer.next().await.result(json!({}));
    done(calling).await.unwrap();

    // One runs, two are refused, since the server forgot the session.
    let running = call(&client, CallOptions::default());
    let held = peer.next().await;
    held.stream();
    held.chunk("id: a-1\nretry: 1\ndata:\n\n");
    let refused: Vec<_> = (0..2).map(|_| call(&client, CallOptions::default())).collect();
    let (one, other) = (peer.next().await, peer.next().await);
    let old = [one.body["id"].clone(), other.body["id"].clone()];
    one.error(404, -32001);
    other.status(404);
    peer.shakes_hands("2025-11-25", Some("new")).await;
    for _ in 0..2 {
        let again = peer.next().await;
        assert_eq!((again.rpc(), again.header("mcp-session-id")), ("tools/call", Some("new")));
        assert!(!old.contains(&again.body["id"]));
        again.result(json!({}));
    }
    for calling in refused {
        done(calling).await.unwrap();
    }
    // What ran may have been executed: its stream is asked for, in its own session, and it is not sent again.
    held.end();
    let again = peer.next().await;
    assert_eq!((again.method.as_str(), again.header("mcp-session-id")), ("GET", Some("old")));
    again.status(404);
    assert_eq!(done(running).await.unwrap_err().outcome(), Outcome::Unknown);
    assert!(peer.is_undisturbed());
}

// shows: LEG-55, LEG-58
#[tokio::test]
async fn leg_55_a_server_that_forgets_each_session_is_not_asked_for_ever() {
    let mut peer = Peer::start().await;
    let client = peer.client().build();
    let calling = call(&client, CallOptions::default());
    peer.is_legacy("2025-11-25", Some("1")).await;
    peer.next().await.status(404);
    for session in ["2", "3"] {
        peer.shakes_hands("2025-11-25", Some(session)).await;
        peer.next().await.status(404);
    }
    assert_eq!(done(calling).await.unwrap_err().outcome(), Outcome::NotExecuted);
}

// shows: LEG-55
#[tokio::test]
async fn f041_a_status_that_may_mean_the_session_costs_one_call_and_not_all_that_follow() {
    for status in [400, 410] {
        let mut peer = Peer::start().await;
        let client = peer.client().build();
        let calling = call(&client, CallOptions::default());
        peer.is_legacy("2025-11-25", Some("old")).await;
        let asked = peer.next().await;
        asked.json(
            status,
            &json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "no session" } }),
        );
        assert_eq!(done(calling).await.unwrap_err().outcome(), Outcome::Unknown, "it proves nothing");
        let calling = call(&client, CallOptions::default());
        peer.shakes_hands("2025-11-25", Some("new")).await;
        peer.next().await.result(json!({}));
        done(calling).await.unwrap();
    }
    // What says nothing of the session leaves it.
    for status in [403, 500, 503] {
        let mut peer = Peer::start().await;
        let client = peer.client().build();
        let calling = call(&client, CallOptions::default());
        peer.is_legacy("2025-11-25", Some("s")).await;
        peer.next().await.status(status);
        done(calling).await.unwrap_err();
        let calling = call(&client, CallOptions::default());
        let asked = peer.next().await;
        assert_eq!((asked.rpc(), asked.header("mcp-session-id")), ("tools/call", Some("s")));
        asked.result(json!({}));
        done(calling).await.unwrap();
    }
}

// shows: LEG-27, LEG-52
#[tokio::test]
async fn leg_56_what_still_runs_is_cancelled_before_its_session_is_deleted() {
    let mut peer = Peer::start().await;
    let client = peer.client().build();
    let calling = call(&client, CallOptions::default());
    peer.is_legacy("2025-11-25", Some("s")).await;
    let asked = peer.next().await;
    let closing = tokio::spawn(async move { client.close(Duration::from_secs(20)).await });
    let told = peer.next().await;
    assert_eq!(
        (told.rpc(), &told.body["params"]["requestId"]),
        ("notifications/cancelled", &asked.body["id"])
    );
    assert!(peer.is_undisturbed(), "the session is still there");
    told.status(202);
    let last = peer.next().await;
    assert_eq!((last.method.as_str(), last.header("mcp-session-id")), ("DELETE", Some("s")));
    last.status(200);
    within("the end", closing).await.unwrap();
    assert!(matches!(done(calling).await, Err(Error::Local { category: Category::Closed, .. })));
}

/// One token for ever.
struct Token;

impl Credentials for Token {
    fn headers(&self) -> Headers<'_> {
        Box::pin(std::future::ready(Ok(vec![("Authorization".to_owned(), "Bearer t".to_owned())])))
    }
}

#[tokio::test]
async fn credentials_are_on_all_that_a_session_sends() {
    let mut peer = Peer::start().await;
    peer.listens = true;
    let client = peer.client().credentials(Arc::new(Token)).build();
    let calling = call(&client, CallOptions::default());
    let probe = peer.next().await;
    assert_eq!(probe.header("authorization"), Some("Bearer t"));
    probe.status(404);
    let hello = peer.next().await;
    assert_eq!((hello.rpc(), hello.header("authorization")), ("initialize", Some("Bearer t")));
    let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "p", "version": "1" } });
    let answer = json!({ "jsonrpc": "2.0", "id": hello.body["id"], "result": result });
    hello.whole(200, "Content-Type: application/json\r\nMcp-Session-Id: s\r\n", &answer.to_string());
    let ready = peer.next().await;
    assert_eq!((ready.rpc(), ready.header("authorization")), ("notifications/initialized", Some("Bearer t")));
    ready.status(202);
    assert_eq!(peer.listening().await.header("authorization"), Some("Bearer t"));
    let asked = peer.next().await;
    assert_eq!((asked.rpc(), asked.header("authorization")), ("tools/call", Some("Bearer t")));
    asked.result(json!({}));
    done(calling).await.unwrap();
    let closing = tokio::spawn(async move { client.close(Duration::from_secs(20)).await });
    let last = peer.next().await;
    assert_eq!((last.method.as_str(), last.header("authorization")), ("DELETE", Some("Bearer t")));
    last.status(200);
    within("the end", closing).await.unwrap();
}

/// Answers what it is asked, and tells when a question that hangs is taken back.
struct Person(mpsc::UnboundedSender<&'static str>);

struct Told(mpsc::UnboundedSender<&'static str>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send("taken back");
    }
}

impl Handler for Person {
    fn capabilities(&self) -> String {
        r#"{"elicitation":{},"roots":{}}"#.to_owned()
    }

    fn answer<'a>(&'a self, question: Question) -> Answering<'a> {
        if question.params.contains("hang") {
            let told = Told(self.0.clone());
            let _ = self.0.send("asked");
            return Box::pin(async move {
                let _told = told;
                std::future::pending().await
            });
        }
        let answer = match question.method.as_str() {
            "roots/list" => json!({ "roots": [] }),
            _ => json!({ "action": "accept", "content": { "sure": true } }),
        };
        Box::pin(std::future::ready(Ok(answer.to_string())))
    }
}

// shows: LEG-36, LEG-40, LEG-42, LEG-70, LEG-71, LEG-72, LEG-74, LEG-78, LEG-79, LEG-81
#[tokio::test]
async fn leg_78_questions_are_answered_by_post_whichever_stream_they_came_on() {
    let mut peer = Peer::start().await;
    peer.listens = true;
    let (tells, mut told) = mpsc::unbounded_channel();
    let client = peer.client().handler(Arc::new(Person(tells))).build();
    let calling = call(&client, CallOptions::default());
    peer.is_legacy("2025-11-25", Some("s")).await;
    let listening = peer.listening().await;
    let asked = peer.next().await;
    assert_eq!(
        (listening.header("mcp-session-id"), listening.header("mcp-protocol-version")),
        (Some("s"), Some("2025-11-25"))
    );
    let request = |id: Value, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    asked.stream();
    asked.event(None, &request(json!("q-1"), "elicitation/create", json!({ "message": "?" })));
    let (answer, session) = posted(&mut peer).await;
    assert_eq!(answer["id"], "q-1");
    assert_eq!((&answer["result"]["content"], session.as_deref()), (&json!({ "sure": true }), Some("s")));

    listening.event(Some("g-1"), &request(json!(7), "roots/list", json!({})));
    assert_eq!(posted(&mut peer).await.0, json!({ "jsonrpc": "2.0", "id": 7, "result": { "roots": [] } }));
    listening.event(None, &request(json!(8), "ping", json!({})));
    assert_eq!(posted(&mut peer).await.0, json!({ "jsonrpc": "2.0", "id": 8, "result": {} }));
    listening.event(None, &request(json!(9), "strange/method", json!({})));
    assert_eq!(posted(&mut peer).await.0["error"]["code"], -32601);

    // A question that is taken back is no longer asked, and gets no answer; one that names none takes nothing back.
    asked.event(None, &request(json!(10), "elicitation/create", json!({ "message": "hang" })));
    assert_eq!(within("the question", told.recv()).await, Some("asked"));
    let cancelled =
        |params: Value| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    listening.event(None, &cancelled(json!({})));
    listening.event(None, &cancelled(json!({ "requestId": 4711 })));
    listening.event(None, &request(json!(11), "ping", json!({})));
    assert_eq!(posted(&mut peer).await.0["id"], 11);
    assert!(told.try_recv().is_err());
    listening.event(None, &cancelled(json!({ "requestId": 10 })));
    assert_eq!(within("its end", told.recv()).await, Some("taken back"));

    // The stream is taken up again from its last event, and opened anew with the next session alone.
    listening.chunk("retry: 1\ndata:\n\n");
    listening.end();
    let again = peer.next().await;
    assert_eq!((again.method.as_str(), again.header("last-event-id")), ("GET", Some("g-1")));
    again.stream();
    again.event(Some("g-2"), &request(json!(12), "ping", json!({})));
    assert_eq!(posted(&mut peer).await.0["id"], 12);
    asked.answer(None, &json!({ "content": [] }));
    done(calling).await.unwrap();
}

// shows: LEG-23
#[tokio::test]
async fn leg_23_batches_of_2025_03_26_are_understood_and_of_no_other() {
    for (version, streamed) in [("2025-03-26", false), ("2025-03-26", true), ("2025-06-18", false)] {
        let mut peer = Peer::start().await;
        let client = peer.client().handler(Arc::new(Person(mpsc::unbounded_channel().0))).build();
        let calling = call(&client, CallOptions::default());
        peer.is_legacy(version, None).await;
        let asked = peer.next().await;
        let batch = json!([
            { "jsonrpc": "2.0", "id": "p", "method": "ping" },
            { "jsonrpc": "2.0", "id": asked.body["id"], "result": { "batched": true } },
        ]);
        if streamed {
            asked.stream();
            asked.event(None, &batch);
        } else {
            asked.json(200, &batch);
        }
        if version == "2025-03-26" {
            assert_eq!(posted(&mut peer).await.0["id"], "p");
            assert_eq!(done(calling).await.unwrap(), json!({ "batched": true }));
        } else {
            let error = done(calling).await.unwrap_err();
            assert!(
                matches!(error, Error::Transport { category: Category::InvalidResponse, .. }),
                "{error:?}"
            );
        }
    }
}

/// A server of 2024-11-05: nothing is posted to its address, and its stream names another.
async fn two_endpoints(peer: &mut Peer, address: &str) -> Asked {
    let stream = peer.listening().await;
    stream.chunk(&format!("event: endpoint\ndata: {address}\n\n"));
    stream
}

/// The handshake over the two endpoints.
async fn shakes_hands(peer: &mut Peer, stream: &Asked) {
    let hello = peer.next().await;
    assert_eq!((hello.rpc(), hello.target.as_str()), ("initialize", "/messages?of=1"));
    let result = json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": { "name": "p", "version": "1" } });
    stream.event(None, &json!({ "jsonrpc": "2.0", "id": hello.body["id"], "result": result }));
    hello.status(202);
    let ready = peer.next().await;
    assert_eq!((ready.rpc(), ready.target.as_str()), ("notifications/initialized", "/messages?of=1"));
    ready.status(202);
}

// shows: LEG-132, LEG-135, LEG-136, LEG-137, VER-12, VER-15
#[tokio::test]
async fn leg_138_the_two_endpoints_of_2024_are_the_last_resort() {
    let mut peer = Peer::start().await;
    peer.listens = true;
    let client = peer.client().build();
    let calling = call(&client, CallOptions::default());
    for method in ["server/discover", "initialize"] {
        let asked = peer.next().await;
        assert_eq!(asked.rpc(), method);
        asked.whole(404, "Content-Type: text/plain\r\n", "no such page");
    }
    let stream = two_endpoints(&mut peer, "/messages?of=1").await;
    shakes_hands(&mut peer, &stream).await;
    // The answer may come before the status of its POST, which says nothing.
    let asked = peer.next().await;
    assert_eq!((asked.rpc(), asked.target.as_str()), ("tools/call", "/messages?of=1"));
    stream.event(None, &json!({ "jsonrpc": "2.0", "id": 4711, "result": {} }));
    stream.event(None, &json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": { "here": true } }));
    assert_eq!(done(calling).await.unwrap(), json!({ "here": true }));

    // With the stream all that runs is lost; a write is not repeated.
    let calling = call(&client, CallOptions::default());
    peer.next().await.status(202);
    drop(stream);
    let error = done(calling).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
    // The next use knows where it is, and shakes hands anew; a refused POST is told at once.
    let calling = call(&client, CallOptions::default());
    let stream = two_endpoints(&mut peer, "messages?of=1").await;
    shakes_hands(&mut peer, &stream).await;
    peer.next().await.status(413);
    assert_eq!(done(calling).await.unwrap_err().outcome(), Outcome::NotExecuted);
}

#[tokio::test]
async fn leg_135_an_address_of_another_origin_is_sent_nothing() {
    let mut other = Peer::start().await;
    let mut peer = Peer::start().await;
    peer.listens = true;
    let client = peer.client().build();
    let calling = call(&client, CallOptions::default());
    // Nothing of the call left, so it is tried as often as may be.
    for _ in 0..3 {
        for _ in 0..2 {
            peer.next().await.status(404);
        }
        two_endpoints(&mut peer, &other.url()).await.is_left().await;
    }
    let error = done(calling).await.unwrap_err();
    assert!(error.to_string().contains("another origin"), "{error}");
    assert_eq!(error.outcome(), Outcome::NotExecuted);
    assert!(other.is_undisturbed());
}

/// Counts what a host is told of changes.
#[derive(Default)]
struct Noticed(AtomicUsize);

impl Handler for Noticed {
    fn list_changed(&self, _server: &str, _notice: &str) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn definitions_changed(&self, _server: &str, _list: &str, _changes: &Changes) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn f092_a_server_without_a_stream_of_its_own_is_asked_for_it_once_and_has_changed_nothing() {
    let mut peer = Peer::start().await;
    let told = Arc::new(Noticed::default());
    let client = peer.client().handler(Arc::clone(&told) as Arc<_>).build();
    for first in [true, false, false, false] {
        let calling = call(&client, CallOptions::default());
        if first {
            peer.is_legacy("2025-11-25", Some("s")).await;
        }
        peer.next().await.result(json!({ "content": [] }));
        done(calling).await.unwrap();
        assert_eq!(*client.state().borrow(), ConnectionState::Ready);
    }
    assert_eq!((peer.refused, told.0.load(Ordering::Relaxed)), (1, 0));
    assert!(peer.is_undisturbed());
}

// Real time: a stream that brought nothing is opened again after 250 ms, then 500 ms.
#[tokio::test]
async fn f047_a_stream_that_is_cut_while_nothing_is_asked_changes_no_state_and_costs_no_call() {
    let mut peer = Peer::start().await;
    peer.listens = true;
    let client = peer.client().build();
    let calling = call(&client, CallOptions::default());
    peer.is_legacy("2025-11-25", Some("s")).await;
    peer.next().await.result(json!({ "content": [] }));
    done(calling).await.unwrap();
    for _ in 0..2 {
        peer.listening().await.end();
        assert_eq!(*client.state().borrow(), ConnectionState::Ready);
    }
    let _stream = peer.listening().await;
    assert_eq!(*client.state().borrow(), ConnectionState::Ready);
    let calling = call(&client, CallOptions::default());
    let asked = peer.next().await;
    assert_eq!((asked.rpc(), asked.header("mcp-session-id")), ("tools/call", Some("s")), "the same session");
    asked.result(json!({ "content": [] }));
    done(calling).await.unwrap();
}
