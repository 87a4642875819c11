//! The server that every client calls: one tool, made with the toolkit.

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};
use steadfast::server::http::Listener;
use steadfast::server::toolkit::{Call, Failure, Server, Tool, ToolResult};
use steadfast::server::{Options, stdio};

#[tokio::main]
pub(crate) async fn serve_stdio() -> io::Result<()> {
    let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
    stdio::serve(stdin, stdout, Arc::new(echo()?), Options::default(), std::future::pending()).await
}

#[tokio::main]
pub(crate) async fn serve_http() -> io::Result<()> {
    let listener = Listener::bind("127.0.0.1:0").await?;
    println!("{}", listener.address());
    listener.serve("/mcp", Arc::new(echo()?), Options::default(), std::future::pending()).await
}

fn echo() -> io::Result<Server> {
    let schema = json!({ "type": "object", "properties": { "note": { "type": "string" } } });
    let echo = Tool::raw("echo", "Answers with its note.", schema, async |call: Call| {
        let note = call.arguments().get("note").and_then(Value::as_str);
        Ok::<_, Failure>(ToolResult::text(note.unwrap_or_default()))
    });
    Server::builder("bench", "1").tool(echo).build().map_err(io::Error::other)
}
