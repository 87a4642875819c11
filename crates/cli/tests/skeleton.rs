//! One call through real processes, on every path that stands: answer, progress, and a cancel that the tool sees.
//!
//! Real time is needed, since real processes talk; nothing is timed, and every wait ends with the tool's own word.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steadfast::client::{Answered, CallOptions, Category, Client, Command, Error};
use tokio_util::sync::CancellationToken;

const STEADFAST: &str = env!("CARGO_BIN_EXE_steadfast");

/// A process that speaks HTTP, its stderr in a file; killed when the test ends, however it ends.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn start(args: &[&str], stderr: &Path) -> Self {
        let file = fs::File::create(stderr).unwrap();
        let mut child = std::process::Command::new(STEADFAST)
            .args(args)
            .stdin(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        let url = wait_for(stderr, "http://", &mut child);
        let url = url[url.find("http://").unwrap()..].trim().to_owned();
        Self { child, url }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first line of a file with this text in it. Ends with the process or after a minute.
fn wait_for(file: &Path, text: &str, process: &mut Child) -> String {
    for _ in 0..6_000 {
        let lines = BufReader::new(fs::File::open(file).unwrap()).lines().map_while(Result::ok);
        if let Some(line) = lines.into_iter().find(|line| line.contains(text)) {
            return line;
        }
        assert!(process.try_wait().unwrap().is_none(), "the process ended without saying {text:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{text:?} did not come within a minute");
}

/// A server started over stdio whose stderr goes to a file.
fn over_stdio(args: &str, stderr: &Path) -> Client {
    let script = format!("exec '{STEADFAST}' {args} 2>'{}'", stderr.display());
    let command =
        Command { program: "sh".into(), args: vec!["-c".into(), script.into()], env: Vec::new(), cwd: None };
    Client::of_command(command).build()
}

/// As a gateway's configuration has it.
fn behind_stdio(stderr: &Path) -> String {
    let script = format!("exec {STEADFAST} serve --stdio 2>{}", stderr.display());
    format!("command = 'sh'\nargs = ['-c', {script:?}]")
}

fn config(folder: &Path, server: &str) -> PathBuf {
    let path = folder.join("steadfast.toml");
    fs::write(&path, format!("[servers.shop]\n{server}\n")).unwrap();
    path
}

async fn call(client: &Client, params: &str, options: CallOptions) -> Result<Answered, Error> {
    client.request("tools/call", params, options).await
}

fn text(ended: &Result<Answered, Error>) -> String {
    let result: serde_json::Value = serde_json::from_slice(&ended.as_ref().unwrap().result).unwrap();
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Answer and progress; then a call that is cancelled at its first progress.
async fn answers_progresses_and_cancels(client: &Client) {
    let echoed = call(client, r#"{"name":"echo","arguments":{"a":["ü",1]}}"#, CallOptions::default()).await;
    assert_eq!(text(&echoed), r#"{"a":["ü",1]}"#);

    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let options = CallOptions {
        on_progress: Some(Box::new(move |progress| keep.lock().unwrap().push(progress.value.get()))),
        ..CallOptions::default()
    };
    let done = call(client, r#"{"name":"count_slowly","arguments":{"steps":8,"step_ms":60}}"#, options).await;
    assert_eq!(text(&done), "8 steps done");
    let seen = seen.lock().unwrap().clone();
    assert!(seen.len() >= 2 && seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert_eq!(seen.last(), Some(&8.0), "the latest value is not lost");

    let cancel = CancellationToken::new();
    let at_first = cancel.clone();
    let options = CallOptions {
        on_progress: Some(Box::new(move |_| at_first.cancel())),
        cancel,
        ..CallOptions::default()
    };
    let ended =
        call(client, r#"{"name":"count_slowly","arguments":{"steps":100000,"step_ms":20}}"#, options).await;
    let Err(Error::Local { category, outcome, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(category, Category::ClientCancelled);
    assert_eq!(outcome, steadfast::core::error::Outcome::Unknown, "bytes had left");
}

#[tokio::test(flavor = "multi_thread")]
async fn d_01_stdio_to_serve() {
    let folder = tempfile::tempdir().unwrap();
    let stderr = folder.path().join("stderr");
    let client = over_stdio("serve --stdio", &stderr);
    answers_progresses_and_cancels(&client).await;
    client.close(Duration::from_secs(60)).await;
    assert!(fs::read_to_string(&stderr).unwrap().contains("count_slowly was cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn d_02_http_to_serve() {
    let folder = tempfile::tempdir().unwrap();
    let stderr = folder.path().join("stderr");
    let mut server = Process::start(&["serve", "--http", "127.0.0.1:0"], &stderr);
    answers_progresses_and_cancels(&Client::of_url(&server.url).unwrap().build()).await;
    wait_for(&stderr, "count_slowly was cancelled", &mut server.child);
}

#[tokio::test(flavor = "multi_thread")]
async fn d_52_http_through_the_gateway_to_http() {
    let folder = tempfile::tempdir().unwrap();
    let stderr = folder.path().join("stderr");
    let mut server = Process::start(&["serve", "--http", "127.0.0.1:0"], &stderr);
    let config = config(folder.path(), &format!("url = {:?}", server.url));
    let args = ["gateway", "--config", config.to_str().unwrap(), "--http", "127.0.0.1:0"];
    let gateway = Process::start(&args, &folder.path().join("gateway"));
    answers_progresses_and_cancels(&Client::of_url(&gateway.url).unwrap().build()).await;
    wait_for(&stderr, "count_slowly was cancelled", &mut server.child);
}

#[tokio::test(flavor = "multi_thread")]
async fn d_52_http_through_the_gateway_to_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let stderr = folder.path().join("stderr");
    let config = config(folder.path(), &behind_stdio(&stderr));
    let args = ["gateway", "--config", config.to_str().unwrap(), "--http", "127.0.0.1:0"];
    let mut gateway = Process::start(&args, &folder.path().join("gateway"));
    answers_progresses_and_cancels(&Client::of_url(&gateway.url).unwrap().build()).await;
    wait_for(&stderr, "count_slowly was cancelled", &mut gateway.child);
}

#[tokio::test(flavor = "multi_thread")]
async fn d_52_stdio_through_the_gateway_to_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let stderr = folder.path().join("stderr");
    let config = config(folder.path(), &behind_stdio(&stderr));
    let client = over_stdio(
        &format!("gateway --stdio --config '{}'", config.display()),
        &folder.path().join("gateway"),
    );
    answers_progresses_and_cancels(&client).await;
    client.close(Duration::from_secs(60)).await;
    assert!(fs::read_to_string(&stderr).unwrap().contains("count_slowly was cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn d_52_stdio_through_the_gateway_to_http() {
    let folder = tempfile::tempdir().unwrap();
    let stderr = folder.path().join("stderr");
    let mut server = Process::start(&["serve", "--http", "127.0.0.1:0"], &stderr);
    let config = config(folder.path(), &format!("url = {:?}", server.url));
    let client = over_stdio(
        &format!("gateway --stdio --config '{}'", config.display()),
        &folder.path().join("gateway"),
    );
    answers_progresses_and_cancels(&client).await;
    client.close(Duration::from_secs(60)).await;
    wait_for(&stderr, "count_slowly was cancelled", &mut server.child);
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_both_clocks_end_a_call_and_say_which_one() {
    let folder = tempfile::tempdir().unwrap();
    let client = over_stdio("serve --stdio", &folder.path().join("stderr"));
    let limits = |idle, max| {
        steadfast::core::exchange::Limits::new(Duration::from_millis(idle), Duration::from_millis(max))
            .unwrap()
    };
    // Silent for a minute: idle. Progress every 20 ms and never done: the maximum.
    for (arguments, limits, clock) in [
        (r#"{"steps":1,"step_ms":60000}"#, limits(200, 60_000), steadfast::core::exchange::Clock::Idle),
        (
            r#"{"steps":1000000,"step_ms":20}"#,
            limits(1_500, 2_000),
            steadfast::core::exchange::Clock::Maximum,
        ),
    ] {
        let options = CallOptions {
            limits: Some(limits),
            on_progress: Some(Box::new(|_| {})),
            ..CallOptions::default()
        };
        let ended =
            call(&client, &format!(r#"{{"name":"count_slowly","arguments":{arguments}}}"#), options).await;
        let Err(Error::Local { category: Category::Deadline, clock: Some(fired), .. }) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(fired, clock);
    }
    client.close(Duration::from_secs(60)).await;
}

/// A terminal's Ctrl-C goes to the whole group: the server must not die of it, but hear a cancel.
#[test]
fn can_03_ctrl_c_on_a_terminal_reaches_the_tool_as_a_cancel() {
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().unwrap();
    let stderr = folder.path().join("stderr");
    fs::write(&stderr, "").unwrap();
    let script = format!("exec {STEADFAST} serve --stdio 2>{}", stderr.display());
    let mut call = std::process::Command::new(STEADFAST)
        .args(["call", "count_slowly", r#"{"steps":100000,"step_ms":10}"#, "--", "sh", "-c", &script])
        .env("XDG_STATE_HOME", folder.path())
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&stderr, "count_slowly began", &mut call);
    let group = format!("-{}", call.id());
    assert!(std::process::Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert_eq!(call.wait().unwrap().code(), Some(130));
    assert!(fs::read_to_string(&stderr).unwrap().contains("count_slowly was cancelled"));
}

/// What a gateway knows of a call is what its caller's exit code says (ruling 9); a dead server is told at once.
#[test]
fn ruling_09_the_outcome_survives_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    // Both hops find out first what the server speaks; what it does with the call is what comes after.
    let discovered = |id: u8| {
        format!(
            r#"read line; echo '{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{}}}}}}'"#
        )
    };
    let modern = format!("{}\n{}\n", discovered(1), discovered(2));
    for (script, code) in [
        (format!("{modern}cat >/dev/null"), 7),
        (format!("{modern}read line; exit 3"), 7),
        ("exit 0".to_owned(), 5),
    ] {
        let path = folder.path().join("server.sh");
        fs::write(&path, &script).unwrap();
        let config = config(
            folder.path(),
            &format!(
                "command = 'sh'\nargs = ['{}']\n[defaults]\nidle_timeout = '2s'\nmax_timeout = '4s'",
                path.display()
            ),
        );
        let mut call = std::process::Command::new(STEADFAST);
        call.env("XDG_STATE_HOME", folder.path());
        call.args(["call", "t", "--", STEADFAST, "gateway", "--stdio", "--config"]).arg(&config);
        let status = call.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{script}");
    }
}
