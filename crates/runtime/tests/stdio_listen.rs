//! `subscriptions/listen` over lines (SUB, CAN-12).

mod common;

use std::sync::Arc;

use common::{Event, Peer, Probe, listen, modern_with, updated};
use serde_json::{Value, json};
use steadfast::core::subscription::Change;
use steadfast::server::Options;

const TAG: &str = "io.modelcontextprotocol/subscriptionId";
const TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

async fn subscribe(peer: &mut Peer, id: &str, notifications: Value) -> Value {
    let capabilities: Value = serde_json::from_str(TASKS).unwrap();
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": capabilities });
    peer.send(&modern_with(id, "subscriptions/listen", listen(notifications), meta)).await;
    peer.next().await
}

fn tag_of(message: &Value) -> &Value {
    &message["params"]["_meta"][TAG]
}

// shows: SUB-04, SUB-06, SUB-08, TSK-56
#[tokio::test]
async fn sub_03_the_acknowledgement_comes_first_and_says_what_is_granted() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    let asked = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": false,
        "resourceSubscriptions": ["x://a", "file:///etc/passwd"], "taskIds": ["tk_1"], "unheardOf": 1,
    });
    for id in ["7", "\"7\"", "\"\""] {
        let acknowledged = subscribe(&mut peer, id, asked.clone()).await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(tag_of(&acknowledged).to_string(), id, "SUB-08, the type included");
        assert_eq!(
            acknowledged["params"]["notifications"],
            json!({ "toolsListChanged": true, "resourceSubscriptions": ["x://a"], "taskIds": ["tk_1"] }),
            "SUB-06: neither what cannot change nor what may not be read; AMB-36: no false"
        );
    }
    let nothing = subscribe(&mut peer, "9", json!({ "resourceSubscriptions": [] })).await;
    assert_eq!(nothing["params"]["notifications"], json!({}));
}

// shows: SUB-10, SUB-16, SUB-23, SUB-24, SUB-05
#[tokio::test]
async fn sub_11_each_subscription_gets_its_own_copy_of_what_it_asked_for() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    subscribe(&mut peer, "1", json!({ "toolsListChanged": true, "resourceSubscriptions": ["x://a"] })).await;
    subscribe(&mut peer, "\"1\"", json!({ "resourceSubscriptions": ["x://a", "x://b"] })).await;
    peer.call("2", "hold", json!({})).await;
    events.recv().await.unwrap();
    let changes =
        [Change::Tools, Change::Prompts, updated("x://a#row-3"), updated("x://b"), updated("x://c")];
    for change in &changes {
        probe.changes.publish(change);
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        let next = peer.next().await;
        seen.push((
            tag_of(&next).to_string(),
            next["method"].as_str().unwrap().to_owned(),
            next["params"]["uri"].clone(),
        ));
    }
    seen.sort_by_key(|(tag, method, uri)| (tag.clone(), method.clone(), uri.to_string()));
    let updated = "notifications/resources/updated".to_owned();
    assert_eq!(
        seen,
        [
            ("\"1\"".to_owned(), updated.clone(), json!("x://a#row-3")),
            ("\"1\"".to_owned(), updated.clone(), json!("x://b")),
            ("1".to_owned(), updated, json!("x://a#row-3")),
            ("1".to_owned(), "notifications/tools/list_changed".to_owned(), Value::Null),
        ],
        "SUB-02: and nothing that was not asked for"
    );
    peer.is_silent().await;
}

// shows: SUB-25
#[tokio::test]
async fn sub_02_neither_progress_nor_log_entries_reach_a_listen() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    subscribe(&mut peer, "1", json!({ "toolsListChanged": true })).await;
    let meta = json!({ "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug" });
    let params = json!({ "name": "speak", "arguments": { "steps": 3 } });
    peer.send(&modern_with("2", "tools/call", params, meta)).await;
    loop {
        let next = peer.next().await;
        assert_eq!(tag_of(&next), &Value::Null);
        if next["id"] == 2 {
            break;
        }
    }
}

#[tokio::test]
async fn sub_13_after_a_cancel_nothing_more_is_sent_for_it() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    subscribe(&mut peer, "1", json!({ "toolsListChanged": true })).await;
    subscribe(&mut peer, "2", json!({ "toolsListChanged": true })).await;
    peer.cancel(json!(1)).await;
    // The id is free once the listen is gone, which is how we know it is.
    loop {
        let next = subscribe(&mut peer, "1", json!({})).await;
        if next["method"] == "notifications/subscriptions/acknowledged" {
            break;
        }
    }
    probe.changes.publish(&Change::Tools);
    assert_eq!(tag_of(&peer.next().await), 2);
    peer.is_silent().await;
    assert_eq!(probe.changes.listeners(), 2, "I-24");
}

// shows: SUB-15, CAN-12, CAN-13
#[tokio::test]
async fn sub_14_at_the_end_each_listen_gets_its_result_and_then_its_cancel() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    for id in ["10", "\"x\""] {
        subscribe(&mut peer, id, json!({ "toolsListChanged": true })).await;
    }
    peer.end();
    let rest = peer.rest().await;
    assert_eq!(rest.len(), 4, "{rest:?}");
    for pair in rest.chunks(2) {
        let id = &pair[0]["id"];
        assert_eq!(pair[0]["result"], json!({ "resultType": "complete", "_meta": { TAG: id } }));
        assert_eq!(pair[1]["method"], "notifications/cancelled");
        assert_eq!(&pair[1]["params"]["requestId"], id, "AMB-01");
    }
}

#[tokio::test]
async fn sub_20_a_listener_that_falls_behind_is_ended_without_a_result() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    // The pipe holds 64 KiB, the queue of a listen 256 messages and its backlog 256 different changes; beyond these
    // nothing is kept for it.
    let uris: Vec<String> = (0..1_000).map(|n| format!("x://{n}/{}", "y".repeat(200))).collect();
    subscribe(&mut peer, "1", json!({ "resourceSubscriptions": uris })).await;
    for uri in &uris {
        probe.changes.publish(&updated(uri));
        tokio::task::yield_now().await;
    }
    let last = loop {
        let next = peer.next().await;
        if next["method"] != "notifications/resources/updated" {
            break next;
        }
    };
    assert_eq!(
        (&last["method"], &last["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(1))
    );
    peer.is_silent().await;
    assert_eq!(probe.changes.listeners(), 0, "I-24");
}

// shows: SUB-26
#[tokio::test]
async fn sub_27_a_listen_without_its_shape_is_refused_and_never_acknowledged() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    for params in [
        json!({}),
        json!({ "notifications": [] }),
        json!({ "notifications": { "toolsListChanged": "yes" } }),
        json!({ "notifications": { "resourceSubscriptions": "x://a" } }),
        json!({ "notifications": { "resourceSubscriptions": (0..1_025).map(|n| format!("x://{n}")).collect::<Vec<_>>() } }),
        json!({ "notifications": { "resourceSubscriptions": [format!("x://{}", "y".repeat(256 << 10))] } }),
    ] {
        peer.ask("1", "subscriptions/listen", params).await;
        assert_eq!(peer.next().await["error"]["code"], -32602);
    }
    peer.ask("1", "subscriptions/listen", listen(json!({ "taskIds": ["tk_1"] }))).await;
    let refused = peer.next().await;
    assert_eq!(refused["error"]["code"], -32021, "SUB-26");
    assert_eq!(
        refused["error"]["data"]["requiredCapabilities"],
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
    );
    assert_eq!(probe.changes.listeners(), 0);
}

/// A change between the registration and the acknowledgement is delivered after it, in every round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sub_28_no_change_is_lost_around_the_acknowledgement() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    for round in 0..500 {
        let id = round.to_string();
        let waiting = Arc::clone(&probe);
        let before = waiting.changes.listeners();
        // Publishes at the first moment at which the listener is registered.
        let publish = tokio::spawn(async move {
            while waiting.changes.listeners() == before {
                tokio::task::yield_now().await;
            }
            waiting.changes.publish(&Change::Tools);
        });
        let first = subscribe(&mut peer, &id, json!({ "toolsListChanged": true })).await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(peer.next().await["method"], "notifications/tools/list_changed");
        publish.await.unwrap();
        peer.cancel(json!(round)).await;
        while probe.changes.listeners() > before {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn sub_04_the_end_of_the_connection_frees_what_listened() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    subscribe(&mut peer, "1", json!({ "toolsListChanged": true })).await;
    peer.call("2", "hold", json!({})).await;
    events.recv().await.unwrap();
    peer.close().await;
    assert_eq!(events.recv().await, Some(Event::Stopped("hold".into())));
    assert_eq!(peer.rest().await, Vec::<Value>::new(), "abandoned: no result, no cancel");
    (&mut peer.server).await.unwrap().unwrap();
    assert_eq!(probe.changes.listeners(), 0);
}
