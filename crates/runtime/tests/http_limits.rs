//! What an HTTP endpoint takes of one client, who may reach it at all, and how it ends (HTTP, ruling 17, ruling 21).
//!
//! Where time is a limit it is set short, and what it leads to is waited for.

mod wire;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use sha2::{Digest, Sha256};
use steadfast::core::hop::Revision;
use steadfast::core::task::TaskOwner;
use steadfast::server::Options;
use steadfast::server::http::{Key, Keys, Listener, MAX_HEADER_BYTES, MAX_HEADERS, Settings};
use tokio::net::TcpStream;
use wire::{Act, Block, Client, Event, Post, Server, call, held, initialize, modern, streamed, within};

const SHORT: Duration = Duration::from_millis(50);

fn echo() -> Post {
    call(1, "echo", json!({}))
}

fn listen() -> Post {
    modern("listen-1", "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }))
}

// ---- sizes ----

#[tokio::test]
async fn http_26_a_head_beyond_its_limits_is_431() {
    let server = Server::start().await;
    let long = echo().with("x-long", &"x".repeat(MAX_HEADER_BYTES));
    let many = (0..MAX_HEADERS).fold(echo(), |post, n| post.with(&format!("x-{n}"), "1"));
    for post in [long, many] {
        let mut wire = server.open().await;
        wire.post(&post).await;
        assert_eq!(wire.head().await.status, 431);
    }
    let much = (0..50).fold(echo(), |post, n| post.with(&format!("x-{n}"), &"x".repeat(1_000)));
    assert_eq!(server.ask(&much).await.status(), 200);
}

#[tokio::test]
async fn http_25_a_body_beyond_the_limit_is_413_before_it_is_read() {
    const LIMIT: usize = 1_000;
    let options = Options { max_message_bytes: LIMIT, ..Options::default() };
    let server = Server::with(options, Settings::default()).await;
    let mut exact = echo();
    exact.body.push_str(&" ".repeat(LIMIT - exact.body.len()));
    assert_eq!(server.ask(&exact).await.status(), 200);
    exact.body.push(' ');
    // By its own account, of which not one byte is sent.
    let mut wire = server.open().await;
    wire.send(exact.to_text().strip_suffix(&*exact.body).unwrap()).await;
    assert_eq!(wire.head().await.status, 413);
    // Without an account, as soon as it is seen.
    let head = Post { body: String::new(), ..echo().with("transfer-encoding", "chunked") };
    let mut wire = server.open().await;
    wire.send(&head.to_text()).await;
    wire.send(&format!("{:x}\r\n{}\r\n", exact.body.len(), exact.body)).await;
    assert_eq!(wire.head().await.status, 413);
}

#[tokio::test]
async fn i_16_bodies_that_come_in_are_bounded_together() {
    // A quarter of it is for what is being read.
    let options = Options { max_buffered_bytes: 8_000, ..Options::default() };
    let server = Server::with(options, Settings::default()).await;
    let mut post = call(1, "echo", json!({ "text": "x".repeat(1_000) }));
    let mut wire = server.open().await;
    let text = post.to_text();
    wire.send(&text[..text.len() - 1]).await;
    // Once these bytes have arrived there is no room for as many.
    let refused = server.ask_until(503, &post).await;
    assert_eq!(refused.head.value("retry-after"), Some("1"));
    wire.send("}").await;
    assert_eq!(wire.whole().await.status(), 200);
    post.body.push(' ');
    assert_eq!(server.ask(&post).await.status(), 200, "it is given back");
}

// ---- time ----

#[tokio::test]
async fn http_26_a_body_that_drips_is_408_in_time() {
    let settings = Settings { body_within: SHORT, ..Settings::default() };
    let server = Server::with(Options::default(), settings).await;
    let text = Post { body: "x".repeat(100_000), ..echo() }.to_text();
    let mut wire = server.open().await;
    let (head, body) = text.split_at(text.len() - 100_000);
    wire.send(head).await;
    let mut bytes = body.as_bytes().iter();
    // A byte now and then is no reason to wait for the rest.
    let status = loop {
        tokio::select! {
            biased;
            head = wire.head() => break head.status,
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
        let byte = *bytes.next().expect("it is refused long before the end");
        let _ = wire.stream.try_write(&[byte]);
    };
    assert_eq!(status, 408);
}

#[tokio::test]
async fn http_26_a_connection_that_asks_for_nothing_is_closed_whatever_it_says() {
    let settings = Settings { idle: SHORT, ..Settings::default() };
    let server = Server::with(Options::default(), settings).await;
    for said in
        ["", "POST /mcp HT", "POST /mcp HTTP/1.1\r\nhost: localhost\r\nx-drip: ", "PRI * HTTP/2.0\r\n"]
    {
        let mut wire = server.open().await;
        wire.send(said).await;
        let heard = wire.remains().await;
        assert!(!heard.contains("HTTP/1.1 "), "{said:?} was answered");
    }
    let mut wire = server.open().await;
    assert_eq!(wire.ask(&echo()).await.status(), 200);
    assert_eq!(wire.remains().await, "", "idle after an answer");
}

#[tokio::test]
async fn http_23_a_connection_with_a_request_is_not_idle() {
    let options = Options { keep_alive: SHORT, ..Options::default() };
    let mut server = Server::with(options, Settings { idle: SHORT, ..Settings::default() }).await;
    let mut wire = server.hold(&streamed("a")).await;
    wire.head().await;
    for _ in 0..4 {
        assert!(wire.piece().await.iter().all(Block::is_comment));
    }
    server.desk.tell("a", Act::Finish(json!({})));
    assert_eq!(wire.rest().await.len(), 1);
}

#[tokio::test]
async fn ruling_17_a_client_that_takes_nothing_is_disconnected() {
    let options = Options { write_stall: SHORT, ..Options::default() };
    let settings = Settings { max_connections: 1, ..Settings::default() };
    let server = Server::with(options, settings).await;
    let large = call(1, "sized", json!({ "bytes": 15 << 20 }));
    for accept in ["application/json", "text/event-stream"] {
        let mut deaf = server.open_narrow().await;
        deaf.post(&large.clone().set("accept", accept)).await;
        // There is room for one connection: this one is served once the other was given up.
        assert_eq!(server.ask(&echo().with("connection", "close")).await.status(), 200);
        assert!(deaf.remains().await.len() < 15 << 20);
    }
}

#[tokio::test]
async fn ruling_17_a_slow_client_is_not_a_stalled_one() {
    let options = Options { write_stall: Duration::from_millis(500), ..Options::default() };
    let server = Server::with(options, Settings::default()).await;
    let mut slow = server.open_narrow().await;
    slow.post(&call(1, "sized", json!({ "bytes": 8 << 20 })).set("accept", "application/json")).await;
    assert_eq!(slow.whole().await.json()["result"]["text"].as_str().unwrap().len(), 8 << 20);
}

#[tokio::test]
async fn ruling_17_a_stalled_legacy_client_finds_its_answer_when_it_comes_back() {
    let server = Server::start().await;
    let client = Client::open(&server, Revision::V2025_11_25).await;
    let mut deaf = server.open_narrow().await;
    deaf.post(&client.call(1, "sized", json!({ "bytes": 8 << 20 }))).await;
    deaf.head().await;
    let primer = deaf.block().await;
    let (mut wire, _) = server.stream(&client.resume(primer.field("id").unwrap())).await;
    let rest = wire.rest().await;
    assert_eq!(rest[0].json()["result"]["text"].as_str().unwrap().len(), 8 << 20);
}

#[tokio::test]
async fn i_16_an_answer_that_could_not_be_kept_is_not_promised() {
    // A quarter of it is for what may be asked for again.
    let options = Options { max_buffered_bytes: 40_000, ..Options::default() };
    let mut server = Server::with(options, Settings::default()).await;
    let client = Client::open(&server, Revision::V2025_11_25).await;
    let finish = |bytes| Act::Finish(json!({ "text": "x".repeat(bytes) }));
    for (id, name, bytes) in [(1, "kept", 8_000), (2, "lost", 8_000)] {
        drop(server.hold(&client.held(id, name)).await);
        server.desk.tell(name, finish(bytes));
        assert_eq!(server.next().await, Event::Ended(name.into()));
    }
    let (mut wire, _) = server.stream(&client.resume("1-0")).await;
    assert_eq!(wire.rest().await.len(), 1);
    let lost = server.ask(&client.resume("2-0")).await;
    assert_eq!((lost.status(), lost.code()), (400, -32600), "{lost:?}");
}

// ---- numbers ----

#[tokio::test]
async fn i_16_connections_beyond_the_limit_wait_for_a_place() {
    let settings = Settings { max_connections: 2, ..Settings::default() };
    let mut server = Server::with(Options::default(), settings).await;
    let first = server.hold(&held("first")).await;
    let second = server.hold(&held("second")).await;
    let mut third = server.open().await;
    third.post(&held("third")).await;
    drop(first);
    // The place is free before the handler that had it has heard, or after: each is told in its own time.
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(server.next().await);
    }
    for event in [Event::Stopped("first".into()), Event::Ended("first".into()), Event::Began("third".into())]
    {
        assert!(seen.contains(&event), "{seen:?}");
    }
    drop(second);
    server.is_stopped("second").await;
}

#[tokio::test]
async fn http_23_pipelined_requests_are_answered_in_their_order() {
    let server = Server::start().await;
    let mut wire = server.open().await;
    let text: String = (0..20).map(|id| call(id, "echo", json!({})).to_text()).collect();
    wire.send(&text).await;
    for id in 0..20 {
        assert_eq!(wire.whole().await.json()["id"], id);
    }
}

#[tokio::test]
async fn tmo_12_a_handler_that_panics_ends_its_own_call() {
    let server = Server::start().await;
    let mut wire = server.open().await;
    let answer = wire.ask(&call(1, "panic", json!({}))).await;
    assert_eq!((answer.status(), answer.code()), (200, -31_000));
    assert_eq!(wire.ask(&echo()).await.status(), 200);
}

// ---- who ----

fn key(name: &str, tenant: &str) -> Key {
    let digest: String =
        Sha256::digest(format!("secret of {name}")).iter().map(|byte| format!("{byte:02x}")).collect();
    let owner = TaskOwner { tenant: tenant.into(), principal: name.into() };
    Key::new(name, &digest, owner, Vec::new()).unwrap()
}

fn locked() -> Settings {
    let keys: Keys = [key("ann", "acme"), key("bob", "acme")].into_iter().collect();
    Settings { keys: Some(keys), ..Settings::default() }
}

fn bearing(post: &Post, name: &str) -> Post {
    post.clone().with("authorization", &format!("Bearer secret of {name}"))
}

#[tokio::test]
async fn http_04_where_keys_are_demanded_nobody_passes_without_one() {
    let server = Server::with(Options::default(), locked()).await;
    for (post, challenge) in [
        (call(1, "caller", json!({})), "Bearer"),
        (Post::of("{"), "Bearer"),
        (bearing(&echo(), "eve"), "Bearer error=\"invalid_token\""),
        (bearing(&bearing(&echo(), "ann"), "ann"), "Bearer error=\"invalid_token\""),
        (echo().with("authorization", "Basic c2VjcmV0IG9mIGFubg=="), "Bearer error=\"invalid_token\""),
    ] {
        let refused = server.ask(&post).await;
        assert_eq!((refused.status(), refused.head.value("www-authenticate")), (401, Some(challenge)));
        assert!(!refused.body.contains("secret"));
    }
    let known = server.ask(&bearing(&call(1, "caller", json!({})), "ann")).await.json();
    assert_eq!((&known["result"]["tenant"], &known["result"]["principal"]), (&json!("acme"), &json!("ann")));
}

// shows: STA-09
// shows: F103
#[tokio::test]
async fn leg_60_a_session_id_is_no_proof_of_identity() {
    let server = Server::with(Options::default(), locked()).await;
    let opened = server.ask(&bearing(&initialize("2025-06-18"), "ann")).await;
    let session = opened.head.value("mcp-session-id").unwrap().to_owned();
    let client = Client { session, revision: Revision::V2025_06_18 };
    let caller = client.call(1, "caller", json!({}));
    for post in [&caller, &client.bare("GET"), &client.bare("DELETE"), &client.cancel(1)] {
        assert_eq!(server.ask(post).await.status(), 401);
        assert_eq!(server.ask(&bearing(post, "bob")).await.status(), 404, "as if there were none");
    }
    let known = server.ask(&bearing(&caller, "ann")).await.message();
    assert_eq!(known["result"]["principal"], "ann");
}

// shows: HTTP-04
#[tokio::test]
async fn http_03_an_address_that_others_can_reach_needs_keys_or_a_word() {
    let bind = async |settings| Listener::bind_with("0.0.0.0:0", settings).await;
    let refused = bind(Settings::default()).await.unwrap_err().to_string();
    assert!(refused.contains("127.0.0.1"), "{refused}");
    assert!(Listener::bind("[::]:0").await.is_err());
    assert!(bind(locked()).await.is_ok());
    assert!(bind(Settings { insecure: true, ..Settings::default() }).await.is_ok());
}

// ---- the end ----

// shows: AMB-01, CAN-13
#[tokio::test]
async fn i_25_a_server_that_ends_lets_requests_finish_and_listens_end_gracefully() {
    let options = Options { drain: wire::LIMIT, ..Options::default() };
    let mut server = Server::with(options, Settings::default()).await;
    let client = Client::open(&server, Revision::V2025_06_18).await;
    let (mut listening, _) = server.stream(&listen()).await;
    listening.block().await;
    let (mut standalone, _) = server.stream(&client.bare("GET")).await;
    let mut running = server.hold(&streamed("a")).await;
    running.head().await;
    let mut idle = server.open().await;
    assert_eq!(idle.ask(&echo()).await.status(), 200);
    server.end();
    let ended = listening.rest().await;
    assert_eq!(ended.len(), 1, "the result, and no notifications/cancelled");
    let result = &ended[0].json()["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/subscriptionId"], "listen-1");
    assert_eq!(standalone.rest().await, []);
    assert_eq!(idle.remains().await, "", "an idle connection is closed");
    within("the refusal of connections", async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.desk.tell("a", Act::Finish(json!({ "done": true })));
    assert_eq!(running.rest().await[0].json()["result"]["done"], true);
    server.ended().await;
}

#[tokio::test]
async fn i_25_what_does_not_finish_in_time_is_stopped_and_its_stream_is_no_regular_end() {
    let options = Options { drain: SHORT, ..Options::default() };
    let mut server = Server::with(options, Settings::default()).await;
    let client = Client::open(&server, Revision::V2025_11_25).await;
    let mut modern = server.hold(&streamed("modern")).await;
    modern.head().await;
    let mut single = server.hold(&held("single").set("accept", "application/json")).await;
    let mut legacy = server.hold(&client.held(1, "legacy")).await;
    legacy.head().await;
    server.end();
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(format!("{:?}", server.next().await));
    }
    for name in ["modern", "single", "legacy"] {
        assert!(seen.contains(&format!("{:?}", Event::Stopped(name.into()))), "{seen:?}");
    }
    let said = modern.remains().await;
    assert!(!said.contains("data:") && !said.ends_with("0\r\n\r\n"), "{said:?}");
    assert_eq!(single.whole().await.status(), 503);
    let said = legacy.remains().await;
    assert!(!said.contains("result") && !said.ends_with("0\r\n\r\n"), "{said:?}");
    server.ended().await;
}

// ---- HTTP/2 ----

async fn h2(server: &Server) -> http2::SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn h2_request(server: &Server, post: &Post) -> hyper::Request<Full<Bytes>> {
    let mut request = hyper::Request::post(format!("http://{}/mcp", server.address));
    for (name, value) in post.headers.iter().filter(|(name, _)| name != "host") {
        request = request.header(name, value);
    }
    request.body(Full::from(post.body.clone())).unwrap()
}

#[tokio::test]
async fn http_23_over_http_2_requests_share_a_connection_and_not_their_fate() {
    let mut server = Server::start().await;
    let mut connection = h2(&server).await;
    let send = |post: &Post| h2_request(&server, post);
    let (going, staying) = (send(&streamed("going")), send(&streamed("staying")));
    let quick = send(&echo());
    let going = within("a head", connection.send_request(going)).await.unwrap();
    let staying = within("a head", connection.send_request(staying)).await.unwrap();
    assert_eq!(going.headers()["content-type"], "text/event-stream");
    for _ in 0..2 {
        assert!(matches!(server.next().await, Event::Began(_)));
    }
    let answer = within("an answer", connection.send_request(quick)).await.unwrap();
    assert_eq!(answer.status(), 200);
    // CAN-05: the reset of its stream stops one request.
    drop(going);
    server.is_stopped("going").await;
    server.desk.tell("staying", Act::Finish(json!({ "done": true })));
    let body = within("the rest", staying.into_body().collect()).await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).ends_with("\"result\":{\"done\":true}}\n\n"));
}

#[tokio::test]
async fn http_26_a_flood_of_resets_ends_its_connection_and_nothing_else() {
    let mut server = Server::start().await;
    let mut flood = h2(&server).await;
    let requests: Vec<_> = (0..2_000).map(|_| h2_request(&server, &held("flood"))).collect();
    for request in requests {
        let sent = flood.send_request(request);
        // Sent, and reset at once.
        drop(sent);
        if flood.ready().await.is_err() {
            break;
        }
    }
    drop(flood);
    // Whatever began was stopped; a handler that began and was not told to stop would hang here.
    assert_eq!(server.ask(&echo()).await.status(), 200);
    server.end();
    server.ended().await;
}

/// A stream without a window is no stall of its socket. Real time, and little of it: what is full is free again once
/// the peer was given up.
#[tokio::test]
async fn ruling_17_over_http_2_a_client_that_opens_no_window_is_disconnected() {
    let options =
        Options { write_stall: SHORT, max_in_flight: 2, max_buffered_bytes: 100_000, ..Options::default() };
    let server = Server::with(options, Settings::default()).await;
    let client = Client::open(&server, Revision::V2025_11_25).await;
    // Each is more than may wait, or takes a place under way, until its reader is given up.
    let whole = call(1, "sized", json!({ "bytes": 90_000 })).set("accept", "application/json");
    let stream = client.call(1, "sized", json!({ "bytes": 90_000 }));
    for post in [&whole, &stream] {
        let socket = TcpStream::connect(server.address).await.unwrap();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(0);
        let (mut deaf, connection) = builder.handshake(TokioIo::new(socket)).await.unwrap();
        let connection = tokio::spawn(connection);
        let answer = within("a head", deaf.send_request(h2_request(&server, post))).await.unwrap();
        assert_eq!(answer.status(), 200);
        let _ = within("the end of the connection", connection).await.unwrap();
        assert!(answer.into_body().collect().await.is_err(), "HTTP-29");
        within("room again", async {
            while server.ask(&echo()).await.status() != 200 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// A stream that has nothing to say is not stalled, however long it lasts.
#[tokio::test]
async fn ruling_17_over_http_2_a_silent_stream_is_not_a_stalled_one() {
    let options = Options { write_stall: SHORT, ..Options::default() };
    let mut server = Server::with(options, Settings::default()).await;
    let mut connection = h2(&server).await;
    let silent =
        within("a head", connection.send_request(h2_request(&server, &streamed("silent")))).await.unwrap();
    assert!(matches!(server.next().await, Event::Began(_)));
    let mut body = silent.into_body();
    // Four times the limit passes in truth, since what must not happen would happen then.
    for step in 1..=4 {
        tokio::time::sleep(SHORT).await;
        server.desk.tell("silent", Act::Progress(f64::from(step)));
        assert!(within("an event", body.frame()).await.unwrap().is_ok());
    }
    server.desk.tell("silent", Act::Finish(json!({})));
    assert!(within("the rest", body.collect()).await.is_ok());
}
