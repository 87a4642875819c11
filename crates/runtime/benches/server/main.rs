//! What the server half costs beyond a bare hyper server that does the same on the wire, as ratios in one run:
//! processor time a call, processor time an event, resident bytes an idle stream. Each server is a process of its own
//! (this binary once more), so what the load costs is not counted.
//!
//! `cargo bench -p steadfast --bench server`, or with `-- echo`, `-- events`, `-- idle` for one of them.
#![allow(clippy::print_stdout)]

mod bare;
mod load;
mod ours;
mod process;
mod typed;

use std::io;

use load::Connection;
use process::Server;

const ROUNDS: usize = 5;
const CONNECTIONS: usize = 8;
const CALLS: usize = 40_000;
/// More than are emitted in the time of a clock tick, of which the processor time is made.
const EVENTS: usize = 1_000_000;
/// What one call of the second kind emits at once before it lets others run: a bus that has more than one to tell.
const BURST: usize = 64;
const STREAMS: usize = 5_000;
/// How long an idle server may take to settle: buffers of the set-up are given back.
const SETTLE: std::time::Duration = std::time::Duration::from_millis(500);

fn main() -> io::Result<()> {
    if let Some(kind) = process::asked_to_serve() {
        return process::serve(&kind);
    }
    if !cfg!(target_os = "linux") {
        println!(
            "skipped: processor time and resident bytes of another process are read as Linux tells them"
        );
        return Ok(());
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    println!(
        "{:<47} {:>9} {:>9} {:>6}   {:<9}",
        "medians of 5 runs in one go", "ours", "bare", "ratio", "aim"
    );
    if wants("echo") {
        echo()?;
    }
    if wants("events") {
        events()?;
    }
    if wants("idle") {
        idle()?;
    }
    Ok(())
}

/// One line of the table.
fn line(name: &str, unit: &str, aim: &str, mut ours: Vec<f64>, mut bare: Vec<f64>) {
    let mut ratios: Vec<f64> = ours.iter().zip(&bare).map(|(ours, bare)| ours / bare).collect();
    let (ours, bare, ratio) = (median(&mut ours), median(&mut bare), median(&mut ratios));
    println!("{name:<47} {ours:>6.2} {unit:<2} {bare:>6.2} {unit:<2} {ratio:>6.2}   {aim:<9}");
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// `tools/call` over keep-alive connections, each with one call at a time.
fn echo() -> io::Result<()> {
    let bare = Server::start("bare")?;
    for (name, kind, aim) in [
        ("tools/call echo, a call", "ours", "<= 2.5"),
        ("the same through the toolkit, arguments checked", "typed", "none set"),
    ] {
        let server = Server::start(kind)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(echo_round(&server)?);
            theirs.push(echo_round(&bare)?);
        }
        line(name, "us", aim, ours, theirs);
    }
    Ok(())
}

/// Processor microseconds a call.
fn echo_round(server: &Server) -> io::Result<f64> {
    let calls = CALLS / CONNECTIONS;
    let request = load::post("tools/call", Some("echo"), ours::ECHO);
    // The first calls of a connection warm it up.
    let mut connections =
        (0..CONNECTIONS).map(|_| Connection::open(server.address)).collect::<io::Result<Vec<_>>>()?;
    for connection in &mut connections {
        for _ in 0..20 {
            connection.call(&request)?;
        }
    }
    let before = server.processor_time()?;
    std::thread::scope(|scope| {
        let running: Vec<_> = connections
            .into_iter()
            .map(|mut connection| {
                let request = &request;
                scope.spawn(move || {
                    for _ in 0..calls {
                        let answer = connection.call(request)?;
                        assert!(
                            load::find(answer, ours::ARGUMENTS.as_bytes()).is_some(),
                            "{}",
                            String::from_utf8_lossy(answer)
                        );
                    }
                    io::Result::Ok(())
                })
            })
            .collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("a caller"))
    })?;
    Ok((server.processor_time()? - before).as_secs_f64() * 1e6 / (calls * CONNECTIONS) as f64)
}

/// Calls that emit events until they are told that it is enough; one after another on one connection.
fn events() -> io::Result<()> {
    let (server, bare) = (Server::start("ours")?, Server::start("bare")?);
    for (name, tool) in
        [("progress, each as it comes, an event", "progress"), ("notifications in bursts, an event", "burst")]
    {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(events_round(&server, tool)?);
            theirs.push(events_round(&bare, tool)?);
        }
        line(name, "us", "<= 2", ours, theirs);
    }
    Ok(())
}

/// Processor microseconds an event that arrived.
fn events_round(server: &Server, tool: &str) -> io::Result<f64> {
    let request = load::post("tools/call", Some(tool), &ours::emit(tool, EVENTS));
    let mut connection = Connection::open(server.address)?;
    let before = server.processor_time()?;
    let events = connection.stream(&request)?;
    let spent = server.processor_time()? - before;
    assert!(events > EVENTS / 2, "of {EVENTS} events {events} arrived; too few to compare");
    Ok(spent.as_secs_f64() * 1e6 / events as f64)
}

/// Streams on which nothing happens.
fn idle() -> io::Result<()> {
    process::allow_open_files(STREAMS as u64 + 100)?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(idle_round("ours")?);
        bare.push(idle_round("bare")?);
    }
    line(&format!("an idle listen of {STREAMS}, resident"), "KB", "<= 1.2, <= 20 KiB", ours, bare);
    Ok(())
}

/// Resident KiB a stream, beyond the empty process.
fn idle_round(kind: &str) -> io::Result<f64> {
    let server = Server::start(kind)?;
    let empty = server.resident_kib()?;
    let request = load::post("subscriptions/listen", None, ours::LISTEN);
    let mut streams = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        let mut connection = Connection::open(server.address)?;
        connection.begin_stream(&request)?;
        streams.push(connection);
    }
    std::thread::sleep(SETTLE);
    Ok((server.resident_kib()? - empty) / STREAMS as f64)
}
