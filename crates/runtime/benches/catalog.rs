//! What a catalog hit costs: one tool's definition among two hundred, from what the client keeps. CPU
//! time of the one thread, as Linux counts it; the best round, since what other processes leave in the caches is theirs.
//!
//! `cargo bench -p steadfast --bench catalog`; it fails above the aim.
#![allow(clippy::print_stdout)]

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{CallOptions, Client, Command};

const AIM: Duration = Duration::from_micros(1);
const TOOLS: usize = 200;
const ROUNDS: usize = 10;
const HITS: u32 = 200_000;

fn main() -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let tools: Vec<Value> = (0..TOOLS)
        .map(|at| json!({ "name": format!("tool-{at}"), "inputSchema": { "type": "object", "properties": { "n": { "type": "integer" } } } }))
        .collect();
    let state = json!({ "tools/list": { "pages": [tools], "hints": { "ttlMs": 3_600_000 } } });
    std::fs::write(folder.path().join("state.json"), state.to_string())?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/catalog.py");
    let args = [script.into(), folder.path().into()].into();
    let client =
        Client::of_command(Command { program: "python3".into(), args, env: Vec::new(), cwd: None }).build();
    let names: Vec<String> = (0..TOOLS).map(|at| format!("tool-{at}")).collect();
    hits(&client, &names, 1).await?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let began = cpu_time()?;
        hits(&client, &names, HITS).await?;
        rounds.push(cpu_time()?.saturating_sub(began) / HITS);
    }
    client.close(Duration::from_secs(5)).await;
    let asked = std::fs::read_to_string(folder.path().join("asked"))?;
    if asked.lines().count() != 1 {
        return Err(io::Error::other("the server was asked again, so these were no hits"));
    }
    rounds.sort_unstable();
    println!(
        "a hit: {:?} at best, {:?} in the median of {ROUNDS} rounds, aim below {AIM:?}",
        rounds[0],
        rounds[ROUNDS / 2]
    );
    if rounds[0] < AIM { Ok(()) } else { Err(io::Error::other("a hit takes too long")) }
}

/// How long this thread has been running on a CPU.
fn cpu_time() -> io::Result<Duration> {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = said.split(' ').next().and_then(|nanos| nanos.parse().ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| io::Error::other("the system does not say"))
}

async fn hits(client: &Client, names: &[String], hits: u32) -> io::Result<()> {
    for name in names.iter().cycle().take(hits as usize) {
        let found = client.definition(name, CallOptions::default()).await.map_err(io::Error::other)?;
        if found.is_none_or(|found| found.name != *name) {
            return Err(io::Error::other("another definition was found"));
        }
    }
    Ok(())
}
