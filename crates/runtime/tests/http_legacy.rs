//! The handshake revisions over HTTP, byte by byte: sessions, streams that can be resumed, batches, and requests in
//! both directions (LEG).

mod wire;

use std::time::Duration;

use serde_json::{Value, json};
use steadfast::core::hop::Revision;
use steadfast::core::subscription::Change;
use steadfast::server::Options;
use steadfast::server::http::Settings;
use wire::{Act, Block, Client, Event, MODERN, Post, Server, call, initialize, within};

const NOVEMBER: Revision = Revision::V2025_11_25;
const JUNE: Revision = Revision::V2025_06_18;
const MARCH: Revision = Revision::V2025_03_26;
const LEGACY: [Revision; 3] = [NOVEMBER, JUNE, MARCH];

/// The place of an event in its stream, and the stream.
fn place(block: &Block) -> (u64, u64) {
    let (stream, place) = block.field("id").expect("LEG-41").split_once('-').unwrap();
    (stream.parse().unwrap(), place.parse().unwrap())
}

/// Opens the stream of a held call and takes its primer.
async fn primed(server: &mut Server, client: &Client, id: u64, name: &str) -> (wire::Wire, Block) {
    let mut wire = server.hold(&client.held(id, name)).await;
    assert_eq!(wire.head().await.value("content-type"), Some("text/event-stream"));
    let primer = wire.block().await;
    assert_eq!(primer.field("data"), Some(""));
    (wire, primer)
}

// ---- sessions ----

// shows: LEG-02, LEG-07, LEG-51
#[tokio::test]
async fn leg_50_an_initialize_result_carries_a_session_id_of_visible_ascii() {
    let server = Server::start().await;
    let mut seen = Vec::new();
    for (asked, negotiated) in
        [("2025-11-25", NOVEMBER), ("2025-06-18", JUNE), ("2025-03-26", MARCH), ("2024-11-05", NOVEMBER)]
    {
        let opened = server.ask(&initialize(asked)).await;
        assert_eq!(opened.status(), 200);
        let result = &opened.json()["result"];
        assert_eq!(result["protocolVersion"], negotiated.as_str(), "{asked}");
        assert_eq!(result["serverInfo"]["name"], "desk");
        let id = opened.head.value("mcp-session-id").unwrap().to_owned();
        assert!(id.len() >= 32 && id.bytes().all(|byte| matches!(byte, b'!'..=b'~')), "{id}");
        assert!(!seen.contains(&id));
        seen.push(id);
    }
    let streamed = server.ask(&initialize("2025-11-25").set("accept", "text/event-stream")).await;
    let id = streamed.head.value("mcp-session-id").unwrap().to_owned();
    let client = Client { session: id, revision: NOVEMBER };
    assert_eq!(server.ask(&client.request(1, "ping", json!({}))).await.status(), 200);
}

// shows: LEG-14
#[tokio::test]
async fn leg_50_a_failed_initialize_opens_no_session() {
    let server = Server::start().await;
    let broken = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} });
    let refused = server.ask(&Post::of(broken.to_string())).await;
    assert_eq!((refused.code(), refused.head.value("mcp-session-id")), (-32602, None));
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": { "fail": -32603 } });
    let failing = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let refused = server.ask(&Post::of(failing.to_string())).await;
    assert_eq!((refused.status(), refused.code()), (200, -32603));
    assert_eq!(refused.head.value("mcp-session-id"), None);
}

// shows: AMB-07
#[tokio::test]
async fn leg_53_what_names_no_session_is_400() {
    let server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    for post in [
        client.request(1, "tools/list", json!({})),
        client.request(1, "ping", json!({})),
        client.notice("notifications/initialized", json!({})),
        client.post(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} })),
        client.bare("GET"),
        client.bare("DELETE"),
    ] {
        let refused = server.ask(&post.clone().without("mcp-session-id")).await;
        assert_eq!((refused.status(), refused.code()), (400, -32600), "{post:?}");
        let twice = server.ask(&post.clone().with("mcp-session-id", &client.session)).await;
        assert_eq!(twice.status(), 400, "{post:?}");
    }
}

// shows: LEG-57
// shows: F041
#[tokio::test]
async fn leg_54_a_session_that_ended_is_404_whatever_names_it() {
    let server = Server::start().await;
    let client = Client::open(&server, NOVEMBER).await;
    let other = Client::open(&server, NOVEMBER).await;
    let ended = server.ask(&client.bare("DELETE")).await;
    assert_eq!((ended.status(), ended.body.as_str()), (204, ""));
    let unknown = Client { session: "guessed".into(), ..client.clone() };
    for client in [client, unknown] {
        for post in [
            client.request(1, "tools/list", json!({})),
            client.notice("notifications/initialized", json!({})),
            client.post(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} })),
            client.bare("GET"),
            client.resume("1-0"),
            client.bare("DELETE"),
        ] {
            assert_eq!(server.ask(&post).await.status(), 404, "{post:?}");
        }
    }
    assert_eq!(server.ask(&other.request(1, "tools/list", json!({}))).await.status(), 200);
}

#[tokio::test]
async fn leg_54_a_session_that_is_ended_stops_what_runs_in_it() {
    let mut server = Server::start().await;
    let client = Client::open(&server, NOVEMBER).await;
    let (mut wire, _) = primed(&mut server, &client, 1, "a").await;
    let (mut standalone, _) = server.stream(&client.bare("GET")).await;
    assert_eq!(server.ask(&client.bare("DELETE")).await.status(), 204);
    server.is_stopped("a").await;
    let said = wire.remains().await;
    assert!(
        !said.contains("result") && !said.ends_with("0\r\n\r\n"),
        "HTTP-29: no end that looks like one: {said:?}"
    );
    assert_eq!(standalone.rest().await.len(), 1, "its primer");
}

// shows: F083
#[tokio::test]
async fn leg_54_sessions_are_capped_and_the_longest_idle_one_goes() {
    let settings = Settings { max_sessions: 2, ..Settings::default() };
    let mut server = Server::with(Options::default(), settings).await;
    let busy = Client::open(&server, NOVEMBER).await;
    let _wire = server.hold(&busy.held(1, "a")).await;
    let idle = Client::open(&server, NOVEMBER).await;
    let newest = Client::open(&server, NOVEMBER).await;
    let ping = |client: &Client| client.request(9, "ping", json!({}));
    assert_eq!(server.ask(&ping(&idle)).await.status(), 404);
    assert_eq!(server.ask(&ping(&busy)).await.status(), 200);
    let (_standalone, _) = server.stream(&newest.bare("GET")).await;
    let refused = server.ask(&initialize("2025-11-25")).await;
    assert_eq!((refused.status(), refused.head.value("retry-after")), (503, Some("1")), "all are in use");
}

#[tokio::test]
async fn leg_54_an_unused_session_ends_and_an_open_stream_is_use() {
    let settings = Settings { session_idle: Duration::from_millis(40), ..Settings::default() };
    let server = Server::with(Options::default(), settings).await;
    let client = Client::open(&server, NOVEMBER).await;
    let listening = Client::open(&server, NOVEMBER).await;
    let (_standalone, _) = server.stream(&listening.bare("GET")).await;
    // Asking is use, so the other one is looked at: it ends by itself once nobody asks.
    within("the end of an idle session", async {
        let mut pause = Duration::from_millis(50);
        loop {
            tokio::time::sleep(pause).await;
            if server.ask(&client.request(1, "ping", json!({}))).await.status() == 404 {
                break;
            }
            pause *= 2;
        }
    })
    .await;
    assert_eq!(server.ask(&listening.request(1, "ping", json!({}))).await.status(), 200);
}

// shows: LEG-49, VER-23
#[tokio::test]
async fn leg_09_a_session_keeps_to_what_was_negotiated_and_a_modern_request_learns_nothing_of_it() {
    let server = Server::start().await;
    for revision in LEGACY {
        let client = Client::open(&server, revision).await;
        let answer = server.ask(&client.call(1, "caller", json!({}))).await.message();
        assert_eq!(answer["result"]["revision"], revision.as_str());
        assert_eq!(answer["result"]["capabilities"], r#"{"elicitation":{}}"#);
        let modern = call(1, "caller", json!({})).with("mcp-session-id", &client.session);
        let answer = server.ask(&modern).await.message();
        assert_eq!(answer["result"]["revision"], MODERN);
        assert_eq!(answer["result"]["capabilities"], "{}");
    }
}

// shows: LEG-46
#[tokio::test]
async fn leg_47_a_version_that_is_not_served_is_400_and_a_missing_one_is_the_negotiated() {
    let server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    let list = client.request(1, "tools/list", json!({}));
    for version in ["2024-11-05", "2099-01-01", "", "June"] {
        for post in [&list, &client.bare("GET"), &client.bare("DELETE")] {
            let refused = server.ask(&post.clone().set("mcp-protocol-version", version)).await;
            assert_eq!((refused.status(), refused.code()), (400, -32600), "{version:?}");
        }
    }
    let twice = server.ask(&list.clone().with("mcp-protocol-version", "2025-06-18")).await;
    assert_eq!(twice.status(), 400);
    for post in [
        client.call(1, "caller", json!({})).without("mcp-protocol-version"),
        client.call(2, "caller", json!({})).set("mcp-protocol-version", "2025-03-26"),
    ] {
        assert_eq!(server.ask(&post).await.message()["result"]["revision"], "2025-06-18");
    }
}

// shows: LEG-44
#[tokio::test]
async fn leg_44_pages_elsewhere_reach_no_session() {
    let server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    for post in [client.request(1, "tools/list", json!({})), client.bare("GET"), client.bare("DELETE")] {
        assert_eq!(server.ask(&post.with("origin", "http://evil.example")).await.status(), 403);
    }
}

// ---- forms of an answer ----

// shows: LEG-20, LEG-29
#[tokio::test]
async fn leg_25_a_request_is_answered_as_one_object_or_as_a_stream_that_ends_with_it() {
    for revision in LEGACY {
        let server = Server::start().await;
        let client = Client::open(&server, revision).await;
        let list = client.request(1, "tools/list", json!({}));
        assert_eq!(server.ask(&list).await.json()["id"], 1, "quick: one object");
        let unknown = server.ask(&client.request(2, "no/such", json!({}))).await;
        assert_eq!(
            (unknown.status(), unknown.code()),
            (200, -32601),
            "404 would say that the session is gone"
        );
        // A call is a stream at once, where one is accepted.
        let (mut wire, _) = server.stream(&client.call(3, "echo", json!({}))).await;
        let blocks = wire.rest().await;
        assert_eq!(blocks.last().unwrap().json()["id"], 3);
        let one = client.call(4, "echo", json!({})).set("accept", "application/json");
        assert_eq!(server.ask(&one).await.json()["id"], 4);
        assert_eq!(server.ask(&list.set("accept", "text/html")).await.status(), 406);
    }
}

#[tokio::test]
async fn leg_24_accepted_notifications_and_responses_are_202_without_a_body() {
    let server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    for body in [
        json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "reason": "?" } }),
        json!({ "jsonrpc": "2.0", "id": "unknown", "result": {} }),
        json!({ "jsonrpc": "2.0", "error": { "code": -1, "message": "" } }),
    ] {
        let answer = server.ask(&client.post(&body)).await;
        assert_eq!((answer.status(), answer.body.as_str()), (202, ""), "{body}");
    }
    let broken = client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": [] }));
    assert_eq!(server.ask(&broken).await.status(), 400);
}

#[tokio::test]
async fn leg_31_in_november_a_stream_begins_with_an_id_and_no_data_and_only_there() {
    for revision in LEGACY {
        let server = Server::start().await;
        let client = Client::open(&server, revision).await;
        let (mut wire, _) = server.stream(&client.call(1, "echo", json!({}))).await;
        let blocks = wire.rest().await;
        if revision == NOVEMBER {
            assert_eq!(blocks[0].0, "id: 1-0\ndata:");
            assert_eq!(blocks.len(), 2);
        } else {
            assert_eq!(blocks.len(), 1, "an older client would read the empty data as a message");
        }
    }
}

// shows: LEG-41
#[tokio::test]
async fn leg_41_event_ids_are_unique_in_a_session_and_name_their_stream() {
    let server = Server::start().await;
    let client = Client::open(&server, NOVEMBER).await;
    let mut seen = Vec::new();
    for id in 1..=3 {
        let (mut wire, _) = server.stream(&client.call(id, "echo", json!({}))).await;
        let places: Vec<_> = wire.rest().await.iter().map(place).collect();
        assert!(places.iter().all(|(stream, _)| *stream == places[0].0));
        seen.extend(places);
    }
    let (mut standalone, _) = server.stream(&client.bare("GET")).await;
    seen.push(place(&standalone.block().await));
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count);
}

// ---- cancelling, leaving, coming back ----

// shows: LEG-12, LEG-70, LEG-71
#[tokio::test]
async fn leg_27_a_posted_cancel_stops_its_request_and_nothing_else_is_said() {
    for revision in LEGACY {
        let mut server = Server::start().await;
        let client = Client::open(&server, revision).await;
        let mut wire = server.hold(&client.held(7, "a")).await;
        wire.head().await;
        let cancelled = server.ask(&client.cancel(7)).await;
        assert_eq!((cancelled.status(), cancelled.body.as_str()), (202, ""));
        server.is_stopped("a").await;
        let rest = wire.rest().await;
        assert!(rest.iter().all(|block| block.field("data") == Some("")), "CAN-07: {rest:?}");
        // Where one object was to come there is none.
        let mut wire = server.hold(&client.held(8, "b").set("accept", "application/json")).await;
        server.ask(&client.cancel(8)).await;
        server.is_stopped("b").await;
        let nothing = wire.whole().await;
        assert_eq!((nothing.status(), nothing.body.as_str()), (202, ""));
    }
}

// shows: LEG-72, CAN-08, CAN-11
#[tokio::test]
async fn leg_71_a_cancel_that_names_nothing_of_this_session_changes_nothing() {
    let mut server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    let other = Client::open(&server, JUNE).await;
    let mut wire = server.hold(&client.held(7, "a")).await;
    for post in [
        client.cancel("7"),
        client.cancel(8),
        client.notice("notifications/cancelled", json!({})),
        client.notice("notifications/cancelled", json!({ "requestId": [7] })),
        other.cancel(7),
    ] {
        assert_eq!(server.ask(&post).await.status(), 202);
    }
    server.desk.tell("a", Act::Finish(json!({ "done": true })));
    assert_eq!(server.next().await, Event::Ended("a".into()), "it was not stopped");
    wire.head().await;
    assert_eq!(wire.rest().await.last().unwrap().json()["result"]["done"], true);
}

// shows: LEG-42, LEG-43
// shows: F007
#[tokio::test]
async fn leg_26_a_disconnect_cancels_nothing_and_the_rest_is_fetched_later() {
    for revision in LEGACY {
        let mut server = Server::start().await;
        let client = Client::open(&server, revision).await;
        let mut wire = server.hold(&client.held(7, "a")).await;
        wire.head().await;
        server.desk.tell("a", Act::Notify(json!({ "n": 1 })));
        let seen = loop {
            let block = wire.block().await;
            if block.field("data") != Some("") {
                break block;
            }
        };
        assert_eq!(seen.json()["params"]["n"], 1);
        drop(wire);
        server.desk.tell("a", Act::Notify(json!({ "n": 2 })));
        server.desk.tell("a", Act::Finish(json!({ "done": true })));
        assert_eq!(server.next().await, Event::Ended("a".into()), "it was not stopped");
        // As often as it likes: what was kept is the same each time.
        for _ in 0..2 {
            let (mut wire, _) = server.stream(&client.resume(seen.field("id").unwrap())).await;
            let rest = wire.rest().await;
            assert_eq!(rest.len(), 2, "{rest:?}");
            assert_eq!(rest[0].json()["params"]["n"], 2);
            assert_eq!(rest[1].json()["result"]["done"], true);
            assert_eq!(place(&rest[1]), (place(&seen).0, place(&seen).1 + 2));
        }
    }
}

#[tokio::test]
async fn leg_26_an_answer_that_nobody_fetches_takes_no_place() {
    let options = Options { max_in_flight: 1, ..Options::default() };
    let mut server = Server::with(options, Settings::default()).await;
    let client = Client::open(&server, NOVEMBER).await;
    let (wire, primer) = primed(&mut server, &client, 1, "a").await;
    drop(wire);
    let echo = client.call(2, "echo", json!({}));
    assert_eq!(server.ask(&echo).await.status(), 503);
    server.desk.tell("a", Act::Finish(json!({ "done": true })));
    assert_eq!(server.next().await, Event::Ended("a".into()));
    server.ask_until(200, &echo).await;
    let (mut wire, _) = server.stream(&client.resume(primer.field("id").unwrap())).await;
    assert_eq!(wire.rest().await[0].json()["result"]["done"], true);
}

#[tokio::test]
async fn leg_42_a_client_may_come_back_while_the_call_still_runs() {
    let mut server = Server::start().await;
    let client = Client::open(&server, NOVEMBER).await;
    let (wire, primer) = primed(&mut server, &client, 7, "a").await;
    drop(wire);
    let (mut wire, _) = server.stream(&client.resume(primer.field("id").unwrap())).await;
    server.desk.tell("a", Act::Progress(1.0));
    assert_eq!(wire.block().await.json()["params"]["progress"], json!(1));
    // Not even noticed that it left: the newest connection has the stream, the older one sees it end.
    let (mut newer, _) = server.stream(&client.resume(primer.field("id").unwrap())).await;
    assert_eq!(newer.block().await.json()["params"]["progress"], json!(1), "from where it asked");
    assert_eq!(wire.rest().await, []);
    server.desk.tell("a", Act::Finish(json!({})));
    assert_eq!(newer.rest().await.len(), 1);
}

// shows: LEG-39
#[tokio::test]
async fn leg_43_only_that_stream_is_replayed_and_only_to_its_session() {
    let mut server = Server::start().await;
    let client = Client::open(&server, NOVEMBER).await;
    let other = Client::open(&server, NOVEMBER).await;
    let (first, primer) = primed(&mut server, &client, 1, "first").await;
    let (second, second_primer) = primed(&mut server, &client, 2, "second").await;
    drop((first, second));
    for name in ["second", "first"] {
        server.desk.tell(name, Act::Notify(json!({ "of": name })));
        server.desk.tell(name, Act::Finish(json!({ "of": name })));
        assert_eq!(server.next().await, Event::Ended(name.into()));
    }
    for (primer, name) in [(&primer, "first"), (&second_primer, "second")] {
        let (mut wire, _) = server.stream(&client.resume(primer.field("id").unwrap())).await;
        let rest = wire.rest().await;
        assert_eq!(rest.len(), 2);
        assert_eq!(rest[0].json()["params"]["of"], name);
        assert_eq!(rest[1].json()["result"]["of"], name);
    }
    // Streams of another session have other numbers, or the same; neither is this one.
    let refused = server.ask(&other.resume(primer.field("id").unwrap())).await;
    assert_eq!(refused.status(), 400);
}

#[tokio::test]
async fn leg_43_what_is_not_kept_is_not_replayed() {
    let server = Server::start().await;
    let client = Client::open(&server, NOVEMBER).await;
    for event in ["9-0", "1-1", "0-5", "x", "1", ""] {
        let refused = server.ask(&client.resume(event)).await;
        assert_eq!((refused.status(), refused.code()), (400, -32600), "{event:?}");
    }
    let twice = client.resume("1-0").with("last-event-id", "1-0");
    assert_eq!(server.ask(&twice).await.status(), 400);
    // Of finished streams the newest 16 are kept.
    for id in 1..=20 {
        let (mut wire, _) = server.stream(&client.call(id, "echo", json!({}))).await;
        wire.rest().await;
    }
    let kept = async |stream: u64| server.ask(&client.resume(&format!("{stream}-0"))).await.status() == 200;
    assert!(!kept(1).await && !kept(4).await);
    assert!(kept(5).await && kept(20).await);
}

#[tokio::test]
async fn leg_43_what_did_not_fit_is_missing_and_the_answer_says_so() {
    let mut server = Server::start().await;
    let client = Client::open(&server, NOVEMBER).await;
    let (wire, primer) = primed(&mut server, &client, 1, "a").await;
    drop(wire);
    for n in 0..1_000 {
        server.desk.tell("a", Act::Notify(json!({ "n": n })));
    }
    server.desk.tell("a", Act::Finish(json!({ "_meta": { "k": 1 } })));
    assert_eq!(server.next().await, Event::Ended("a".into()));
    let (mut wire, _) = server.stream(&client.resume(primer.field("id").unwrap())).await;
    let rest = wire.rest().await;
    assert!((2..=256).contains(&rest.len()), "{} messages were kept", rest.len());
    let last = rest.last().unwrap();
    assert_eq!(last.json()["result"]["_meta"], json!({ "k": 1, "steadfast/refetch": true }), "ruling 17");
    // Who missed nothing is told nothing.
    let (stream, before) = place(&rest[rest.len() - 2]);
    let (mut wire, _) = server.stream(&client.resume(&format!("{stream}-{before}"))).await;
    let rest = wire.rest().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(place(&rest[0]), place(last));
}

// shows: LEG-33, LEG-34
#[tokio::test]
async fn leg_32_a_connection_may_end_before_its_stream_and_says_when_to_come_back() {
    let mut server = Server::start().await;
    let client = Client::open(&server, NOVEMBER).await;
    let (mut wire, primer) = primed(&mut server, &client, 1, "a").await;
    server.desk.tell("a", Act::Progress(1.0));
    let progress = wire.block().await;
    server.desk.tell("a", Act::HangUp(Duration::from_millis(1_500)));
    let rest = wire.rest().await;
    assert_eq!(rest, [Block("retry: 1500".into())], "the last thing before its regular end");
    server.desk.tell("a", Act::Finish(json!({ "done": true })));
    assert_eq!(server.next().await, Event::Ended("a".into()), "it was not stopped");
    let (mut wire, _) = server.stream(&client.resume(progress.field("id").unwrap())).await;
    let rest = wire.rest().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].json()["result"]["done"], true);
    assert_eq!(place(&rest[0]).0, place(&primer).0);
}

#[tokio::test]
async fn leg_30_before_november_no_connection_ends_before_its_stream() {
    for revision in [JUNE, MARCH] {
        let mut server = Server::start().await;
        let client = Client::open(&server, revision).await;
        let mut wire = server.hold(&client.held(1, "a")).await;
        wire.head().await;
        server.desk.tell("a", Act::HangUp(Duration::from_millis(1)));
        server.desk.tell("a", Act::Finish(json!({})));
        let rest = wire.rest().await;
        assert_eq!(rest.len(), 1);
        assert!(rest[0].json().get("result").is_some());
    }
}

// ---- the standalone stream ----

// shows: LEG-36, LEG-38, LEG-82
#[tokio::test]
async fn leg_37_the_standalone_stream_carries_what_no_request_asked_for_and_nothing_else() {
    let mut server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    let (mut standalone, head) = server.stream(&client.bare("GET")).await;
    assert_eq!(head.value("x-accel-buffering"), Some("no"));
    let mut wire = server.hold(&client.held(1, "a")).await;
    wire.head().await;
    server.desk.tell("a", Act::Progress(1.0));
    assert_eq!(wire.block().await.json()["method"], "notifications/progress");
    server.desk.tell("a", Act::Notify(json!({})));
    server.desk.changes.publish(&Change::Tools);
    let told = standalone.block().await;
    assert_eq!(
        told.json(),
        json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {} })
    );
    server.desk.tell("a", Act::Finish(json!({})));
    let methods: Vec<_> = wire.rest().await.iter().map(|block| block.json()["method"].clone()).collect();
    assert_eq!(methods, [json!("notifications/message"), Value::Null]);
    // Subscribed resources are told there too, until they are no longer.
    let uri = json!({ "uri": "x://a" });
    server.ask(&client.request(2, "resources/subscribe", uri.clone())).await;
    server.desk.changes.publish(&Change::Resource("x://a".into()));
    assert_eq!(standalone.block().await.json()["params"], uri);
    server.ask(&client.request(3, "resources/unsubscribe", uri)).await;
    server.desk.changes.publish(&Change::Resource("x://a".into()));
    server.desk.changes.publish(&Change::Prompts);
    assert_eq!(standalone.block().await.json()["method"], "notifications/prompts/list_changed");
}

// shows: LEG-40
#[tokio::test]
async fn leg_39_a_second_standalone_connection_replaces_the_first() {
    let server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    let other = Client::open(&server, JUNE).await;
    let (mut first, _) = server.stream(&client.bare("GET")).await;
    let (mut others, _) = server.stream(&other.bare("GET")).await;
    let (mut second, _) = server.stream(&client.bare("GET")).await;
    assert_eq!(first.rest().await, [], "its regular end");
    server.desk.changes.publish(&Change::Tools);
    second.block().await;
    others.block().await;
}

#[tokio::test]
async fn leg_42_the_standalone_stream_is_resumed_too() {
    let server = Server::start().await;
    let client = Client::open(&server, NOVEMBER).await;
    let (mut standalone, _) = server.stream(&client.bare("GET")).await;
    let primer = standalone.block().await;
    assert_eq!(primer.0, "id: 0-0\ndata:");
    server.desk.changes.publish(&Change::Tools);
    let told = standalone.block().await;
    drop(standalone);
    server.desk.changes.publish(&Change::Prompts);
    let (mut standalone, _) = server.stream(&client.resume(told.field("id").unwrap())).await;
    assert_eq!(standalone.block().await.json()["method"], "notifications/prompts/list_changed");
    let (mut standalone, _) = server.stream(&client.resume(primer.field("id").unwrap())).await;
    let told = [standalone.piece().await, vec![]].concat();
    let methods: Vec<_> = told.iter().map(|block| block.json()["method"].clone()).collect();
    assert_eq!(methods, ["notifications/tools/list_changed", "notifications/prompts/list_changed"]);
}

// shows: AMB-46
#[tokio::test]
async fn leg_36_a_get_is_answered_as_a_stream_or_refused() {
    let server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    let refused = server.ask(&client.bare("GET").set("accept", "application/json")).await;
    assert_eq!(refused.status(), 406);
    let no_session = server.ask(&Post::bare("GET")).await;
    assert_eq!((no_session.status(), no_session.head.value("allow")), (405, Some("POST")));
}

// ---- requests in both directions ----

#[tokio::test]
async fn leg_11_an_id_that_is_in_flight_in_a_session_is_refused_there_and_nowhere_else() {
    let mut server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    let other = Client::open(&server, JUNE).await;
    let _wire = server.hold(&client.held(1, "a")).await;
    let refused = server.ask(&client.held(1, "b")).await;
    assert_eq!((refused.status(), refused.code()), (400, -32600));
    let _string = server.hold(&client.held("1", "c")).await;
    let _other = server.hold(&other.held(1, "d")).await;
    server.desk.tell("a", Act::Finish(json!({})));
    assert_eq!(server.next().await, Event::Ended("a".into()));
    // The id is given back a moment after the handler has ended.
    server.ask_until(200, &client.call(1, "echo", json!({}))).await;
}

// shows: LEG-28, LEG-77, LEG-81
#[tokio::test]
async fn leg_78_a_question_leaves_on_its_calls_stream_and_its_answer_is_posted() {
    let mut server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    let other = Client::open(&server, JUNE).await;
    let (mut standalone, _) = server.stream(&client.bare("GET")).await;
    let mut wire = server.hold(&client.held(1, "a")).await;
    wire.head().await;
    server.desk.tell("a", Act::Ask);
    let asked = wire.block().await.json();
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept" } });
    // Of another session it answers nothing.
    assert_eq!(server.ask(&other.post(&answer)).await.status(), 202);
    let answered = server.ask(&client.post(&answer)).await;
    assert_eq!((answered.status(), answered.body.as_str()), (202, ""));
    assert_eq!(server.next().await, Event::Told("a".into(), r#"{"action":"accept"}"#.into()));
    assert_eq!(server.ask(&client.post(&answer)).await.status(), 202, "once more, to nobody");
    server.desk.tell("a", Act::Finish(json!({})));
    assert_eq!(wire.rest().await.len(), 1);
    server.desk.changes.publish(&Change::Tools);
    assert_eq!(standalone.block().await.json()["method"], "notifications/tools/list_changed", "LEG-39");
}

#[tokio::test]
async fn leg_77_a_client_that_takes_one_object_is_not_asked() {
    let mut server = Server::start().await;
    let client = Client::open(&server, JUNE).await;
    let mut wire = server.hold(&client.held(1, "a").set("accept", "application/json")).await;
    server.desk.tell("a", Act::Ask);
    let Event::Told(_, told) = server.next().await else { panic!("it was not told") };
    assert!(told.contains("cannot be asked"), "{told}");
    server.desk.tell("a", Act::Finish(json!({})));
    assert_eq!(wire.whole().await.json()["id"], 1);
}

#[tokio::test]
async fn leg_70_a_question_whose_call_was_cancelled_is_nobodys() {
    let mut server = Server::start().await;
    let client = Client::open(&server, NOVEMBER).await;
    let (mut wire, _) = primed(&mut server, &client, 1, "a").await;
    server.desk.tell("a", Act::Ask);
    let asked = wire.block().await.json();
    server.ask(&client.cancel(1)).await;
    let Event::Told(_, told) = server.next().await else { panic!("it was not told") };
    assert!(told.contains("ended"), "{told}");
    server.is_stopped("a").await;
    assert_eq!(wire.rest().await, [], "CAN-07");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": {} });
    assert_eq!(server.ask(&client.post(&answer)).await.status(), 202);
    server.is_undisturbed().await;
}

#[tokio::test]
async fn leg_74_a_ping_is_answered_at_once() {
    let server = Server::start().await;
    let client = Client::open(&server, MARCH).await;
    let answer = server.ask(&client.request("ka-3", "ping", json!({}))).await;
    assert_eq!(answer.json(), json!({ "jsonrpc": "2.0", "id": "ka-3", "result": {} }));
}

// ---- batches ----

fn messages(blocks: &[Block]) -> Vec<Value> {
    let mut messages: Vec<_> = blocks.iter().map(Block::json).collect();
    messages.sort_by_key(|message| message["id"].to_string());
    messages
}

#[tokio::test]
async fn leg_23_a_batch_is_answered_as_one_array_or_one_stream() {
    let server = Server::start().await;
    let client = Client::open(&server, MARCH).await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": 2, "method": "tools/list" },
        { "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } },
        { "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "echo", "arguments": { "n": 1 } } },
        { "jsonrpc": "2.0", "id": 4, "method": "no/such" },
        { "jsonrpc": "2.0", "id": 5, "method": 7 },
        { "jsonrpc": "2.0", "id": 6, "method": "initialize", "params": { "protocolVersion": "2025-03-26", "capabilities": {} } },
        { "jsonrpc": "2.0", "id": 3, "method": "ping" },
    ]);
    let as_array = server.ask(&client.post(&batch).set("accept", "application/json")).await;
    let Value::Array(mut array) = as_array.json() else { panic!("{as_array:?}") };
    array.sort_by_key(|message| message["id"].to_string());
    let (mut wire, _) = server.stream(&client.post(&batch)).await;
    let streamed = messages(&wire.rest().await);
    for answers in [array, streamed] {
        assert_eq!(answers.len(), 6, "{answers:?}");
        assert_eq!(answers[0]["result"]["method"], "tools/list");
        // 3 occurs twice: which of the two is refused is known, where they stand is not.
        let codes: Vec<_> = answers[1..].iter().map(|answer| answer["error"]["code"].as_i64()).collect();
        assert_eq!(codes[..2].iter().flatten().collect::<Vec<_>>(), [&-32600], "{answers:?}");
        assert_eq!(codes[2..], [Some(-32601), Some(-32600), Some(-32600)]);
    }
}

#[tokio::test]
async fn leg_23_a_batch_holds_requests_or_responses_and_nothing_to_answer_is_202() {
    let mut server = Server::start().await;
    let client = Client::open(&server, MARCH).await;
    let mut wire = server.hold(&client.held(1, "a")).await;
    wire.head().await;
    server.desk.tell("a", Act::Ask);
    let asked = wire.block().await.json();
    let response = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "ok": true } });
    let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    let mixed = server.ask(&client.post(&json!([request, response]))).await;
    assert_eq!((mixed.status(), mixed.code()), (400, -32600));
    let answered = server.ask(&client.post(&json!([response]))).await;
    assert_eq!((answered.status(), answered.body.as_str()), (202, ""));
    assert_eq!(server.next().await, Event::Told("a".into(), r#"{"ok":true}"#.into()));
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(server.ask(&client.post(&json!([cancel]))).await.status(), 202);
    server.is_stopped("a").await;
    let empty = server.ask(&client.post(&json!([]))).await;
    assert_eq!((empty.status(), empty.code()), (400, -32600));
}

// shows: LEG-22, MSG-20
#[tokio::test]
async fn leg_23_batches_are_marchs_alone() {
    let server = Server::start().await;
    let batch = json!([{ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }]);
    for revision in [NOVEMBER, JUNE] {
        let client = Client::open(&server, revision).await;
        let refused = server.ask(&client.post(&batch)).await;
        assert_eq!((refused.status(), refused.code()), (400, -32600));
    }
    let initialize: Value = serde_json::from_str(&initialize("2025-03-26").body).unwrap();
    for body in [batch, json!([initialize])] {
        for post in
            [Post::of(body.to_string()), Post::of(body.to_string()).with("mcp-protocol-version", MODERN)]
        {
            let refused = server.ask(&post).await;
            assert_eq!((refused.status(), refused.code()), (400, -32600));
        }
    }
}

#[tokio::test]
async fn leg_42_a_batch_is_resumed_as_any_stream() {
    let mut server = Server::start().await;
    let client = Client::open(&server, MARCH).await;
    let params = |name: &str| json!({ "name": "held", "arguments": { "as": name } });
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params("a") },
        { "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params("b") },
        { "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params("c") },
    ]);
    let (mut wire, _) = server.stream(&client.post(&batch)).await;
    for _ in 0..3 {
        server.next().await;
    }
    server.desk.tell("a", Act::Finish(json!({ "of": "a" })));
    let first = wire.block().await;
    assert_eq!(first.json()["id"], 1);
    drop(wire);
    server.desk.tell("b", Act::Finish(json!({ "of": "b" })));
    let (mut wire, _) = server.stream(&client.resume(first.field("id").unwrap())).await;
    assert_eq!(wire.block().await.json()["id"], 2);
    server.ask(&client.cancel(3)).await;
    assert_eq!(wire.rest().await, [], "what was cancelled has no answer, and the stream ends without it");
}
