//! Faults of the field that a server over lines can have, each by its case.

mod common;

use common::{Event, Peer, Probe, modern};
use serde_json::{Value, json};
use steadfast::server::Options;

fn progress(token: Value) -> Value {
    json!({ "progressToken": token })
}

/// Two connections with the same tokens, as numbers and as text: each gets only its own progress.
#[tokio::test]
async fn f020_equal_progress_tokens_of_two_clients_never_meet() {
    let (probe, _events) = Probe::new();
    let options = Options { progress_interval: std::time::Duration::ZERO, ..Options::default() };
    let mut clients = [Peer::connect(&probe, options), Peer::connect(&probe, options)];
    for (client, steps) in clients.iter_mut().zip([3, 40]) {
        for (id, token) in [("1", json!(1)), ("2", json!("1"))] {
            let params = json!({ "name": "speak", "arguments": { "steps": steps } });
            client.send(&common::modern_with(id, "tools/call", params, progress(token))).await;
        }
    }
    for (client, steps) in clients.iter_mut().zip([3.0, 40.0]) {
        let (mut number, mut text, mut answers) = (0.0, 0.0, 0);
        while answers < 2 {
            let next = client.next().await;
            let value = next["params"]["progress"].as_f64();
            match &next["params"]["progressToken"] {
                Value::Number(_) => number = value.unwrap(),
                Value::String(_) => text = value.unwrap(),
                _ => answers += 1,
            }
        }
        assert_eq!((number, text), (steps, steps));
    }
}

/// After a cancel nobody answers, and the slot is free again all the same.
#[tokio::test]
async fn f022_a_cancelled_call_gives_its_slot_back() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options { max_in_flight: 1, ..Options::default() });
    for round in 0..50 {
        peer.call(&round.to_string(), "hold", json!({})).await;
        assert_eq!(events.recv().await, Some(Event::Began("hold".into())));
        peer.cancel(json!(round)).await;
        assert_eq!(events.recv().await, Some(Event::Stopped("hold".into())));
        assert_eq!(events.recv().await, Some(Event::Ended("hold".into())));
        // The end of the handler and the return of the slot are one step apart.
        loop {
            peer.call("\"next\"", "echo", json!(round)).await;
            let next = peer.next().await;
            if next.get("result").is_some() {
                break;
            }
            assert_eq!(next["error"]["data"]["steadfast/error"]["category"], "queue_full");
        }
    }
}

/// A writer that is aborted in the middle of a line spoils that line and nothing else.
#[tokio::test]
async fn f025_half_a_line_spoils_nothing_but_itself() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    let whole =
        modern("1", "tools/call", json!({ "name": "echo", "arguments": { "x": "y".repeat(200_000) } }));
    peer.send(&whole[..100_000]).await;
    peer.call("2", "echo", json!(2)).await;
    let refused = peer.next().await;
    assert_eq!((refused["error"]["code"].as_i64(), refused.get("id")), (Some(-32700), None));
    assert_eq!(peer.next().await["result"]["echo"], 2);
}

/// Twenty calls at once, the tenth breaks: nineteen succeed, and the connection lives.
#[tokio::test]
async fn f052_one_failed_request_fails_alone() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    for id in 1..=20 {
        if id == 10 {
            peer.call("10", "panic", json!({})).await;
        } else {
            peer.call(&id.to_string(), "hold", json!({ "as": id.to_string() })).await;
            events.recv().await.unwrap();
        }
    }
    let failed = peer.next().await;
    assert_eq!(failed["id"], 10);
    assert!(failed.get("error").is_some());
    for id in (1..=20).filter(|id| *id != 10) {
        probe.release(&id.to_string());
        assert_eq!(peer.next().await["result"]["held"], id.to_string());
    }
    peer.is_silent().await;
}

/// What a reader could take for the end of a line, in both directions, byte for byte.
#[tokio::test]
async fn f062_separators_inside_a_message_split_nothing() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    let odd = "a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f";
    // As they are, and with a CRLF at the end of the line.
    let raw = modern("1", "tools/call", json!({ "name": "echo", "arguments": { "x": odd, "y": "\r\n" } }));
    for line in [raw.clone(), format!("{raw}\r")] {
        peer.send(&line).await;
        let answer = peer.line().await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["result"]["echo"], json!({ "x": odd, "y": "\r\n" }));
    }
}

/// 129 KiB and 8 MiB pass, one byte over the limit is told so, and the stream stays in step.
#[tokio::test]
async fn f064_long_lines_pass_and_one_that_is_too_long_is_skipped() {
    let (probe, _events) = Probe::new();
    let limit = 9 << 20;
    let mut peer = Peer::connect(&probe, Options { max_message_bytes: limit, ..Options::default() });
    for bytes in [129 << 10, 8 << 20] {
        peer.call("1", "echo", json!("x".repeat(bytes))).await;
        assert_eq!(peer.next().await["result"]["echo"].as_str().map(str::len), Some(bytes));
    }
    let short = modern("2", "tools/call", json!({ "name": "echo", "arguments": "" }));
    for (bytes, taken) in [(limit, true), (limit + 1, false)] {
        let pad = " ".repeat(bytes - short.len());
        peer.send(&format!("{}{pad}}}", &short[..short.len() - 1])).await;
        let answer = peer.next().await;
        assert_eq!(answer.get("result").is_some(), taken, "{bytes}");
        if !taken {
            assert!(answer["error"]["message"].as_str().unwrap().contains(&bytes.to_string()));
        }
    }
    peer.is_silent().await;
}

/// The client vanishes while a thousand messages wait for it: the server ends, and so do its handlers.
#[tokio::test]
async fn f076_a_client_that_vanishes_ends_the_server_and_nothing_spins() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.call("0", "hold", json!({})).await;
    assert_eq!(events.recv().await, Some(Event::Began("hold".into())));
    for id in 1..=1_000 {
        peer.call(&id.to_string(), "echo", json!("x".repeat(500))).await;
        if id % 20 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let server = peer.vanish();
    assert_eq!(events.recv().await, Some(Event::Stopped("hold".into())));
    // A broken pipe may be how it ends; that it ends is what matters.
    let _ = server.await.unwrap();
}

/// A long call holds up neither a ping nor a cancel nor a fast call.
#[tokio::test]
async fn f085_a_slow_call_blocks_nothing() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.initialize("2025-11-25").await;
    for (id, label) in [("1", "slow"), ("2", "cancelled")] {
        peer.call(id, "hold", json!({ "as": label })).await;
        events.recv().await.unwrap();
    }
    peer.send(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).await;
    assert_eq!(peer.next().await["id"], 3);
    peer.call("4", "echo", json!(4)).await;
    assert_eq!(peer.next().await["id"], 4);
    peer.cancel(json!(2)).await;
    assert_eq!(events.recv().await, Some(Event::Stopped("cancelled".into())));
    probe.release("slow");
    assert_eq!(peer.next().await["id"], 1);
}

/// Two clients ask with equal ids at once, one can be asked and one cannot, and one leaves before it answers.
#[tokio::test]
async fn f107_a_question_reaches_the_client_of_its_call_and_settles_when_that_leaves() {
    let (probe, mut events) = Probe::new();
    let mut clients = [Peer::connect(&probe, Options::default()), Peer::connect(&probe, Options::default())];
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{}}}"#;
    let mut questions = Vec::new();
    for client in &mut clients {
        client.initialize("2025-11-25").await;
        client.send(ask).await;
        questions.push(client.next().await["id"].clone());
    }
    // Answered in the other order, each with its own words.
    for (client, (id, words)) in clients.iter_mut().zip(questions.iter().zip(["first", "second"])).rev() {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "action": words } });
        client.send(&answer.to_string()).await;
        assert_eq!(client.next().await["result"]["answer"], format!(r#"{{"action":"{words}"}}"#));
    }
    let [mut staying, mut leaving] = clients;
    leaving.send(&ask.replace("\"id\":1", "\"id\":2")).await;
    leaving.next().await;
    leaving.call("3", "hold", json!({})).await;
    assert_eq!(events.recv().await, Some(Event::Began("hold".into())));
    let server = leaving.vanish();
    assert_eq!(events.recv().await, Some(Event::Stopped("hold".into())));
    let _ = server.await.unwrap();
    staying.is_silent().await;
}
