//! A server that is a bare socket: it reads requests whole and says what the test tells it, byte by byte.
//!
//! Nothing is timed. What has to happen is waited for, and fails after [`LIMIT`], which no machine that works needs.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{Builder, Client, Config};
use steadfast::core::call::Policy;
use steadfast::core::policy::Backoff;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Far above what anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Waits for what must happen.
pub(crate) async fn within<T>(what: &str, happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, happens).await.unwrap_or_else(|_| panic!("{what} did not happen"))
}

/// A server at a loopback port.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    asked: mpsc::UnboundedReceiver<Asked>,
    /// Whether there is a stream for what belongs to no request; else it is refused.
    pub(crate) listens: bool,
    /// How often it was asked for one that it does not have.
    pub(crate) refused: usize,
    /// Those that were opened, and what came while one was waited for.
    streams: VecDeque<Asked>,
    waiting: VecDeque<Asked>,
}

enum Do {
    Write(Vec<u8>),
    /// The answer is whole; another request may come on this connection.
    Next,
}

/// One request. Dropped before its answer is whole, its connection is closed.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) body: Value,
    /// Which connection of this server it came on; the first is 1.
    pub(crate) connection: usize,
    headers: Vec<(String, String)>,
    out: mpsc::UnboundedSender<Do>,
    left: CancellationToken,
}

impl Peer {
    pub(crate) async fn start() -> Self {
        Self::over(|stream| async { Some(stream) }).await
    }

    /// With something between the socket and HTTP.
    pub(crate) async fn over<S, F>(dress: impl Fn(tokio::net::TcpStream) -> F + Send + Sync + 'static) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        F: Future<Output = Option<S>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asks, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for connection in 1.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (dressed, asks) = (dress(stream), asks.clone());
                tokio::spawn(async move {
                    if let Some(stream) = dressed.await {
                        serve(stream, connection, asks).await;
                    }
                });
            }
        });
        Self {
            address,
            asked,
            listens: false,
            refused: 0,
            streams: VecDeque::new(),
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// A client that pauses hardly between attempts.
    pub(crate) fn client(&self) -> Builder {
        Client::of_url(&self.url()).unwrap().config(quick())
    }

    /// The next request, but for those that only open a stream.
    pub(crate) async fn next(&mut self) -> Asked {
        loop {
            if let Some(asked) = self.waiting.pop_front() {
                return asked;
            }
            self.take().await;
        }
    }

    /// The next stream that is opened for what belongs to no request.
    pub(crate) async fn listening(&mut self) -> Asked {
        loop {
            if let Some(stream) = self.streams.pop_front() {
                stream.stream();
                return stream;
            }
            self.take().await;
        }
    }

    async fn take(&mut self) {
        let asked = within("a request", self.asked.recv()).await.unwrap();
        let opens = asked.method == "GET" && asked.header("last-event-id").is_none();
        match (opens, self.listens) {
            (true, true) => self.streams.push_back(asked),
            (true, false) => {
                self.refused += 1;
                asked.status(405);
            }
            (false, _) => self.waiting.push_back(asked),
        }
    }

    /// Whether nothing came that was not taken.
    pub(crate) fn is_undisturbed(&mut self) -> bool {
        self.waiting.is_empty() && self.asked.try_recv().is_err()
    }

    /// Answers the probe as a modern server.
    pub(crate) async fn is_modern(&mut self) {
        let probe = self.next().await;
        assert_eq!(probe.rpc(), "server/discover");
        probe.result(json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }));
    }

    /// Answers probe and handshake as a legacy server, and returns when the client said that it is ready.
    pub(crate) async fn is_legacy(&mut self, version: &str, session: Option<&str>) {
        let probe = self.next().await;
        assert_eq!(probe.rpc(), "server/discover");
        probe.json(
            400,
            &json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "no session" } }),
        );
        self.shakes_hands(version, session).await;
    }

    /// As [`Self::is_legacy`] from the handshake on.
    pub(crate) async fn shakes_hands(&mut self, version: &str, session: Option<&str>) {
        let hello = self.next().await;
        assert_eq!(hello.rpc(), "initialize");
        assert_eq!(hello.header("mcp-session-id"), None, "a handshake begins a session");
        let result = json!({
            "protocolVersion": version, "capabilities": { "tools": {} }, "serverInfo": { "name": "peer", "version": "1" },
        });
        let extra = session.map(|id| format!("MCP-Session-Id: {id}\r\n")).unwrap_or_default();
        let answer = json!({ "jsonrpc": "2.0", "id": hello.body["id"], "result": result });
        hello.whole(200, &format!("Content-Type: application/json\r\n{extra}"), &answer.to_string());
        let ready = self.next().await;
        assert_eq!((ready.rpc(), ready.header("mcp-session-id")), ("notifications/initialized", session));
        ready.status(202);
    }
}

/// The defaults, with pauses that a test can wait for.
pub(crate) fn quick() -> Config {
    let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(2)).unwrap();
    Config { name: "peer".to_owned(), retry: Policy { max_attempts: 3, backoff }, ..Config::default() }
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The method of the message.
    pub(crate) fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn write(&self, text: &str) {
        self.write_bytes(text.as_bytes());
    }

    pub(crate) fn write_bytes(&self, bytes: &[u8]) {
        let _ = self.out.send(Do::Write(bytes.to_vec()));
    }

    /// A whole answer, after which the connection is kept.
    pub(crate) fn whole(self, status: u16, headers: &str, body: &str) {
        self.write(&format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()));
        let _ = self.out.send(Do::Next);
    }

    pub(crate) fn status(self, status: u16) {
        self.whole(status, "", "");
    }

    pub(crate) fn json(self, status: u16, body: &Value) {
        self.whole(status, "Content-Type: application/json\r\n", &body.to_string());
    }

    pub(crate) fn result(self, result: Value) {
        let answer = json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result });
        self.json(200, &answer);
    }

    pub(crate) fn error(self, status: u16, code: i64) {
        let error = json!({ "code": code, "message": "as it was told" });
        let answer = json!({ "jsonrpc": "2.0", "id": self.body["id"], "error": error });
        self.json(status, &answer);
    }

    /// The head of an event stream.
    pub(crate) fn stream(&self) {
        self.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n");
    }

    /// A piece of an event stream.
    pub(crate) fn chunk(&self, text: &str) {
        self.write(&format!("{:x}\r\n{text}\r\n", text.len()));
    }

    /// An event, with an id if it has one.
    pub(crate) fn event(&self, id: Option<&str>, message: &Value) {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.chunk(&format!("{id}data: {message}\n\n"));
    }

    /// The response as an event.
    pub(crate) fn answer(&self, id: Option<&str>, result: &Value) {
        self.event(id, &json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result }));
    }

    /// The regular end of an event stream; the connection is kept.
    pub(crate) fn end(self) {
        self.write("0\r\n\r\n");
        let _ = self.out.send(Do::Next);
    }

    /// Waits until the client closed the connection that this request came on.
    pub(crate) async fn is_left(&self) {
        within("the client's going", self.left.cancelled()).await;
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: usize,
    asks: mpsc::UnboundedSender<Asked>,
) {
    let mut read = Vec::new();
    loop {
        let Some((head, body)) = request(&mut stream, &mut read).await else { return };
        let mut lines = head.lines();
        let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
        let (out, mut todo) = mpsc::unbounded_channel();
        let left = CancellationToken::new();
        let asked = Asked {
            method: first.next().unwrap_or_default(),
            target: first.next().unwrap_or_default(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            connection,
            headers: lines
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect(),
            out,
            left: left.clone(),
        };
        if asks.send(asked).is_err() {
            return;
        }
        let mut chunk = [0; 4096];
        loop {
            tokio::select! {
                what = todo.recv() => match what {
                    Some(Do::Write(bytes)) => drop(stream.write_all(&bytes).await),
                    Some(Do::Next) => {
                        let _ = stream.flush().await;
                        break;
                    }
                    None => return,
                },
                more = stream.read(&mut chunk), if !left.is_cancelled() => match more {
                    Ok(0) | Err(_) => left.cancel(),
                    Ok(more) => read.extend_from_slice(&chunk[..more]),
                },
            }
        }
        if left.is_cancelled() {
            return;
        }
    }
}

/// Head and body of the next request; `None` once the client closed.
async fn request(stream: &mut (impl AsyncRead + Unpin), read: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = read.windows(4).position(|at| at == b"\r\n\r\n") {
            let head = String::from_utf8(read[..end].to_vec()).unwrap();
            let length = head.lines().filter_map(|line| line.split_once(':'));
            let length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            let length: usize = length.map(|(_, value)| value.trim().parse().unwrap()).next().unwrap_or(0);
            if read.len() >= end + 4 + length {
                let body = read[end + 4..end + 4 + length].to_vec();
                read.drain(..end + 4 + length);
                return Some((head, body));
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(more) => read.extend_from_slice(&chunk[..more]),
        }
    }
}
