//! What it means that a caller gives up, in three layers: its wait ends at once, the server is told in the way of its
//! transport and era, and nothing is promised about effects.

#[path = "client/child.rs"]
mod child;
#[path = "client/peer.rs"]
mod peer;

use std::time::Duration;

use child::{Child, Log, Records, Time, call, cancelled_by, config, reads, settle, text, words};
use peer::Peer;
use serde_json::json;
use steadfast::client::{CallOptions, Category, Client, Config, Error, Record, Run};
use steadfast::core::era::Wish;
use steadfast::core::error::Outcome;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Category, outcome, and the records of a call that was given up here.
fn given_up(client: &Client, error: &Error) -> (Category, Outcome, Vec<Record>) {
    let Error::Local { category, outcome, call_id, .. } = error else { panic!("{error:?}") };
    (*category, *outcome, client.records(call_id))
}

/// It was cancelled, nothing is promised about it, and it was tried once only.
fn cancelled_once(client: &Client, error: &Error) {
    let (category, outcome, records) = given_up(client, error);
    assert_eq!((category, outcome), (Category::ClientCancelled, Outcome::Unknown));
    let [record] = &records[..] else { panic!("{records:?}") };
    assert!(record.cancelled && record.sent && !record.answered && !record.retryable, "{record:?}");
    assert_eq!((record.outcome.as_str(), record.error_kind.as_deref()), ("unknown", Some("local")));
    assert_eq!(record.error_code.as_deref(), Some("client_cancelled"));
    assert_eq!(record.verdict.as_deref(), Some("stop: cancelled"));
}

/// The server says nothing at all and time stands still: only the cancel itself can end the wait. A read, which might be
/// repeated after any other end, is not either.
// shows: CAN-01, CAN-03, G4, D-06
#[tokio::test]
async fn can_03_over_stdio_the_wait_ends_at_once_and_a_notification_leaves() {
    let _time = Time::stands_still();
    for config in [config(), reads()] {
        for legacy in [false, true] {
            let child = Child::new();
            let client = child.client(config.clone());
            let cancel = CancellationToken::new();
            let called = call(&client, "hold", cancelled_by(&cancel));
            let mut process = if legacy { child.legacy().await } else { child.modern().await };
            let request = process.hear_call("hold").await;
            cancel.cancel();
            cancelled_once(&client, &called.await.unwrap().unwrap_err());
            let told = process.hear("notifications/cancelled").await;
            assert_eq!(told["params"]["requestId"], request["id"]);
            assert!(told.get("id").is_none());
            // Nor is it sent again, nor any other word about it.
            process.heard_all(&client).await;
            client.close(Duration::ZERO).await;
        }
    }
}

/// The stream is closed, and no message says so.
// shows: CAN-01
#[tokio::test]
async fn can_02_over_modern_http_the_stream_closes_and_nothing_is_posted() {
    let _time = Time::stands_still();
    for config in [config(), reads()] {
        for streaming in [false, true] {
            let mut peer = Peer::start().await;
            let client = peer.client().config(Config { era: Wish::Modern, ..config.clone() }).build();
            let cancel = CancellationToken::new();
            let called = call(&client, "hold", cancelled_by(&cancel));
            let asked = peer.next().await;
            if streaming {
                asked.stream();
                asked.chunk(": alive\n\n");
                settle().await;
            }
            cancel.cancel();
            cancelled_once(&client, &called.await.unwrap().unwrap_err());
            asked.is_left().await;
            let next = call(&client, "next", CallOptions::default());
            let asked = peer.next().await;
            assert_eq!(asked.body["params"]["name"], "next");
            asked.result(text("next"));
            assert_eq!(words(&next.await.unwrap().unwrap()), "next");
            assert!(peer.is_undisturbed());
        }
    }
}

/// No answer, a result, an error: the caller sees the same, at the same time, and no other call gets any of it.
// shows: F022, F013, D-06, MSG-05
#[tokio::test]
async fn can_09_an_answer_after_the_cancel_is_dropped_and_noted() {
    let _time = Time::stands_still();
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let child = Child::new();
    let client = child.client(config());
    let mut process = None;
    for late in ["none", "result", "error"] {
        let cancel = CancellationToken::new();
        let called = call(&client, "hold", cancelled_by(&cancel));
        if process.is_none() {
            process = Some(child.modern().await);
        }
        let process = process.as_mut().unwrap();
        let request = process.hear_call("hold").await;
        cancel.cancel();
        cancelled_once(&client, &called.await.unwrap().unwrap_err());
        process.hear("notifications/cancelled").await;
        match late {
            "result" => process.answer(&request, text("late")).await,
            "error" => process.refuse(&request, -32_000, "late").await,
            _ => {}
        }
        process.heard_all(&client).await;
        settle().await;
        let id = format!("id={} ", request["id"]);
        assert_eq!(log.says(&["no request waits for", &id]), late != "none", "{late}: {}", log.text());
    }
}

/// Both orders of the race: what was first stays.
// shows: F023, D-05
#[tokio::test]
async fn can_10_a_cancel_that_crosses_the_answer_ends_the_call_once_and_harms_nothing() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let mut process = None;
    for round in 0..200 {
        let cancel = CancellationToken::new();
        let called = call(&client, "race", cancelled_by(&cancel));
        if process.is_none() {
            process = Some(child.modern().await);
        }
        let process = process.as_mut().unwrap();
        let request = process.hear_call("race").await;
        process.answer(&request, text("race")).await;
        // Somewhere between the answer's write and its arrival, or after both.
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
        let signalled = match called.await.unwrap() {
            Ok(answered) => {
                assert_eq!(words(&answered), "race");
                assert_eq!(client.records(&answered.call_id).len(), 1);
                false
            }
            Err(error) => {
                cancelled_once(&client, &error);
                true
            }
        };
        if signalled {
            let told = process.hear("notifications/cancelled").await;
            assert_eq!(told["params"]["requestId"], request["id"]);
        }
        process.heard_all(&client).await;
    }
}

#[tokio::test]
async fn d_36_a_call_that_is_cancelled_while_it_waits_for_its_turn_was_not_executed() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = child.client(Config { concurrency: 1, ..config() });
    let first = call(&client, "first", CallOptions::default());
    let mut process = child.modern().await;
    let request = process.hear_call("first").await;
    let cancel = CancellationToken::new();
    let queued = call(&client, "queued", cancelled_by(&cancel));
    let behind = call(&client, "behind", CallOptions::default());
    settle().await;
    cancel.cancel();
    let (category, outcome, records) = given_up(&client, &queued.await.unwrap().unwrap_err());
    assert_eq!((category, outcome), (Category::ClientCancelled, Outcome::NotExecuted));
    assert_eq!((records.len(), records[0].attempt, records[0].sent), (1, 0, false));
    assert!(records[0].cancelled);
    process.answer(&request, text("first")).await;
    first.await.unwrap().unwrap();
    // It left no trace at the server, and its place is free.
    let request = process.hear_call("behind").await;
    process.answer(&request, text("behind")).await;
    behind.await.unwrap().unwrap();
}

/// Nothing listens at the address, so nothing left; the next attempt would follow after a pause.
#[tokio::test]
async fn d_36_a_call_that_is_cancelled_in_a_pause_between_attempts_is_not_tried_again() {
    let _time = Time::stands_still();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let config = Config { era: Wish::Modern, ..reads() };
    let (recorder, mut records) = Records::new();
    let client = Client::of_url(&url).unwrap().config(config).recorder(recorder).build();
    let cancel = CancellationToken::new();
    let called = call(&client, "hold", cancelled_by(&cancel));
    let first = records.recv().await.unwrap();
    assert_eq!(first.verdict.as_deref(), Some("retry"));
    settle().await;
    cancel.cancel();
    let error = called.await.unwrap().unwrap_err();
    let (category, outcome, records) = given_up(&client, &error);
    assert_eq!((category, outcome), (Category::ClientCancelled, Outcome::NotExecuted));
    let verdicts: Vec<_> = records.iter().map(|record| record.verdict.as_deref().unwrap()).collect();
    assert_eq!(verdicts, ["retry", "stop: cancelled"]);
}

#[tokio::test]
async fn d_36_a_call_that_is_cancelled_during_the_connect_was_not_executed() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let cancel = CancellationToken::new();
    let called = call(&client, "never", cancelled_by(&cancel));
    let other = call(&client, "other", CallOptions::default());
    let mut process = child.started().await;
    let probe = process.hear("server/discover").await;
    cancel.cancel();
    let (category, outcome, _) = given_up(&client, &called.await.unwrap().unwrap_err());
    assert_eq!((category, outcome), (Category::ClientCancelled, Outcome::NotExecuted));
    // Who waits for the same connection still gets it, and the probe is not cancelled (AMB-42).
    let facts = json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {} });
    process.answer(&probe, facts).await;
    let request = process.hear_call("other").await;
    process.answer(&request, text("other")).await;
    assert_eq!(words(&other.await.unwrap().unwrap()), "other");
}

#[tokio::test]
async fn d_41_a_run_that_is_cancelled_takes_its_own_calls_with_it_and_no_other() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let runs = ["one", "other"].map(|id| Run::new(id, None, 10));
    let of = |run: &Run| CallOptions { run: Some(run.clone()), ..CallOptions::default() };
    let calls: Vec<_> = runs.iter().map(|run| call(&client, "hold", of(run))).collect();
    let mut process = child.modern().await;
    let requests = [process.hear_call("hold").await, process.hear_call("hold").await];
    let [one, other] = <[_; 2]>::try_from(calls).unwrap();
    runs[0].cancel();
    cancelled_once(&client, &one.await.unwrap().unwrap_err());
    let told = process.hear("notifications/cancelled").await;
    let cancelled = told["params"]["requestId"].clone();
    for request in requests.iter().filter(|request| request["id"] != cancelled) {
        process.answer(request, text("other")).await;
    }
    let answered = other.await.unwrap().unwrap();
    assert_eq!(words(&answered), "other");
    assert_eq!(client.records(&answered.call_id)[0].agent_run_id.as_deref(), Some("other"));
    let refused = call(&client, "late", of(&runs[0])).await.unwrap().unwrap_err();
    assert_eq!(given_up(&client, &refused).1, Outcome::NotExecuted);
    process.heard_all(&client).await;
}

/// The cancel kills the server: the other call is told why, and the next one starts the server anew, once.
#[tokio::test]
async fn f028_a_server_that_dies_of_the_cancel_ends_its_other_calls_and_is_started_again() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let cancel = CancellationToken::new();
    let called = call(&client, "hold", cancelled_by(&cancel));
    let mut process = child.legacy().await;
    process.hear_call("hold").await;
    let other = call(&client, "other", CallOptions::default());
    process.hear_call("other").await;
    cancel.cancel();
    process.hear("notifications/cancelled").await;
    drop(process);
    cancelled_once(&client, &called.await.unwrap().unwrap_err());
    let error = other.await.unwrap().unwrap_err();
    let Error::Transport { category, outcome, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*category, *outcome), (Category::TransportLost, Outcome::Unknown));
    let next = call(&client, "next", CallOptions::default());
    // What it speaks is remembered; that it died costs a pause.
    let mut process = child.restarted(&time).await;
    let initialize = process.hear("initialize").await;
    let facts = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "old", "version": "1" } });
    process.answer(&initialize, facts).await;
    process.hear("notifications/initialized").await;
    let request = process.hear_call("next").await;
    process.answer(&request, text("next")).await;
    assert_eq!(words(&next.await.unwrap().unwrap()), "next");
}

/// Both what we say to a server and why, and never what the call was about.
#[tokio::test]
async fn can_15_the_reason_of_a_cancel_is_logged() {
    let time = Time::stands_still();
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let child = Child::new();
    let client = child.client(config());
    let slow = {
        let client = client.clone();
        tokio::spawn(
            async move { client.call_tool("slow", r#"{"card":"4929"}"#, CallOptions::default()).await },
        )
    };
    let mut process = child.modern().await;
    let request = process.hear_call("slow").await;
    time.pass(Config::default().limits.idle()).await;
    slow.await.unwrap().unwrap_err();
    let told = process.hear("notifications/cancelled").await;
    assert_eq!(told["params"]["reason"], "idle limit reached");
    let id = format!("request=\"{}\"", request["id"]);
    assert!(log.says(&["gave a request up", &id, "idle limit reached"]), "{}", log.text());

    let held = call(&client, "hold", CallOptions::default());
    let request = process.hear_call("hold").await;
    let closing = tokio::spawn(async move { client.close(Duration::from_secs(5)).await });
    let error = held.await.unwrap().unwrap_err();
    let Error::Local { category, outcome, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*category, *outcome), (Category::Closed, Outcome::Unknown));
    let told = process.hear("notifications/cancelled").await;
    assert_eq!(
        (&told["params"]["requestId"], &told["params"]["reason"]),
        (&request["id"], &json!("the client is closing"))
    );
    assert_eq!(process.next().await, None);
    drop(process);
    closing.await.unwrap();
    assert!(!log.text().contains("4929"), "G15");
}
