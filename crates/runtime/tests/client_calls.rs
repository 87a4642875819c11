//! What a client makes of servers that misbehave: real children, whose files tell what they did.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{
    Answering, CallOptions, Category, Client, Command, Config, Error, Handler, Question, ToolContract,
};
use steadfast::core::call::Policy;
use steadfast::core::error::Outcome;
use steadfast::core::hop::Revision;
use steadfast::core::policy::{Backoff, Effect, Idempotency};

/// A host that agrees to everything.
struct Agrees;

impl Handler for Agrees {
    fn capabilities(&self) -> String {
        r#"{"elicitation":{}}"#.to_owned()
    }

    fn answer<'a>(&'a self, _question: Question) -> Answering<'a> {
        Box::pin(std::future::ready(Ok(r#"{"action":"accept","content":{"sure":true}}"#.to_owned())))
    }
}

fn client(mode: &str, folder: &Path, contract: Option<(Effect, Idempotency)>) -> Client {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/server.py");
    let args = [script.into(), mode.into(), folder.into()].to_vec();
    let command = Command { program: "python3".into(), args, env: Vec::new(), cwd: None };
    // The pauses are real time, so they are short.
    let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(2)).unwrap();
    let contracts = contract.map(|(effect, idempotency)| ToolContract {
        key: Some("/key".to_owned()),
        ..ToolContract::new("*", effect, idempotency)
    });
    let config = Config {
        name: "shop".to_owned(),
        retry: Policy { max_attempts: 3, backoff },
        contracts: contracts.into_iter().collect(),
        ..Config::default()
    };
    Client::of_command(command).config(config).handler(Arc::new(Agrees)).build()
}

/// How many lines a file of the server has.
fn lines(folder: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn keyed(key: &str) -> CallOptions {
    CallOptions { key: Some(key.to_owned()), ..CallOptions::default() }
}

// shows: RTY-02, D-37, D-49
#[tokio::test]
async fn f001_a_write_whose_answer_is_lost_is_executed_once_and_told_unknown() {
    for contract in
        [None, Some((Effect::Write, Idempotency::None)), Some((Effect::Write, Idempotency::Gateway))]
    {
        let folder = tempfile::tempdir().unwrap();
        let client = client("modern", folder.path(), contract);
        let error = client.call_tool("charge", "{}", CallOptions::default()).await.unwrap_err();
        let Error::Transport { category, sent, outcome, call_id, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*category, *sent, *outcome), (Category::TransportLost, true, Outcome::Unknown));
        assert_eq!(lines(folder.path(), "executed").len(), 1);
        let records = client.records(call_id);
        assert_eq!(records.len(), 1, "one attempt");
        assert_eq!(records[0].outcome, "unknown");
        assert!(!records[0].retryable && !records[0].answered && records[0].sent);

        // The next call starts the child anew, and nothing of the lost one comes back.
        let next = client.call_tool("charge", "{}", CallOptions::default()).await.unwrap();
        assert_eq!(next.attempts, 1);
        assert_eq!((lines(folder.path(), "executed").len(), lines(folder.path(), "started").len()), (2, 2));
        client.close(Duration::from_secs(5)).await;
    }
}

// shows: RTY-07, D-37, D-38
#[tokio::test]
async fn g6_a_keyed_write_is_repeated_under_its_key_where_the_server_enforces_it() {
    let folder = tempfile::tempdir().unwrap();
    let client = client("modern", folder.path(), Some((Effect::Write, Idempotency::Upstream)));
    let done = client.call_tool("charge", r#"{"amount":1.0}"#, keyed("order-17")).await.unwrap();
    assert_eq!(done.attempts, 2);
    assert_eq!(lines(folder.path(), "executed").len(), 1, "executed once");
    let records = client.records(&done.call_id);
    let ids: Vec<_> = records.iter().map(|record| record.request_id.clone()).collect();
    assert_eq!(records.len(), 2);
    assert_ne!(ids[0], ids[1], "each attempt has an id of its own (I-06)");
    assert!(records[0].retryable && records.iter().all(|record| record.keyed));
    assert_eq!(records[1].outcome, "executed");
    client.close(Duration::from_secs(5)).await;
}

// shows: RTY-01, STD-15, STD-16, D-39
#[tokio::test]
async fn g6_a_read_is_repeated_by_the_operators_word() {
    let folder = tempfile::tempdir().unwrap();
    let client = client("modern", folder.path(), Some((Effect::Read, Idempotency::None)));
    let done = client.call_tool("charge", "{}", CallOptions::default()).await.unwrap();
    assert_eq!(done.attempts, 2);
    assert_eq!((lines(folder.path(), "executed").len(), lines(folder.path(), "started").len()), (2, 2));
    let again = lines(folder.path(), "methods");
    let probes = again.iter().filter(|method| *method == "server/discover").count();
    assert_eq!(probes, 1, "the era is remembered over a restart (VER-15)");
    client.close(Duration::from_secs(5)).await;
}

// shows: MRT-10, MRT-12, MRT-13, MRT-17, MRT-18, I-23
#[tokio::test]
async fn mrt_13_questions_are_answered_and_the_state_comes_back_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let client = client("modern", folder.path(), None);
    let done = client.call_tool("ask", "{}", CallOptions::default()).await.unwrap();
    let asked: Vec<Value> =
        lines(folder.path(), "asked").iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].as_object().unwrap().len(), 1, "the first round carries neither");
    assert_eq!(asked[1]["requestState"], r#"{"n": 1.0}"#);
    let answer = json!({ "sure": { "action": "accept", "content": { "sure": true } } });
    assert_eq!(asked[1]["inputResponses"], answer);
    assert_ne!(asked[0]["id"], asked[1]["id"]);
    let rounds: Vec<u32> = client.records(&done.call_id).iter().map(|record| record.round).collect();
    assert_eq!(rounds, [0, 1]);
    client.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn msg_15_an_unknown_result_type_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let client = client("modern", folder.path(), None);
    let error = client.call_tool("strange", "{}", CallOptions::default()).await.unwrap_err();
    let Error::Transport { category, outcome, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*category, *outcome), (Category::InvalidResponse, Outcome::Unknown));
    client.close(Duration::from_secs(5)).await;
}

// shows: VER-06, VER-18, LEG-01, LEG-03, LEG-06, LEG-74
#[tokio::test]
async fn ver_06_a_legacy_child_is_probed_and_then_spoken_to_by_the_handshake() {
    for (mode, starts) in [("legacy", 1), ("exits", 2)] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("lost"), "x").unwrap();
        let client = client(mode, folder.path(), None);
        let done = client.call_tool("charge", "{}", CallOptions::default()).await.unwrap();
        assert_eq!(done.revision, Revision::V2025_06_18);
        assert_eq!(lines(folder.path(), "started").len(), starts, "{mode}");
        assert_eq!(lines(folder.path(), "executed").len(), 1, "a probe executes nothing");
        let initialize: Value = serde_json::from_str(&lines(folder.path(), "initialize")[0]).unwrap();
        assert_eq!(initialize["protocolVersion"], "2025-11-25");
        assert_eq!(initialize["capabilities"], json!({ "elicitation": {} }));
        if mode == "legacy" {
            let params: Value = serde_json::from_str(&lines(folder.path(), "params")[0]).unwrap();
            assert!(params["_meta"].get("io.modelcontextprotocol/protocolVersion").is_none());
        }
        // What is still to be written is, before the child's stdin closes.
        client.close(Duration::from_secs(5)).await;
        if mode == "legacy" {
            assert_eq!(
                lines(folder.path(), "responses"),
                [r#"{"jsonrpc":"2.0","id":"ping-1","result":{}}"#],
                "a ping is answered"
            );
        }
    }
}

#[tokio::test]
async fn leg_08_a_version_that_we_do_not_speak_ends_the_connection_and_sends_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let client = client("future", folder.path(), None);
    let error = client.call_tool("charge", "{}", CallOptions::default()).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotExecuted);
    assert!(error.to_string().contains("2099-01-01"), "{error}");
    assert!(!lines(folder.path(), "methods").contains(&"tools/call".to_owned()));
    client.close(Duration::from_secs(5)).await;
}
