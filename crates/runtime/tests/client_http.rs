//! What a client says to a modern HTTP server, and makes of what that one says or fails to: the server is a bare socket.

#[path = "client/peer.rs"]
mod peer;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use peer::{Asked, Peer, quick, within};
use serde_json::{Value, json};
use steadfast::client::{
    Answered, CallOptions, Category, Client, Config, Credentials, Error, Headers, HttpSettings, ToolContract,
};
use steadfast::core::era::Wish;
use steadfast::core::error::Outcome;
use steadfast::core::exchange::Limits;
use steadfast::core::policy::{Effect, Idempotency};
use tokio::task::JoinHandle;

/// What it is called, what the server answers, and what that is.
type Case = (&'static str, fn(Asked), Category);

type Calling = JoinHandle<Result<Answered, Error>>;

/// A client that takes the server for modern, so that the first request is the call's.
fn modern(peer: &Peer) -> Client {
    peer.client().config(Config { era: Wish::Modern, ..quick() }).build()
}

fn call(client: &Client, options: CallOptions) -> Calling {
    let client = client.clone();
    tokio::spawn(async move { client.call_tool("charge", r#"{"cents":1}"#, options).await })
}

async fn done(calling: Calling) -> Result<Value, Error> {
    let done = within("the end of the call", calling).await.unwrap();
    done.map(|done| serde_json::from_slice(&done.result).unwrap())
}

/// Makes a call of which `answer` decides, and tells what became of it and what is known of its effect.
async fn after(answer: impl FnOnce(Asked)) -> (Category, Outcome, Error) {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    let calling = call(&client, CallOptions::default());
    answer(peer.next().await);
    let error = done(calling).await.unwrap_err();
    let category = match &error {
        Error::Protocol { .. } => Category::InvalidResponse,
        Error::Transport { category, .. } | Error::Local { category, .. } => *category,
    };
    (category, error.outcome(), error)
}

// shows: HTTP-05, HTTP-06, HTTP-07, HDR-01, HDR-02, HDR-03, VER-01, SSE-03
#[tokio::test]
async fn hdr_01_each_request_is_a_post_whose_headers_are_those_of_its_body() {
    let mut peer = Peer::start().await;
    let client = peer.client().build();
    let calling = call(&client, CallOptions::default());
    let probe = peer.next().await;
    assert_eq!((probe.rpc(), probe.header("mcp-name")), ("server/discover", None));
    assert_eq!(probe.header("mcp-protocol-version"), Some("2026-07-28"));
    probe.result(json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} }));
    let asked = peer.next().await;
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("POST", "/mcp"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(asked.header("mcp-method"), Some("tools/call"));
    assert_eq!(asked.header("mcp-name"), Some("charge"));
    let said = &asked.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
    assert_eq!(asked.header("mcp-protocol-version"), said.as_str());
    for legacy in ["mcp-session-id", "last-event-id"] {
        assert_eq!(asked.header(legacy), None);
    }
    asked.result(json!({ "content": [] }));
    assert_eq!(done(calling).await.unwrap(), json!({ "content": [] }));

    let other = client.clone();
    let reading = tokio::spawn(async move { other.read_resource("x:/ä", CallOptions::default()).await });
    let asked = peer.next().await;
    assert_eq!(asked.header("mcp-name"), Some("=?base64?eDovw6Q=?="), "HDR-05");
    assert_eq!(asked.connection, 1, "the connection is kept between requests");
    asked.result(json!({ "contents": [] }));
    reading.await.unwrap().unwrap();
}

// shows: HTTP-10, SSE-02, SSE-04, SSE-05, SSE-10, PRG-01
#[tokio::test]
async fn sse_04_a_stream_is_read_however_it_is_cut_and_left_after_its_response() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (progress, notes) = (Arc::clone(&heard), Arc::clone(&heard));
    let calling = call(
        &client,
        CallOptions {
            on_progress: Some(Box::new(move |it| {
                progress.lock().unwrap().push(format!("{:?}", it.value.get()))
            })),
            on_note: Some(Box::new(move |method, _| notes.lock().unwrap().push(method.to_owned()))),
            ..CallOptions::default()
        },
    );
    let asked = peer.next().await;
    asked.stream();
    let token = &asked.body["params"]["_meta"]["progressToken"];
    let progress = |at: u64| json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": token, "progress": at } });
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "ä" } });
    let text = format!(
        ": alive\r\n\r\nid: 1\ndata:\n\nevent: other\ndata: {{}}\n\ndata: {}\r\rdata:{note}\n\nnews: x\ndata: {}\n\n",
        progress(1),
        progress(2),
    );
    let response = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": { "text": "ä" } });
    // Every byte is a chunk of its own, even within a character; the response has several lines.
    for byte in format!("{text}data: {}\ndata: \n\n", response).bytes() {
        asked.write("1\r\n");
        asked.write_bytes(&[byte]);
        asked.write("\r\n");
    }
    assert_eq!(done(calling).await.unwrap(), json!({ "text": "ä" }), "though the stream stays open");
    assert_eq!(heard.lock().unwrap().join(" "), "1.0 notifications/message 2.0", "in their order");
    asked.is_left().await;
}

// shows: CAN-01, CAN-09
#[tokio::test]
async fn can_02_a_cancel_closes_the_stream_and_posts_nothing() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    // Before the head, within the body, and within a stream.
    for begun in 0..3 {
        let options = CallOptions::default();
        let cancel = options.cancel.clone();
        let calling = call(&client, options);
        let asked = peer.next().await;
        match begun {
            0 => {}
            1 => asked
                .write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"),
            _ => asked.stream(),
        }
        cancel.cancel();
        let error = done(calling).await.unwrap_err();
        assert!(matches!(error, Error::Local { category: Category::ClientCancelled, .. }), "{error:?}");
        assert_eq!(error.outcome(), Outcome::Unknown, "a write that left may have been executed");
        asked.is_left().await;
    }
    // What comes next is the next call, and no notification.
    let calling = call(&client, CallOptions::default());
    let asked = peer.next().await;
    assert_eq!(asked.rpc(), "tools/call");
    asked.result(json!({}));
    done(calling).await.unwrap();
}

// shows: HTTP-21, HTTP-25, RTY-04, D-37
#[tokio::test]
async fn http_21_every_status_is_what_it_proves() {
    for status in [401, 405, 406, 413, 415, 431] {
        let (.., error) = after(|asked| asked.status(status)).await;
        assert_eq!(error.outcome(), Outcome::NotExecuted, "{status}: {error}");
    }
    for status in [201, 204, 300, 304, 400, 403, 404, 410, 500, 503] {
        let (.., error) = after(|asked| asked.status(status)).await;
        assert_eq!(error.outcome(), Outcome::Unknown, "{status}: {error}");
    }
    // An error object decides over 200, 400 and 404, and over no other status.
    for status in [200, 400, 404] {
        let (.., error) = after(|asked| asked.error(status, -32601)).await;
        assert!(matches!(error, Error::Protocol { code: -32601, .. }), "{error:?}");
        assert_eq!(error.outcome(), Outcome::NotExecuted);
    }
    for status in [403, 500] {
        let (.., error) = after(|asked| asked.error(status, -32601)).await;
        assert_eq!(error.outcome(), Outcome::Unknown, "{status}: {error}");
    }
}

// shows: SSE-08, SSE-09, RTY-01, RTY-02, HTTP-29
#[tokio::test]
async fn sse_08_an_answer_that_is_none_is_an_error_of_unknown_effect() {
    let cases: [Case; 10] = [
        ("no byte", drop, Category::TransportLost),
        ("half a head", |asked| asked.write("HTTP/1.1 200 OK\r\nContent-"), Category::TransportLost),
        (
            "half a body",
            |asked| {
                asked
                    .write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
            },
            Category::TransportLost,
        ),
        (
            "a broken stream",
            |asked| {
                asked.stream();
                asked.chunk("data: {");
            },
            Category::TransportLost,
        ),
        (
            "a stream without a response",
            |asked| {
                asked.stream();
                asked.end();
            },
            Category::StreamEnded,
        ),
        (
            "a stream with another's response",
            |asked| {
                asked.stream();
                asked.event(None, &json!({ "jsonrpc": "2.0", "id": 4711, "result": {} }));
                asked.end();
            },
            Category::InvalidResponse,
        ),
        (
            "a page",
            |asked| asked.whole(200, "Content-Type: text/html\r\n", "<p>hello"),
            Category::InvalidResponse,
        ),
        ("nothing", |asked| asked.status(202), Category::InvalidResponse),
        (
            "another's response",
            |asked| asked.json(200, &json!({ "jsonrpc": "2.0", "id": 4711, "result": {} })),
            Category::InvalidResponse,
        ),
        (
            "a broken chunk",
            |asked| {
                asked.stream();
                asked.write("zz\r\n");
            },
            Category::TransportLost,
        ),
    ];
    for (what, answer, expected) in cases {
        let (category, outcome, error) = after(answer).await;
        assert_eq!((category, outcome), (expected, Outcome::Unknown), "{what}: {error}");
    }
}

// shows: SSE-11, HTTP-25
#[tokio::test]
async fn sse_11_what_is_larger_than_the_limit_fails_that_request_alone() {
    let mut peer = Peer::start().await;
    let settings = HttpSettings { max_message: 1000, ..HttpSettings::default() };
    let client =
        peer.client().config(Config { era: Wish::Modern, ..quick() }).http(settings).unwrap().build();
    for streamed in [false, true] {
        let calling = call(&client, CallOptions::default());
        let asked = peer.next().await;
        let large = json!({ "text": "x".repeat(2000) });
        if streamed {
            asked.stream();
            asked.answer(None, &large);
        } else {
            asked.result(large);
        }
        let error = done(calling).await.unwrap_err();
        assert!(matches!(error, Error::Transport { category: Category::InvalidResponse, .. }), "{error:?}");
    }
    let calling = call(&client, CallOptions::default());
    peer.next().await.result(json!({}));
    done(calling).await.unwrap();
}

// shows: HDR-03, HDR-04, HDR-05, HDR-07
#[tokio::test]
async fn hdr_04_the_name_header_mirrors_what_the_method_names() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    for (method, params, name) in [
        ("tasks/get", json!({ "taskId": "t-1" }), Some("t-1")),
        ("tasks/update", json!({ "taskId": "t 2", "inputResponses": {} }), Some("t 2")),
        ("tasks/cancel", json!({ "taskId": " t" }), Some("=?base64?IHQ=?=")),
        ("prompts/get", json!({ "name": "=?base64?x?=" }), Some("=?base64?PT9iYXNlNjQ/eD89?=")),
        ("resources/read", json!({ "uri": "a:/b\n" }), Some("=?base64?YTovYgo=?=")),
        ("tools/list", json!({ "name": "x" }), None),
    ] {
        let (client, params) = (client.clone(), params.to_string());
        let asking =
            tokio::spawn(async move { client.request(method, &params, CallOptions::default()).await });
        let asked = peer.next().await;
        assert_eq!((asked.header("mcp-method"), asked.header("mcp-name")), (Some(method), name));
        asked.result(json!({}));
        within("the answer", asking).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn f070_a_stream_that_ends_within_its_last_event_ends_the_call_at_once() {
    for (end, whole) in [("\n\n", true), ("\n", false), ("", false)] {
        let mut peer = Peer::start().await;
        let client = modern(&peer);
        let calling = call(&client, CallOptions::default());
        let asked = peer.next().await;
        asked.stream();
        asked.chunk(&format!(
            "data: {}{end}",
            json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": {} })
        ));
        asked.end();
        match done(calling).await {
            Ok(result) => assert!(whole && result == json!({})),
            Err(error) => assert!(!whole && error.outcome() == Outcome::Unknown, "{end:?}: {error}"),
        }
    }
}

// shows: HTTP-23
#[tokio::test]
async fn f052_one_failed_call_fails_no_other() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    let calling: Vec<_> = (0..20).map(|_| call(&client, CallOptions::default())).collect();
    let mut asked = Vec::new();
    for _ in 0..20 {
        asked.push(peer.next().await);
    }
    for (at, asked) in asked.into_iter().enumerate().rev() {
        if at == 9 { asked.status(504) } else { asked.result(json!({})) }
    }
    let mut failed = 0;
    for calling in calling {
        failed += usize::from(done(calling).await.is_err());
    }
    assert_eq!(failed, 1);
}

/// A client whose calls are reads, which may be repeated.
fn reading(peer: &Peer) -> Client {
    let read = ToolContract::new("*", Effect::Read, Idempotency::None);
    peer.client().config(Config { era: Wish::Modern, contracts: vec![read], ..quick() }).build()
}

// shows: RTY-09, I-14
#[tokio::test]
async fn rty_09_retry_after_is_waited_for_in_both_its_forms_or_not_at_all() {
    let mut peer = Peer::start().await;
    let client = reading(&peer);
    // Real time, as a socket is real; the second is a lower bound.
    for (head, least) in [
        ("Retry-After: 1\r\n", 1),
        ("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:38 GMT\r\n", 1),
    ] {
        let calling = call(&client, CallOptions::default());
        peer.next().await.whole(429, head, "");
        let refused = std::time::Instant::now();
        let again = peer.next().await;
        assert!(refused.elapsed() >= Duration::from_secs(least), "{head}");
        again.result(json!({}));
        done(calling).await.unwrap();
    }
    // What does not fit before the deadline is not tried.
    let calling =
        call(&client, CallOptions { deadline: Some(Duration::from_secs(20)), ..CallOptions::default() });
    peer.next().await.whole(429, "Retry-After: 3600\r\n", "");
    assert_eq!(done(calling).await.unwrap_err().outcome(), Outcome::NotExecuted);
}

// shows: RTY-01, RTY-03, D-38
#[tokio::test]
async fn rty_03_a_lost_read_is_repeated_under_a_new_id_and_a_lost_write_is_not() {
    let mut peer = Peer::start().await;
    let client = reading(&peer);
    let calling = call(&client, CallOptions::default());
    let first = peer.next().await;
    let id = first.body["id"].clone();
    drop(first);
    let again = peer.next().await;
    assert_ne!(again.body["id"], id);
    again.result(json!({}));
    done(calling).await.unwrap();

    let client = modern(&peer);
    let calling = call(&client, CallOptions::default());
    drop(peer.next().await);
    assert_eq!(done(calling).await.unwrap_err().outcome(), Outcome::Unknown);
    let calling = call(&client, CallOptions::default());
    let next = peer.next().await;
    assert_eq!(next.body["params"]["arguments"], json!({ "cents": 1 }));
    next.result(json!({}));
    done(calling).await.unwrap();
}

#[tokio::test]
async fn f056_a_redirect_is_followed_within_the_origin_and_with_its_body_only() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    for status in [307, 308] {
        let calling = call(&client, CallOptions::default());
        let first = peer.next().await;
        let body = first.body.clone();
        first.whole(status, "Location: /moved?x=1\r\n", "");
        let second = peer.next().await;
        assert_eq!((second.method.as_str(), second.target.as_str()), ("POST", "/moved?x=1"));
        assert_eq!((second.header("mcp-name"), &second.body), (Some("charge"), &body));
        second.result(json!({}));
        done(calling).await.unwrap();
    }
    let mut other = Peer::start().await;
    let elsewhere = format!("Location: {}\r\n", other.url());
    let within = "Location: /moved\r\n";
    for (status, location) in
        [(307, elsewhere.as_str()), (307, ""), (301, within), (302, within), (303, within)]
    {
        let calling = call(&client, CallOptions::default());
        peer.next().await.whole(status, location, "");
        let error = done(calling).await.unwrap_err();
        assert!(matches!(error, Error::Transport { category: Category::HttpStatus, .. }), "{error:?}");
    }
    let calling = call(&client, CallOptions::default());
    for _ in 0..6 {
        peer.next().await.whole(307, within, "");
    }
    let error = done(calling).await.unwrap_err();
    assert!(error.to_string().contains("circle"), "{error}");
    assert!(other.is_undisturbed(), "nothing went to another origin");
}

/// Gives one token after another.
struct Tokens(Mutex<Vec<&'static str>>, Mutex<Vec<Option<String>>>);

impl Credentials for Tokens {
    fn headers(&self) -> Headers<'_> {
        let token = self.0.lock().unwrap()[0];
        Box::pin(std::future::ready(Ok(vec![("Authorization".to_owned(), format!("Bearer {token}"))])))
    }

    fn refused<'a>(&'a self, challenge: Option<&'a str>) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        self.1.lock().unwrap().push(challenge.map(str::to_owned));
        self.0.lock().unwrap().remove(0);
        Box::pin(std::future::ready(true))
    }
}

#[tokio::test]
async fn f100_refused_credentials_are_fetched_anew_once_with_the_challenge_in_hand() {
    let mut peer = Peer::start().await;
    let tokens = Arc::new(Tokens(Mutex::new(vec!["old", "new", "none"]), Mutex::default()));
    let config = Config { era: Wish::Modern, ..quick() };
    let client = peer.client().config(config).credentials(Arc::clone(&tokens) as _).build();
    let calling = call(&client, CallOptions::default());
    let first = peer.next().await;
    assert_eq!(first.header("authorization"), Some("Bearer old"));
    first.whole(401, "WWW-Authenticate: Bearer scope=\"a\"\r\nWWW-Authenticate: Basic\r\n", "");
    let second = peer.next().await;
    assert_eq!(second.header("authorization"), Some("Bearer new"));
    second.status(401);
    assert!(matches!(done(calling).await, Err(Error::Transport { category: Category::Authorization, .. })));
    assert_eq!(*tokens.1.lock().unwrap(), [Some("Bearer scope=\"a\", Basic".to_owned())]);
}

// shows: VER-10, VER-11, VER-14, VER-24
#[tokio::test]
async fn ver_14_what_is_no_evidence_decides_nothing_and_is_asked_again() {
    for status in [401, 403, 429, 500, 502, 503, 504] {
        let mut peer = Peer::start().await;
        let client = peer.client().build();
        let mut calling = call(&client, CallOptions::default());
        // What says nothing of the era may pass, so the call asks again a few times.
        let ended = loop {
            tokio::select! {
                probe = peer.next() => {
                    assert_eq!(probe.rpc(), "server/discover", "after {status} no handshake");
                    probe.status(status);
                }
                ended = &mut calling => break ended.unwrap(),
            }
        };
        assert_eq!(ended.unwrap_err().outcome(), Outcome::NotExecuted, "{status}");
        let calling = call(&client, CallOptions::default());
        peer.is_modern().await;
        peer.next().await.result(json!({}));
        done(calling).await.unwrap();
    }
}

// shows: VER-15, VER-17
#[tokio::test]
async fn ver_17_a_modern_server_stays_one_whatever_fails_later() {
    let mut peer = Peer::start().await;
    let client = peer.client().build();
    let calling = call(&client, CallOptions::default());
    peer.is_modern().await;
    peer.next().await.status(404);
    done(calling).await.unwrap_err();
    for status in [400, 404, 405] {
        let calling = call(&client, CallOptions::default());
        let asked = peer.next().await;
        assert_eq!(asked.rpc(), "tools/call", "neither probe nor handshake");
        asked.status(status);
        done(calling).await.unwrap_err();
    }
}

// shows: VER-03, VER-11
#[tokio::test]
async fn ver_04_a_refused_version_is_mended_once_and_no_more() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    let refuse = |asked: Asked| {
        let data = json!({ "supported": ["2026-07-28"], "requested": "2026-07-28" });
        let error = json!({ "code": -32022, "message": "no", "data": data });
        let answer = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": error });
        asked.json(400, &answer);
    };
    let calling = call(&client, CallOptions::default());
    refuse(peer.next().await);
    peer.next().await.result(json!({}));
    done(calling).await.unwrap();
    let calling = call(&client, CallOptions::default());
    refuse(peer.next().await);
    refuse(peer.next().await);
    assert!(matches!(done(calling).await, Err(Error::Protocol { code: -32022, .. })));
}

// shows: TMO-01, TMO-02
#[tokio::test]
async fn tmo_02_a_slow_head_reaches_the_idle_limit_and_closes_the_stream() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    // Real time, as a socket is real: the limit is what is waited for.
    let limits = Limits::new(Duration::from_millis(200), Duration::from_secs(20)).unwrap();
    let calling = call(&client, CallOptions { limits: Some(limits), ..CallOptions::default() });
    let asked = peer.next().await;
    let error = done(calling).await.unwrap_err();
    assert!(matches!(error, Error::Local { category: Category::Deadline, .. }), "{error:?}");
    asked.is_left().await;
}

#[tokio::test]
async fn f018_a_connection_closed_while_idle_costs_no_call() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    for connection in 1..=5 {
        let calling = call(&client, CallOptions::default());
        let asked = peer.next().await;
        assert_eq!(asked.connection, connection);
        let answer = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": {} }).to_string();
        // Kept by its word, closed in fact.
        asked.write(&format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        ));
        drop(asked);
        done(calling).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_as_nothing_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp?token=secret", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::of_url(&url).unwrap().config(Config { era: Wish::Modern, ..quick() }).build();
    let error = client.call_tool("charge", "{}", CallOptions::default()).await.unwrap_err();
    let Error::Transport { category, sent, outcome, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*category, *sent, *outcome), (Category::Connect, false, Outcome::NotExecuted));
    assert!(!error.to_string().contains("secret"), "{error}");
}

/// What stands between a socket and HTTP: TLS with a certificate of our own.
fn certified() -> (tokio_rustls::TlsAcceptor, String) {
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = made.cert.pem();
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).unwrap();
    #[allow(deprecated, reason = "as in the library itself")]
    let provider = tokio_rustls::rustls::crypto::ring::default_provider();
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(Arc::new(provider));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    (tokio_rustls::TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap())), pem)
}

#[tokio::test]
async fn a_server_is_believed_by_its_certificate_alone() {
    let (acceptor, pem) = certified();
    let dress = move |stream| {
        let acceptor = acceptor.clone();
        async move { acceptor.accept(stream).await.ok() }
    };
    let mut peer = Peer::over(dress).await;
    let port = peer.address.port();
    let url = |host: &str| format!("https://{host}:{port}/mcp");
    let config = || Config { era: Wish::Modern, ..quick() };
    let trusting = HttpSettings { root_certificates: pem.clone().into_bytes(), ..HttpSettings::default() };
    // Not its root, and not its name.
    for builder in [
        Client::of_url(&url("localhost")).unwrap(),
        Client::of_url(&url("127.0.0.1")).unwrap().http(trusting.clone()).unwrap(),
    ] {
        let error = builder.config(config()).build().call_tool("charge", "{}", CallOptions::default()).await;
        let error = error.unwrap_err();
        assert!(
            matches!(error, Error::Transport { category: Category::Connect, sent: false, .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("TLS"), "{error}");
    }
    let client = Client::of_url(&url("localhost")).unwrap().http(trusting).unwrap().config(config()).build();
    let calling = call(&client, CallOptions::default());
    peer.next().await.result(json!({}));
    done(calling).await.unwrap();
    let broken = HttpSettings { root_certificates: b"no certificate".to_vec(), ..HttpSettings::default() };
    assert!(Client::of_url(&url("localhost")).unwrap().http(broken).is_err());
}
