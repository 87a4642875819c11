//! Calls a second by our client, and by the official Python, TypeScript and Rust clients doing the same against the same
//! server: over one stdio child and over HTTP keep-alive, one after another and sixteen in flight, as ratios in one run; and what a list costs that the client keeps.
//! Client and server are a process of their own each (ours are this binary once more).
//!
//! `cargo bench -p steadfast --bench client`, after `interop/install` and
//! `cargo build --release --manifest-path interop/rmcp/Cargo.toml`; what is not there is left out, in one line.
//! `-- ours` for ours alone.
#![allow(clippy::print_stdout)]

mod caller;
mod server;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ROUNDS: usize = 5;
/// How many calls run at once, in one half of a round and in the other.
const IN_FLIGHT: [usize; 2] = [1, 16];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve-stdio"] => server::serve_stdio(),
        ["serve-http"] => server::serve_http(),
        ["call", "--url", url] => caller::call(caller::Target::Url(url)),
        ["call", "--command", command] => caller::call(caller::Target::Command(command)),
        [] => compare(false),
        ["ours"] => compare(true),
        _ => Err(io::Error::other("there are no options but `ours`")),
    }
}

struct Client {
    name: &'static str,
    command: Vec<PathBuf>,
}

fn clients(ours: PathBuf) -> Vec<Client> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rmcp = root.join("interop/rmcp/target/release/interop-rmcp-bench");
    let python = [root.join("target/interop-venv/bin/python"), root.join("interop/python/bench.py")];
    let typescript = [PathBuf::from("node"), root.join("interop/typescript/bench.mjs")];
    vec![
        Client { name: "steadfast", command: vec![ours, "call".into()] },
        Client { name: "rmcp 3.11.0", command: vec![rmcp] },
        Client { name: "typescript 2.4.0", command: typescript.into() },
        Client { name: "python 2.3.0", command: python.into() },
    ]
}

fn compare(ours_alone: bool) -> io::Result<()> {
    let this = std::env::current_exe()?;
    let mut clients = clients(this.clone());
    if ours_alone {
        clients.truncate(1);
    }
    let http = Http::start(&this)?;
    let child = serde_json::json!([this, "serve-stdio"]).to_string();
    let mut kept = (0..ROUNDS).map(|_| caller::kept_list(&http.url)).collect::<io::Result<Vec<_>>>()?;
    println!("a list of tools that is kept: {:.2} us of processor time (aim: < 1)", median(&mut kept));
    println!("medians of {ROUNDS} rounds in one go, calls a second");
    println!("{:<18} {:<6} {:>9} {:>9} {:>15}", "client", "over", "in flight", "calls/s", "ours to theirs");
    for (over, target) in [("stdio", ["--command", &child]), ("http", ["--url", &http.url])] {
        let mut rates: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        clients.retain(|client| match rates_of(client, target) {
            Ok(_) => true,
            Err(error) => {
                println!("{:<18} {over:<6} skipped: {error}", client.name);
                false
            }
        });
        for _ in 0..ROUNDS {
            for (at, client) in clients.iter().enumerate() {
                for (in_flight, rate) in rates_of(client, target)? {
                    rates.entry((in_flight, at)).or_default().push(rate);
                }
            }
        }
        for ((in_flight, at), of) in &rates {
            let mut ratios: Vec<f64> =
                rates[&(*in_flight, 0)].iter().zip(of).map(|(ours, theirs)| ours / theirs).collect();
            let (rate, ratio) = (median(&mut of.clone()), median(&mut ratios));
            println!("{:<18} {over:<6} {in_flight:>9} {rate:>9.0} {ratio:>15.2}", clients[*at].name);
        }
    }
    Ok(())
}

/// Runs a client, which prints how many calls were in flight and how many it made a second, a line for each.
fn rates_of(client: &Client, target: [&str; 2]) -> io::Result<Vec<(usize, f64)>> {
    let (program, arguments) = client.command.split_first().expect("a command");
    let run = Command::new(program).args(arguments).args(target).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&run.stdout);
    let rates: Vec<(usize, f64)> = said
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(in_flight, rate)| Some((in_flight.parse().ok()?, rate.parse().ok()?)))
        .collect();
    if rates.len() == IN_FLIGHT.len() {
        return Ok(rates);
    }
    let stderr = String::from_utf8_lossy(&run.stderr);
    Err(io::Error::other(stderr.lines().last().unwrap_or("it said nothing").to_owned()))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The HTTP server; it ends when this is dropped.
struct Http {
    url: String,
    child: Child,
}

impl Http {
    fn start(this: &Path) -> io::Result<Self> {
        let mut child = Command::new(this).arg("serve-http").stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        BufReader::new(stdout).read_line(&mut address)?;
        Ok(Self { url: format!("http://{}/mcp", address.trim()), child })
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
