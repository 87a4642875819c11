//! The modern era over HTTP, byte by byte: CAN, HTTP, SSE and HDR as far as they name the server, and the tables ORDER
//! and STATUS.

mod wire;

use std::time::Duration;

use serde_json::{Value, json};
use steadfast::core::subscription::Change;
use steadfast::server::Options;
use steadfast::server::http::Settings;
use wire::{Act, Client, Event, MODERN, Post, Server, call, held, initialize, meta, modern, streamed};

fn listen(notifications: Value) -> Post {
    modern("listen-1", "subscriptions/listen", json!({ "notifications": notifications }))
}

fn modern_only() -> Options {
    Options { legacy: false, ..Options::default() }
}

/// The body with another member at the top.
fn with_member(post: &Post, name: &str, value: Value) -> Post {
    let mut body: Value = serde_json::from_str(&post.body).unwrap();
    body[name] = value;
    Post { body: body.to_string(), ..post.clone() }
}

/// The body with another `_meta`.
fn with_meta(post: &Post, meta: Value) -> Post {
    let mut body: Value = serde_json::from_str(&post.body).unwrap();
    body["params"]["_meta"] = meta;
    Post { body: body.to_string(), ..post.clone() }
}

// ---- HTTP ----

// shows: HTTP-09
// shows: F056
#[tokio::test]
async fn http_01_one_path_takes_posts_with_and_without_a_slash_at_its_end() {
    let server = Server::start().await;
    for path in ["/mcp", "/mcp/", "/mcp?x=1"] {
        let answer = server.ask(&Post { path: path.into(), ..call(7, "echo", json!({})) }).await;
        assert_eq!((answer.status(), answer.json()["id"].clone()), (200, json!(7)), "{path}");
    }
    for path in ["/", "/mcp/x", "/mcpx", "/MCP", "//mcp"] {
        let answer = server.ask(&Post { path: path.into(), ..call(7, "echo", json!({})) }).await;
        assert_eq!((answer.status(), answer.head.value("content-type")), (404, Some("text/plain")), "{path}");
    }
}

// shows: AMB-40
#[tokio::test]
async fn http_02_a_page_elsewhere_is_refused_before_its_body_is_looked_at() {
    let server = Server::start().await;
    let broken = Post::of("{");
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("host", "evil.example"),
        ("host", "localhost.evil.example:80"),
    ] {
        assert_eq!(server.ask(&broken.clone().set(name, value)).await.status(), 403, "{name}: {value}");
    }
    assert_eq!(server.ask(&broken.clone().with("host", "localhost")).await.status(), 403, "two of them");
    assert_eq!(server.ask(&broken.clone().without("host")).await.status(), 403);
    let from_here = call(1, "echo", json!({})).with("origin", "http://localhost:3000");
    assert_eq!(server.ask(&from_here).await.status(), 200);
}

// shows: AMB-10, AMB-11
#[tokio::test]
async fn http_08_a_notification_is_accepted_without_a_body() {
    let server = Server::start().await;
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/anything" }).to_string();
    for post in [Post::of(&*notice), Post::of(&*notice).with("mcp-protocol-version", MODERN)] {
        let answer = server.ask(&post).await;
        assert_eq!((answer.status(), answer.body.as_str()), (202, ""));
    }
    let broken = json!({ "jsonrpc": "2.0", "method": "notifications/anything", "params": 1 }).to_string();
    assert_eq!(server.ask(&Post::of(broken)).await.status(), 400);
}

// shows: HTTP-11, HTTP-14, HTTP-15, SSE-06
#[tokio::test]
async fn http_09_an_answer_is_one_object_or_a_stream_that_ends_with_it() {
    let mut server = Server::start().await;
    let quick = server.ask(&call(7, "echo", json!({ "n": 1.5 }))).await;
    assert_eq!(quick.json(), json!({ "jsonrpc": "2.0", "id": 7, "result": { "echo": { "n": 1.5 } } }));

    let mut wire = server.hold(&held("a")).await;
    server.desk.tell("a", Act::Progress(1.0));
    let head = wire.head().await;
    assert_eq!(head.status, 200);
    for (name, value) in
        [("content-type", "text/event-stream"), ("cache-control", "no-cache"), ("x-accel-buffering", "no")]
    {
        assert_eq!(head.value(name), Some(value));
    }
    let progress = wire.block().await;
    assert_eq!(
        progress.0,
        r#"data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"token","progress":1}}"#
    );
    server.desk.tell("a", Act::Finish(json!({ "done": true })));
    let rest = wire.rest().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].json(), json!({ "jsonrpc": "2.0", "id": 1, "result": { "done": true } }));
    // The connection is as good as new.
    assert_eq!(wire.ask(&call(8, "echo", json!({}))).await.json()["id"], 8);
}

#[tokio::test]
async fn http_12_what_a_stream_carries_belongs_to_its_request() {
    let mut server = Server::start().await;
    let (one, other) = (streamed("one"), streamed("other"));
    let (mut first, mut second) = (server.hold(&one).await, server.hold(&other).await);
    for name in ["other", "one"] {
        server.desk.tell(name, Act::Notify(json!({ "of": name })));
        server.desk.tell(name, Act::Finish(json!({ "of": name })));
    }
    for (wire, name) in [(&mut first, "one"), (&mut second, "other")] {
        wire.head().await;
        let blocks = wire.rest().await;
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[0].json()["params"]["of"], name);
        assert_eq!(blocks[1].json()["result"]["of"], name);
    }
}

#[tokio::test]
async fn http_13_no_stream_carries_a_request() {
    let mut server = Server::start().await;
    let mut wire = server.hold(&streamed("a")).await;
    server.desk.tell("a", Act::Ask);
    let Event::Told(_, told) = server.next().await else { panic!("it was not told") };
    assert!(told.contains("input_required"), "{told}");
    server.desk.tell("a", Act::Finish(json!({})));
    wire.head().await;
    assert_eq!(wire.rest().await.len(), 1, "the answer and nothing else");
}

// shows: AMB-16
#[tokio::test]
async fn http_16_a_version_that_is_not_served_is_400_and_names_those_that_are() {
    let server = Server::start().await;
    let mut meta = meta();
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2027-01-01");
    let post = with_meta(&call(1, "echo", json!({})), meta).set("mcp-protocol-version", "2027-01-01");
    let refused = server.ask(&post).await;
    assert_eq!((refused.status(), refused.code()), (400, -32022));
    let data = &refused.json()["error"]["data"];
    assert_eq!(data["requested"], "2027-01-01");
    assert_eq!(data["supported"], json!([MODERN, "2025-11-25", "2025-06-18", "2025-03-26"]));
}

// shows: VER-22, AMB-05
#[tokio::test]
async fn http_17_an_unknown_method_is_404_with_a_body_that_says_so() {
    let server = Server::start().await;
    for method in ["tools/chop", "initialize", "ping", "resources/subscribe"] {
        let refused = server.ask(&modern(7, method, json!({}))).await;
        assert_eq!((refused.status(), refused.code()), (404, -32601), "{method}");
        assert_eq!(refused.json()["id"], 7);
        assert_eq!(refused.head.value("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn http_18_what_a_request_lacks_is_400_and_says_which() {
    let server = Server::start().await;
    let echo = call(7, "echo", json!({}));
    for lacking in ["io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"] {
        let mut meta = meta();
        meta.as_object_mut().unwrap().remove(lacking);
        let refused = server.ask(&with_meta(&echo, meta)).await;
        assert_eq!((refused.status(), refused.code()), (400, -32602), "{lacking}");
        assert_eq!(refused.json()["id"], 7);
    }
    let refused = server.ask(&echo.without("mcp-method")).await;
    assert_eq!((refused.status(), refused.code()), (400, -32020));
    let refused = server.ask(&call(7, "asking", json!({}))).await;
    assert_eq!((refused.status(), refused.code()), (400, -32021));
}

// shows: AMB-39
#[tokio::test]
async fn http_19_what_is_no_post_is_405() {
    for (options, methods) in [
        (modern_only(), &["GET", "DELETE", "PUT", "OPTIONS", "HEAD", "PATCH"][..]),
        // Where sessions are served, for whoever names none or says to be modern.
        (Options::default(), &["GET", "DELETE", "PUT"]),
    ] {
        let server = Server::with(options, Settings::default()).await;
        for method in methods {
            for post in [
                Post::bare(method),
                Post::bare(method).with("mcp-protocol-version", MODERN).with("mcp-session-id", "1"),
            ] {
                let mut wire = server.open().await;
                wire.post(&post).await;
                let head = wire.head().await;
                assert_eq!((head.status, head.value("allow")), (405, Some("POST")), "{method}");
            }
        }
    }
}

// shows: SSE-03
#[tokio::test]
async fn http_20_session_and_event_ids_mean_nothing_to_a_modern_request() {
    for options in [modern_only(), Options::default()] {
        let mut server = Server::with(options, Settings::default()).await;
        let foreign = |post: Post| post.with("mcp-session-id", "no-such").with("last-event-id", "1-0");
        let answer = server.ask(&foreign(modern(1, "tools/list", json!({})))).await;
        assert_eq!((answer.status(), answer.head.value("mcp-session-id")), (200, None));
        let mut wire = server.hold(&foreign(streamed("a"))).await;
        let head = wire.head().await;
        assert_eq!(head.value("mcp-session-id"), None);
        server.desk.tell("a", Act::Progress(1.0));
        let progress = wire.block().await;
        assert_eq!((progress.field("id"), progress.field("retry")), (None, None));
        server.desk.tell("a", Act::HangUp(Duration::from_secs(1)));
        server.desk.tell("a", Act::Finish(json!({})));
        let rest = wire.rest().await;
        assert_eq!((rest.len(), rest[0].field("id"), rest[0].field("retry")), (1, None, None));
    }
}

// shows: AMB-08
#[tokio::test]
async fn http_22_an_error_decides_the_status_only_until_the_stream_began() {
    let mut server = Server::start().await;
    for (code, status) in [
        (-32700, 400),
        (-32600, 400),
        (-32601, 404),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-32602, 200),
        (-32603, 200),
        (-31000, 200),
        (7, 200),
    ] {
        let answer = server.ask(&call(1, &code.to_string(), json!({}))).await;
        assert_eq!((answer.status(), answer.code()), (status, code));
    }
    let refused = server.ask(&call(1, "shapeless", json!({}))).await;
    assert_eq!((refused.status(), refused.code()), (200, -32602), "table ORDER, step 10");
    let mut wire = server.hold(&held("a")).await;
    server.desk.tell("a", Act::Progress(1.0));
    assert_eq!(wire.head().await.status, 200);
    server.desk.tell("a", Act::Fail(-32601));
    assert_eq!(wire.rest().await.last().unwrap().json()["error"]["code"], -32601);
}

// shows: SSE-12
#[tokio::test]
async fn http_23_open_streams_keep_nobody_waiting() {
    let mut server = Server::start().await;
    let mut open = Vec::new();
    for name in ["a", "b", "c"] {
        open.push((name, server.hold(&held(name)).await));
    }
    let (_silent, _) = server.stream(&listen(json!({}))).await;
    assert_eq!(server.ask(&call(1, "echo", json!({}))).await.status(), 200);
    for (name, wire) in open.iter_mut().rev() {
        server.desk.tell(name, Act::Finish(json!({ "of": *name })));
        assert_eq!(wire.whole().await.message()["result"]["of"], *name);
    }
}

// shows: AMB-09, AMB-46, SUB-27
#[tokio::test]
async fn http_24_a_listen_is_a_stream_or_an_error() {
    let server = Server::start().await;
    let (mut wire, _) = server.stream(&listen(json!({ "toolsListChanged": true }))).await;
    let acknowledged = wire.block().await.json();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    server.desk.changes.publish(&Change::Tools);
    let changed = wire.block().await.json();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "listen-1");

    let refused = server.ask(&modern(1, "subscriptions/listen", json!({}))).await;
    assert_eq!((refused.status(), refused.code()), (200, -32602));
    let post = listen(json!({})).set("accept", "application/json");
    assert_eq!(server.ask(&post).await.status(), 406);
}

#[tokio::test]
async fn amb_46_what_is_accepted_is_used_and_what_is_sent_is_json() {
    let server = Server::start().await;
    let echo = call(1, "echo", json!({}));
    for (accept, kind) in [
        (None, "application/json"),
        (Some("*/*"), "application/json"),
        (Some("application/json"), "application/json"),
        (Some("application/*;q=0.5"), "application/json"),
        (Some("text/event-stream"), "text/event-stream"),
    ] {
        let post = match accept {
            Some(accept) => echo.clone().set("accept", accept),
            None => echo.clone().without("accept"),
        };
        let answer = server.ask(&post).await;
        assert_eq!((answer.status(), answer.head.value("content-type")), (200, Some(kind)), "{accept:?}");
    }
    assert_eq!(server.ask(&echo.clone().set("accept", "text/html")).await.status(), 406);
    for (name, value) in [("content-type", "text/plain"), ("content-encoding", "gzip")] {
        assert_eq!(server.ask(&echo.clone().set(name, value)).await.status(), 415, "{value}");
    }
    assert_eq!(server.ask(&echo.clone().without("content-type")).await.status(), 415);
    let with_charset = echo.set("content-type", "application/json; charset=utf-8");
    assert_eq!(server.ask(&with_charset).await.status(), 200);
}

#[tokio::test]
async fn prg_16_an_answer_as_one_object_drops_what_else_was_said() {
    let mut server = Server::start().await;
    let mut wire = server.hold(&held("a").set("accept", "application/json")).await;
    server.desk.tell("a", Act::Progress(1.0));
    server.desk.tell("a", Act::Notify(json!({})));
    server.desk.tell("a", Act::Finish(json!({ "done": true })));
    let answer = wire.whole().await;
    assert_eq!(answer.json(), json!({ "jsonrpc": "2.0", "id": 1, "result": { "done": true } }));
}

// shows: HTTP-02, HTTP-18, MSG-20
#[tokio::test]
async fn amb_40_of_several_faults_the_first_in_order_is_answered() {
    let server = Server::start().await;
    // Each line mends what the one before it was refused for.
    let request = |meta: Value| json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/chop", "params": { "_meta": meta } });
    let mut wrong_version = meta();
    wrong_version["io.modelcontextprotocol/protocolVersion"] = json!("2027-01-01");
    let bad = Post::of("{")
        .set("origin", "http://evil.example")
        .set("accept", "text/html")
        .set("content-type", "text/plain");
    let bad_put = Post { method: "PUT".into(), ..bad.clone() };
    let steps: Vec<(Post, u16, Option<i64>)> = vec![
        (bad_put, 405, None),
        (bad.clone(), 403, None),
        (bad.clone().without("origin"), 406, None),
        (bad.clone().without("origin").without("accept"), 415, None),
        (Post::of("{"), 400, Some(-32700)),
        (Post::of("[]"), 400, Some(-32600)),
        (Post::of(json!({ "jsonrpc": "2.0", "id": 7, "result": {} }).to_string()), 400, Some(-32600)),
        (Post::of(json!({ "jsonrpc": "2.0", "id": 1.5, "method": "x" }).to_string()), 400, Some(-32600)),
        (Post::of(request(json!({})).to_string()).with("mcp-protocol-version", MODERN), 400, Some(-32602)),
        (Post::of(request(wrong_version.clone()).to_string()), 400, Some(-32020)),
        (
            Post::of(request(wrong_version).to_string())
                .with("mcp-protocol-version", "2027-01-01")
                .with("mcp-method", "tools/chop"),
            400,
            Some(-32022),
        ),
        (
            Post::of(request(meta()).to_string())
                .with("mcp-protocol-version", MODERN)
                .with("mcp-method", "tools/chop"),
            404,
            Some(-32601),
        ),
    ];
    for (post, status, code) in steps {
        let answer = server.ask(&post).await;
        assert_eq!(answer.status(), status, "{post:?} {answer:?}");
        if let Some(code) = code {
            assert_eq!(answer.code(), code, "{post:?}");
            let readable = matches!(code, -32602 | -32020 | -32022 | -32601);
            let id = readable.then_some(json!(7));
            // The response whose id could be read is the one without a method; it gets none either.
            assert_eq!(answer.json().get("id").cloned(), id, "{post:?}");
        }
    }
}

// shows: HDR-15, VER-19
#[tokio::test]
async fn amb_07_the_body_decides_the_era() {
    let both = Server::start().await;
    let one = Server::with(modern_only(), Settings::default()).await;
    let without_meta = |method: &str| {
        Post::of(json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": {} }).to_string())
    };
    // Modern metadata without the header is a header failure.
    for server in [&both, &one] {
        let refused = server.ask(&call(7, "echo", json!({})).without("mcp-protocol-version")).await;
        assert_eq!((refused.status(), refused.code()), (400, -32020));
        // The header alone upgrades nothing: it is a broken modern request.
        let refused = server.ask(&without_meta("tools/list").with("mcp-protocol-version", MODERN)).await;
        assert_eq!((refused.status(), refused.code()), (400, -32602));
    }
    // Neither: a session is missed where they are served, else the headers.
    let refused = both.ask(&without_meta("tools/list")).await;
    assert_eq!((refused.status(), refused.code()), (400, -32600));
    let refused = one.ask(&without_meta("tools/list")).await;
    assert_eq!((refused.status(), refused.code()), (400, -32020));
    let refused = one.ask(&initialize("2025-11-25")).await;
    assert_eq!((refused.status(), refused.code()), (400, -32020));
    assert!(refused.body.contains(MODERN), "{}", refused.body);
    // Modern metadata under a legacy version is not served in this way.
    let mut old = meta();
    old["io.modelcontextprotocol/protocolVersion"] = json!("2025-06-18");
    let post = with_meta(&call(7, "echo", json!({})), old).set("mcp-protocol-version", "2025-06-18");
    assert_eq!(both.ask(&post).await.code(), -32022);
}

// ---- CAN ----

// shows: CAN-06
#[tokio::test]
async fn can_05_a_closed_stream_stops_its_request_and_no_other() {
    let mut server = Server::start().await;
    let mut going = server.hold(&streamed("going")).await;
    let staying = server.hold(&held("staying")).await;
    going.head().await;
    drop(going);
    server.is_stopped("going").await;
    server.desk.tell("staying", Act::Finish(json!({})));
    assert_eq!(server.next().await, Event::Ended("staying".into()));
    drop(staying);
}

#[tokio::test]
async fn can_06_what_a_cancelled_request_held_is_free_again() {
    let options = Options { max_in_flight: 1, ..Options::default() };
    let mut server = Server::with(options, Settings::default()).await;
    for round in 0..3 {
        let wire = server.hold(&held("a")).await;
        let refused = server.ask(&call(1, "echo", json!({}))).await;
        assert_eq!((refused.status(), refused.head.value("retry-after")), (503, Some("1")), "{round}");
        assert_eq!(refused.json()["error"]["data"]["steadfast/error"]["outcome"], "not_executed");
        drop(wire);
        server.is_stopped("a").await;
        // The handler has ended; its place is given back a moment later.
        server.ask_until(200, &call(1, "echo", json!({}))).await;
    }
}

// shows: CAN-13
#[tokio::test]
async fn can_07_after_a_cancel_nothing_more_is_written() {
    let mut server = Server::start().await;
    // As a stream, and while it would become one object; our side closes, and we read on.
    for accept in ["text/event-stream", "application/json, text/event-stream", "application/json"] {
        let mut wire = server.hold(&held("a").set("accept", accept)).await;
        if accept == "text/event-stream" {
            wire.head().await;
            assert!(wire.piece().await.iter().all(wire::Block::is_comment));
        }
        wire.half_close().await;
        server.is_stopped("a").await;
        assert_eq!(wire.remains().await, "", "{accept}");
    }
}

#[tokio::test]
async fn can_10_a_cancel_may_cross_the_answer() {
    let mut server = Server::start().await;
    for round in 0..100 {
        let mut wire = server.hold(&streamed("a")).await;
        if round % 2 == 0 {
            server.desk.tell("a", Act::Finish(json!({})));
            drop(wire);
        } else {
            wire.half_close().await;
            server.desk.held_may_finish("a");
        }
        loop {
            match server.next().await {
                Event::Ended(_) => break,
                Event::Stopped(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(server.ask(&call(1, "echo", json!({}))).await.status(), 200);
}

// shows: CAN-08, CAN-11
#[tokio::test]
async fn can_18_a_posted_cancel_is_accepted_and_ignored() {
    let mut server = Server::start().await;
    let mut wire = server.hold(&held("a")).await;
    for params in
        [json!({ "requestId": 1 }), json!({ "requestId": 99 }), json!({}), json!({ "requestId": [] })]
    {
        let body = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        let answer = server.ask(&Post::of(body.to_string()).with("mcp-protocol-version", MODERN)).await;
        assert_eq!((answer.status(), answer.body.as_str()), (202, ""), "{params}");
    }
    server.desk.tell("a", Act::Finish(json!({ "done": true })));
    assert_eq!(server.next().await, Event::Ended("a".into()), "it was not stopped");
    assert_eq!(wire.whole().await.message()["result"]["done"], true);
}

#[tokio::test]
async fn can_19_the_loss_of_a_connection_is_a_cancel_before_any_answer_too() {
    let mut server = Server::start().await;
    for accept in ["application/json", "application/json, text/event-stream"] {
        let wire = server.hold(&held("a").set("accept", accept)).await;
        drop(wire);
        server.is_stopped("a").await;
    }
}

#[tokio::test]
async fn can_05_a_pipelined_request_hides_a_lost_client_no_longer_than_a_keepalive() {
    let keep_alive = Duration::from_millis(50);
    let options = Options { keep_alive, ..Options::default() };
    let mut server = Server::with(options, Settings::default()).await;
    for accept in ["application/json", "text/event-stream"] {
        let mut wire = server.hold(&held("first").set("accept", accept)).await;
        wire.post(&held("second")).await;
        drop(wire);
        server.is_stopped("first").await;
    }
}

// ---- SSE ----

// shows: HTTP-09
// shows: F053
#[tokio::test]
async fn sse_01_a_silent_handlers_stream_begins_with_a_comment_and_goes_on_with_them() {
    let options = Options { keep_alive: Duration::from_millis(20), ..Options::default() };
    let settings = Settings { grace: Duration::from_millis(20), ..Settings::default() };
    let mut server = Server::with(options, settings).await;
    let mut wire = server.hold(&held("a")).await;
    assert_eq!(wire.head().await.value("content-type"), Some("text/event-stream"));
    for _ in 0..3 {
        assert!(wire.piece().await.iter().all(wire::Block::is_comment));
    }
    server.desk.tell("a", Act::Finish(json!({})));
    assert_eq!(wire.rest().await.len(), 1);
    let (mut quiet, _) = server.stream(&listen(json!({}))).await;
    quiet.block().await;
    assert!(quiet.piece().await.iter().all(wire::Block::is_comment));
}

// shows: F038
#[tokio::test]
async fn sse_07_nothing_follows_the_answer() {
    let mut server = Server::start().await;
    let mut wire = server.hold(&streamed("a").with("connection", "close")).await;
    server.desk.tell("a", Act::Finish(json!({ "resultType": "input_required" })));
    server.desk.changes.publish(&Change::Tools);
    wire.head().await;
    let blocks = wire.rest().await;
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].json()["result"]["resultType"], "input_required");
    assert_eq!(wire.remains().await, "");
}

#[tokio::test]
async fn http_29_a_listener_that_fell_behind_sees_a_broken_stream_and_no_end() {
    let server = Server::start().await;
    // More than may wait for one listener; nobody is woken between.
    let uris: Vec<_> = (0..1_000).map(|n| format!("x://{n}")).collect();
    let post = listen(json!({ "resourceSubscriptions": uris }));
    let (mut wire, _) = server.stream(&post).await;
    assert!(wire.block().await.0.contains("acknowledged"));
    for uri in &uris {
        server.desk.changes.publish(&Change::Resource(uri.clone()));
    }
    let said = wire.remains().await;
    assert!(!said.ends_with("0\r\n\r\n"), "SUB-20: not a regular end");
    assert!(!said.contains(r#""result""#));
}

// shows: HTTP-14
#[tokio::test]
async fn g9_what_is_ready_at_once_is_written_at_once() {
    let mut server = Server::start().await;
    let mut wire = server.hold(&streamed("a")).await;
    wire.head().await;
    wire.piece().await;
    // All of it waits before anybody is woken: one thread runs both.
    for n in 0..50 {
        server.desk.tell("a", Act::Notify(json!({ "n": n })));
    }
    server.desk.tell("a", Act::Finish(json!({})));
    let mut pieces = 0;
    let mut seen = Vec::new();
    while seen.len() < 51 {
        seen.extend(wire.piece().await);
        pieces += 1;
    }
    assert!(pieces <= 3, "{pieces} pieces for 51 messages");
    assert!(seen[..50].iter().enumerate().all(|(n, block)| block.json()["params"]["n"] == n), "in order");
}

// ---- HDR ----

// shows: HDR-10, HDR-11
// shows: F058
#[tokio::test]
async fn hdr_12_each_header_says_what_the_body_says() {
    let server = Server::start().await;
    let echo = call(7, "echo", json!({}));
    for (name, value) in [
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", ""),
        ("mcp-method", "tools/list"),
        ("mcp-method", "TOOLS/CALL"),
        ("mcp-method", "tools/call x"),
        ("mcp-name", "other"),
        ("mcp-name", "Echo"),
        ("mcp-name", ""),
    ] {
        let refused = server.ask(&echo.clone().set(name, value)).await;
        assert_eq!((refused.status(), refused.code()), (400, -32020), "{name}: {value}");
        assert_eq!(refused.json()["id"], 7);
    }
    for name in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        let refused = server.ask(&echo.clone().without(name)).await;
        assert_eq!((refused.status(), refused.code()), (400, -32020), "without {name}");
    }
    let spelled = echo.clone().without("mcp-method").with("MCP-METHOD", " \t tools/call \t");
    assert_eq!(server.ask(&spelled).await.status(), 200);
    let read = modern(7, "resources/read", json!({ "uri": "x://a" }));
    assert_eq!(server.ask(&read).await.status(), 200);
    assert_eq!(server.ask(&read.set("mcp-name", "x://b")).await.code(), -32020);
    // A method that mirrors no name is not asked for one.
    assert_eq!(server.ask(&modern(7, "tools/list", json!({}))).await.status(), 200);
}

// shows: HDR-04
#[tokio::test]
async fn amb_45_the_name_of_a_task_may_be_left_out_but_not_be_another() {
    let server = Server::start().await;
    let get = modern(7, "tasks/get", json!({ "taskId": "t-1" }));
    assert_eq!(server.ask(&get).await.status(), 200);
    assert_eq!(server.ask(&get.clone().without("mcp-name")).await.status(), 200);
    let refused = server.ask(&get.set("mcp-name", "t-2")).await;
    assert_eq!((refused.status(), refused.code()), (400, -32020));
}

// shows: HDR-06, HDR-08, HDR-09
#[tokio::test]
async fn hdr_13_values_are_decoded_and_what_cannot_be_is_refused() {
    let server = Server::start().await;
    let named =
        |uri: &str, header: &str| modern(7, "resources/read", json!({ "uri": uri })).set("mcp-name", header);
    for (uri, header) in [
        ("x://Åland", "=?base64?eDovL8OFbGFuZA==?="),
        ("x://a", "=?base64?eDovL2E=?="),
        // Half a marker, and upper case, are literal.
        ("=?base64?eA==", "=?base64?eA=="),
        ("=?BASE64?eA==?=", "=?BASE64?eA==?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
    ] {
        assert_eq!(server.ask(&named(uri, header)).await.status(), 200, "{header}");
    }
    for (uri, header) in [
        ("x://a", "=?base64?eDovL2E?="),
        ("x://a", "=?base64?eDov!2E=?="),
        ("x", "=?base64?/w==?="),
        ("=?base64?eA==?=", "=?base64?eA==?="),
    ] {
        let refused = server.ask(&named(uri, header)).await;
        assert_eq!((refused.status(), refused.code()), (400, -32020), "{header}");
    }
    // Bytes that are no text.
    let text = named("x://a", "x://NOT-TEXT").to_text();
    let at = text.find("NOT-TEXT").unwrap();
    let mut bytes = text.into_bytes();
    bytes[at] = 0xff;
    let mut wire = server.open().await;
    tokio::io::AsyncWriteExt::write_all(&mut wire.stream, &bytes).await.unwrap();
    assert_eq!(wire.whole().await.code(), -32020);
}

#[tokio::test]
async fn hdr_14_without_the_header_and_without_metadata_a_message_is_a_legacy_one() {
    let server = Server::start().await;
    let opened = server.ask(&initialize("2025-03-26")).await;
    assert_eq!(opened.json()["result"]["protocolVersion"], "2025-03-26");
    let session = opened.head.value("mcp-session-id").unwrap();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    assert_eq!(server.ask(&Post::of(list).with("mcp-session-id", session)).await.status(), 200);
}

// shows: HDR-36
#[tokio::test]
async fn hdr_16_modern_metadata_without_the_version_header_is_a_header_failure() {
    let server = Server::start().await;
    let post = modern(7, "tools/list", json!({})).without("mcp-protocol-version").without("mcp-method");
    let refused = server.ask(&post).await;
    assert_eq!((refused.status(), refused.code()), (400, -32020));
}

// shows: HDR-29
#[tokio::test]
async fn hdr_17_a_repeated_header_is_invalid_even_if_both_say_the_same() {
    let server = Server::start().await;
    let echo = call(7, "echo", json!({ "region": "eu" })).with("mcp-param-region", "eu");
    assert_eq!(server.ask(&echo).await.status(), 200);
    for (name, value) in [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "echo"),
        ("Mcp-Param-Region", "eu"),
    ] {
        let refused = server.ask(&echo.clone().with(name, value)).await;
        assert_eq!((refused.status(), refused.code()), (400, -32020), "{name}");
    }
}

// shows: HDR-30
#[tokio::test]
async fn hdr_29_a_mirrored_parameter_is_compared_and_only_expected_where_there_is_one() {
    let server = Server::start().await;
    let echo = |arguments| call(7, "echo", arguments);
    assert_eq!(server.ask(&echo(json!({}))).await.status(), 200);
    assert_eq!(server.ask(&echo(json!({ "region": null }))).await.status(), 200);
    let encoded = echo(json!({ "region": "Åland" })).with("mcp-param-region", "=?base64?w4VsYW5k?=");
    assert_eq!(server.ask(&encoded).await.status(), 200);
    for refused in [
        echo(json!({ "region": "eu" })),
        echo(json!({ "region": "eu" })).with("mcp-param-region", "us"),
        echo(json!({ "region": "eu" })).with("mcp-param-region", "=?base64?!?="),
        echo(json!({})).with("mcp-param-region", "eu"),
    ] {
        let refused = server.ask(&refused).await;
        assert_eq!((refused.status(), refused.code()), (400, -32020));
    }
    // A header of that kind that nobody recognises is ignored.
    assert_eq!(server.ask(&echo(json!({})).with("mcp-param-other", "1")).await.status(), 200);
}

// shows: LEG-49
#[tokio::test]
async fn hdr_40_older_messages_need_none_of_these_headers() {
    let server = Server::start().await;
    let client = Client::open(&server, steadfast::core::hop::Revision::V2025_06_18).await;
    let answer = server.ask(&client.request(1, "tools/list", json!({}))).await;
    assert_eq!(answer.json()["result"]["method"], "tools/list");
}

// shows: F016
#[tokio::test]
async fn msg_07_ids_of_both_types_and_of_other_callers_stay_apart() {
    let mut server = Server::start().await;
    let mut wires = Vec::new();
    for (round, id) in [json!(1), json!("1"), json!(1)].into_iter().enumerate() {
        let name = round.to_string();
        let post = with_member(&held(&name), "id", id.clone());
        wires.push((server.hold(&post).await, id, name));
    }
    for (wire, id, name) in wires.iter_mut().rev() {
        server.desk.tell(name, Act::Finish(json!({ "of": *name })));
        let expected = json!({ "jsonrpc": "2.0", "id": id, "result": { "of": name } });
        assert_eq!(wire.whole().await.message(), expected);
    }
}

/// A thousand rounds of two callers with the same id at once, answered in the other order.
#[tokio::test]
async fn f011_over_http_two_callers_with_equal_ids_are_never_mixed_up() {
    let mut server = Server::start().await;
    for _ in 0..1_000 {
        let mut wires = Vec::new();
        for name in ["a", "b"] {
            let post = with_member(&held(name), "id", json!(1)).with("connection", "close");
            wires.push((server.hold(&post).await, name));
        }
        for (wire, name) in wires.iter_mut().rev() {
            server.desk.tell(name, Act::Finish(json!({ "of": *name })));
            let expected = json!({ "jsonrpc": "2.0", "id": 1, "result": { "of": *name } });
            assert_eq!(wire.whole().await.message(), expected);
            server.next().await;
        }
    }
}
