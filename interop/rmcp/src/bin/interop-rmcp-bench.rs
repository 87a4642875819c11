//! What benches/client does with our client, by the official Rust client:
//! `interop-rmcp-bench (--url URL | --command JSON)`.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{CallToolRequestParams, ClientConfig, JsonObject, ProtocolVersion};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient};
use serde_json::json;
use tokio::task::JoinSet;

const WARM_UP: Duration = Duration::from_millis(300);
const COUNTED: Duration = Duration::from_millis(1000);

struct Host;

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let config = json!({
            "protocolVersion": "2026-07-28",
            "clientInfo": { "name": "bench", "version": "1.0.0" },
            "capabilities": {},
        });
        serde_json::from_value(config).expect("a client's own description")
    }
}

async fn calls(peer: &Peer<RoleClient>, in_flight: usize, lasting: Duration) -> Result<u32, Box<dyn Error>> {
    let end = Instant::now() + lasting;
    let arguments: JsonObject = serde_json::from_value(
        json!({ "account": "a-17", "cents": 500, "note": "for the coffee of the week" }),
    )?;
    let mut callers = JoinSet::new();
    for _ in 0..in_flight {
        let (peer, arguments) = (peer.clone(), arguments.clone());
        callers.spawn(async move {
            let mut made = 0;
            while Instant::now() < end {
                let request = CallToolRequestParams::new("echo").with_arguments(arguments.clone());
                let result = peer.call_tool(request).await.map_err(|error| error.to_string())?;
                let text = result.content.first().and_then(|item| item.as_text());
                if !text.is_some_and(|text| text.text.contains("coffee")) {
                    return Err("the answer is another".to_owned());
                }
                made += 1;
            }
            Ok(made)
        });
    }
    let mut sum = 0;
    while let Some(made) = callers.join_next().await {
        sum += made??;
    }
    Ok(sum)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let [_, kind, target] = &arguments[..] else { return Err("name --url or --command".into()) };
    let client = if kind == "--url" {
        let transport = StreamableHttpClientTransport::from_uri(Arc::<str>::from(target.as_str()));
        Host.serve_with_lifecycle(transport, lifecycle).await?
    } else {
        let command: Vec<String> = serde_json::from_str(target)?;
        let mut process = tokio::process::Command::new(&command[0]);
        process.args(&command[1..]);
        Host.serve_with_lifecycle(TokioChildProcess::new(process)?, lifecycle).await?
    };
    for in_flight in [1, 16] {
        calls(client.peer(), in_flight, WARM_UP).await?;
        let began = Instant::now();
        let made = calls(client.peer(), in_flight, COUNTED).await?;
        println!("{in_flight} {}", f64::from(made) / began.elapsed().as_secs_f64());
    }
    client.cancel().await?;
    Ok(())
}
