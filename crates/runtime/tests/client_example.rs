//! The example of docs/CLIENT.md is the one that is compiled, and it does what the page says.

#[path = "../examples/host.rs"]
#[allow(dead_code, reason = "its main starts other servers")]
mod host;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use steadfast::client::Command;
use steadfast::server::Options;
use steadfast::server::http::Listener;
use steadfast::server::toolkit::{Server, Tool, ToolResult};
use tokio_util::sync::CancellationToken;

#[test]
fn the_page_shows_the_host_that_is_compiled() {
    let page = include_str!("../../../docs/CLIENT.md");
    let example = include_str!("../examples/host.rs");
    assert!(page.contains(&format!("```rust\n{example}```\n")), "copy examples/host.rs into docs/CLIENT.md");
}

#[tokio::test]
async fn the_host_of_the_page_uses_a_child_and_an_http_server() {
    let reserved = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&reserved);
    let reserve = Tool::raw("reserve_inventory", "Reserves.", json!({ "type": "object" }), move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(ToolResult::text("reserved")) }
    });
    let shop = Server::builder("shop", "1").tool(reserve).build().unwrap();
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.address());
    let end = CancellationToken::new();
    let ended = end.clone().cancelled_owned();
    let serving = tokio::spawn(listener.serve("/mcp", Arc::new(shop), Options::default(), ended));

    let folder = tempfile::tempdir().unwrap();
    // The child of these tests answers every tool; without this it would die at its first call.
    std::fs::write(folder.path().join("lost"), "x").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/server.py");
    let args = [script.into(), "modern".into(), folder.path().into()].to_vec();
    let notes = Command { program: "python3".into(), args, env: Vec::new(), cwd: None };
    let host = host::host(notes, &url).unwrap();
    let counted = host::tidy_up(&host).await.unwrap();
    assert!(counted.contains("done"), "{counted}");
    assert_eq!(std::fs::read_to_string(folder.path().join("executed")).unwrap().lines().count(), 2);
    assert_eq!(reserved.load(Ordering::Relaxed), 1);
    host.close(Duration::from_secs(5)).await;
    end.cancel();
    serving.await.unwrap().unwrap();
}
