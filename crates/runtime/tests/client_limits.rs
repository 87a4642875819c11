//! How long a call may take, who says so, and how many may run: limits, deadlines, budgets, the queue.

#[path = "client/child.rs"]
mod child;
#[path = "client/peer.rs"]
mod peer;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use child::{Child, Process, Time, call, config, gathering, progress, text, token_of, words};
use peer::Peer;
use serde_json::{Value, json};
use steadfast::client::{CallOptions, Category, Client, Config, Error, Run, ToolContract};
use steadfast::core::call::Policy;
use steadfast::core::era::Wish;
use steadfast::core::error::Outcome;
use steadfast::core::exchange::{Clock, Limits};
use steadfast::core::policy::{Effect, Idempotency};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn limits(idle: u32, maximum: u32) -> Limits {
    Limits::new(SECOND * idle, SECOND * maximum).unwrap()
}

fn local(error: &Error) -> (Category, Option<Clock>, Outcome) {
    let Error::Local { category, clock, outcome, .. } = error else { panic!("{error:?}") };
    (*category, *clock, *outcome)
}

/// The server is told that a request was given up, and why.
async fn is_told(process: &mut Process, request: &Value, reason: &str) {
    let told = process.hear("notifications/cancelled").await;
    assert_eq!((&told["params"]["requestId"], &told["params"]["reason"]), (&request["id"], &json!(reason)));
}

/// Nothing was configured, and nothing ever comes.
// shows: TMO-01, TMO-02, TMO-06, CAN-01, F029, F034
#[tokio::test]
async fn tmo_01_a_server_that_never_answers_is_given_up_at_limits_that_need_no_setting() {
    let time = Time::stands_still();
    for legacy in [false, true] {
        let child = Child::new();
        let client = child.client(config());
        let called = call(&client, "hold", CallOptions::default());
        let mut process = if legacy { child.legacy().await } else { child.modern().await };
        let request = process.hear_call("hold").await;
        time.pass(5 * MINUTE - SECOND).await;
        assert!(!called.is_finished());
        time.pass(SECOND).await;
        let error = called.await.unwrap().unwrap_err();
        assert_eq!(local(&error), (Category::Deadline, Some(Clock::Idle), Outcome::Unknown));
        assert!(error.to_string().contains("300s, the idle limit of the server's configuration"), "{error}");
        is_told(&mut process, &request, "idle limit reached").await;
        process.answer(&request, text("late")).await;
        process.heard_all(&client).await;
    }
}

/// Headers and then nothing, or bytes that mean nothing: both are silence.
// shows: TMO-01, TMO-02
#[tokio::test]
async fn f029_headers_and_bytes_that_drip_are_silence_over_http_too() {
    let time = Time::stands_still();
    for drips in [false, true] {
        let mut peer = Peer::start().await;
        let client = peer.client().config(Config { era: Wish::Modern, ..config() }).build();
        let called = call(&client, "hold", CallOptions::default());
        let asked = peer.next().await;
        asked.stream();
        for _ in 0..10 {
            if drips {
                asked.chunk(":");
            }
            time.pass(30 * SECOND).await;
        }
        let error = called.await.unwrap().unwrap_err();
        assert_eq!(local(&error), (Category::Deadline, Some(Clock::Idle), Outcome::Unknown));
        asked.is_left().await;
    }
}

/// The call's own limits count before its tool's, and those before the server's; an error names the one that counted.
// shows: F034
#[tokio::test]
async fn tmo_03_limits_are_set_for_each_request_and_the_error_names_who_set_them() {
    let time = Time::stands_still();
    let contract = ToolContract {
        limits: Some(limits(30, 40)),
        ..ToolContract::new("tool", Effect::Unknown, Idempotency::None)
    };
    let child = Child::new();
    let client = child.client(Config { limits: limits(300, 1_800), contracts: vec![contract], ..config() });
    let own = || CallOptions { limits: Some(limits(5, 6)), ..CallOptions::default() };
    let mut process = None;
    for (tool, options, seconds, by) in [
        ("tool", own(), 5, "5s, the idle limit of the call itself"),
        ("tool", CallOptions::default(), 30, "30s, the idle limit of the contract of its tool"),
        ("other", CallOptions::default(), 300, "300s, the idle limit of the server's configuration"),
    ] {
        let called = call(&client, tool, options);
        if process.is_none() {
            process = Some(child.modern().await);
        }
        let process = process.as_mut().unwrap();
        let request = process.hear_call(tool).await;
        time.pass(SECOND * (seconds - 1)).await;
        assert!(!called.is_finished(), "{by}");
        time.pass(SECOND).await;
        let error = called.await.unwrap().unwrap_err();
        assert!(error.to_string().contains(by), "{error}");
        is_told(process, &request, "idle limit reached").await;
    }
    // What is set holds: an answer after 90 of 300 seconds counts.
    let called = call(&client, "other", CallOptions::default());
    let process = process.as_mut().unwrap();
    let request = process.hear_call("other").await;
    time.pass(90 * SECOND).await;
    process.answer(&request, text("in time")).await;
    assert_eq!(words(&called.await.unwrap().unwrap()), "in time");
}

/// Progress keeps a call alive past its idle limit as often as it rises, and never past the maximum.
// shows: TMO-04, TMO-05, D-07
#[tokio::test]
async fn f037_progress_for_ever_ends_at_the_maximum() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let called = call(&client, "hold", gathering(&heard));
    let mut process = child.modern().await;
    let request = process.hear_call("hold").await;
    for value in 1..=7 {
        time.pass(4 * MINUTE).await;
        assert!(!called.is_finished());
        process.say(&progress(&token_of(&request), f64::from(value))).await;
        until_heard(&heard, value as usize).await;
    }
    time.pass(2 * MINUTE).await;
    let error = called.await.unwrap().unwrap_err();
    assert_eq!(local(&error), (Category::Deadline, Some(Clock::Maximum), Outcome::Unknown));
    assert!(error.to_string().contains("the most that the server's configuration allows"), "{error}");
    is_told(&mut process, &request, "maximum limit reached").await;
    assert_eq!(*heard.lock().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

/// Waits until so many events have come through the pipes.
async fn until_heard(heard: &Mutex<Vec<f64>>, count: usize) {
    while heard.lock().unwrap().len() < count {
        tokio::task::yield_now().await;
    }
}

/// The same value again, a lower one, another request's token, one that nobody gave out: none is a sign of life.
// shows: F037
#[tokio::test]
async fn tmo_11_only_progress_of_its_own_that_rises_restarts_the_clock() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let (heard, other_heard) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let called = call(&client, "hold", gathering(&heard));
    let mut process = child.modern().await;
    let request = process.hear_call("hold").await;
    let other = call(&client, "other", gathering(&other_heard));
    let other_request = process.hear_call("other").await;
    let (token, other_token) = (token_of(&request), token_of(&other_request));
    process.say(&progress(&token, 2.0)).await;
    until_heard(&heard, 1).await;
    for (value, minute) in (1..=4).zip(1..) {
        time.pass(MINUTE).await;
        process.say(&progress(&token, 2.0)).await;
        process.say(&progress(&token, 1.0)).await;
        process.say(&progress(&json!("p-999999"), 9.0)).await;
        process.say(&progress(&json!("tool-call-4"), 9.0)).await;
        // The last one, which counts for the other call, shows that those before it came.
        process.say(&progress(&other_token, f64::from(value))).await;
        until_heard(&other_heard, minute).await;
    }
    time.pass(MINUTE).await;
    let error = called.await.unwrap().unwrap_err();
    assert_eq!(local(&error).1, Some(Clock::Idle));
    assert_eq!(*heard.lock().unwrap(), [2.0]);
    assert!(!other.is_finished());
    is_told(&mut process, &request, "idle limit reached").await;
    process.answer(&other_request, text("other")).await;
    assert_eq!(words(&other.await.unwrap().unwrap()), "other");
}

/// An error of ours has no code and no shape of JSON-RPC; an error of the server's stays the server's, whatever it says.
// shows: TMO-07, ERR-23
#[tokio::test]
async fn tmo_07_a_limit_of_ours_and_a_time_out_of_the_servers_are_told_apart() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let called = call(&client, "theirs", CallOptions::default());
    let mut process = child.modern().await;
    let request = process.hear_call("theirs").await;
    process.refuse(&request, -32_001, "Request timed out").await;
    let error = called.await.unwrap().unwrap_err();
    let Error::Protocol { code, message, call_id, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*code, message.as_str()), (-32_001, "Request timed out"));
    let records = client.records(call_id);
    assert_eq!(
        (records[0].error_kind.as_deref(), records[0].error_code.as_deref()),
        (Some("protocol"), Some("-32001"))
    );

    let called = call(&client, "ours", CallOptions::default());
    process.hear_call("ours").await;
    time.pass(5 * MINUTE).await;
    let error = called.await.unwrap().unwrap_err();
    assert_eq!(local(&error).0, Category::Deadline);
    let records = client.records(error.call_id());
    assert_eq!(
        (records[0].error_kind.as_deref(), records[0].error_code.as_deref()),
        (Some("local"), Some("deadline"))
    );
    assert!(!records[0].answered);
}

/// The silence after which the handshake is tried as well, and how long a start may take, are what they are set to.
// shows: VER-07, F079
#[tokio::test]
async fn tmo_13_the_times_of_a_start_are_configured() {
    let time = Time::stands_still();
    let config = Config {
        probe_silence: 3 * SECOND,
        start_limit: 100 * SECOND,
        retry: Policy { max_attempts: 1, ..config().retry },
        ..config()
    };
    let child = Child::new();
    let client = child.client(config.clone());
    let called = call(&client, "first", CallOptions::default());
    let mut process = child.started().await;
    let probe = process.hear("server/discover").await;
    time.pass(2 * SECOND).await;
    let facts = json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {} });
    process.answer(&probe, facts).await;
    let request = process.hear_call("first").await;
    process.answer(&request, text("first")).await;
    called.await.unwrap().unwrap();

    // Silent for longer, and slow to answer the handshake too: 90 of 100 seconds are no failure, and it is one start.
    let child = Child::new();
    let client = child.client(config.clone());
    let calls = [(); 3].map(|()| call(&client, "slow", CallOptions::default()));
    let mut process = child.started().await;
    process.hear("server/discover").await;
    time.pass(3 * SECOND).await;
    let initialize = process.hear("initialize").await;
    time.pass(87 * SECOND).await;
    let facts = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "s", "version": "1" } });
    process.answer(&initialize, facts).await;
    process.hear("notifications/initialized").await;
    for _ in 0..3 {
        let request = process.hear_call("slow").await;
        process.answer(&request, text("slow")).await;
    }
    for called in calls {
        called.await.unwrap().unwrap();
    }

    let child = Child::new();
    let client = child.client(config);
    let called = call(&client, "never", CallOptions::default());
    let mut process = child.started().await;
    process.hear("server/discover").await;
    time.pass(3 * SECOND).await;
    process.hear("initialize").await;
    time.pass(97 * SECOND).await;
    let error = called.await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotExecuted);
    assert!(error.to_string().contains("100s") && error.to_string().contains("start_limit"), "{error}");
}

/// The caller's deadline stands above the limits of the request and covers the wait for a turn as well.
// shows: D-41
#[tokio::test]
async fn g3_the_deadline_of_a_call_stands_above_its_limits() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(Config { concurrency: 1, queue_wait: 60 * MINUTE, ..config() });
    let within = |seconds| CallOptions { deadline: Some(SECOND * seconds), ..CallOptions::default() };
    let running = call(&client, "running", within(20));
    let mut process = child.modern().await;
    let request = process.hear_call("running").await;
    let waiting = call(&client, "waiting", within(10));
    time.pass(10 * SECOND).await;
    assert_eq!(local(&waiting.await.unwrap().unwrap_err()).2, Outcome::NotExecuted);
    assert!(!running.is_finished());
    time.pass(10 * SECOND).await;
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(local(&error), (Category::Deadline, Some(Clock::Maximum), Outcome::Unknown));
    assert!(error.to_string().contains("the deadline of the call or of its run"), "{error}");
    is_told(&mut process, &request, "maximum limit reached").await;
    process.heard_all(&client).await;
}

/// Requests are counted, over all calls of a run and for no other.
#[tokio::test]
async fn d_41_a_run_has_so_many_requests_to_spend_and_no_more() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let run = Run::new("run-7", None, 2);
    let of_run = || CallOptions { run: Some(run.clone()), ..CallOptions::default() };
    let mut process = None;
    for _ in 0..2 {
        let called = call(&client, "spend", of_run());
        if process.is_none() {
            process = Some(child.modern().await);
        }
        let process = process.as_mut().unwrap();
        let request = process.hear_call("spend").await;
        process.answer(&request, text("spent")).await;
        called.await.unwrap().unwrap();
    }
    let error = call(&client, "spend", of_run()).await.unwrap().unwrap_err();
    assert_eq!(local(&error), (Category::Budget, None, Outcome::NotExecuted));
    assert!(error.to_string().contains("run-7"), "{error}");
    process.unwrap().heard_all(&client).await;
}

/// A server that answers one after the other: who waits behind a slow call has all of its own time once it is sent.
// shows: D-42
#[tokio::test]
async fn f085_a_call_behind_a_slow_one_is_not_declared_dead() {
    let time = Time::stands_still();
    let child = Child::new();
    let config = Config { concurrency: 1, queue_wait: 40 * SECOND, limits: limits(35, 35), ..config() };
    let client = child.client(config);
    let slow = call(&client, "slow", CallOptions::default());
    let mut process = child.modern().await;
    let request = process.hear_call("slow").await;
    let fast = call(&client, "fast", CallOptions::default());
    time.pass(30 * SECOND).await;
    process.answer(&request, text("slow")).await;
    slow.await.unwrap().unwrap();
    let request = process.hear_call("fast").await;
    time.pass(30 * SECOND).await;
    assert!(!fast.is_finished(), "a minute after it was made");
    process.answer(&request, text("fast")).await;
    let answered = fast.await.unwrap().unwrap();
    let record = client.records(&answered.call_id).remove(0);
    assert!((30_000..31_000).contains(&record.queue_wait_ms), "{record:?}");
    assert!((30_000..31_000).contains(&record.network_time_ms.unwrap()), "{record:?}");
}

/// 200 calls to a server that is to have four: it never has five, what finds no place is told at once, and all places are
/// free in the end.
// shows: D-42
#[tokio::test]
async fn f086_no_more_calls_run_and_wait_than_may() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(Config { concurrency: 4, queue: 190, ..config() });
    let mut calls: VecDeque<_> = (0..200).map(|_| call(&client, "work", CallOptions::default())).collect();
    let mut process = child.legacy().await;
    let mut refused = 0;
    let mut running = VecDeque::new();
    for _ in 0..194 {
        running.push_back(process.hear_call("work").await);
        if running.len() == 4 {
            process.hears_nothing().await;
            process.answer(&running.pop_front().unwrap(), text("done")).await;
        }
    }
    for request in running {
        process.answer(&request, text("done")).await;
    }
    while let Some(called) = calls.pop_front() {
        if let Err(error) = called.await.unwrap() {
            assert_eq!(local(&error), (Category::QueueFull, None, Outcome::NotExecuted));
            refused += 1;
        }
    }
    assert_eq!(refused, 6);

    // Nobody waits longer than may be; and whoever leaves the queue leaves a place.
    let running: Vec<_> = (0..4).map(|_| call(&client, "work", CallOptions::default())).collect();
    let mut requests = Vec::new();
    for _ in 0..4 {
        requests.push(process.hear_call("work").await);
    }
    let late = call(&client, "late", CallOptions::default());
    time.pass(10 * SECOND).await;
    let error = late.await.unwrap().unwrap_err();
    assert_eq!(local(&error), (Category::QueueWait, None, Outcome::NotExecuted));
    for request in &requests {
        process.answer(request, text("done")).await;
    }
    for called in running {
        called.await.unwrap().unwrap();
    }
    let filling: Vec<_> = (0..194).map(|_| call(&client, "again", CallOptions::default())).collect();
    for _ in 0..194 {
        let request = process.hear_call("again").await;
        process.answer(&request, text("again")).await;
    }
    for called in filling {
        called.await.unwrap().unwrap();
    }
}

/// Whatever a call comes to, its slot is free for the next one.
// shows: D-42, F022
#[tokio::test]
async fn i_24_every_end_of_a_call_gives_its_slot_back() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(Config { concurrency: 1, ..config() });
    let mut process: Option<Process> = None;
    for end in ["result", "error", "strange", "silence", "cancel", "abort", "loss"] {
        let options = CallOptions::default();
        let cancel = options.cancel.clone();
        let called = call(&client, "end", options);
        if process.is_none() {
            process = Some(child.modern().await);
        }
        let mut current = process.take().unwrap();
        let request = current.hear_call("end").await;
        match end {
            "result" => current.answer(&request, text("end")).await,
            "error" => current.refuse(&request, -32_603, "no").await,
            "strange" => current.answer(&request, json!({ "resultType": "strange" })).await,
            "silence" => time.pass(5 * MINUTE).await,
            "cancel" => cancel.cancel(),
            "abort" => called.abort(),
            _ => {}
        }
        if end == "loss" {
            drop(current);
            called.await.unwrap().unwrap_err();
            let next = call(&client, "next", CallOptions::default());
            let mut current = child.restarted(&time).await;
            let request = current.hear_call("next").await;
            current.answer(&request, text("next")).await;
            next.await.unwrap().unwrap();
            continue;
        }
        let _ = called.await;
        if ["silence", "cancel"].contains(&end) {
            current.hear("notifications/cancelled").await;
        }
        let next = call(&client, "next", CallOptions::default());
        let mut request = current.next().await.unwrap();
        if request["method"] == "notifications/cancelled" {
            request = current.next().await.unwrap();
        }
        assert_eq!(request["params"]["name"], "next", "{end}");
        current.answer(&request, text("next")).await;
        next.await.unwrap().unwrap();
        process = Some(current);
    }
}

/// Twenty calls at once, the tenth breaks: nineteen succeed over the same connection.
#[tokio::test]
async fn f052_one_failed_call_fails_alone() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let calls: Vec<_> = (0..20).map(|_| call(&client, "work", CallOptions::default())).collect();
    let mut process = child.modern().await;
    let mut requests = Vec::new();
    for _ in 0..20 {
        requests.push(process.hear_call("work").await);
    }
    for (at, request) in requests.iter().enumerate().rev() {
        match at {
            9 => process.refuse(request, -32_603, "no").await,
            _ => process.answer(request, text("done")).await,
        }
    }
    let mut failed = 0;
    for called in calls {
        failed += usize::from(called.await.unwrap().is_err());
    }
    assert_eq!(failed, 1);
    process.heard_all(&client).await;
}

/// Five at once, one of them takes too long: what it answers then reaches nobody else.
#[tokio::test]
async fn f013_a_late_answer_fills_no_siblings_place() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(config());
    let mut calls = Vec::new();
    let mut requests = Vec::new();
    let mut process = None;
    for at in 0..5 {
        let limits = Some(if at == 2 { limits(5, 6) } else { limits(50, 50) });
        calls.push(call(&client, "work", CallOptions { limits, ..CallOptions::default() }));
        if process.is_none() {
            process = Some(child.modern().await);
        }
        requests.push(process.as_mut().unwrap().hear_call("work").await);
    }
    let mut process = process.unwrap();
    time.pass(5 * SECOND).await;
    is_told(&mut process, &requests[2], "idle limit reached").await;
    for at in [2, 4, 0, 3, 1] {
        process.answer(&requests[at], text(&at.to_string())).await;
    }
    for (at, called) in calls.into_iter().enumerate() {
        match called.await.unwrap() {
            Ok(answered) => assert_eq!(words(&answered), at.to_string()),
            Err(error) => assert_eq!((at, local(&error).1), (2, Some(Clock::Idle))),
        }
    }
}

fn client_of(child: &Child) -> Client {
    child.client(Config { limits: limits(10, 20), ..config() })
}

/// A server that answers `"1"` for `1`, or null, is never matched by guess; where one call alone was pending, its error
/// names the likely cause.
// shows: MSG-07, MSG-10, F017
#[tokio::test]
async fn f016_an_answer_to_a_changed_id_is_no_answer_and_the_timeout_says_so() {
    let time = Time::stands_still();
    for changed in ["text", "null", "zero"] {
        let child = Child::new();
        let client = client_of(&child);
        let called = call(&client, "work", CallOptions::default());
        let mut process = child.modern().await;
        let request = process.hear_call("work").await;
        let id = match changed {
            "text" => json!(request["id"].to_string()),
            "null" => Value::Null,
            _ => json!(0),
        };
        let answer = match changed {
            "null" => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -1, "message": "x" } }),
            _ => json!({ "jsonrpc": "2.0", "id": id, "result": text("wrong") }),
        };
        process.say(&answer).await;
        // What follows on the pipe has been read, so the answer before it has too.
        let token = json!("none");
        process.say(&progress(&token, 1.0)).await;
        let other = call(&client, "work", CallOptions::default());
        let request = process.hear_call("work").await;
        process.answer(&request, text("right")).await;
        assert_eq!(words(&other.await.unwrap().unwrap()), "right");
        time.pass(10 * SECOND).await;
        let error = called.await.unwrap().unwrap_err();
        assert_eq!(local(&error).1, Some(Clock::Idle));
        let cause = format!("it answered to id {id} meanwhile");
        assert!(error.to_string().contains(&cause), "{error}");
    }
}

/// Nobody asks a busy server whether it lives: its call has its own limits, and those alone end anything.
#[tokio::test]
async fn f077_a_server_that_works_for_an_hour_is_neither_probed_nor_started_again() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.client(Config { limits: limits(7_200, 7_200), ..config() });
    let called = call(&client, "work", CallOptions::default());
    let mut process = child.legacy().await;
    let request = process.hear_call("work").await;
    for _ in 0..60 {
        time.pass(MINUTE).await;
    }
    process.hears_nothing().await;
    process.answer(&request, text("done")).await;
    assert_eq!(words(&called.await.unwrap().unwrap()), "done");
    for _ in 0..60 {
        time.pass(MINUTE).await;
    }
    process.hears_nothing().await;
    process.heard_all(&client).await;
}
