//! The guard of a child's tree (ruling 19): a small process between a host and a server, which ends every descendant of
//! that server when the server or the host is gone, however the host ended and wherever the descendant went.
//!
//! It is the host's own program, started again under another name, so [`guard`] has to be the first thing that the
//! `main` of a host does. On Linux it is a subreaper: a process whose parent ends becomes its child, `setsid` or not.
//! Without a guard, and on other systems, a tree is a process group: it ends with the connection, but not if the host
//! is killed, and a process that leaves the group is lost to it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};

/// By this name the program knows that it is to be a guard.
const NAME: &str = "steadfast-guard";
/// The host's words.
pub(super) const TERMINATE: u8 = b't';
pub(super) const KILL: u8 = b'k';

/// What is left after SIGTERM is killed after this, unless the host says when.
const KILL_AFTER: Duration = Duration::from_secs(2);
/// Between two looks at what is left: it may start more while it is killed.
const KILL_AGAIN: Duration = Duration::from_millis(10);
/// What outlives SIGKILL for so long runs under another user, and nothing helps.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Lets this program guard the children of its clients: the first thing that its `main` does, before it reads its
/// arguments or starts a thread. In a guard it does not return.
pub fn guard() {
    let mut args = std::env::args_os();
    if args.next().is_some_and(|name| name == NAME) {
        exit(i32::from(serve(args).is_err()));
    }
    if cfg!(target_os = "linux") {
        guard_by("/proc/self/exe");
    }
}

/// Lets another program guard them, one whose `main` begins with [`guard`], such as `steadfast` itself: for a host whose
/// `main` is not its own. The first word counts.
pub fn guard_by(program: impl Into<PathBuf>) {
    if cfg!(target_os = "linux") {
        let _ = PROGRAM.set(program.into());
    }
}

pub(super) fn program() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}

/// What starts a guard of a program; its arguments are still to be added.
pub(super) fn command(guard: &Path, control: RawFd, program: &Path, name: &OsStr) -> Command {
    let mut start = Command::new(guard);
    start.arg0(NAME).arg(control.to_string()).arg(program).arg(name);
    start
}

/// Starts something that inherits `fd`. Nothing else that is started here does.
pub(super) fn inherited<T>(fd: &UnixStream, start: impl FnOnce(RawFd) -> io::Result<T>) -> io::Result<T> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    fcntl_setfd(fd, FdFlags::empty())?;
    let started = start(fd.as_raw_fd());
    fcntl_setfd(fd, FdFlags::CLOEXEC)?;
    started
}

/// What a guard tells its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The server's process id.
    Started(i32),
    /// It could not be started: the system's error number.
    Failed(i32),
    /// Its wait status.
    Exited(i32),
}

impl Report {
    fn write(self, mut to: &UnixStream) {
        let (tag, number) = match self {
            Self::Started(pid) => (b's', pid),
            Self::Failed(code) => (b'f', code),
            Self::Exited(status) => (b'e', status),
        };
        let mut bytes = [tag, 0, 0, 0, 0];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        // A host that is gone needs no report.
        let _ = to.write_all(&bytes);
    }

    /// The first of them, and its length.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let (&[tag, a, b, c, d], _) = bytes.split_first_chunk()?;
        let number = i32::from_le_bytes([a, b, c, d]);
        let report = match tag {
            b's' => Self::Started(number),
            b'f' => Self::Failed(number),
            _ => Self::Exited(number),
        };
        Some((report, 5))
    }
}

/// What a guard waits for.
enum Event {
    Reaped(Pid, WaitStatus),
    NoneLeft,
    Terminate,
    Kill,
    HostGone,
}

/// What it is about.
enum Phase {
    Watching,
    /// SIGTERM was sent; at this time SIGKILL follows, or when the host says so.
    Asked(Option<Instant>),
    /// Until this time.
    Killing(Instant),
}

fn serve(mut args: impl Iterator<Item = OsString>) -> io::Result<()> {
    let missing = || io::Error::other("this name is for guards that a host starts");
    let number =
        args.next().and_then(|fd| fd.to_str()?.parse().ok()).filter(|fd| *fd > 2).ok_or_else(missing)?;
    let (program, name) = args.next().zip(args.next()).ok_or_else(missing)?;
    // SAFETY: the host that started this process left this descriptor open for it, and nothing else here knows it.
    let control = UnixStream::from(unsafe { OwnedFd::from_raw_fd(number) });
    fcntl_setfd(&control, FdFlags::CLOEXEC)?;
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let server = match Command::new(program).arg0(name).args(args).process_group(0).spawn() {
        Ok(server) => i32::try_from(server.id()).ok().and_then(Pid::from_raw).ok_or_else(missing)?,
        Err(error) => {
            Report::Failed(error.raw_os_error().unwrap_or_else(|| Errno::NOEXEC.raw_os_error()))
                .write(&control);
            return Err(error);
        }
    };
    Report::Started(server.as_raw_nonzero().get()).write(&control);
    // The pipes are the server's: held here, their ends would never show.
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;

    let (tell, events) = mpsc::channel();
    let from_host = (control.try_clone()?, tell.clone());
    thread::spawn(move || listen(from_host.0, &from_host.1));
    thread::spawn(move || reap(&tell));
    watch(server, &control, &events);
    Ok(())
}

fn watch(server: Pid, control: &UnixStream, events: &mpsc::Receiver<Event>) {
    let mut phase = Phase::Watching;
    loop {
        let wait = match phase {
            Phase::Watching | Phase::Asked(None) => Duration::MAX,
            Phase::Asked(Some(at)) => at.saturating_duration_since(Instant::now()),
            Phase::Killing(_) => KILL_AGAIN,
        };
        let event = if wait == Duration::MAX {
            events.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            events.recv_timeout(wait)
        };
        match (event, &phase) {
            (Ok(Event::NoneLeft) | Err(RecvTimeoutError::Disconnected), _) => return,
            (Ok(Event::Reaped(pid, status)), Phase::Watching) if pid == server => {
                Report::Exited(status.as_raw()).write(control);
                send_all(server, Signal::TERM);
                phase = Phase::Asked(Some(Instant::now() + KILL_AFTER));
            }
            (Ok(Event::Reaped(pid, status)), _) if pid == server => {
                Report::Exited(status.as_raw()).write(control)
            }
            (Ok(Event::Reaped(..)), _) => {}
            (Ok(Event::Terminate | Event::HostGone), Phase::Killing(_)) => {}
            (Ok(Event::Terminate), _) => {
                send_all(server, Signal::TERM);
                phase = Phase::Asked(None);
            }
            (Ok(Event::HostGone), _) => {
                send_all(server, Signal::TERM);
                phase = Phase::Asked(Some(Instant::now() + KILL_AFTER));
            }
            (Ok(Event::Kill) | Err(RecvTimeoutError::Timeout), Phase::Watching | Phase::Asked(_)) => {
                send_all(server, Signal::KILL);
                phase = Phase::Killing(Instant::now() + GIVE_UP_AFTER);
            }
            (Ok(Event::Kill), Phase::Killing(_)) => {}
            (Err(RecvTimeoutError::Timeout), Phase::Killing(until)) => {
                if Instant::now() >= *until {
                    return;
                }
                send_all(server, Signal::KILL);
            }
        }
    }
}

/// Hands on what the host says, until it is gone.
fn listen(mut control: UnixStream, tell: &mpsc::Sender<Event>) {
    let mut word = [0];
    loop {
        let event = match control.read(&mut word) {
            Ok(1..) if word[0] == KILL => Event::Kill,
            Ok(1..) => Event::Terminate,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => Event::HostGone,
        };
        let last = matches!(event, Event::HostGone);
        if tell.send(event).is_err() || last {
            return;
        }
    }
}

/// Reaps every child, also those that became ours when their parents ended, until there is none.
fn reap(tell: &mpsc::Sender<Event>) {
    loop {
        let event = match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => Event::Reaped(pid, status),
            Ok(None) | Err(Errno::INTR) => continue,
            Err(_) => Event::NoneLeft,
        };
        let last = matches!(event, Event::NoneLeft);
        if tell.send(event).is_err() || last {
            return;
        }
    }
}

/// Sends a signal to every descendant; to the server's group where the system does not list them.
fn send_all(server: Pid, signal: Signal) {
    let descendants = descendants();
    if descendants.is_empty() {
        let _ = rustix::process::kill_process_group(server, signal);
    }
    for pid in descendants {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

fn descendants() -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: Vec<(i32, i32)> = processes
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name before it may hold anything, brackets too.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut family = vec![rustix::process::getpid().as_raw_nonzero().get()];
    let mut at = 0;
    while let Some(&parent) = family.get(at) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| pid));
        at += 1;
    }
    family.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}
