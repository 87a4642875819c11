//! A child with all that it starts: in a process group of its own, and where there is a guard, under that (ruling 19).

use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::UnixStream;
use tokio::process::Child;

use super::guard::{self, Report};
use super::{Checked, Command};

/// The ends of a child's pipes that are ours, or what stands for them.
pub(super) struct Pipes {
    pub(super) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) stderr: Box<dyn AsyncRead + Send + Unpin>,
}

/// How a tree is told to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
    /// SIGKILL, also to a guard that did not do its work.
    Abandon,
}

#[derive(Debug)]
pub(super) struct Tree {
    /// The server's own process, or its guard.
    process: Child,
    /// What leads to the guard.
    guard: Option<Guard>,
    /// The server's own process leads a group.
    leader: Option<Pid>,
    status: Option<ExitStatus>,
    reaped: bool,
}

#[derive(Debug)]
struct Guard {
    control: UnixStream,
    heard: Vec<u8>,
}

impl Tree {
    /// Starts a command: no shell, its environment on top of ours, in a group of its own: a terminal's Ctrl-C is ours
    /// to translate into a cancel, and not the child's to die of.
    pub(super) fn start(command: &Command, program: &Checked) -> io::Result<(Self, Pipes)> {
        let ready = |mut start: std::process::Command| {
            start.args(&command.args).envs(command.env.iter().map(|(name, value)| (name, value)));
            if let Some(cwd) = &command.cwd {
                start.current_dir(cwd);
            }
            start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            std::os::unix::process::CommandExt::process_group(&mut start, 0);
            tokio::process::Command::from(start).spawn()
        };
        let (mut process, guard) = match guard::program() {
            None => (ready(named(program, &command.program))?, None),
            Some(guard) => {
                let (ours, theirs) = StdStream::pair()?;
                ours.set_nonblocking(true)?;
                let process = guard::inherited(&theirs, |fd| {
                    ready(guard::command(guard, fd, program.path(), &command.program))
                })?;
                (process, Some(Guard { control: UnixStream::from_std(ours)?, heard: Vec::new() }))
            }
        };
        let pipes = process.stdin.take().zip(process.stdout.take()).zip(process.stderr.take());
        let Some(((stdin, stdout), stderr)) = pipes else {
            return Err(io::Error::other("its pipes are missing"));
        };
        let pipes = Pipes { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr: Box::new(stderr) };
        let leader = if guard.is_none() { pid_of(&process) } else { None };
        Ok((Self { process, guard, leader, status: None, reaped: false }, pipes))
    }

    /// Waits until the server's own process was started; a guard tells it.
    pub(super) async fn started(&mut self) -> io::Result<()> {
        while self.guard.is_some() && self.leader.is_none() {
            match self.report().await {
                Some(Report::Started(pid)) => self.leader = Pid::from_raw(pid),
                Some(Report::Failed(code)) => return Err(io::Error::from_raw_os_error(code)),
                Some(Report::Exited(_)) | None => {
                    return Err(io::Error::other("the guard of its process ended before it"));
                }
            }
        }
        Ok(())
    }

    /// Waits for the end of the server's own process. Dropping the future loses nothing.
    pub(super) async fn exited(&mut self) {
        if self.status.is_some() {
            return;
        }
        match self.guard {
            None => self.reap().await,
            Some(_) => loop {
                match self.report().await {
                    Some(Report::Exited(status)) => {
                        self.status = Some(ExitStatus::from_raw(status));
                        return;
                    }
                    Some(Report::Started(_) | Report::Failed(_)) => {}
                    // Somebody ended the guard.
                    None => return self.reap().await,
                }
            },
        }
    }

    /// How the server's own process ended, if it did.
    pub(super) const fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Waits until nothing of the tree is left. Dropping the future loses nothing.
    pub(super) async fn gone(&mut self) {
        // Its report comes before its end.
        self.exited().await;
        self.reap().await;
    }

    /// Sends it to every process of the tree. Never waits.
    pub(super) fn signal(&mut self, signal: Signal) {
        if self.reaped {
            return;
        }
        match (&self.guard, signal) {
            (Some(guard), Signal::Terminate) => drop(guard.control.try_write(&[guard::TERMINATE])),
            (Some(guard), Signal::Kill) => drop(guard.control.try_write(&[guard::KILL])),
            (None, Signal::Terminate) => self.to_group(rustix::process::Signal::TERM),
            (None, Signal::Kill) => self.to_group(rustix::process::Signal::KILL),
            (_, Signal::Abandon) => {
                self.to_group(rustix::process::Signal::KILL);
                let _ = self.process.start_kill();
            }
        }
    }

    async fn reap(&mut self) {
        if self.reaped {
            return;
        }
        let status = self.process.wait().await.ok();
        self.reaped = true;
        if self.guard.is_none() {
            self.status = status;
        }
        // What the server's own process, or a guard that was ended itself, left behind.
        if self.guard.is_none() || status.is_none_or(|status| !status.success()) {
            self.to_group(rustix::process::Signal::KILL);
        }
    }

    fn to_group(&self, signal: rustix::process::Signal) {
        if let Some(leader) = self.leader {
            // There may be nobody left.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }

    async fn report(&mut self) -> Option<Report> {
        let guard = self.guard.as_mut()?;
        loop {
            if let Some((report, length)) = Report::read(&guard.heard) {
                guard.heard.drain(..length);
                return Some(report);
            }
            if !matches!(guard.control.read_buf(&mut guard.heard).await, Ok(1..)) {
                return None;
            }
        }
    }
}

impl Drop for Tree {
    /// A guard sees that nobody holds the other end any more.
    fn drop(&mut self) {
        if self.guard.is_none() && !self.reaped {
            self.to_group(rustix::process::Signal::KILL);
        }
    }
}

/// A program under the name that it was asked for by, as a shell would start it.
fn named(program: &Checked, name: &std::ffi::OsStr) -> std::process::Command {
    let mut start = std::process::Command::new(program.path());
    std::os::unix::process::CommandExt::arg0(&mut start, name);
    start
}

fn pid_of(process: &Child) -> Option<Pid> {
    process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}
