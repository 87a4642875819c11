//! What one server's outage costs the others, as a ratio in one run: a client asks two healthy servers while fifty
//! calls hang at a third, and while none do, in turns. Real children, whose every answer takes about 10 ms.
//!
//! `cargo bench -p steadfast --bench isolation`; it fails above the aim.
#![allow(clippy::print_stdout)]

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use steadfast::client::{CallOptions, Client, Command, Config, Host, Identity};
use steadfast::core::exchange::Limits;
use tokio::task::JoinSet;

const AIM: f64 = 1.10;
const ROUNDS: usize = 12;
const HEALTHY: [&str; 2] = ["notes", "shop"];
const ASKERS: usize = 4;
const CALLS: usize = 40;
const HANGING: usize = 50;

fn main() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure())
}

async fn measure() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let host = Host::default();
    for name in HEALTHY.into_iter().chain(["mail"]) {
        host.add(server(name, folder.path())).map_err(io::Error::other)?;
    }
    let identity = Identity::default();
    let client = |name: &str| host.client(name, &identity).map_err(io::Error::other);
    let healthy = [client(HEALTHY[0])?, client(HEALTHY[1])?];
    let mail = client("mail")?;
    // What starts a child and fills caches is no call.
    block(&healthy).await;
    let (mut calm, mut outage) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        calm.extend(block(&healthy).await);
        let options = CallOptions::default();
        let cancel = options.cancel.clone();
        let hanging: JoinSet<_> =
            (0..HANGING)
                .map(|task| {
                    let (mail, cancel) = (mail.clone(), cancel.clone());
                    async move {
                        ask(&mail, task, "outage", CallOptions { cancel, ..CallOptions::default() }).await
                    }
                })
                .collect();
        outage.extend(block(&healthy).await);
        cancel.cancel();
        let given_up = hanging.join_all().await.into_iter().filter(|answered| !answered).count();
        if given_up != HANGING {
            return Err(io::Error::other("calls to the server that is out were answered"));
        }
    }
    host.close(Duration::from_secs(5)).await;
    let (calm, outage) = (median(calm), median(outage));
    let ratio = outage.as_secs_f64() / calm.as_secs_f64();
    println!("median latency of a healthy server: {calm:.2?} in calm, {outage:.2?} beside an outage");
    println!("ratio {ratio:.3}, aim at most {AIM:.2}");
    if ratio > AIM { Err(io::Error::other("an outage slows others down")) } else { Ok(()) }
}

fn server(name: &str, folder: &Path) -> steadfast::client::Builder {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/crowd.py");
    let args = [script.into(), name.into(), "local".into(), folder.into()].to_vec();
    let command = Command { program: "python3".into(), args, env: Vec::new(), cwd: None };
    let limits = Limits::new(Duration::from_secs(60), Duration::from_secs(60)).unwrap_or(Limits::DEFAULT);
    Client::of_command(command).config(Config { name: name.to_owned(), limits, ..Config::default() })
}

/// The latencies of a block of calls to the healthy servers.
async fn block(clients: &[Client]) -> Vec<Duration> {
    let asking: JoinSet<_> = clients
        .iter()
        .flat_map(|client| (0..ASKERS).map(move |task| (client.clone(), task)))
        .map(|(client, task)| async move {
            let mut latencies = Vec::with_capacity(CALLS);
            for _ in 0..CALLS {
                let began = Instant::now();
                if ask(&client, task, "none", CallOptions::default()).await {
                    latencies.push(began.elapsed());
                }
            }
            latencies
        })
        .collect();
    asking.join_all().await.into_iter().flatten().collect()
}

/// One call; whether it was answered.
async fn ask(client: &Client, task: usize, fault: &str, options: CallOptions) -> bool {
    let arguments = json!({ "task": task, "call": 0, "fault": fault }).to_string();
    let options = CallOptions { on_progress: Some(Box::new(drop)), ..options };
    client.call_tool("work", &arguments, options).await.is_ok()
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}
