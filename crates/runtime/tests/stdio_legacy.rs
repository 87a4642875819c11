//! The handshake revisions over lines, and both eras on one connection (LEG, VER).

mod common;

use common::{Event, Peer, Probe, updated};
use serde_json::{Value, json};
use steadfast::core::subscription::Change;
use steadfast::server::Options;

async fn ask(peer: &mut Peer, id: u64, method: &str, params: Value) -> Value {
    peer.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()).await;
    peer.next().await
}

async fn call(peer: &mut Peer, id: u64, tool: &str) -> Value {
    ask(peer, id, "tools/call", json!({ "name": tool, "arguments": {} })).await
}

#[tokio::test]
async fn leg_07_the_version_asked_for_is_taken_where_it_is_legacy_else_the_newest_of_them() {
    for (asked, negotiated) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        // VER-24: a modern version is never negotiated.
        ("2026-07-28", "2025-11-25"),
        ("tomorrow", "2025-11-25"),
    ] {
        let (probe, _events) = Probe::new();
        let mut peer = Peer::connect(&probe, Options::default());
        let answer = peer.initialize(asked).await;
        assert_eq!(answer["result"]["protocolVersion"], negotiated, "{asked}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "probe", "LEG-02");
        let caller = call(&mut peer, 1, "caller").await;
        assert_eq!(caller["result"]["revision"], negotiated);
        assert_eq!(caller["result"]["capabilities"], r#"{"elicitation":{}}"#);
    }
}

#[tokio::test]
async fn leg_01_a_handshake_needs_its_members_and_happens_once() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    let refused = ask(&mut peer, 1, "initialize", json!({ "capabilities": {} })).await;
    assert_eq!(refused["error"]["code"], -32602);
    // Nothing was opened by that: the next one is the first.
    assert!(peer.initialize("2025-06-18").await.get("result").is_some());
    let again =
        ask(&mut peer, 2, "initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {} })).await;
    assert_eq!(again["error"]["code"], -32600);
}

#[tokio::test]
async fn leg_74_a_ping_is_answered_before_and_after_the_handshake() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    assert_eq!(ask(&mut peer, 1, "ping", json!({})).await["result"], json!({}));
    let early = call(&mut peer, 2, "echo").await;
    assert_eq!(early["error"]["code"], -32602, "neither negotiated nor modern: told what it lacks");
    peer.initialize("2025-11-25").await;
    assert_eq!(ask(&mut peer, 3, "ping", json!({})).await["result"], json!({}));
}

// shows: VER-20, VER-21
#[tokio::test]
async fn ver_23_a_modern_request_beside_a_session_learns_nothing_from_it() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.initialize("2025-06-18").await;
    assert_eq!(ask(&mut peer, 1, "logging/setLevel", json!({ "level": "debug" })).await["result"], json!({}));
    peer.call("2", "caller", json!({})).await;
    let modern = peer.next().await;
    assert_eq!(
        modern["result"],
        json!({ "revision": "2026-07-28", "capabilities": "{}", "level": null, "trace": null }),
        "no version, no capability and no level leaked"
    );
    let legacy = call(&mut peer, 3, "caller").await;
    assert_eq!(
        (&legacy["result"]["revision"], &legacy["result"]["level"]),
        (&json!("2025-06-18"), &json!("debug"))
    );
    // Its own subscription is all that a modern request is told by.
    probe.changes.publish(&Change::Tools);
    let told = peer.next().await;
    assert_eq!(told, json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {} }));
    peer.is_silent().await;
}

#[tokio::test]
async fn leg_82_changes_of_subscribed_resources_are_told_until_unsubscribed() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.initialize("2025-11-25").await;
    let missing = ask(&mut peer, 1, "resources/subscribe", json!({ "uri": "file:///x" })).await;
    assert_eq!(
        (&missing["error"]["code"], &missing["error"]["data"]["uri"]),
        (&json!(-32002), &json!("file:///x"))
    );
    probe.changes.publish(&updated("x://a"));
    for (id, uri) in [(2, "x://a"), (3, "x://b"), (4, "x://a")] {
        assert_eq!(
            ask(&mut peer, id, "resources/subscribe", json!({ "uri": uri })).await["result"],
            json!({})
        );
    }
    for uri in ["x://a", "x://b"] {
        probe.changes.publish(&updated(uri));
        let told = peer.next().await;
        assert_eq!(
            (&told["method"], &told["params"]),
            (&json!("notifications/resources/updated"), &json!({ "uri": uri }))
        );
    }
    assert_eq!(
        ask(&mut peer, 5, "resources/unsubscribe", json!({ "uri": "x://a" })).await["result"],
        json!({})
    );
    probe.changes.publish(&updated("x://a"));
    probe.changes.publish(&updated("x://b"));
    assert_eq!(peer.next().await["params"]["uri"], "x://b");
    assert_eq!(ask(&mut peer, 6, "resources/subscribe", json!({})).await["error"]["code"], -32602);
    let long = format!("x://{}", "y".repeat(256 << 10));
    assert_eq!(
        ask(&mut peer, 7, "resources/subscribe", json!({ "uri": long })).await["error"]["code"],
        -31000
    );
    probe.changes.publish(&updated("x://b"));
    assert_eq!(peer.next().await["params"]["uri"], "x://b", "what was subscribed to before stays so");
}

#[tokio::test]
async fn leg_83_the_level_is_the_sessions() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.initialize("2025-11-25").await;
    let speak = json!({ "name": "speak", "arguments": { "steps": 1 } });
    for (id, level, entries) in [(10, None, 2), (20, Some("error"), 1), (30, Some("debug"), 3)] {
        if let Some(level) = level {
            assert_eq!(
                ask(&mut peer, id, "logging/setLevel", json!({ "level": level })).await["result"],
                json!({})
            );
        }
        let mut next = ask(&mut peer, id + 1, "tools/call", speak.clone()).await;
        let mut seen = 0;
        while next["method"] == "notifications/message" {
            seen += 1;
            next = peer.next().await;
        }
        assert_eq!((seen, &next["id"]), (entries, &json!(id + 1)), "{level:?}");
    }
    assert_eq!(
        ask(&mut peer, 40, "logging/setLevel", json!({ "level": "loud" })).await["error"]["code"],
        -32602
    );
}

#[tokio::test]
async fn leg_77_a_handler_asks_the_client_and_gets_its_answer() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.initialize("2025-11-25").await;
    let first = call(&mut peer, 1, "ask").await;
    let second = call(&mut peer, 2, "ask").await;
    assert_eq!(
        (&first["method"], &second["method"]),
        (&json!("elicitation/create"), &json!("elicitation/create"))
    );
    assert_ne!(first["id"], second["id"], "LEG-11");
    // An answer to nothing, and one under the id's other type, are nobody's.
    peer.send(r#"{"jsonrpc":"2.0","id":"unheard of","result":{}}"#).await;
    peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"decline"}}}}"#, second["id"])).await;
    let answered = peer.next().await;
    assert_eq!(
        answered,
        json!({ "jsonrpc": "2.0", "id": 2, "result": { "answer": r#"{"action":"decline"}"# } })
    );
    peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-1,"message":"no"}}}}"#, first["id"]))
        .await;
    assert_eq!(peer.next().await["result"]["error"], r#"{"code":-1,"message":"no"}"#);
    // MSG-18: a modern caller on the same connection is never asked.
    peer.call("3", "ask", json!({})).await;
    assert!(peer.next().await["result"]["not_asked"].is_string());
}

#[tokio::test]
async fn leg_70_a_question_is_withdrawn_when_its_call_is_cancelled() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.initialize("2025-11-25").await;
    let question = call(&mut peer, 1, "ask").await;
    peer.cancel(json!(1)).await;
    // G5: nothing more is said for the call, its question's withdrawal included; the client that cancelled knows.
    peer.is_silent().await;
    peer.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, question["id"])).await;
    peer.is_silent().await;
    peer.send(r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"hold"}}"#).await;
    assert_eq!(events.recv().await, Some(Event::Began("hold".into())));
    peer.cancel(json!(4)).await;
    assert_eq!(events.recv().await, Some(Event::Stopped("hold".into())), "LEG-71");
    peer.is_silent().await;
}

/// Real time, and little of it: the one call reaches its limit, the other has none.
#[tokio::test]
async fn ruling_18_who_waits_for_a_task_has_no_limit() {
    let (probe, mut events) = Probe::new();
    let limit = std::time::Duration::from_millis(30);
    let limits = steadfast::core::exchange::Limits::new(limit, limit * 1_000).unwrap();
    let mut peer = Peer::connect(&probe, Options { limits, ..Options::default() });
    peer.initialize("2025-11-25").await;
    peer.send(r#"{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"t"}}"#).await;
    assert_eq!(events.recv().await, Some(Event::Began("hold".into())));
    peer.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hold","arguments":{"as":"call"}}}"#).await;
    assert_eq!(events.recv().await, Some(Event::Began("call".into())));
    let timed_out = peer.next().await;
    assert_eq!(
        (&timed_out["id"], &timed_out["error"]["data"]["steadfast/error"]["clock"]),
        (&json!(2), &json!("idle"))
    );
    assert_eq!(events.recv().await, Some(Event::Stopped("call".into())));
    probe.release("hold");
    loop {
        let next = peer.next().await;
        if next["id"] == 1 {
            assert_eq!(next["result"]["held"], "hold");
            break;
        }
    }
}

/// A refusal opens nothing: the next handshake is the first.
#[tokio::test]
async fn leg_01_a_refused_handshake_opens_no_session() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    let hello = |meta: Value| json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "_meta": meta });
    let refused = ask(&mut peer, 1, "initialize", hello(json!({ "progressToken": {} }))).await;
    assert_eq!(refused["error"]["code"], -32602);
    peer.call("2", "hold", json!({})).await;
    assert_eq!(events.recv().await, Some(Event::Began("hold".into())));
    let refused = ask(&mut peer, 2, "initialize", hello(json!({}))).await;
    assert_eq!(refused["error"]["code"], -32600, "its id is in use");
    let opened =
        ask(&mut peer, 3, "initialize", json!({ "protocolVersion": "2025-03-26", "capabilities": {} })).await;
    assert_eq!(opened["result"]["protocolVersion"], "2025-03-26");
}

#[tokio::test]
async fn leg_23_the_one_revision_that_has_batches_is_served_them() {
    let (probe, _events) = Probe::new();
    let batch = r#"[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},7,{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":1}},{"jsonrpc":"2.0","id":4,"method":"initialize"}]"#;
    for (version, served) in [("2025-03-26", true), ("2025-06-18", false)] {
        let mut peer = Peer::connect(&probe, Options::default());
        peer.initialize(version).await;
        peer.send(batch).await;
        if !served {
            assert_eq!(peer.next().await["error"]["code"], -32600);
            peer.is_silent().await;
            continue;
        }
        let mut ids = Vec::new();
        for _ in 0..4 {
            let answer = peer.next().await;
            ids.push((answer["id"].as_i64(), answer.get("error").is_some()));
        }
        ids.sort_unstable();
        // What is no message has no id to be answered under, and a handshake is never part of a batch.
        assert_eq!(ids, [(None, true), (Some(2), false), (Some(3), false), (Some(4), true)]);
        peer.send("[]").await;
        assert_eq!(peer.next().await["error"]["code"], -32600);
    }
}
