//! The server behind nginx with its default buffering: events arrive as they are sent, a silent call outlives the
//! proxy's patience, and a client that leaves is noticed (D-18, F055, CAN-19).
//!
//! Without nginx the tests say that they are skipped, and fail where `CI=true`.
#![cfg(unix)]

use std::future::pending;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::core::exchange::{Progress, Reply};
use steadfast::server::{Answering, Caller, Context, Options, Request, Service, http};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, mpsc};
use tokio_util::task::AbortOnDropHandle;

/// How long the proxy waits for the next byte of an answer.
const PROXY_LIMIT: Duration = Duration::from_secs(2);
/// How long the silent call is silent.
const SILENCE: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_millis(500);
/// For what must come and has no reason to take long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the handler tells the test.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Began,
    Cancelled,
}

/// Tools `step` (a progress event each time it is let go on), `silent` and `wait` (both until cancelled, the first
/// for [`SILENCE`] at most).
struct Probe {
    told: mpsc::UnboundedSender<Told>,
    go_on: Arc<Mutex<mpsc::UnboundedReceiver<()>>>,
}

impl Service for Probe {
    fn knows(&self, method: &str, _caller: &Caller) -> bool {
        method == "tools/call"
    }

    fn answer(&self, request: Request, context: Context) -> Answering {
        let (told, go_on) = (self.told.clone(), Arc::clone(&self.go_on));
        Box::pin(async move {
            let params: Value = serde_json::from_str(&request.params).unwrap();
            let _ = told.send(Told::Began);
            match params["name"].as_str().unwrap() {
                "step" => {
                    let mut go_on = go_on.lock().await;
                    let mut step = 0;
                    while go_on.recv().await.is_some() {
                        step += 1;
                        context.progress(Progress::of(f64::from(step)).unwrap());
                    }
                }
                "silent" => tokio::time::sleep(SILENCE).await,
                _ => {
                    context.cancelled().cancelled().await;
                    let _ = told.send(Told::Cancelled);
                }
            }
            Reply::Result(Bytes::from_static(br#"{"content":[]}"#))
        })
    }
}

/// A server and nginx in front of it. Both end with this.
struct Front {
    folder: tempfile::TempDir,
    nginx: Child,
    told: mpsc::UnboundedReceiver<Told>,
    go_on: Option<mpsc::UnboundedSender<()>>,
    _server: AbortOnDropHandle<std::io::Result<()>>,
}

impl Front {
    /// `None` where nginx is not installed.
    async fn start() -> Option<Self> {
        if Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_err() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "nginx is missing; install nginx-light");
            eprintln!("skipped: nginx is not installed (Debian: apt-get install nginx-light)");
            return None;
        }
        let (told, hears) = mpsc::unbounded_channel();
        let (go_on, goes_on) = mpsc::unbounded_channel();
        let listener = http::Listener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.address();
        let options =
            Options { keep_alive: KEEP_ALIVE, progress_interval: Duration::ZERO, ..Options::default() };
        let service = Arc::new(Probe { told, go_on: Arc::new(Mutex::new(goes_on)) });
        let server = tokio::spawn(listener.serve("/mcp", service, options, pending()));

        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("nginx.conf");
        std::fs::write(&config, configuration(folder.path(), &address.to_string())).unwrap();
        let nginx = Command::new("nginx")
            .args(["-e".as_ref(), folder.path().join("error.log").as_os_str()])
            .args(["-c".as_ref(), config.as_os_str()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut front =
            Self { folder, nginx, told: hears, go_on: Some(go_on), _server: AbortOnDropHandle::new(server) };
        front.is_up().await;
        Some(front)
    }

    async fn is_up(&mut self) {
        for _ in 0..6_000 {
            if UnixStream::connect(self.socket()).await.is_ok() {
                return;
            }
            assert!(self.nginx.try_wait().unwrap().is_none(), "nginx ended: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nginx did not listen within a minute: {}", self.log());
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("front")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }

    async fn call(&self, tool: &str) -> Client {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool,
            "arguments": {},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "progressToken": "p",
            },
        } })
        .to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
             mcp-method: tools/call\r\nmcp-name: {tool}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = BufReader::new(UnixStream::connect(self.socket()).await.unwrap());
        stream.write_all(request.as_bytes()).await.unwrap();
        Client { stream }
    }

    async fn hear(&mut self, expected: Told) {
        let told = tokio::time::timeout(PATIENCE, self.told.recv()).await;
        assert_eq!(told.unwrap_or(None), Some(expected), "{}", self.log());
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // One process, so none is left.
        let _ = self.nginx.kill();
        let _ = self.nginx.wait();
    }
}

/// What is not named here is nginx's default, `proxy_buffering on` above all. A socket file instead of a port, since
/// nginx cannot say which one the system chose.
fn configuration(folder: &Path, upstream: &str) -> String {
    let folder = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {folder}/{kind};\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/pid;\nevents {{}}\nhttp {{\n    access_log off;\n{temporary}\
         \x20   server {{\n        listen unix:{folder}/front;\n        location / {{\n\
         \x20           proxy_pass http://{upstream};\n            proxy_read_timeout {}s;\n        }}\n    }}\n}}\n",
        PROXY_LIMIT.as_secs()
    )
}

/// A client of raw lines.
struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// The next line; lines of heads and chunks are lines too. Panics at the end of the connection.
    async fn line(&mut self, front: &Front) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.stream.read_line(&mut line)).await;
        let read = read.unwrap_or_else(|_| panic!("nothing came through for a minute: {}", front.log()));
        assert!(read.unwrap() > 0, "the proxy ended the answer: {}", front.log());
        line.trim_end().to_owned()
    }

    /// The next JSON-RPC message, and how many comments came before it.
    async fn message(&mut self, front: &Front) -> (Value, usize) {
        let mut comments = 0;
        loop {
            let line = self.line(front).await;
            comments += usize::from(line.starts_with(':'));
            if let Some(data) = line.strip_prefix("data: ") {
                return (serde_json::from_str(data).unwrap(), comments);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d_18_each_event_passes_the_proxy_before_the_next_is_sent() {
    let Some(mut front) = Front::start().await else { return };
    let mut client = front.call("step").await;
    front.hear(Told::Began).await;
    for step in 1..=20 {
        front.go_on.as_ref().unwrap().send(()).unwrap();
        let (event, _) = client.message(&front).await;
        assert_eq!(event["method"], "notifications/progress");
        assert_eq!(event["params"]["progress"], step);
    }
    drop(front.go_on.take());
    let (answer, _) = client.message(&front).await;
    assert_eq!((&answer["id"], &answer["result"]["content"]), (&json!(1), &json!([])));
}

/// In real time, since it is nginx's own clock that must not run out: 5 s of silence against its limit of 2 s.
#[tokio::test(flavor = "multi_thread")]
async fn f055_a_silent_call_outlives_the_proxys_limit() {
    let Some(front) = Front::start().await else { return };
    let mut client = front.call("silent").await;
    let (answer, comments) = client.message(&front).await;
    assert_eq!(answer["result"]["content"], json!([]));
    assert!(comments >= 2, "{comments} comments bridged {SILENCE:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn can_19_a_client_that_leaves_the_proxy_cancels_the_handler() {
    let Some(mut front) = Front::start().await else { return };
    // Before its answer began.
    let client = front.call("wait").await;
    front.hear(Told::Began).await;
    drop(client);
    front.hear(Told::Cancelled).await;
    // While a stream is open: its first sign of life has come.
    let mut client = front.call("wait").await;
    front.hear(Told::Began).await;
    while !client.line(&front).await.starts_with(':') {}
    drop(client);
    front.hear(Told::Cancelled).await;
}
