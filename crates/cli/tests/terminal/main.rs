//! `steadfast call` on a terminal: a real one, with a real Ctrl-C.
//!
//! Real time is needed, since real processes talk; nothing is timed, and every wait ends with a word of the peer.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

const STEADFAST: &str = env!("CARGO_BIN_EXE_steadfast");
const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/terminal.py");
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/peer.py");

/// An HTTP peer; killed when the test ends, however it ends.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a file has once it says `text`; within a minute.
fn wait_for(file: &Path, text: &str) -> String {
    for _ in 0..6_000 {
        let content = fs::read_to_string(file).unwrap_or_default();
        if content.contains(text) {
            return content;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{text:?} did not come within a minute");
}

/// Calls `tool` of the peer on a terminal and types Ctrl-C once `awaited` is on the screen: what the screen showed, the
/// exit code, and what the peer heard.
fn call(transport: &str, era: &str, tool: &str, awaited: &str) -> (String, i64, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let peer = ["python3", PEER, transport, era, path];
    let mut command = Command::new("python3");
    command.args([TERMINAL, awaited, STEADFAST, "call"]);
    command.env("TERM", "xterm").env("XDG_STATE_HOME", path);
    let _peer = if transport == "http" {
        let peer = Peer(Command::new(peer[0]).args(&peer[1..]).spawn().unwrap());
        command.args([wait_for(&folder.path().join("url"), "\n").trim(), tool]);
        Some(peer)
    } else {
        command.args([tool, "--"]).args(peer);
        None
    };
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    let ended: Value = serde_json::from_slice(&output.stdout).unwrap();
    let heard = folder.path().join("heard");
    // An HTTP peer may hear of the end a moment after the client is gone.
    let heard = match (transport, era) {
        ("http", "modern") => wait_for(&heard, "closed"),
        ("http", "legacy") => wait_for(&heard, "notifications/cancelled"),
        _ => fs::read_to_string(heard).unwrap_or_default(),
    };
    (ended["seen"].as_str().unwrap().to_owned(), ended["code"].as_i64().unwrap(), heard)
}

/// The request that the last cancel names, and the one that was the call.
fn cancelled(heard: &str) -> (Option<Value>, Value) {
    let messages: Vec<Value> = heard.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |method: &str| messages.iter().rfind(|message| message["method"] == method);
    let named = of("notifications/cancelled").map(|message| message["params"]["requestId"].clone());
    (named, of("tools/call").unwrap()["id"].clone())
}

// shows: CAN-01, CAN-16, G4, G8, D-36
#[test]
fn d_36_ctrl_c_on_a_terminal_sends_the_signal_of_transport_and_era_and_tells_what_is_known() {
    for (transport, era) in [("stdio", "modern"), ("stdio", "legacy"), ("http", "modern"), ("http", "legacy")]
    {
        let (seen, code, heard) = call(transport, era, "counts", "three");
        assert_eq!(code, 130, "{transport} {era}: {seen}");
        assert!(seen.contains("the call was cancelled; it may have been executed"), "{seen}");
        let (named, id) = cancelled(&heard);
        match (transport, era) {
            ("http", "modern") => assert_eq!(named, None, "closing the stream is the signal"),
            _ => assert_eq!(named, Some(id), "{transport} {era}: {heard}"),
        }
    }
}

#[test]
fn a_bar_shows_how_far_and_how_long_with_a_total_and_without() {
    let (seen, ..) = call("stdio", "modern", "counts", "three");
    assert!(seen.contains("3 of 20 step") && seen.contains("0s [███"), "{seen:?}");
    assert!(!seen.contains("\x1b[2J"), "the server's text clears no screen: {seen:?}");
    let (seen, ..) = call("stdio", "modern", "goes_on", "three");
    assert!(seen.contains("0s 3 step") && !seen.contains(" of "), "{seen:?}");
}

#[test]
fn a_call_that_was_never_sent_is_told_as_not_executed() {
    let (seen, code, heard) = call("stdio", "silent", "counts", "0s");
    assert_eq!(code, 130);
    assert!(seen.contains("cancelled") && seen.contains("it was not executed"), "{seen:?}");
    assert!(!heard.contains("tools/call"), "{heard}");
}

#[test]
fn the_text_of_a_tool_reaches_a_terminal_without_what_it_would_obey() {
    let (seen, code, _) = call("stdio", "modern", "hostile", "");
    assert_eq!(code, 0, "{seen:?}");
    assert!(seen.contains("red \u{fffd}[31m, bell \u{fffd}, line\r\nnext"), "{seen:?}");
}
