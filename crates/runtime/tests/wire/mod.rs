//! A server at a loopback port whose handlers do what the test tells them, and a client that is a bare socket.
//!
//! Nothing is timed. What has to happen is waited for; that it never happens fails after [`LIMIT`], which no machine
//! that works needs.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::core::exchange::{Progress, Reply};
use steadfast::core::hop::{Era, Revision};
use steadfast::core::subscription::Filter;
use steadfast::server::http::{Listener, Settings};
use steadfast::server::{
    Answering, Caller, Changes, Context, Listening, Mirrored, MirroredParams, Objection, Options, Request,
    Service,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Far above what anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Waits for what must happen.
pub(crate) async fn within<T>(what: &str, happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, happens).await.unwrap_or_else(|_| panic!("{what} did not happen"))
}

/// What a handler is told to do.
#[derive(Debug)]
pub(crate) enum Act {
    Progress(f64),
    /// Sends a notification that belongs to its request.
    Notify(Value),
    /// Asks the client, and tells the answer as [`Event::Told`].
    Ask,
    HangUp(Duration),
    Finish(Value),
    /// Answers with an error of this code.
    Fail(i64),
}

/// What a handler did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Began(String),
    Told(String, String),
    /// Its cancel switch was thrown; all it says after that must not be heard.
    Stopped(String),
    Ended(String),
}

/// Tools: `echo`; `held`, which does as it is told under the name of its argument `as`; `caller`; `sized`, whose answer
/// has so many bytes; `panic`. Everything else fails with the code that its name is.
pub(crate) struct Desk {
    pub(crate) changes: Changes,
    events: mpsc::UnboundedSender<Event>,
    held: Mutex<HashMap<String, mpsc::UnboundedSender<Act>>>,
}

impl Desk {
    /// Tells a held handler what to do.
    pub(crate) fn tell(&self, name: &str, act: Act) {
        let held = self.held.lock().unwrap();
        held.get(name).expect("nothing is held under this name").send(act).expect("it runs");
    }

    /// Tells it to finish, unless it ended already.
    pub(crate) fn held_may_finish(&self, name: &str) {
        let _ = self.held.lock().unwrap()[name].send(Act::Finish(json!({})));
    }

    fn did(&self, event: Event) {
        let _ = self.events.send(event);
    }

    async fn held(&self, name: String, context: Context) -> Reply<Bytes> {
        let (to_handler, mut acts) = mpsc::unbounded_channel();
        self.held.lock().unwrap().insert(name.clone(), to_handler);
        self.did(Event::Began(name.clone()));
        let answer = loop {
            let act = tokio::select! {
                act = acts.recv() => act.expect("the desk lives as long as its handlers"),
                () = context.cancelled().cancelled() => {
                    self.did(Event::Stopped(name.clone()));
                    context.progress(Progress::of(1e6).unwrap());
                    context.notify("notifications/too_late", "{}");
                    break result(json!({ "too": "late" }));
                }
            };
            match act {
                Act::Progress(value) => context.progress(Progress::of(value).unwrap()),
                Act::Notify(params) => context.notify("notifications/message", &params.to_string()),
                Act::Ask => {
                    let told = match context.ask("elicitation/create", r#"{"message":"?"}"#).await {
                        Ok(Reply::Result(answer) | Reply::Error(answer)) => {
                            String::from_utf8(answer.to_vec()).unwrap()
                        }
                        Err(error) => error.to_string(),
                    };
                    self.did(Event::Told(name.clone(), told));
                }
                Act::HangUp(wait) => context.hang_up(wait),
                Act::Finish(value) => break result(value),
                Act::Fail(code) => break error(code),
            }
        };
        self.did(Event::Ended(name));
        answer
    }
}

fn result(value: Value) -> Reply<Bytes> {
    Reply::Result(Bytes::from(value.to_string()))
}

fn error(code: i64) -> Reply<Bytes> {
    Reply::Error(Bytes::from(json!({ "code": code, "message": "as it was told" }).to_string()))
}

/// The desk behind an endpoint.
struct AtDesk(Arc<Desk>);

impl Service for AtDesk {
    fn knows(&self, method: &str, caller: &Caller) -> bool {
        match caller.revision.era() {
            Era::Modern => matches!(
                method,
                "server/discover"
                    | "tools/call"
                    | "tools/list"
                    | "prompts/get"
                    | "resources/read"
                    | "subscriptions/listen"
                    | "tasks/get"
            ),
            Era::Legacy => matches!(
                method,
                "initialize"
                    | "tools/call"
                    | "tools/list"
                    | "resources/subscribe"
                    | "resources/unsubscribe"
                    | "logging/setLevel"
            ),
        }
    }

    fn answer(&self, request: Request, context: Context) -> Answering {
        let desk = Arc::clone(&self.0);
        Box::pin(async move {
            let params: Value = serde_json::from_str(&request.params).unwrap();
            let arguments = &params["arguments"];
            match (request.method.as_str(), params["name"].as_str()) {
                ("initialize", _) => {
                    if let Some(code) = params["capabilities"]["fail"].as_i64() {
                        return error(code);
                    }
                    result(json!({
                        "protocolVersion": context.caller().revision.as_str(),
                        "capabilities": { "tools": {}, "resources": { "subscribe": true } },
                        "serverInfo": { "name": "desk", "version": "1" },
                    }))
                }
                ("tools/call", Some("held")) => {
                    desk.held(arguments["as"].as_str().unwrap_or("held").to_owned(), context).await
                }
                ("tools/call", Some("echo")) => result(json!({ "echo": arguments })),
                ("tools/call", Some("caller")) => result(json!({
                    "revision": context.caller().revision.as_str(),
                    "tenant": context.caller().principal.tenant,
                    "principal": context.caller().principal.principal,
                    "capabilities": context.caller().capabilities.as_json(),
                })),
                ("tools/call", Some("sized")) => {
                    result(json!({ "text": "x".repeat(arguments["bytes"].as_u64().unwrap() as usize) }))
                }
                ("tools/call", Some("panic")) => panic!("as it was told"),
                ("tools/call", Some(code)) => error(code.parse().unwrap_or(-32602)),
                (method, _) => result(json!({ "resultType": "complete", "method": method })),
            }
        })
    }

    /// The tool `echo` has its argument `region` mirrored; the tool `asking` needs sampling.
    fn object(&self, request: &Request, caller: &Caller, headers: &dyn MirroredParams) -> Option<Objection> {
        let params: Value = serde_json::from_str(&request.params).ok()?;
        let object = |code| {
            let error = json!({ "code": code, "message": "objected" }).to_string();
            Some(Objection { code, error })
        };
        match params["name"].as_str()? {
            "asking" if !caller.capabilities.declare(&["sampling"]) => object(-32021),
            "shapeless" => object(-32602),
            "echo" => match (headers.get("Region"), params["arguments"]["region"].as_str()) {
                (Mirrored::NotHere, _) | (Mirrored::Absent, None) => None,
                (Mirrored::Value(sent), Some(meant)) if sent == meant => None,
                _ => object(-32020),
            },
            _ => None,
        }
    }

    fn listen(
        &self,
        _caller: &Caller,
        wanted: Filter,
    ) -> Pin<Box<dyn Future<Output = Option<Listening>> + Send>> {
        let listening = self.0.changes.listen(wanted);
        Box::pin(async move { Some(listening) })
    }
}

/// A server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) desk: Arc<Desk>,
    events: mpsc::UnboundedReceiver<Event>,
    end: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<std::io::Result<()>>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(Options::default(), Settings::default()).await
    }

    pub(crate) async fn with(options: Options, settings: Settings) -> Self {
        let listener = Listener::bind_with("127.0.0.1:0", settings).await.unwrap();
        let address = listener.address();
        let (events, seen) = mpsc::unbounded_channel();
        let desk = Arc::new(Desk { changes: Changes::new(), events, held: Mutex::default() });
        let (end, ended) = oneshot::channel::<()>();
        let service = Arc::new(AtDesk(Arc::clone(&desk)));
        let task = tokio::spawn(async move {
            let ended = async {
                if ended.await.is_err() {
                    std::future::pending().await
                }
            };
            listener.serve("/mcp", service, options, ended).await
        });
        Self { address, desk, events: seen, end: Some(end), task: Some(task) }
    }

    pub(crate) async fn open(&self) -> Wire {
        Wire { stream: TcpStream::connect(self.address).await.unwrap(), read: Vec::new() }
    }

    /// A connection whose kernel takes little while nobody reads.
    pub(crate) async fn open_narrow(&self) -> Wire {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        Wire { stream: socket.connect(self.address).await.unwrap(), read: Vec::new() }
    }

    /// Sends a message on a connection of its own and reads the whole answer.
    pub(crate) async fn ask(&self, post: &Post) -> Whole {
        let mut wire = self.open().await;
        wire.send(&post.to_text()).await;
        wire.whole().await
    }

    /// Sends a message until its answer has this status.
    pub(crate) async fn ask_until(&self, status: u16, post: &Post) -> Whole {
        within("this answer", async {
            loop {
                let answer = self.ask(post).await;
                if answer.status() == status {
                    break answer;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// Sends a message on a connection of its own and reads the head of its answer.
    pub(crate) async fn stream(&self, post: &Post) -> (Wire, Head) {
        let mut wire = self.open().await;
        wire.send(&post.to_text()).await;
        let head = wire.head().await;
        assert_eq!(head.value("content-type"), Some("text/event-stream"), "{head:?}");
        (wire, head)
    }

    /// Calls `held` and waits until it runs.
    pub(crate) async fn hold(&mut self, post: &Post) -> Wire {
        let mut wire = self.open().await;
        wire.send(&post.to_text()).await;
        let began = self.next().await;
        assert!(matches!(began, Event::Began(_)), "{began:?}");
        wire
    }

    /// What a handler did next.
    pub(crate) async fn next(&mut self) -> Event {
        within("anything at the desk", self.events.recv()).await.unwrap()
    }

    pub(crate) async fn is_stopped(&mut self, name: &str) {
        assert_eq!(self.next().await, Event::Stopped(name.into()));
        assert_eq!(self.next().await, Event::Ended(name.into()));
    }

    /// That nothing happened at the desk: what happens next is a call that is made now.
    pub(crate) async fn is_undisturbed(&mut self) {
        let _wire = self.hold(&held("probe")).await;
        self.desk.tell("probe", Act::Finish(json!({})));
        assert_eq!(self.next().await, Event::Ended("probe".into()));
    }

    /// Asks the server to end, as a signal does.
    pub(crate) fn end(&mut self) {
        let _ = self.end.take().unwrap().send(());
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self) {
        within("the end of the server", self.task.take().unwrap()).await.unwrap().unwrap();
    }
}

/// A bare connection.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    /// What was read and not yet looked at.
    read: Vec<u8>,
}

/// The head of a response.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

/// A response that was read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    pub(crate) head: Head,
    pub(crate) body: String,
}

impl Whole {
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.head.value("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    /// The only message, in whichever form it came.
    pub(crate) fn message(&self) -> Value {
        if self.head.value("content-type") == Some("application/json") {
            return self.json();
        }
        let blocks =
            blocks(&self.body).filter(|block| block.field("data").is_some_and(|data| !data.is_empty()));
        let messages: Vec<_> = blocks.collect();
        assert_eq!(messages.len(), 1, "{self:?}");
        messages[0].json()
    }

    /// The code of the JSON-RPC error that the body is.
    pub(crate) fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("{self:?}"))
    }

    pub(crate) fn status(&self) -> u16 {
        self.head.status
    }
}

/// What stands between two blank lines of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block(pub(crate) String);

impl Block {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_start)
    }

    pub(crate) fn is_comment(&self) -> bool {
        self.0.lines().all(|line| line.starts_with(':'))
    }

    /// The message that it carries.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.field("data").unwrap_or_else(|| panic!("{self:?}"))).unwrap()
    }
}

impl Wire {
    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn post(&mut self, post: &Post) {
        self.send(&post.to_text()).await;
    }

    /// Closes our side; the other may still be read.
    pub(crate) async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    async fn more(&mut self) -> usize {
        let mut chunk = [0; 16 << 10];
        let read = within("a byte of the server's", self.stream.read(&mut chunk)).await.unwrap_or(0);
        self.read.extend_from_slice(&chunk[..read]);
        read
    }

    async fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|it| it == end.as_bytes()) {
                let text = self.read.drain(..at + end.len()).collect();
                return String::from_utf8(text).unwrap();
            }
            assert_ne!(self.more().await, 0, "the server closed after {:?}", self.shown());
        }
    }

    async fn exactly(&mut self, bytes: usize) -> String {
        while self.read.len() < bytes {
            assert_ne!(self.more().await, 0, "the server closed after {:?}", self.shown());
        }
        String::from_utf8(self.read.drain(..bytes).collect()).unwrap()
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.read).into_owned()
    }

    pub(crate) async fn head(&mut self) -> Head {
        let text = self.until("\r\n\r\n").await;
        let mut lines = text.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.filter_map(|line| line.split_once(": "));
        Head {
            status,
            headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect(),
        }
    }

    /// The next chunk of a body; `None` at its regular end.
    async fn chunk(&mut self) -> Option<String> {
        let size = self.until("\r\n").await;
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        let chunk = self.exactly(size + 2).await;
        (size > 0).then(|| chunk[..size].to_owned())
    }

    pub(crate) async fn whole(&mut self) -> Whole {
        let head = self.head().await;
        let mut body = String::new();
        if let Some(length) = head.value("content-length") {
            body = self.exactly(length.parse().unwrap()).await;
        } else if head.value("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                body.push_str(&chunk);
            }
        }
        Whole { head, body }
    }

    /// Sends a message on this connection and reads the whole answer.
    pub(crate) async fn ask(&mut self, post: &Post) -> Whole {
        self.post(post).await;
        self.whole().await
    }

    /// The rest of a stream up to its regular end, comments aside.
    pub(crate) async fn rest(&mut self) -> Vec<Block> {
        let mut text = String::new();
        while let Some(chunk) = self.chunk().await {
            text.push_str(&chunk);
        }
        assert!(text.is_empty() || text.ends_with("\n\n"), "{text:?}");
        blocks(&text).filter(|block| !block.is_comment()).collect()
    }

    /// The next piece of a stream, with all that the server wrote at once: at least one block.
    pub(crate) async fn piece(&mut self) -> Vec<Block> {
        let text = self.chunk().await.expect("the stream ended");
        blocks(&text).collect()
    }

    /// The next block of a stream that comes alone, comments aside.
    pub(crate) async fn block(&mut self) -> Block {
        loop {
            let mut piece = self.piece().await;
            piece.retain(|block| !block.is_comment());
            match piece.len() {
                0 => {}
                1 => return piece.remove(0),
                _ => panic!("one was expected: {piece:?}"),
            }
        }
    }

    /// That the connection ends, and what came before that.
    pub(crate) async fn remains(&mut self) -> String {
        while self.more().await > 0 {}
        let text = self.shown();
        self.read.clear();
        text
    }
}

fn blocks(text: &str) -> impl Iterator<Item = Block> {
    text.split_terminator("\n\n").map(|block| Block(block.to_owned()))
}

/// A request of HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Post {
    /// A body with the headers that every message has.
    pub(crate) fn of(body: impl Into<String>) -> Self {
        Self { method: "POST".into(), path: "/mcp".into(), headers: Vec::new(), body: body.into() }
            .with("host", "localhost")
            .with("content-type", "application/json")
            .with("accept", "application/json, text/event-stream")
    }

    /// Another HTTP method without a body.
    pub(crate) fn bare(method: &str) -> Self {
        let bare = Self { method: method.into(), ..Self::of("") };
        bare.without("content-type").set("accept", "text/event-stream")
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(it, _)| it != name);
        self
    }

    pub(crate) fn set(self, name: &str, value: &str) -> Self {
        self.without(name).with(name, value)
    }

    pub(crate) fn to_text(&self) -> String {
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = if self.body.is_empty() {
            String::new()
        } else {
            format!("content-length: {}\r\n", self.body.len())
        };
        format!("{} {} HTTP/1.1\r\n{headers}{length}\r\n{}", self.method, self.path, self.body)
    }
}

pub(crate) const MODERN: &str = "2026-07-28";

/// The metadata of a modern request.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "token",
    })
}

/// A modern request with all its headers.
pub(crate) fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Post {
    params["_meta"] = meta();
    let body = json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params });
    let post = Post::of(body.to_string()).with("mcp-protocol-version", MODERN).with("mcp-method", method);
    match ["name", "uri", "taskId"].into_iter().find_map(|name| params[name].as_str()) {
        Some(name) => post.with("mcp-name", name),
        None => post,
    }
}

/// A modern `tools/call`.
pub(crate) fn call(id: impl Into<Value>, name: &str, arguments: Value) -> Post {
    modern(id, "tools/call", json!({ "name": name, "arguments": arguments }))
}

/// A modern call that does as it is told.
pub(crate) fn held(name: &str) -> Post {
    call(1, "held", json!({ "as": name }))
}

/// As [`held`], answered as a stream from the first byte on.
pub(crate) fn streamed(name: &str) -> Post {
    held(name).set("accept", "text/event-stream")
}

/// A client of a legacy session.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) session: String,
    pub(crate) revision: Revision,
}

pub(crate) fn initialize(version: &str) -> Post {
    let params = json!({
        "protocolVersion": version,
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "wire", "version": "1" },
    });
    Post::of(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string())
}

impl Client {
    /// Opens a session and says so.
    pub(crate) async fn open(server: &Server, revision: Revision) -> Self {
        let opened = server.ask(&initialize(revision.as_str())).await;
        assert_eq!(opened.json()["result"]["protocolVersion"], revision.as_str());
        let session = opened.head.value("mcp-session-id").expect("LEG-50").to_owned();
        let client = Self { session, revision };
        let said = server.ask(&client.notice("notifications/initialized", json!({}))).await;
        assert_eq!(said.status(), 202);
        client
    }

    fn of_session(&self, post: Post) -> Post {
        post.with("mcp-session-id", &self.session).with("mcp-protocol-version", self.revision.as_str())
    }

    pub(crate) fn post(&self, body: &Value) -> Post {
        self.of_session(Post::of(body.to_string()))
    }

    pub(crate) fn request(&self, id: impl Into<Value>, method: &str, params: Value) -> Post {
        self.post(&json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params }))
    }

    pub(crate) fn call(&self, id: impl Into<Value>, name: &str, arguments: Value) -> Post {
        let meta = json!({ "progressToken": "token" });
        self.request(id, "tools/call", json!({ "name": name, "arguments": arguments, "_meta": meta }))
    }

    pub(crate) fn held(&self, id: impl Into<Value>, name: &str) -> Post {
        self.call(id, "held", json!({ "as": name }))
    }

    pub(crate) fn notice(&self, method: &str, params: Value) -> Post {
        self.post(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    pub(crate) fn cancel(&self, id: impl Into<Value>) -> Post {
        self.notice("notifications/cancelled", json!({ "requestId": id.into() }))
    }

    pub(crate) fn bare(&self, method: &str) -> Post {
        self.of_session(Post::bare(method))
    }

    pub(crate) fn resume(&self, event: &str) -> Post {
        self.bare("GET").with("last-event-id", event)
    }
}
