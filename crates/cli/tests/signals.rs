//! How `steadfast serve` ends when it is asked to.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

const STEADFAST: &str = env!("CARGO_BIN_EXE_steadfast");

fn call(id: u32, name: &str, arguments: &Value) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

fn terminate(child: &Child) {
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
}

/// The first signal lets a stubborn call go on for the drain limit; the second ends the process at once.
#[test]
fn f082_a_second_signal_ends_it_at_once() {
    let mut serve = Command::new(STEADFAST)
        .args(["serve", "--stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = serve.stdin.take().unwrap();
    let mut answers = BufReader::new(serve.stdout.take().unwrap()).lines();
    let mut told = BufReader::new(serve.stderr.take().unwrap()).lines();
    writeln!(stdin, "{}", call(1, "stubborn", &json!({ "steps": 100_000, "step_ms": 100 }))).unwrap();
    assert_eq!(told.next().unwrap().unwrap(), "shop: stubborn began");
    terminate(&serve);
    // That it was heard shows in that nothing new is taken.
    let refused = loop {
        writeln!(stdin, "{}", call(2, "echo", &json!({}))).unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        if let Some(error) = answer.get("error") {
            break error["data"]["steadfast/error"]["outcome"].clone();
        }
    };
    assert_eq!(refused, "not_executed");
    terminate(&serve);
    assert_eq!(serve.wait().unwrap().code(), Some(130));
    assert!(told.next().unwrap().unwrap().contains("ended at once"));
}

/// A key is demanded, its text is in no message, and what is no digest is told before anything listens.
#[test]
fn http_04_serve_demands_the_keys_it_was_given() {
    use std::io::Read;

    let refused = Command::new(STEADFAST)
        .args(["serve", "--http", "127.0.0.1:0", "--key", "my-secret-key"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(!String::from_utf8_lossy(&refused.stderr).contains("my-secret-key"), "G15");

    // printf %s open-sesame | sha256sum
    let digest = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
    let mut serve = Command::new(STEADFAST)
        .args(["serve", "--http", "127.0.0.1:0", "--key", &format!("ann={digest}")])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(serve.stderr.take().unwrap()).lines();
    let line = told.next().unwrap().unwrap();
    let address = line.strip_prefix("steadfast: listening on http://").unwrap().strip_suffix("/mcp").unwrap();
    for (authorization, status) in [
        ("", "401"),
        ("authorization: Bearer no\r\n", "401"),
        ("authorization: Bearer open-sesame\r\n", "200"),
    ] {
        let body = call(1, "echo", &json!({}));
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        write!(
            socket,
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
             mcp-name: echo\r\n{authorization}content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    terminate(&serve);
    assert!(serve.wait().unwrap().success());
}
