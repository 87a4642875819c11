//! HTTP/2 without TLS, as a proxy speaks it inside: the same endpoint, told by its first bytes.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request as HttpRequest, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use steadfast::core::exchange::Reply;
use steadfast::server::http::Listener;
use steadfast::server::{Answering, Caller, Context, Options, Request, Service};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// For what must come and has no reason to take long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tools `echo`, and `wait` until it is cancelled; says what it began and which were cancelled.
struct Probe {
    told: mpsc::UnboundedSender<&'static str>,
}

impl Service for Probe {
    fn knows(&self, method: &str, _caller: &Caller) -> bool {
        method == "tools/call"
    }

    fn answer(&self, request: Request, context: Context) -> Answering {
        let told = self.told.clone();
        Box::pin(async move {
            let params: Value = serde_json::from_str(&request.params).unwrap();
            let result = match params["name"].as_str().unwrap() {
                "wait" => {
                    let _ = told.send("began");
                    context.cancelled().cancelled().await;
                    let _ = told.send("cancelled");
                    json!({})
                }
                _ => json!({ "echo": params["arguments"] }),
            };
            Reply::Result(Bytes::from(result.to_string()))
        })
    }
}

struct Client {
    sender: SendRequest<Full<Bytes>>,
    told: mpsc::UnboundedReceiver<&'static str>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl Client {
    async fn start(options: Options) -> Self {
        let (told, hears) = mpsc::unbounded_channel();
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.address();
        let serving = listener.serve("/mcp", Arc::new(Probe { told }), options, pending());
        let server = tokio::spawn(async { serving.await.unwrap() });
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async { drop(connection.await) });
        Self { sender, told: hears, _tasks: [server, connection].map(AbortOnDropHandle::new) }
    }

    async fn call(&self, id: u64, tool: &str, arguments: Value) -> Response<Incoming> {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": tool,
            "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        } });
        let request = HttpRequest::post("http://localhost/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .body(Full::from(body.to_string()))
            .unwrap();
        self.sender.clone().send_request(request).await.unwrap()
    }

    async fn hears(&mut self, expected: &str) {
        assert_eq!(tokio::time::timeout(PATIENCE, self.told.recv()).await, Ok(Some(expected)));
    }
}

async fn json_of(response: Response<Incoming>) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn d_02_calls_share_a_connection_and_each_has_its_answer() {
    let client = Client::start(Options::default()).await;
    let calls = (1..=50).map(|id| {
        let client = &client;
        async move {
            let answer = json_of(client.call(id, "echo", json!({ "n": id })).await).await;
            assert_eq!((&answer["id"], &answer["result"]["echo"]["n"]), (&json!(id), &json!(id)));
        }
    });
    let mut all: Vec<_> = calls.map(Box::pin).collect();
    // All are sent before the first is answered.
    std::future::poll_fn(|context| {
        all.retain_mut(|call| call.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn can_05_a_reset_stream_cancels_its_call_and_no_other() {
    let mut client = Client::start(Options::default()).await;
    // Answered by a stream after a while: only then is there a response to drop.
    let response = client.call(1, "wait", json!({})).await;
    client.hears("began").await;
    drop(response);
    client.hears("cancelled").await;
    let answer = json_of(client.call(2, "echo", json!({})).await).await;
    assert_eq!(answer["id"], 2);
}
