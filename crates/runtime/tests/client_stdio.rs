//! What becomes of calls when the child behind them fails: real children, whose folder tells what they did. Processes
//! take real time: limits that are not the subject are generous.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use steadfast::client::{CallOptions, Category, Client, Command, Config, Error};
use steadfast::core::call::Policy;
use steadfast::core::error::Outcome;
use steadfast::core::exchange::Limits;
use steadfast::core::policy::breaker::Thresholds;
use steadfast::core::policy::{Backoff, Budget};

const GRACE: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(1);

fn command(folder: &Path, mode: &str) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/child.py");
    let args = ["-I".into(), "-S".into(), script.into(), folder.into(), mode.into()].to_vec();
    Command { program: "python3".into(), args, env: Vec::new(), cwd: None }
}

/// Many starts, hardly apart, and no breaker.
fn generous() -> Config {
    let backoff = Backoff::new(SHORT, SHORT).unwrap();
    Config {
        restarts: Budget { starts: 10_000, backoff, ..Budget::DEFAULT },
        breaker: Thresholds { failures: u32::MAX, ..Thresholds::DEFAULT },
        ..Config::default()
    }
}

fn client(folder: &Path, mode: &str, config: Config) -> Client {
    Client::of_command(command(folder, mode)).config(config).build()
}

async fn call(client: &Client, tool: &str) -> Result<Value, Error> {
    let answered = client.call_tool(tool, "{}", CallOptions::default()).await?;
    Ok(serde_json::from_slice(&answered.result).unwrap())
}

fn lines(folder: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Waits for the child to get so far.
async fn until(what: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen");
}

fn category(error: &Error) -> Category {
    match error {
        Error::Local { category, .. } | Error::Transport { category, .. } => *category,
        other => panic!("{other:?}"),
    }
}

fn lost(error: &Error) -> &str {
    let Error::Transport {
        category: Category::TransportLost,
        sent: true,
        outcome: Outcome::Unknown,
        sentence,
        ..
    } = error
    else {
        panic!("{error:?}")
    };
    sentence
}

// shows: STD-18, F025, I-26
#[tokio::test]
async fn g12_a_wedged_child_holds_up_neither_the_caller_nor_the_others_nor_the_close() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { write_stall: Duration::from_millis(1_500), ..generous() };
    let client = client(folder.path(), "", config);
    let wedging = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "wedge").await }
    });
    until(|| !lines(folder.path(), "wedged").is_empty()).await;

    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 20));
    let second = Duration::from_secs(1);
    let limits = Some(Limits::new(second, second).unwrap());
    let begun = Instant::now();
    let error =
        client.call_tool("echo", &large, CallOptions { limits, ..CallOptions::default() }).await.unwrap_err();
    let took = begun.elapsed();
    assert!(took >= second && took < Duration::from_millis(1_200), "it took {took:?}");
    assert_eq!(category(&error), Category::Deadline);

    // The other one is still waiting, and is told once that all is lost.
    let error = wedging.await.unwrap().unwrap_err();
    assert!(lost(&error).contains("took no byte of what was written to it for 1.5s"), "{error}");
    assert_eq!(client.records(error.call_id()).len(), 1);
    let begun = Instant::now();
    client.close(second).await;
    assert!(begun.elapsed() < Duration::from_millis(1_500), "close took {:?}", begun.elapsed());
    assert!(!lines(folder.path(), "pids").iter().any(|pid| runs(pid)));
}

// shows: STD-12, F082
#[tokio::test]
async fn g12_close_returns_within_its_limit_though_the_child_is_wedged_right_now() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path(), "", generous());
    let call = |tool: &'static str| {
        let client = client.clone();
        tokio::spawn(async move {
            let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 20));
            client.call_tool(tool, &large, CallOptions::default()).await.unwrap_err()
        })
    };
    let mut calls = vec![call("wedge")];
    until(|| !lines(folder.path(), "wedged").is_empty()).await;
    calls.extend((0..20).map(|_| call("echo")));
    tokio::task::yield_now().await;
    let begun = Instant::now();
    client.close(Duration::from_millis(600)).await;
    assert!(begun.elapsed() < Duration::from_millis(1_100), "close took {:?}", begun.elapsed());
    assert!(!lines(folder.path(), "pids").iter().any(|pid| runs(pid)));
    for call in calls {
        let error = call.await.unwrap();
        assert!(matches!(error, Error::Local { .. }), "our own doing is told as such: {error:?}");
    }
}

// shows: STD-15, STD-18, G12
#[tokio::test]
async fn std_18_restarts_are_bounded_and_the_refusal_says_why_and_when() {
    let folder = tempfile::tempdir().unwrap();
    let backoff = Backoff::new(Duration::from_millis(40), Duration::from_millis(80)).unwrap();
    let restarts = Budget { starts: 4, backoff, ..Budget::DEFAULT };
    let client = client(folder.path(), "", Config { restarts, ..Config::default() });
    let begun = Instant::now();
    for _ in 0..4 {
        let error = call(&client, "crash").await.unwrap_err();
        assert!(
            lost(&error).contains("exited with code 3; its last words on stderr: out of luck"),
            "{error}"
        );
    }
    assert!(begun.elapsed() >= Duration::from_millis(20 + 40), "the third and fourth start waited");
    let begun = Instant::now();
    let error = call(&client, "crash").await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(5), "a refusal waits for nothing");
    assert_eq!((category(&error), error.outcome()), (Category::Spawn, Outcome::NotExecuted));
    let words = error.to_string();
    assert!(words.contains("was started 4 times within 60s") && words.contains("code 3"), "{words}");
    let seconds = words.split("again in ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!((30.0..=60.0).contains(&seconds.parse::<f64>().unwrap()), "{words}");
    assert_eq!(lines(folder.path(), "pids").len(), 4);
    client.close(GRACE).await;
}

// shows: MSG-18, MSG-19
#[tokio::test]
async fn std_09_a_modern_server_that_asks_gets_no_answer_and_nothing_else_that_is_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path(), "asks", generous());
    for _ in 0..3 {
        call(&client, "echo").await.unwrap();
    }
    client.close(GRACE).await;
    let methods = lines(folder.path(), "methods");
    assert_eq!(methods[1..], ["tools/call", "tools/call", "tools/call", "the end"], "after the probe");
}

#[tokio::test]
async fn f080_a_child_that_dies_at_its_start_is_told_with_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path(), "dies", generous());
    let error = client.discover(CallOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("no licence found"), "{error}");
    assert_eq!(error.outcome(), Outcome::NotExecuted);
    client.close(GRACE).await;

    let missing = Command { program: "no-such-server --stdio".into(), ..command(folder.path(), "") };
    let client = Client::of_command(missing).build();
    let error = client.discover(CallOptions::default()).await.unwrap_err();
    assert_eq!(category(&error), Category::Spawn);
    assert!(error.to_string().contains("no shell takes it apart"), "{error}");
}

// shows: F046
#[tokio::test]
async fn f080_the_first_use_waits_for_the_start_that_is_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path(), "", generous());
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "echo").await.unwrap()["pid"].clone() })
        })
        .collect();
    let mut pids = Vec::new();
    for call in calls {
        pids.push(call.await.unwrap());
    }
    pids.dedup();
    assert_eq!((pids.len(), lines(folder.path(), "pids").len()), (1, 1));
    client.close(GRACE).await;
}

#[tokio::test]
async fn f074_a_server_that_is_too_slow_to_start_never_runs_twice() {
    let folder = tempfile::tempdir().unwrap();
    let once = Policy { max_attempts: 1, ..Config::default().retry };
    let config = Config { start_limit: Duration::from_millis(250), retry: once, ..generous() };
    let client = client(folder.path(), "slow", config);
    for _ in 0..20 {
        let error = client.discover(CallOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("start_limit"), "{error}");
    }
    client.close(GRACE).await;
    assert!(lines(folder.path(), "overlaps").is_empty());
    assert!(!lines(folder.path(), "pids").iter().any(|pid| runs(pid)));
}

// shows: STD-18, CAN-01
#[tokio::test]
async fn f028_a_server_that_dies_of_a_cancel_is_told_as_such_and_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path(), "fragile", generous());
    let other = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "hang").await }
    });
    until(|| lines(folder.path(), "calls").len() == 1).await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let (cancelled, ()) = tokio::join!(client.call_tool("hang", "{}", options), async {
        until(|| lines(folder.path(), "calls").len() == 2).await;
        cancel.cancel();
    });
    assert_eq!(category(&cancelled.unwrap_err()), Category::ClientCancelled);
    let error = other.await.unwrap().unwrap_err();
    assert!(lost(&error).contains("exited with code 9 right after it was told of a cancel"), "{error}");
    call(&client, "echo").await.unwrap();
    assert_eq!((lines(folder.path(), "cancelled").len(), lines(folder.path(), "pids").len()), (1, 2));
    client.close(GRACE).await;
}

#[tokio::test]
async fn std_19_what_an_old_process_still_says_reaches_no_new_connection() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path(), "", generous());
    // Its last child has left the group and answers every id there may be, on the old stdout.
    let error = call(&client, "late").await.unwrap_err();
    lost(&error);
    for _ in 0..20 {
        let answer = call(&client, "echo").await.unwrap();
        assert!(answer.get("late").is_none(), "{answer}");
    }
    assert_eq!(lines(folder.path(), "pids").len(), 2);
    client.close(GRACE).await;
}
