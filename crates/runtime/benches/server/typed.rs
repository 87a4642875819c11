//! The same call through the toolkit: a type for the arguments, whose schema is checked before the tool is called.

use std::io;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steadfast::server::Options;
use steadfast::server::http::Listener;
use steadfast::server::toolkit::{Call, Failure, Server, Tool, ToolResult};

use super::process;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Charge {
    account: String,
    cents: u32,
    #[schemars(length(max = 100))]
    note: String,
}

pub(crate) async fn serve() -> io::Result<()> {
    let listener = Listener::bind("127.0.0.1:0").await?;
    process::announce(listener.address());
    let echo = Tool::new("echo", "Answers with its arguments.", async |_: Call, charge: Charge| {
        Ok::<_, Failure>(ToolResult::structured(json!(charge)))
    });
    let server = Server::builder("bench", "1").tool(echo).build().map_err(io::Error::other)?;
    listener.serve("/mcp", Arc::new(server), Options::default(), std::future::pending()).await
}
