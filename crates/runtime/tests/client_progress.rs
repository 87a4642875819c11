//! What a caller hears of the progress of its call: its own, in order, rising, and nothing after the end.

#[path = "client/child.rs"]
mod child;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use child::{Child, Log, Time, call, config, gathering, progress, settle, text, token_of};
use serde_json::json;
use steadfast::client::{CallOptions, Config};

/// Fifty calls at once: each token is a text or a whole number and no other's, and each caller hears its own.
// shows: PRG-01, PRG-02, PRG-09, F020
#[tokio::test]
async fn prg_02_tokens_of_active_requests_are_unique_and_lead_each_to_its_own_call() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = child.client(Config { concurrency: 50, ..config() });
    let heard: Vec<_> = (0..50).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    let mut calls = Vec::new();
    let mut process = None;
    let mut requests = Vec::new();
    for heard in &heard {
        calls.push(call(&client, "work", gathering(heard)));
        if process.is_none() {
            process = Some(child.modern().await);
        }
        requests.push(process.as_mut().unwrap().hear_call("work").await);
    }
    let mut process = process.unwrap();
    let tokens: Vec<_> = requests.iter().map(token_of).collect();
    assert!(tokens.iter().all(|token| token.is_string() || token.is_i64()), "{tokens:?}");
    assert_eq!(tokens.iter().collect::<HashSet<_>>().len(), 50);
    for step in 1..=3 {
        for (at, token) in tokens.iter().enumerate().rev() {
            process.say(&progress(token, f64::from(step) + at as f64 * 10.0)).await;
        }
    }
    for request in &requests {
        process.answer(request, text("done")).await;
    }
    for called in calls {
        called.await.unwrap().unwrap();
    }
    for (at, heard) in heard.iter().enumerate() {
        let base = at as f64 * 10.0;
        assert_eq!(*heard.lock().unwrap(), [base + 1.0, base + 2.0, base + 3.0]);
    }
}

/// Backward, equal, foreign, unknown, late, two hundred of them: nothing is heard of it, nothing fails, and what concerned
/// a running call is noted.
// shows: PRG-09, I-05
#[tokio::test]
async fn f038_progress_that_means_nothing_is_discarded_and_harms_nothing() {
    let _time = Time::stands_still();
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let child = Child::new();
    let client = child.client(config());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let called = call(&client, "work", gathering(&heard));
    let mut process = child.modern().await;
    let request = process.hear_call("work").await;
    let token = token_of(&request);
    for value in [2.0, 1.0, 2.0, 3.0] {
        process.say(&progress(&token, value)).await;
    }
    process.say(&progress(&json!("tool-call-4"), 9.0)).await;
    process.say(&progress(&request["id"], 9.0)).await;
    process.say(&json!({ "jsonrpc": "2.0", "method": "notifications/progress" })).await;
    process.answer(&request, text("done")).await;
    process.say(&progress(&token, 10.0)).await;
    called.await.unwrap().unwrap();
    for _ in 0..200 {
        process.say(&progress(&token, 11.0)).await;
        process.say(&progress(&json!("tool-call-4"), 9.0)).await;
    }
    process.heard_all(&client).await;
    assert_eq!(*heard.lock().unwrap(), [2.0, 3.0]);
    assert!(log.says(&["ignored", "StaleProgress"]), "{}", log.text());

    // Who asks for no progress gives no token, and hears of none that comes all the same.
    let called = call(&client, "quiet", CallOptions::default());
    let request = process.hear_call("quiet").await;
    assert_eq!(token_of(&request), json!(null));
    process.say(&progress(&json!("p-1"), 1.0)).await;
    process.answer(&request, text("done")).await;
    called.await.unwrap().unwrap();
}

/// At most one event an interval, and the last one is never lost.
// shows: I-05
#[tokio::test]
async fn prg_10_progress_comes_no_faster_than_its_listener_wants() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let options = CallOptions { progress_interval: Duration::from_secs(1), ..gathering(&heard) };
    let called = call(&client, "work", options);
    let mut process = child.modern().await;
    let request = process.hear_call("work").await;
    let token = token_of(&request);
    let other_heard = Arc::new(Mutex::new(Vec::new()));
    let other = call(&client, "other", gathering(&other_heard));
    let other_request = process.hear_call("other").await;
    for burst in [0.0, 100.0] {
        for value in 1..=50 {
            process.say(&progress(&token, burst + f64::from(value))).await;
        }
        // Once the other call has heard this, the first one has been given all before it.
        process.say(&progress(&token_of(&other_request), burst + 1.0)).await;
        while other_heard.lock().unwrap().last() != Some(&(burst + 1.0)) {
            tokio::task::yield_now().await;
        }
        settle().await;
        if burst == 0.0 {
            assert_eq!(*heard.lock().unwrap(), [1.0]);
            time.pass(Duration::from_secs(1)).await;
            assert_eq!(*heard.lock().unwrap(), [1.0, 50.0]);
        }
    }
    assert_eq!(*heard.lock().unwrap(), [1.0, 50.0]);
    process.answer(&request, text("done")).await;
    called.await.unwrap().unwrap();
    assert_eq!(*heard.lock().unwrap(), [1.0, 50.0, 150.0]);
    process.answer(&other_request, text("done")).await;
    other.await.unwrap().unwrap();
}

/// A flood of progress that its listener cannot keep up with costs events, and never the answer.
#[tokio::test]
async fn f008_an_answer_behind_a_flood_of_progress_arrives() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let called = call(&client, "work", gathering(&heard));
    let mut process = child.modern().await;
    let request = process.hear_call("work").await;
    let token = token_of(&request);
    for value in 1..=20_000 {
        process.say(&progress(&token, f64::from(value))).await;
    }
    process.answer(&request, text("done")).await;
    called.await.unwrap().unwrap();
    let heard = heard.lock().unwrap();
    assert!(!heard.is_empty() && heard.windows(2).all(|two| two[0] < two[1]));
}
