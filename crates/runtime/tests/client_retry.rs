//! What is sent again, what never is, and what a server's failures mean for the next call.

#[path = "client/child.rs"]
mod child;
#[path = "client/peer.rs"]
mod peer;

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use child::{Child, Process, Time, call, config, moment, reads, settle, text, words};
use peer::{Asked, Peer};
use serde_json::{Value, json};
use steadfast::client::{CallOptions, Category, Client, Config, Credentials, Error, Headers, ToolContract};
use steadfast::core::era::Wish;
use steadfast::core::error::Outcome;
use steadfast::core::policy::breaker::Thresholds;
use steadfast::core::policy::{Effect, Idempotency};

/// A server may call its tool read-only, idempotent and harmless as loudly as it likes.
// shows: RTY-05, F001, G6
#[tokio::test]
async fn rty_06_annotations_of_a_server_allow_no_repetition_and_the_operators_word_does() {
    let time = Time::stands_still();
    for (config, again) in [(config(), false), (reads(), true)] {
        let child = Child::new();
        let client = child.client(config);
        let listing = {
            let client = client.clone();
            tokio::spawn(async move { client.list_tools(CallOptions::default()).await })
        };
        let mut process = child.modern().await;
        let request = process.hear("tools/list").await;
        let hints = json!({ "readOnlyHint": true, "idempotentHint": true, "destructiveHint": false, "openWorldHint": false });
        let tool = json!({ "name": "charge", "inputSchema": { "type": "object" }, "annotations": hints });
        let listed =
            json!({ "resultType": "complete", "tools": [tool], "ttlMs": 60_000, "cacheScope": "private" });
        process.answer(&request, listed).await;
        listing.await.unwrap().unwrap();
        let called = call(&client, "charge", CallOptions::default());
        process.hear_call("charge").await;
        drop(process);
        if again {
            let mut process = child.restarted(&time).await;
            let request = process.hear_call("charge").await;
            process.answer(&request, text("read")).await;
            assert_eq!(called.await.unwrap().unwrap().attempts, 2);
        } else {
            let error = called.await.unwrap().unwrap_err();
            assert_eq!(error.outcome(), Outcome::Unknown);
            let records = client.records(error.call_id());
            assert_eq!(records.len(), 1);
            assert!(!records[0].retryable);
            // The next start is that of the next call.
            let next = call(&client, "next", CallOptions::default());
            let mut process = child.restarted(&time).await;
            let request = process.hear_call("next").await;
            process.answer(&request, text("next")).await;
            next.await.unwrap().unwrap();
        }
    }
}

/// Over attempts, restarts, cancels and a thousand calls at one instant of the clock, no id and no token comes twice.
// shows: MSG-05, RTY-07, I-06, PRG-02
#[tokio::test]
async fn f019_an_id_is_never_used_again() {
    let time = Time::stands_still();
    let child = Child::new();
    let breaker = Thresholds { failures: u32::MAX, ..Thresholds::DEFAULT };
    let client = child.client(Config { concurrency: 1_000, breaker, ..config() });
    let mut ids = HashSet::new();
    let mut last = 0;
    for process in 0..3 {
        let calls: Vec<_> = (0..334).map(|_| call(&client, "work", CallOptions::default())).collect();
        let mut current = if process == 0 { child.modern().await } else { child.restarted(&time).await };
        for _ in 0..334 {
            let request = current.hear_call("work").await;
            let id = request["id"].as_i64().unwrap();
            assert!(ids.insert(id), "{id}");
            last = last.max(id);
        }
        calls[0].abort();
        drop(current);
        for called in calls.into_iter().skip(1) {
            assert_eq!(called.await.unwrap().unwrap_err().outcome(), Outcome::Unknown);
        }
    }
    assert_eq!(ids.len(), 1_002);
    assert!(last < 1_100, "counted, and not made of a clock: {last}");
}

/// An answer that nobody asked for before each real one, and each real one twice.
// shows: MSG-07
#[tokio::test]
async fn f014_answers_are_matched_by_id_and_never_by_order() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let mut process: Option<Process> = None;
    for round in 0..3 {
        let called = call(&client, "work", CallOptions::default());
        if process.is_none() {
            process = Some(child.modern().await);
        }
        let process = process.as_mut().unwrap();
        let request = process.hear_call("work").await;
        process.answer(&json!({ "id": 999 }), text("nobody's")).await;
        process.answer(&request, text(&round.to_string())).await;
        process.answer(&request, text("second")).await;
        assert_eq!(words(&called.await.unwrap().unwrap()), round.to_string());
    }
}

/// While a read waits for its second attempt it keeps its slot: who came later goes later.
#[tokio::test]
async fn d_42_a_repeated_call_keeps_its_turn() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(Config { concurrency: 1, queue_wait: Duration::from_secs(60), ..reads() });
    let first = call(&client, "first", CallOptions::default());
    let mut process = child.modern().await;
    process.hear_call("first").await;
    let second = call(&client, "second", CallOptions::default());
    settle().await;
    drop(process);
    let mut process = child.restarted(&time).await;
    for (tool, called) in [("first", first), ("second", second)] {
        let request = process.hear_call(tool).await;
        process.answer(&request, text(tool)).await;
        assert_eq!(words(&called.await.unwrap().unwrap()), tool);
    }
}

fn write_and_read(peer: &Peer) -> Client {
    let contract = |tool, effect| ToolContract::new(tool, effect, Idempotency::None);
    let config = Config {
        era: Wish::Modern,
        contracts: vec![contract("write", Effect::Write), contract("read", Effect::Read)],
        breaker: Thresholds { failures: 3, ..Thresholds::DEFAULT },
        ..config()
    };
    peer.client().config(config).build()
}

/// One call of a tool and what the peer makes of it.
async fn once(
    client: &Client,
    peer: &mut Peer,
    tool: &'static str,
    answer: impl FnOnce(Asked),
) -> Result<String, Error> {
    let called = call(client, tool, CallOptions::default());
    answer(peer.next().await);
    called.await.unwrap().map(|answered| words(&answered))
}

fn refused(result: &Result<steadfast::client::Answered, Error>) -> bool {
    matches!(result, Err(Error::Local { category: Category::BreakerOpen, outcome: Outcome::NotExecuted, .. }))
}

/// Refusals, a failing tool, the server's errors and cancels say nothing against the server; lost answers do. Open, it
/// sends nothing of that kind; after its time one probe decides.
// shows: D-46, ERR-22
#[tokio::test]
async fn i_15_the_breaker_opens_for_what_the_server_cannot_do_and_for_nothing_else() {
    let time = Time::stands_still();
    let mut peer = Peer::start().await;
    let client = write_and_read(&peer);
    for _ in 0..5 {
        once(&client, &mut peer, "write", |asked| asked.status(401)).await.unwrap_err();
        once(&client, &mut peer, "write", |asked| asked.status(403)).await.unwrap_err();
        once(&client, &mut peer, "write", |asked| asked.error(200, -32_000)).await.unwrap_err();
        let failing = |asked: Asked| {
            let mut result = text("no such account");
            result["isError"] = json!(true);
            asked.result(result);
        };
        once(&client, &mut peer, "write", failing).await.unwrap();
        let options = CallOptions::default();
        let cancel = options.cancel.clone();
        let called = call(&client, "write", options);
        let asked = peer.next().await;
        cancel.cancel();
        called.await.unwrap().unwrap_err();
        asked.is_left().await;
    }
    // Three lost answers of a write: none was repeated, and now nothing is sent.
    for _ in 0..3 {
        let error = once(&client, &mut peer, "write", |asked| asked.status(503)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
    }
    assert!(refused(&call(&client, "write", CallOptions::default()).await.unwrap()));
    assert!(peer.is_undisturbed());
    // Reads are another matter.
    once(&client, &mut peer, "read", |asked| asked.result(text("read"))).await.unwrap();

    time.pass(Duration::from_secs(10)).await;
    let probe = call(&client, "write", CallOptions::default());
    let asked = peer.next().await;
    assert!(refused(&call(&client, "write", CallOptions::default()).await.unwrap()), "one probe at a time");
    asked.status(503);
    probe.await.unwrap().unwrap_err();
    assert!(refused(&call(&client, "write", CallOptions::default()).await.unwrap()), "the probe failed");

    time.pass(Duration::from_secs(60)).await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let probe = call(&client, "write", options);
    let asked = peer.next().await;
    cancel.cancel();
    probe.await.unwrap().unwrap_err();
    asked.is_left().await;
    // A cancelled probe says nothing, and leaves its place.
    once(&client, &mut peer, "write", |asked| asked.result(text("back"))).await.unwrap();
    once(&client, &mut peer, "write", |asked| asked.result(text("closed"))).await.unwrap();
}

/// A proxy that cuts a silent stream leaves the outcome unknown, whether it ends the stream well or breaks it; a write is
/// not sent again, a read is.
// shows: F031, RTY-02, D-37
#[tokio::test]
async fn f055_a_stream_that_is_cut_is_no_refusal() {
    let time = Time::stands_still();
    for clean in [true, false] {
        let mut peer = Peer::start().await;
        let client = write_and_read(&peer);
        let cut = |asked: Asked| {
            asked.stream();
            asked.chunk(": alive\n\n");
            if clean {
                asked.end();
            }
        };
        let error = once(&client, &mut peer, "write", cut).await.unwrap_err();
        let Error::Transport { outcome, sent, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*outcome, *sent), (Outcome::Unknown, true));
        assert!(peer.is_undisturbed());

        let called = call(&client, "read", CallOptions::default());
        let lost = peer.next().await;
        let id = lost.body["id"].clone();
        cut(lost);
        let asked = loop {
            time.pass(Duration::from_millis(200)).await;
            if let Some(asked) = moment(peer.next()).await {
                break asked;
            }
        };
        assert_ne!(asked.body["id"], id);
        assert_eq!(asked.body["params"]["name"], "read");
        asked.result(text("read"));
        assert_eq!(words(&called.await.unwrap().unwrap()), "read");
    }
}

/// A lost answer costs one write at most: three attempts are for reads, each under the same arguments, and then it is
/// told.
// shows: RTY-03, D-38
#[tokio::test]
async fn rty_09_attempts_end_with_their_budget() {
    let time = Time::stands_still();
    let mut peer = Peer::start().await;
    let client = write_and_read(&peer);
    let called = call(&client, "read", CallOptions::default());
    let mut bodies: Vec<Value> = Vec::new();
    while bodies.len() < 3 {
        if let Some(asked) = moment(peer.next()).await {
            bodies.push(asked.body.clone());
            asked.status(503);
        } else {
            time.pass(Duration::from_millis(50)).await;
        }
    }
    let error = called.await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    let records = client.records(error.call_id());
    let verdicts: Vec<_> = records.iter().map(|record| record.verdict.clone().unwrap()).collect();
    assert_eq!(verdicts, ["retry", "retry", "stop: attempts used"]);
    assert!(bodies.windows(2).all(|two| two[0]["params"]["arguments"] == two[1]["params"]["arguments"]));
    time.pass(Duration::from_secs(60)).await;
    assert!(peer.is_undisturbed());
}

/// Two equal calls a moment apart are two calls: each is sent, and each is on record. Only a key makes them one.
#[tokio::test]
async fn f002_equal_calls_are_never_merged() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let one = call(&client, "send", CallOptions::default());
    let mut process = child.modern().await;
    let first = process.hear_call("send").await;
    time.pass(Duration::from_millis(3)).await;
    let other = call(&client, "send", CallOptions::default());
    let second = process.hear_call("send").await;
    process.answer(&second, text("second")).await;
    process.answer(&first, text("first")).await;
    let (one, other) = (one.await.unwrap().unwrap(), other.await.unwrap().unwrap());
    assert_eq!((words(&one), words(&other)), ("first".to_owned(), "second".to_owned()));
    assert_ne!(one.call_id, other.call_id);
    assert_eq!((client.records(&one.call_id).len(), client.records(&other.call_id).len()), (1, 1));
}

/// What makes two requests one intent is the key of the caller, in the place where the server looks for it, and never an
/// id. Two keys for one call are no key: nothing is sent.
// shows: D-38, RTY-07, I-08
#[tokio::test]
async fn f005_a_repeated_write_is_known_by_its_key_alone() {
    let time = Time::stands_still();
    let mut peer = Peer::start().await;
    let contract = ToolContract {
        key: Some("/key".to_owned()),
        ..ToolContract::new("*", Effect::Write, Idempotency::Upstream)
    };
    let config = Config { era: Wish::Modern, contracts: vec![contract], ..config() };
    let client = peer.client().config(config).build();
    let keyed = |arguments: &'static str| {
        let client = client.clone();
        let options = CallOptions { key: Some("order-17".to_owned()), ..CallOptions::default() };
        tokio::spawn(async move { client.call_tool("charge", arguments, options).await })
    };
    let called = keyed(r#"{"cents":1200.0}"#);
    let lost = peer.next().await;
    let body = lost.body.clone();
    drop(lost);
    let again = loop {
        time.pass(Duration::from_millis(200)).await;
        if let Some(asked) = moment(peer.next()).await {
            break asked;
        }
    };
    assert_eq!(body["params"]["arguments"], json!({ "cents": 1200.0, "key": "order-17" }));
    assert_eq!(again.body["params"]["arguments"], body["params"]["arguments"]);
    assert_ne!(again.body["id"], body["id"]);
    again.result(text("charged"));
    assert_eq!(called.await.unwrap().unwrap().attempts, 2);

    let error = keyed(r#"{"cents":1200.0,"key":"order-18"}"#).await.unwrap().unwrap_err();
    assert!(
        matches!(error, Error::Local { category: Category::Validation, outcome: Outcome::NotExecuted, .. }),
        "{error:?}"
    );
    assert!(peer.is_undisturbed());
}

/// A bearer token that is fetched anew when the server refuses it.
struct Tokens(AtomicU32);

impl Credentials for Tokens {
    fn headers(&self) -> Headers<'_> {
        let bearer = format!("Bearer {}", self.0.load(Ordering::Relaxed));
        Box::pin(std::future::ready(Ok(vec![("Authorization".to_owned(), bearer)])))
    }

    fn refused<'a>(&'a self, _challenge: Option<&'a str>) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(true))
    }
}

/// A long call runs under the old token while another has it refused and fetched anew: both come to their end, each
/// request with the token that it began with, and a sibling of another client keeps its own.
#[tokio::test]
async fn f103_credentials_travel_with_their_request_and_a_new_one_cuts_nothing() {
    let _time = Time::stands_still();
    let mut peer = Peer::start().await;
    let with = |first: u32| {
        let config = Config { era: Wish::Modern, ..config() };
        peer.client().config(config).credentials(Arc::new(Tokens(first.into()))).build()
    };
    let (ours, theirs) = (with(1), with(100));
    let long = call(&ours, "long", CallOptions::default());
    let running = peer.next().await;
    assert_eq!(running.header("authorization"), Some("Bearer 1"));
    running.stream();

    let sibling = call(&theirs, "sibling", CallOptions::default());
    let held = peer.next().await;
    let short = call(&ours, "short", CallOptions::default());
    let refused = peer.next().await;
    assert_eq!(refused.header("authorization"), Some("Bearer 1"));
    refused.whole(401, "WWW-Authenticate: Bearer\r\n", "");
    let again = peer.next().await;
    assert_eq!(
        (again.header("authorization"), &again.body["params"]["name"]),
        (Some("Bearer 2"), &json!("short"))
    );
    again.result(text("short"));
    assert_eq!(words(&short.await.unwrap().unwrap()), "short");

    running.answer(None, &text("long"));
    running.end();
    assert_eq!(words(&long.await.unwrap().unwrap()), "long");
    assert_eq!(held.header("authorization"), Some("Bearer 100"));
    held.result(text("sibling"));
    assert_eq!(words(&sibling.await.unwrap().unwrap()), "sibling");
}
