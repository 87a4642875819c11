//! Nothing of a child's tree outlives its host, guarded by the binary itself (ruling 19). Real processes: limits that
//! are not the subject are generous.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use steadfast::client::{CallOptions, Client, Command, Config, Error, guard_by};
use steadfast_core::policy::breaker::Thresholds;
use steadfast_core::policy::{Backoff, Budget};

const STEADFAST: &str = env!("CARGO_BIN_EXE_steadfast");
const CHILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/tests/client/child.py");

fn guarded(folder: &Path) -> Client {
    guard_by(STEADFAST);
    let args = ["-I".into(), "-S".into(), CHILD.into(), folder.into()].to_vec();
    let short = Duration::from_millis(1);
    let config = Config {
        restarts: Budget { starts: 10_000, backoff: Backoff::new(short, short).unwrap(), ..Budget::DEFAULT },
        breaker: Thresholds { failures: u32::MAX, ..Thresholds::DEFAULT },
        write_stall: Duration::from_millis(300),
        ..Config::default()
    };
    let command = Command { program: "python3".into(), args, env: Vec::new(), cwd: None };
    Client::of_command(command).config(config).build()
}

async fn call(client: &Client, tool: &str, arguments: &str) -> Result<Value, Error> {
    let answered = client.call_tool(tool, arguments, CallOptions::default()).await?;
    Ok(serde_json::from_slice(&answered.result).unwrap())
}

fn lines(folder: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn stat(pid: &str) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

fn running(folder: &Path) -> Vec<String> {
    let mut pids = lines(folder, "pids");
    pids.retain(|pid| stat(pid).is_some_and(|(state, _)| state != "Z" && state != "X"));
    pids
}

fn until(what: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it did not happen");
}

/// A family: the server, a child of it that ignores SIGTERM, one that left the group, and one whose parent is gone.
async fn family(client: &Client, folder: &Path) {
    call(client, "family", "{}").await.unwrap();
    assert_eq!(running(folder).len(), 4);
}

// shows: STD-12, G12
#[tokio::test]
async fn f073_close_leaves_nothing_of_the_tree_wherever_it_went() {
    let folder = tempfile::tempdir().unwrap();
    let client = guarded(folder.path());
    family(&client, folder.path()).await;
    let begun = Instant::now();
    client.close(Duration::from_secs(2)).await;
    assert_eq!(running(folder.path()), [""; 0]);
    assert!(begun.elapsed() < Duration::from_millis(2_500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn f073_a_crash_or_a_client_that_is_dropped_leaves_nothing_of_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let client = guarded(folder.path());
    family(&client, folder.path()).await;
    let error = call(&client, "crash", "{}").await.unwrap_err();
    assert!(
        error.to_string().contains("exited with code 3; its last words on stderr: out of luck"),
        "{error}"
    );
    // What is left of the old one goes before the new one comes.
    call(&client, "echo", "{}").await.unwrap();
    assert_eq!(running(folder.path()).len(), 1);
    assert_eq!(lines(folder.path(), "overlaps"), [""; 0]);
    call(&client, "family", "{}").await.unwrap();
    assert_eq!(running(folder.path()).len(), 4);
    drop(client);
    let folder = folder.path().to_owned();
    tokio::task::spawn_blocking(move || until(|| running(&folder).is_empty())).await.unwrap();
}

#[tokio::test]
async fn f073_a_wedged_tree_is_given_up_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let client = guarded(folder.path());
    family(&client, folder.path()).await;
    let wedging = {
        let client = client.clone();
        tokio::spawn(async move { call(&client, "wedge", "{}").await.unwrap_err() })
    };
    let wedged = folder.path().to_owned();
    tokio::task::spawn_blocking(move || until(|| !lines(&wedged, "wedged").is_empty())).await.unwrap();
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 20));
    let error = call(&client, "echo", &large).await.unwrap_err();
    assert!(error.to_string().contains("took no byte"), "{error}");
    assert!(wedging.await.unwrap().to_string().contains("took no byte"));
    client.close(Duration::from_secs(1)).await;
    assert_eq!(running(folder.path()), [""; 0]);
}

#[tokio::test]
async fn f073_the_end_of_the_guard_itself_ends_the_server_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let client = guarded(folder.path());
    call(&client, "echo", "{}").await.unwrap();
    let server = lines(folder.path(), "pids").remove(0);
    let (_, guard) = stat(&server).unwrap();
    assert!(Process::new("kill").args(["-KILL", &guard]).status().unwrap().success());
    tokio::task::spawn_blocking(move || {
        until(|| stat(&server).is_none_or(|(state, _)| state == "Z" || state == "X"));
    })
    .await
    .unwrap();
    client.close(Duration::from_secs(2)).await;
    assert_eq!(running(folder.path()), [""; 0]);
}

#[tokio::test]
async fn g12_what_cannot_be_run_is_told_though_a_guard_tries_it() {
    use std::os::unix::fs::PermissionsExt;

    guard_by(STEADFAST);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server");
    std::fs::write(&file, "neither a script nor a program").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let command = Command { program: file.into(), args: Vec::new(), env: Vec::new(), cwd: None };
    let error = Client::of_command(command).build().discover(CallOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("could not be started: Exec format error"), "{error}");
}

/// The host is killed in the middle of a call: nobody is left to close anything.
#[test]
fn f073_kill_9_of_the_host_leaves_nothing_of_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Process::new(STEADFAST)
        .args(["call", "family-and-hang", "{}", "--", "python3", "-I", "-S", CHILD])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(|| lines(folder.path(), "calls").contains(&"made".to_owned()));
    assert_eq!(running(folder.path()).len(), 4);
    let (_, guard) = stat(&lines(folder.path(), "pids")[0]).unwrap();
    host.kill().unwrap();
    host.wait().unwrap();
    until(|| running(folder.path()).is_empty() && stat(&guard).is_none_or(|(state, _)| state == "Z"));
}

/// Alone with its counts: each test is a process of its own under nextest, and the counts are this process's.
// shows: F074
#[tokio::test]
async fn g12_guards_go_with_their_trees() {
    let folder = tempfile::tempdir().unwrap();
    let client = guarded(folder.path());
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut first = 0;
    for round in 0..20 {
        let hanging = {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "hang", "{}").await })
        };
        call(&client, "crash", "{}").await.unwrap_err();
        // It came before or after the crash: in either case the next one ends it.
        while !hanging.is_finished() {
            let _ = call(&client, "crash", "{}").await;
        }
        hanging.await.unwrap().unwrap_err();
        if round == 5 {
            first = descriptors();
        }
    }
    client.close(Duration::from_secs(2)).await;
    assert!(descriptors() <= first, "{} descriptors, {first} before", descriptors());
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children: String = threads
        .map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default())
        .collect();
    assert_eq!(children, "", "no guard is left, nor unreaped");
    assert_eq!(running(folder.path()), [""; 0]);
}
