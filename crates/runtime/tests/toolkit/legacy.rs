//! The same handlers under a legacy session on lines, where a question is a request to the client.

use std::sync::Arc;

use serde_json::{Value, json};
use steadfast::server::toolkit::{Call, Question, Server, Tool, ToolResult};
use steadfast::server::{Level, Options, stdio};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use crate::harness::builder;

struct Peer {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Peer {
    async fn connect(server: Server, version: &str, capabilities: Value) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(theirs);
        tokio::spawn(stdio::serve(
            reader,
            writer,
            Arc::new(server),
            Options::default(),
            std::future::pending(),
        ));
        let (reader, writer) = tokio::io::split(ours);
        let mut peer = Self { reader: BufReader::new(reader), writer };
        let client = json!({ "name": "peer", "version": "1" });
        let params =
            json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client });
        peer.send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        assert_eq!(peer.next().await["result"]["protocolVersion"], version);
        peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        peer
    }

    async fn send(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn call(&mut self, name: &str) {
        let params = json!({ "name": name, "arguments": {} });
        self.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

fn server() -> Server {
    let name = || {
        let schema =
            json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
        Question::form("Your name?", schema)
    };
    let greet = move |call: Call| async move {
        call.log(Level::Info, "about to ask");
        call.remember(json!("in vain"));
        let answers = call.ask_all([("name", name()), ("roots", Question::roots())]).await?;
        assert_eq!(call.remembered(), None, "there are no rounds");
        let (name, roots) = (&answers["name"], &answers["roots"]["roots"]);
        Ok(ToolResult::text(format!("{} {} {roots}", name["action"], name["content"]["name"])))
    };
    builder().logs().tool(Tool::raw("greet", "", json!({ "type": "object" }), greet)).build().unwrap()
}

// shows: LEG-77, LEG-15
#[tokio::test]
async fn leg_77_a_question_is_a_request_to_the_client_while_the_call_runs() {
    let able = json!({ "elicitation": {}, "roots": {} });
    let mut peer = Peer::connect(server(), "2025-11-25", able).await;
    peer.call("greet").await;
    let entry = peer.next().await;
    assert_eq!(
        (&entry["method"], &entry["params"]["data"]),
        (&json!("notifications/message"), &json!("about to ask"))
    );
    for _ in 0..2 {
        let asked = peer.next().await;
        let answer = match asked["method"].as_str().unwrap() {
            "elicitation/create" => {
                assert_eq!(asked["params"].get("mode"), None, "older revisions know no modes");
                json!({ "action": "accept", "content": { "name": "Anna" } })
            }
            "roots/list" => json!({ "roots": [] }),
            other => panic!("{other}"),
        };
        peer.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).await;
    }
    let done = peer.next().await;
    assert_eq!(done["result"], json!({ "content": [{ "type": "text", "text": r#""accept" "Anna" []"# }] }));
}

#[tokio::test]
async fn leg_77_who_cannot_be_asked_gets_a_result_that_says_so() {
    // In 2025-03-26 there are no forms, whatever a client declares.
    let able = json!({ "elicitation": {}, "roots": {} });
    for (version, capabilities) in [("2025-11-25", json!({})), ("2025-03-26", able)] {
        let mut peer = Peer::connect(server(), version, capabilities).await;
        peer.call("greet").await;
        peer.next().await;
        let refused = peer.next().await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert!(refused["result"]["content"][0]["text"].as_str().unwrap().contains("elicitation.form"));
    }
}

#[tokio::test]
async fn mrt_27_an_answer_that_is_none_ends_the_call_as_the_tools_failure() {
    let mut peer = Peer::connect(server(), "2025-11-25", json!({ "elicitation": {}, "roots": {} })).await;
    peer.call("greet").await;
    peer.next().await;
    for _ in 0..2 {
        let asked = peer.next().await;
        peer.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "maybe" } })).await;
    }
    assert_eq!(peer.next().await["result"]["isError"], true);
}
