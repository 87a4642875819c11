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
