//! A real child over real pipes, whose part the test plays line by line.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{Builder, Client, Command, Config};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

/// How long something that must happen may take; far more than it does.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const GRACE: Duration = Duration::from_secs(5);

const TAG: &str = "io.modelcontextprotocol/subscriptionId";

/// Where the children come to.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    listener: UnixListener,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("stage")).unwrap();
        Self { folder, listener }
    }

    /// A client of the child.
    pub(crate) fn client(&self) -> Builder {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/pump.py");
        let path: PathBuf = self.folder.path().join("stage");
        let args = vec![script.into(), path.into()];
        let command = Command { program: "python3".into(), args, env: Vec::new(), cwd: None };
        Client::of_command(command).config(Config { name: "stage".to_owned(), ..Config::default() })
    }

    /// The next child, from its start.
    pub(crate) async fn next(&self) -> Peer {
        let (stream, _) = tokio::time::timeout(LIMIT, self.listener.accept()).await.unwrap().unwrap();
        Peer::of(stream)
    }

    /// The next child, once it was asked what it is and said so.
    pub(crate) async fn modern(&self, capabilities: Value) -> Peer {
        let mut peer = self.next().await;
        let asked = peer.hears("server/discover").await;
        peer.discovered(&asked, capabilities).await;
        peer
    }

    /// The next child, after the handshake of a legacy revision.
    pub(crate) async fn legacy(&self, capabilities: Value) -> Peer {
        let mut peer = self.next().await;
        let mut asked = peer.hear().await;
        if asked["method"] == "server/discover" {
            peer.refuse(&asked, -32_000, "not initialized").await;
            asked = peer.hear().await;
        }
        assert_eq!(asked["method"], "initialize");
        let info = json!({ "name": "old", "version": "1" });
        let result =
            json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info });
        peer.answer(&asked, result).await;
        peer.hears("notifications/initialized").await;
        peer
    }
}

/// A child's part. Dropped, the child ends.
pub(crate) struct Peer {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Peer {
    fn of(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { reader: BufReader::new(reader), writer }
    }

    /// The next message of the client.
    pub(crate) async fn hear(&mut self) -> Value {
        let mut line = String::new();
        tokio::time::timeout(LIMIT, self.reader.read_line(&mut line)).await.expect("nothing came").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The next message, which is of this method.
    pub(crate) async fn hears(&mut self, method: &str) -> Value {
        let heard = self.hear().await;
        assert_eq!(heard["method"], method, "{heard}");
        heard
    }

    pub(crate) async fn say(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, asked: &Value, result: Value) {
        self.say(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, asked: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.say(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).await;
    }

    pub(crate) async fn discovered(&mut self, asked: &Value, capabilities: Value) {
        let result = json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
        });
        self.answer(asked, result).await;
    }

    /// A notification of the subscription that a listen opened, tagged by its id or by another.
    pub(crate) async fn notify(&mut self, tag: &Value, method: &str, mut params: Value) {
        params["_meta"][TAG] = tag.clone();
        self.say(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub(crate) async fn acknowledge(&mut self, listen: &Value, granted: Value) {
        let params = json!({ "notifications": granted });
        self.notify(&listen["id"], "notifications/subscriptions/acknowledged", params).await;
    }

    /// The graceful end of a listen.
    pub(crate) async fn finish(&mut self, listen: &Value) {
        self.answer(listen, json!({ "resultType": "complete", "_meta": { TAG: listen["id"] } })).await;
    }

    /// The server's cancel of a listen.
    pub(crate) async fn cancel(&mut self, listen: &Value) {
        let params = json!({ "requestId": listen["id"] });
        self.say(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    }
}

/// Lets time pass at once, for waits of our own: the child lives in real time and does not notice.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
