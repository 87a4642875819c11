//! The server over lines, in the modern era: what leaves, in which order, and what must not (STD, CAN, PRG, LOG).

mod common;

use common::{Event, Peer, Probe, modern_with};
use serde_json::json;
use steadfast::server::Options;

#[tokio::test]
async fn msg_07_ids_keep_value_and_type_and_two_that_differ_in_type_run_at_once() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    for (id, label) in [("1", "number"), ("\"1\"", "string"), ("0", "zero"), ("\"\"", "empty")] {
        peer.call(id, "hold", json!({ "as": label })).await;
        assert_eq!(events.recv().await, Some(Event::Began(label.into())));
    }
    for (id, label) in
        [(json!(""), "empty"), (json!("1"), "string"), (json!(0), "zero"), (json!(1), "number")]
    {
        probe.release(label);
        let answer = peer.next().await;
        assert_eq!((&answer["id"], &answer["result"]["held"]), (&id, &json!(label)));
    }
}

#[tokio::test]
async fn f010_an_id_in_use_is_refused_and_the_first_call_keeps_it() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.call("7", "hold", json!({ "as": "first" })).await;
    events.recv().await.unwrap();
    peer.call("7", "hold", json!({ "as": "second" })).await;
    let refused = peer.next().await;
    assert_eq!((refused["id"].as_i64(), refused["error"]["code"].as_i64()), (Some(7), Some(-32600)));
    probe.release("first");
    assert_eq!(peer.next().await["result"]["held"], "first");
    assert_eq!(events.recv().await, Some(Event::Ended("first".into())), "the second never began");
    // Answered, the id is free again.
    peer.call("7", "echo", json!("again")).await;
    assert_eq!(peer.next().await["result"]["echo"], "again");
}

/// Must hold in every round: the ids of two clients are theirs, whatever the order of the answers.
#[tokio::test]
async fn f011_two_clients_with_equal_ids_are_never_mixed_up() {
    let (probe, mut events) = Probe::new();
    let mut clients = [Peer::connect(&probe, Options::default()), Peer::connect(&probe, Options::default())];
    for _ in 0..1_000 {
        for (client, label) in clients.iter_mut().zip(["a", "b"]) {
            client.call("1", "hold", json!({ "as": label })).await;
            assert_eq!(events.recv().await, Some(Event::Began(label.into())));
        }
        for (client, label) in clients.iter_mut().zip(["a", "b"]).rev() {
            probe.release(label);
            let answer = client.next().await;
            assert_eq!((answer["id"].as_i64(), &answer["result"]["held"]), (Some(1), &json!(label)));
            assert_eq!(events.recv().await, Some(Event::Ended(label.into())));
        }
    }
}

// shows: CAN-06, CAN-08
#[tokio::test]
async fn can_07_after_a_cancel_nothing_is_sent_whatever_the_handler_does() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    let meta = json!({ "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug" });
    let params = json!({ "name": "hold", "arguments": {} });
    peer.send(&modern_with("5", "tools/call", params, meta)).await;
    assert_eq!(events.recv().await, Some(Event::Began("hold".into())));
    peer.cancel(json!(5)).await;
    assert_eq!(events.recv().await, Some(Event::Stopped("hold".into())), "CAN-06: the work is told to stop");
    assert_eq!(events.recv().await, Some(Event::Ended("hold".into())));
    peer.is_silent().await;
    // Of a request that is over, a second cancel means nothing.
    peer.cancel(json!(5)).await;
    peer.is_silent().await;
}

#[tokio::test]
async fn can_11_a_cancel_that_names_nothing_is_ignored_and_never_answered() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.call("1", "hold", json!({})).await;
    events.recv().await.unwrap();
    for id in [json!("1"), json!(2), json!(null), json!(1.5), json!({}), json!([1])] {
        peer.cancel(id).await;
    }
    peer.notify("notifications/cancelled", json!({})).await;
    peer.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#).await;
    peer.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#).await;
    peer.is_silent().await;
    probe.release("hold");
    assert_eq!(peer.next().await["result"]["held"], "hold", "the call lives");
}

/// F023: a cancel that crosses the answer hurts nobody, in whatever order the two happen.
// shows: F023
#[tokio::test]
async fn can_10_a_cancel_that_crosses_the_answer_settles_once() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    let mut answered = 0;
    for round in 0..2_000 {
        peer.call(&round.to_string(), "speak", json!({ "steps": round % 4 })).await;
        peer.cancel(json!(round)).await;
        peer.call("\"fence\"", "echo", json!(round)).await;
        let mut answers = 0;
        loop {
            let next = peer.next().await;
            if next["id"] == "fence" {
                break;
            }
            assert_eq!(next["id"], round, "a late answer of another round");
            answers += 1;
        }
        assert!(answers <= 1, "G1");
        answered += answers;
    }
    assert!(answered < 2_000, "no cancel was ever acted on");
}

/// The id of a cancelled request stays in use until its handler has ended: a second one under it could not be told
/// apart.
#[tokio::test]
async fn can_10_a_stubborn_handler_keeps_its_id() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.call("3", "deaf", json!({})).await;
    assert_eq!(events.recv().await, Some(Event::Began("deaf".into())));
    peer.cancel(json!(3)).await;
    assert_eq!(events.recv().await, Some(Event::Stopped("deaf".into())));
    peer.call("3", "echo", json!(1)).await;
    assert_eq!(peer.next().await["error"]["code"], -32600);
    probe.release("deaf");
    assert_eq!(events.recv().await, Some(Event::Ended("deaf".into())));
    peer.is_silent().await;
    peer.call("3", "echo", json!(2)).await;
    assert_eq!(peer.next().await["result"]["echo"], 2);
}

// shows: PRG-07, PRG-08
#[tokio::test]
async fn prg_04_progress_rises_under_the_callers_token_and_ends_with_the_answer() {
    let (probe, _events) = Probe::new();
    let options = Options { progress_interval: std::time::Duration::ZERO, ..Options::default() };
    let mut peer = Peer::connect(&probe, options);
    let params = json!({ "name": "speak", "arguments": { "steps": 50 } });
    peer.send(&modern_with("1", "tools/call", params.clone(), json!({ "progressToken": 9 }))).await;
    let mut last = 0.0;
    loop {
        let next = peer.next().await;
        if next["id"] == 1 {
            break;
        }
        assert_eq!(
            (&next["method"], &next["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!(9))
        );
        let value = next["params"]["progress"].as_f64().unwrap();
        assert!(value > last, "PRG-04");
        last = value;
    }
    assert_eq!(last, 50.0, "the latest is kept");
    // Without a token there is no progress.
    peer.send(&modern_with("2", "tools/call", params, json!({}))).await;
    assert_eq!(peer.next().await["id"], 2);
}

// shows: LOG-02
#[tokio::test]
async fn log_01_entries_are_sent_only_to_whom_asked_and_from_the_level_on() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    let params = json!({ "name": "speak", "arguments": { "steps": 1 } });
    for (level, entries) in [(None, 0), (Some("debug"), 3), (Some("info"), 2), (Some("emergency"), 0)] {
        let meta = level.map_or(json!({}), |level| json!({ "io.modelcontextprotocol/logLevel": level }));
        peer.send(&modern_with("1", "tools/call", params.clone(), meta)).await;
        let mut seen = 0;
        loop {
            let next = peer.next().await;
            if next["id"] == 1 {
                break;
            }
            assert_eq!(
                (&next["method"], &next["params"]["logger"]),
                (&json!("notifications/message"), &json!("probe"))
            );
            seen += 1;
        }
        assert_eq!(seen, entries, "{level:?}");
    }
    for bad in [json!("loud"), json!(1)] {
        let meta = json!({ "io.modelcontextprotocol/logLevel": bad });
        peer.send(&modern_with("2", "tools/call", params.clone(), meta)).await;
        assert_eq!(peer.next().await["error"]["code"], -32602, "LOG-04");
    }
}

#[tokio::test]
async fn std_20_noise_is_skipped_and_what_is_no_request_is_told_so() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options { max_message_bytes: 2_000, ..Options::default() });
    for noise in ["", "  ", "starting up …", "\u{1b}[32mready\u{1b}[0m", "true", "12"] {
        peer.send(noise).await;
    }
    peer.is_silent().await;
    for (line, code) in [
        ("{\"jsonrpc\":\"2.0\",", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}"#, -32600),
        (&format!("{{{}", " ".repeat(3_000)), -32600),
    ] {
        peer.send(line).await;
        let refused = peer.next().await;
        assert_eq!((refused["error"]["code"].as_i64(), refused.get("id")), (Some(code), None), "{line}");
    }
    // Nobody waits for an answer to these (MSG-12, MSG-19).
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/unheard_of"}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}"#,
    ] {
        peer.send(line).await;
    }
    peer.is_silent().await;
}

#[tokio::test]
async fn cap_03_metadata_is_required_and_its_version_is_served_or_refused() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options { legacy: false, ..Options::default() });
    for (line, code) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned(), -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#.to_owned(), -32602),
        (modern_with("1", "tools/list", json!({}), json!({ "io.modelcontextprotocol/protocolVersion": "2031-01-01" })), -32022),
        (modern_with("1", "tools/list", json!({}), json!({ "io.modelcontextprotocol/protocolVersion": "2025-11-25" })), -32022),
        (modern_with("1", "no/such", json!({}), json!({})), -32601),
        // VER-22: with modern metadata it is no handshake.
        (modern_with("1", "initialize", json!({}), json!({ "progressToken": [] })), -32602),
    ] {
        peer.send(&line).await;
        let refused = peer.next().await;
        assert_eq!((refused["id"].as_i64(), refused["error"]["code"].as_i64()), (Some(1), Some(code)), "{line}");
        if code == -32022 {
            assert_eq!(refused["error"]["data"]["supported"], json!(["2026-07-28"]), "VER-02");
        }
    }
    // VER-19: a legacy client learns which versions are served.
    peer.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#).await;
    assert!(peer.next().await["error"]["message"].as_str().unwrap().contains("2026-07-28"));
}

#[tokio::test]
async fn g5_a_panic_ends_that_call_alone() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.call("1", "hold", json!({})).await;
    events.recv().await.unwrap();
    peer.call("2", "panic", json!({})).await;
    let failed = peer.next().await;
    assert_eq!(failed["id"], 2);
    assert_eq!(failed["error"]["data"]["steadfast/error"]["outcome"], "unknown", "G8");
    probe.release("hold");
    assert_eq!(peer.next().await["id"], 1);
}

// shows: STD-13
#[tokio::test]
async fn std_21_at_the_end_of_stdin_work_is_abandoned_and_nobody_is_answered() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.call("1", "hold", json!({})).await;
    events.recv().await.unwrap();
    peer.close().await;
    assert_eq!(events.recv().await, Some(Event::Stopped("hold".into())));
    assert_eq!(peer.rest().await, Vec::<serde_json::Value>::new());
    (&mut peer.server).await.unwrap().unwrap();
}

/// F082, without a clock: what finishes in time is answered, what is refused is told so.
#[tokio::test]
async fn f082_asked_to_end_it_lets_calls_finish_and_takes_no_new_one() {
    let (probe, mut events) = Probe::new();
    let options = Options { drain: std::time::Duration::from_secs(60), ..Options::default() };
    let mut peer = Peer::connect(&probe, options);
    peer.call("1", "hold", json!({})).await;
    events.recv().await.unwrap();
    peer.call("2", "echo", json!(1)).await;
    assert_eq!(peer.next().await["id"], 2);
    peer.end();
    // Until the wish to end has arrived, calls are still taken.
    loop {
        peer.call("3", "echo", json!(1)).await;
        let next = peer.next().await;
        if let Some(error) = next.get("error") {
            assert_eq!(error["data"]["steadfast/error"]["outcome"], "not_executed");
            break;
        }
    }
    probe.release("hold");
    let rest = peer.rest().await;
    assert_eq!((rest.len(), &rest[0]["result"]["held"]), (1, &json!("hold")));
    (&mut peer.server).await.unwrap().unwrap();
}

#[tokio::test]
async fn f082_what_does_not_finish_in_time_is_told_to_stop_and_the_end_comes() {
    let (probe, mut events) = Probe::new();
    let options = Options { drain: std::time::Duration::from_millis(50), ..Options::default() };
    let mut peer = Peer::connect(&probe, options);
    for (id, tool) in [("1", "hold"), ("2", "deaf")] {
        peer.call(id, tool, json!({})).await;
        events.recv().await.unwrap();
    }
    peer.end();
    let stopped = [events.recv().await.unwrap(), events.recv().await.unwrap(), events.recv().await.unwrap()];
    assert!(
        stopped.contains(&Event::Stopped("deaf".into())) && stopped.contains(&Event::Ended("hold".into()))
    );
    assert_eq!(peer.rest().await, Vec::<serde_json::Value>::new());
    (&mut peer.server).await.unwrap().unwrap();
}

// shows: F086
#[tokio::test]
async fn g9_no_more_may_be_under_way_than_the_limit() {
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options { max_in_flight: 2, ..Options::default() });
    for label in ["a", "b"] {
        peer.call(&format!("\"{label}\""), "hold", json!({ "as": label })).await;
        events.recv().await.unwrap();
    }
    peer.call("\"c\"", "echo", json!(1)).await;
    let refused = peer.next().await;
    assert_eq!(refused["error"]["data"]["steadfast/error"]["category"], "queue_full");
    assert_eq!(refused["error"]["data"]["steadfast/error"]["outcome"], "not_executed");
    probe.release("a");
    assert_eq!(peer.next().await["id"], "a");
    // Taken by us, the answer holds no place any more.
    peer.call("\"d\"", "echo", json!(1)).await;
    assert_eq!(peer.next().await["result"]["echo"], 1);
}

/// The same framing over a Unix and a TCP socket: a stream is a stream.
// shows: STD-23, STD-24
#[tokio::test]
async fn std_22_sockets_are_served_as_pipes_are() {
    use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

    async fn talk<R, W, S, T>(ours: (R, W), theirs: (S, T))
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
        S: AsyncRead + Unpin + Send + 'static,
        T: AsyncWrite + Unpin + Send + 'static,
    {
        let (probe, mut events) = Probe::new();
        let service = std::sync::Arc::new(common::Probed(std::sync::Arc::clone(&probe)));
        let never = std::future::pending();
        let server = tokio::spawn(steadfast::server::stdio::serve(
            theirs.0,
            theirs.1,
            service,
            Options::default(),
            never,
        ));
        let (reader, mut writer) = ours;
        let call =
            |id: &str, name: &str| common::modern(id, "tools/call", json!({ "name": name, "arguments": {} }));
        writer.write_all(format!("{}\n{}\n", call("1", "hold"), call("2", "echo")).as_bytes()).await.unwrap();
        let mut lines = BufReader::new(reader).lines();
        assert!(lines.next_line().await.unwrap().unwrap().contains("\"id\":2"));
        assert_eq!(events.recv().await, Some(Event::Began("hold".into())));
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        writer.write_all(format!("{cancel}\n").as_bytes()).await.unwrap();
        assert_eq!(events.recv().await, Some(Event::Stopped("hold".into())));
        writer.shutdown().await.unwrap();
        assert_eq!(lines.next_line().await.unwrap(), None);
        server.await.unwrap().unwrap();
    }

    let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
    talk(ours.into_split(), theirs.into_split()).await;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ours = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (theirs, _) = listener.accept().await.unwrap();
    talk(ours.into_split(), theirs.into_split()).await;
}

/// A client that sends far more than may be under way, and reads all the time, hears of each of its requests.
#[tokio::test]
async fn msg_06_every_request_of_a_flood_is_answered_or_refused() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options { max_in_flight: 8, ..Options::default() });
    const FLOOD: usize = 5_000;
    let mut writer = peer.take_writer();
    let writing = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        for id in 0..FLOOD {
            let call = common::modern(
                &id.to_string(),
                "tools/call",
                json!({ "name": "speak", "arguments": { "steps": 3 } }),
            );
            writer.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        }
        writer
    });
    let mut answered = vec![false; FLOOD];
    for _ in 0..FLOOD {
        let answer = peer.next().await;
        let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
        assert!(!std::mem::replace(&mut answered[id], true), "G1");
        if let Some(error) = answer.get("error") {
            assert_eq!(error["data"]["steadfast/error"]["outcome"], "not_executed");
        }
    }
    assert!(answered.into_iter().all(|it| it));
    writing.await.unwrap();
}

/// A handler sees where its request stands in the caller's trace; what is no trace context fails no request.
// shows: TRC-04
#[tokio::test]
async fn trc_01_trace_context_reaches_the_handler() {
    let (probe, _events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    let parent = "00-7b1f0c6be2a94c0d8f3c5a1de40972ab-51c2a7d09e6f3b18-01";
    for (meta, seen) in [
        (
            json!({ "traceparent": parent, "tracestate": "a=b", "baggage": "c=d" }),
            json!([parent, "a=b", "c=d"]),
        ),
        (json!({ "traceparent": parent, "tracestate": 7 }), json!([parent, null, null])),
        (json!({ "traceparent": "00-nonsense" }), json!(null)),
        (json!({ "traceparent": { "x": 1 } }), json!(null)),
        (json!({ "com.example/traceparent": parent }), json!(null)),
    ] {
        let params = json!({ "name": "caller", "arguments": {} });
        peer.send(&modern_with("1", "tools/call", params, meta)).await;
        assert_eq!(peer.next().await["result"]["trace"], seen);
    }
}
