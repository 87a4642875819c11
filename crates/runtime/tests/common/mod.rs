//! A service whose handlers are moved by hand, and a peer that reads and writes lines.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::core::exchange::{Finite, Progress, Reply};
use steadfast::core::subscription::{Change, Filter};
use steadfast::server::{
    Answering, Caller, Changes, Context, Level, Listening, Options, Request, Service, stdio,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// What a handler did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Began(String),
    /// Its cancel switch was thrown.
    Stopped(String),
    Ended(String),
}

/// Tools `echo`, `hold` (until released or cancelled), `deaf` (as `hold`, but ignores a cancel), `speak`, `ask` and
/// `panic`.
pub(crate) struct Probe {
    pub(crate) changes: Changes,
    events: mpsc::UnboundedSender<Event>,
    held: Mutex<HashMap<String, oneshot::Sender<()>>>,
}

impl Probe {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Event>) {
        let (events, seen) = mpsc::unbounded_channel();
        (Arc::new(Self { changes: Changes::new(), events, held: Mutex::default() }), seen)
    }

    pub(crate) fn release(&self, name: &str) {
        let _ = self.held.lock().unwrap().remove(name).expect("nothing is held under this name").send(());
    }

    async fn call(self: Arc<Self>, name: &str, arguments: &Value, context: Context) -> Value {
        let label = arguments["as"].as_str().unwrap_or(name).to_owned();
        match name {
            "hold" | "deaf" => {
                let (release, released) = oneshot::channel();
                self.held.lock().unwrap().insert(label.clone(), release);
                let _ = self.events.send(Event::Began(label.clone()));
                tokio::pin!(released);
                tokio::select! {
                    _ = &mut released => {}
                    () = context.cancelled().cancelled() => {
                        let _ = self.events.send(Event::Stopped(label.clone()));
                        if name == "deaf" {
                            let _ = released.await;
                        }
                        // None of this may reach the peer.
                        context.progress(progress(9));
                        context.log(Level::Emergency, None, &json!("too late"));
                        context.notify("notifications/too_late", "{}");
                    }
                }
                let _ = self.events.send(Event::Ended(label.clone()));
                json!({ "held": label })
            }
            "speak" => {
                for step in 1..=arguments["steps"].as_u64().unwrap_or(1) {
                    context.progress(progress(step));
                    for level in [Level::Debug, Level::Info, Level::Error] {
                        context.log(level, Some("probe"), &json!(step));
                    }
                    tokio::task::yield_now().await;
                }
                json!({ "spoken": true })
            }
            "ask" => match context.ask("elicitation/create", r#"{"message":"?"}"#).await {
                Ok(Reply::Result(answer)) => json!({ "answer": text(&answer) }),
                Ok(Reply::Error(error)) => json!({ "error": text(&error) }),
                Err(error) => json!({ "not_asked": error.to_string() }),
            },
            "panic" => panic!("as it was asked to"),
            "caller" => json!({
                "revision": context.caller().revision.as_str(),
                "capabilities": context.caller().capabilities.as_json(),
                "level": context.caller().level.map(Level::as_str),
                "trace": context.trace().map(|trace| (trace.parent(), trace.state(), trace.baggage())),
            }),
            _ => json!({ "echo": arguments }),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn progress(value: u64) -> Progress {
    Progress { value: Finite::new(value as f64).unwrap(), total: None, message: None }
}

/// The probe behind an endpoint.
#[derive(Clone)]
pub(crate) struct Probed(pub(crate) Arc<Probe>);

impl Service for Probed {
    fn knows(&self, method: &str, _caller: &Caller) -> bool {
        matches!(
            method,
            "initialize"
                | "server/discover"
                | "tools/call"
                | "tools/list"
                | "subscriptions/listen"
                | "tasks/result"
                | "logging/setLevel"
                | "resources/subscribe"
                | "resources/unsubscribe"
        )
    }

    fn answer(&self, request: Request, context: Context) -> Answering {
        let probe = Arc::clone(&self.0);
        Box::pin(async move {
            let params: Value = serde_json::from_str(&request.params).unwrap();
            let result = match request.method.as_str() {
                "initialize" => json!({
                    "protocolVersion": context.caller().revision.as_str(),
                    "capabilities": { "tools": { "listChanged": true } },
                    "serverInfo": { "name": "probe", "version": "1" },
                }),
                // It ends when it is told to.
                "tasks/result" => probe.call("hold", &Value::Null, context).await,
                "tools/call" => {
                    probe.call(params["name"].as_str().unwrap_or(""), &params["arguments"], context).await
                }
                method => json!({ "method": method }),
            };
            Reply::Result(Bytes::from(result.to_string()))
        })
    }

    fn listen(
        &self,
        _caller: &Caller,
        wanted: Filter,
    ) -> Pin<Box<dyn Future<Output = Option<Listening>> + Send>> {
        // Prompts never change here, and no resource elsewhere may be read.
        let uris = wanted.uris.into_iter().filter(|uri| uri.starts_with("x://")).collect();
        let listening = self.0.changes.listen(Filter { prompts: false, uris, ..wanted });
        Box::pin(async move { Some(listening) })
    }
}

/// The other end of a connection.
pub(crate) struct Peer {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: Option<WriteHalf<DuplexStream>>,
    pub(crate) server: JoinHandle<std::io::Result<()>>,
    end: Option<oneshot::Sender<()>>,
}

impl Peer {
    pub(crate) fn connect(probe: &Arc<Probe>, options: Options) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (end, ended) = oneshot::channel::<()>();
        let (reader, writer) = tokio::io::split(theirs);
        let service = Arc::new(Probed(Arc::clone(probe)));
        let server = tokio::spawn(stdio::serve(reader, writer, service, options, async move {
            if ended.await.is_err() {
                std::future::pending().await
            }
        }));
        let (reader, writer) = tokio::io::split(ours);
        Self { reader: BufReader::new(reader), writer: Some(writer), server, end: Some(end) }
    }

    pub(crate) async fn send(&mut self, line: &str) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(line.as_bytes()).await.unwrap();
        writer.write_all(b"\n").await.unwrap();
    }

    /// A modern request.
    pub(crate) async fn ask(&mut self, id: &str, method: &str, params: Value) {
        self.send(&modern(id, method, params)).await;
    }

    /// A modern `tools/call`.
    pub(crate) async fn call(&mut self, id: &str, name: &str, arguments: Value) {
        self.ask(id, "tools/call", json!({ "name": name, "arguments": arguments })).await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()).await;
    }

    pub(crate) async fn cancel(&mut self, id: Value) {
        self.notify("notifications/cancelled", json!({ "requestId": id })).await;
    }

    /// The handshake of a legacy revision.
    pub(crate) async fn initialize(&mut self, version: &str) -> Value {
        let params = json!({
            "protocolVersion": version,
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "peer", "version": "1" },
        });
        self.send(
            &json!({ "jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params }).to_string(),
        )
        .await;
        let answer = self.next().await;
        self.notify("notifications/initialized", json!({})).await;
        answer
    }

    /// The next line, as it is.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        assert!(line.ends_with('\n'), "STD-01: a line, not {line:?}");
        line.pop();
        line
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// That nothing was written since: the next line is the answer to a request that is sent now.
    pub(crate) async fn is_silent(&mut self) {
        self.call("\"still there\"", "echo", json!(1)).await;
        assert_eq!(self.next().await["id"], "still there");
    }

    /// Asks the server to end, as a signal does.
    pub(crate) fn end(&mut self) {
        let _ = self.end.take().unwrap().send(());
    }

    /// Closes our side.
    pub(crate) async fn close(&mut self) {
        self.writer.take().unwrap().shutdown().await.unwrap();
    }

    /// Our writing end, for somebody who writes while we read.
    pub(crate) fn take_writer(&mut self) -> WriteHalf<DuplexStream> {
        self.writer.take().unwrap()
    }

    /// Goes away without a word, with all that it did not read; gives the server that is left.
    pub(crate) fn vanish(self) -> JoinHandle<std::io::Result<()>> {
        self.server
    }

    /// All that the server still writes.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut rest = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut self.reader, &mut rest).await.unwrap();
        rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The text of a modern request whose `id` is JSON text.
pub(crate) fn modern(id: &str, method: &str, params: Value) -> String {
    modern_with(id, method, params, json!({}))
}

/// As [`modern`], with more members in `_meta`.
pub(crate) fn modern_with(id: &str, method: &str, mut params: Value, meta: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (name, value) in meta.as_object().unwrap() {
        params["_meta"][name] = value.clone();
    }
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// What a listen asks for.
pub(crate) fn listen(notifications: Value) -> Value {
    json!({ "notifications": notifications })
}

pub(crate) fn updated(uri: &str) -> Change {
    Change::Resource(uri.into())
}
