//! A server whose every word a test says itself, as the child of a client; and time that moves by the test's hand only.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{
    Answered, CallOptions, Client, Command, Config, Error, Record, Recorder, ToolContract,
};
use steadfast::core::call::Policy;
use steadfast::core::exchange::Progress;
use steadfast::core::policy::{Backoff, Effect, Idempotency};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::span;

/// Tokio's time, at a standstill but for [`Self::pass`], while pipes and sockets are real: no test waits for a limit, and
/// none is reached because the machine is slow.
pub(crate) struct Time {
    /// As long as a blocking task runs, tokio does not move paused time on by itself.
    _standing: std::sync::mpsc::Sender<()>,
}

impl Time {
    pub(crate) fn stands_still() -> Self {
        let (standing, ends) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || ends.recv());
        tokio::time::pause();
        Self { _standing: standing }
    }

    /// As long as given and a little more, since tokio's timers ring at the next whole millisecond.
    pub(crate) async fn pass(&self, by: Duration) {
        settle().await;
        tokio::time::advance(by + Duration::from_millis(1)).await;
        settle().await;
    }
}

/// Lets everything run that can run without word from outside.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// What comes within a moment of the machine's own time, however tokio's stands: for who asks again until it is there.
pub(crate) async fn moment<T>(comes: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        came = comes => Some(came),
        _ = tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(5))) => None,
    }
}

/// A server named `shop` whose attempts follow each other after 100 to 200 ms, then 200 to 400 ms.
pub(crate) fn config() -> Config {
    let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5)).unwrap();
    Config {
        name: "shop".to_owned(),
        retry: Policy { max_attempts: 3, backoff },
        start_limit: Duration::from_secs(24 * 3_600),
        ..Config::default()
    }
}

/// All its tools are reads by the operator's word.
pub(crate) fn reads() -> Config {
    Config { contracts: vec![ToolContract::new("*", Effect::Read, Idempotency::None)], ..config() }
}

pub(crate) fn cancelled_by(cancel: &CancellationToken) -> CallOptions {
    CallOptions { cancel: cancel.clone(), ..CallOptions::default() }
}

/// Hands each record on as it is made.
pub(crate) struct Records(mpsc::UnboundedSender<Record>);

impl Records {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Record>) {
        let (sender, records) = mpsc::unbounded_channel();
        (Arc::new(Self(sender)), records)
    }
}

impl Recorder for Records {
    fn record(&self, record: &Record) {
        let _ = self.0.send(record.clone());
    }
}

/// A call of a tool without arguments, under way.
pub(crate) fn call(
    client: &Client,
    tool: &'static str,
    options: CallOptions,
) -> JoinHandle<Result<Answered, Error>> {
    let client = client.clone();
    tokio::spawn(async move { client.call_tool(tool, "{}", options).await })
}

/// A result that says `words`.
pub(crate) fn text(words: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": words }] })
}

/// What [`text`] said.
pub(crate) fn words(answered: &Answered) -> String {
    let result: Value = serde_json::from_slice(&answered.result).unwrap();
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

pub(crate) fn progress(token: &Value, value: f64) -> Value {
    json!({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": { "progressToken": token, "progress": value },
    })
}

/// Options that gather the progress that the caller hears.
pub(crate) fn gathering(heard: &Arc<Mutex<Vec<f64>>>) -> CallOptions {
    let heard = Arc::clone(heard);
    let on_progress = move |progress: Progress| heard.lock().unwrap().push(progress.value.get());
    CallOptions { on_progress: Some(Box::new(on_progress)), ..CallOptions::default() }
}

/// The token under which a request wants to hear of its progress.
pub(crate) fn token_of(request: &Value) -> Value {
    request["params"]["_meta"]["progressToken"].clone()
}

/// What a client starts, played by the test.
pub(crate) struct Child {
    folder: tempfile::TempDir,
    listener: UnixListener,
}

impl Child {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("peer")).unwrap();
        Self { folder, listener }
    }

    pub(crate) fn client(&self, config: Config) -> Client {
        self.builder(config).build()
    }

    pub(crate) fn builder(&self, config: Config) -> steadfast::client::Builder {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/relay.py");
        let args = vec![script.into(), self.folder.path().join("peer").into()];
        let command = Command { program: "python3".into(), args, env: Vec::new(), cwd: None };
        Client::of_command(command).config(config)
    }

    /// The next process that the client starts.
    pub(crate) async fn started(&self) -> Process {
        let (stream, _) = self.listener.accept().await.unwrap();
        let (reader, writer) = stream.into_split();
        Process { lines: BufReader::new(reader).lines(), writer }
    }

    /// The next process, which is started after a pause of at most 200 ms.
    pub(crate) async fn restarted(&self, time: &Time) -> Process {
        loop {
            time.pass(Duration::from_millis(200)).await;
            if let Some(process) = moment(self.started()).await {
                return process;
            }
        }
    }

    /// The next one, once it has answered the probe as a modern server.
    pub(crate) async fn modern(&self) -> Process {
        let mut process = self.started().await;
        let probe = process.hear("server/discover").await;
        let facts = json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
        });
        process.answer(&probe, facts).await;
        process
    }

    /// The next one, once it has let itself be initialized in the legacy way.
    pub(crate) async fn legacy(&self) -> Process {
        let mut process = self.started().await;
        let probe = process.hear("server/discover").await;
        process.refuse(&probe, -32_601, "unknown method").await;
        let initialize = process.hear("initialize").await;
        let facts = json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "old", "version": "1" },
        });
        process.answer(&initialize, facts).await;
        process.hear("notifications/initialized").await;
        process
    }
}

/// One process of a [`Child`]. Dropped, it exits.
pub(crate) struct Process {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Process {
    /// The next message, or nothing once the client has closed its stdin.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next line as it came.
    pub(crate) async fn line(&mut self) -> String {
        self.lines.next_line().await.unwrap().unwrap()
    }

    /// Nothing is on its way here: a legacy client answers a ping behind everything that it has written.
    pub(crate) async fn hears_nothing(&mut self) {
        self.say(&json!({ "jsonrpc": "2.0", "id": "ping", "method": "ping" })).await;
        let answer = self.next().await;
        assert_eq!(answer, Some(json!({ "jsonrpc": "2.0", "id": "ping", "result": {} })));
    }

    /// The next message, which must be of this method.
    pub(crate) async fn hear(&mut self, method: &str) -> Value {
        let message = self.next().await.unwrap_or_else(|| panic!("{method} expected, not the end"));
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// The next message, which must be a call of this tool.
    pub(crate) async fn hear_call(&mut self, tool: &str) -> Value {
        let message = self.hear("tools/call").await;
        assert_eq!(message["params"]["name"], tool, "{message}");
        message
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        self.say_line(&message.to_string()).await;
    }

    pub(crate) async fn say_line(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.say(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    /// Everything said so far has been heard, and nothing else has come meanwhile but what belongs to that.
    pub(crate) async fn heard_all(&mut self, client: &Client) {
        let done = call(client, "heard", CallOptions::default());
        let request = self.hear_call("heard").await;
        self.answer(&request, text("heard")).await;
        assert_eq!(words(&done.await.unwrap().unwrap()), "heard");
    }
}

/// Keeps every event of tracing as a line of text.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// All lines, and whether one of them has all of these parts.
    pub(crate) fn says(&self, parts: &[&str]) -> bool {
        self.0.lock().unwrap().iter().any(|line| parts.iter().all(|part| line.contains(part)))
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("steadfast")
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}
