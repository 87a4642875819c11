//! A server in a process of its own, seen from outside.

use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

/// Which server this process is to be.
const KIND: &str = "STEADFAST_BENCH_SERVER";

/// A server that ends when this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    child: Child,
    /// The server ends with it.
    _stdin: ChildStdin,
}

/// Whether this process was started by [`Server::start`].
pub(crate) fn asked_to_serve() -> Option<String> {
    std::env::var(KIND).ok()
}

/// Serves until stdin ends, on the runtime that the command line uses.
pub(crate) fn serve(kind: &str) -> io::Result<()> {
    allow_open_files(super::STREAMS as u64 + 100)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let kind = kind.to_owned();
    runtime.spawn(async move {
        match kind.as_str() {
            "bare" => super::bare::serve().await,
            "typed" => super::typed::serve().await,
            _ => super::ours::serve().await,
        }
    });
    io::stdin().read_to_end(&mut Vec::new())?;
    runtime.shutdown_background();
    Ok(())
}

/// Says where this server listens.
pub(crate) fn announce(address: SocketAddr) {
    println!("{address}");
}

/// Raises the limit of open files, as far as this process may.
pub(crate) fn allow_open_files(files: u64) -> io::Result<()> {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limit.current.is_some_and(|current| current < files) {
        limit.current = Some(limit.maximum.map_or(files, |maximum| maximum.min(files)));
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)?;
    }
    Ok(())
}

impl Server {
    pub(crate) fn start(kind: &str) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(KIND, kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut address = String::new();
        BufReader::new(stdout).read_line(&mut address)?;
        let address = address.trim().parse().map_err(io::Error::other)?;
        Ok(Self { address, child, _stdin: stdin })
    }

    /// User and system time so far.
    pub(crate) fn processor_time(&self) -> io::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // After the name, which may hold anything and ends with the last parenthesis: utime and stime are the 12th
        // and 13th fields.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: u64 =
            fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100))
    }

    /// What of it is in memory now.
    pub(crate) fn resident_kib(&self) -> io::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kib.ok_or_else(|| io::Error::other("the status of a process has no VmRSS"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
