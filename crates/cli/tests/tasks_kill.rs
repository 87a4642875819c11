//! A server that is killed while it charges and while it works on a task, started again, and asked again: one charge a
//! key, and never a task that says more than was done.
//!
//! The server is this test binary itself, told by the environment what to be: the shop on its ledger, with leases of a
//! fraction of a second, so that a hundred deaths need no hour. Real processes are killed and real leases run out, so
//! what must come is polled for, with a limit far beyond what it takes; nothing is asserted about how long it takes.
#![allow(clippy::print_stdout)] // the child speaks to its parent over stdout

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steadfast::core::rng::Rng;
use steadfast::server::toolkit::{TaskOptions, TaskPolicy};
use steadfast::server::{Options, stdio};
use steadfast_shop::jobs;
use steadfast_store::Ledger;

const ROUNDS: u64 = 100;
const STEPS: u32 = 25;
const LEASE: Duration = Duration::from_millis(400);
const LIMIT: Duration = Duration::from_secs(60);
const STORE: &str = "STEADFAST_TEST_STORE";
/// As `long_job`, for a server whose author did not say that it can resume.
const FRAGILE: &str = "fragile_job";

#[test]
fn child_that_serves() {
    let Ok(path) = std::env::var(STORE) else { return };
    let options = steadfast_store::Options { task_lease: LEASE, ..Default::default() };
    let ledger = Arc::new(Ledger::open(path, options).unwrap());
    let often = Duration::from_millis(20);
    let limits =
        TaskOptions { max_open: 1_000, look_every: often, sweep_every: often, ..TaskOptions::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fragile = TaskPolicy { resumes: false, ..jobs::POLICY };
        let shop = steadfast_shop::builder(Arc::clone(&ledger)).unwrap();
        let shop = shop.task_options(limits).tool(jobs::tool(FRAGILE, &ledger).task(fragile));
        let shop = shop.build().unwrap();
        // The harness leaves its own line unfinished.
        println!();
        let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
        let never = std::future::pending();
        stdio::serve(stdin, stdout, Arc::new(shop), Options::default(), never).await.unwrap();
    });
}

/// One life of the server.
struct Server {
    child: Child,
    stdin: ChildStdin,
    answers: Box<dyn Iterator<Item = Value>>,
    next: u64,
}

impl Server {
    fn start(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_serves", "--nocapture"])
            .env(STORE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        // A kill may cut the last line in half, and the harness prints others.
        let answers =
            stdout.lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
        let stdin = child.stdin.take().unwrap();
        Self { child, stdin, answers: Box::new(answers), next: 0 }
    }

    fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        writeln!(self.stdin, "{request}").unwrap();
        self.next
    }

    fn charge(&mut self, round: u64) -> u64 {
        let arguments =
            json!({ "account": "a", "cents": 100 + round, "idempotencyKey": format!("key-{round}") });
        self.send("tools/call", json!({ "name": "charge_account", "arguments": arguments }))
    }

    fn job(&mut self, name: &str) -> u64 {
        self.send("tools/call", json!({ "name": name, "arguments": { "steps": STEPS, "step_ms": 2 } }))
    }

    fn answer(&mut self, id: u64) -> Value {
        let answer = self.answers.by_ref().find(|answer| answer["id"] == id);
        answer.expect("the server lives and answers")["result"].clone()
    }

    /// Kills it, and gives what it had still said.
    fn kill(mut self) -> Vec<Value> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.answers.collect()
    }
}

/// What a client knows of a task.
struct Known {
    name: &'static str,
    last: Value,
}

/// A state that follows another honestly: later, never out of an end, and completed only with all steps done.
fn follow(known: &mut Known, task: Value, steps_done: u32) {
    let name = known.name;
    assert!(
        known.last["lastUpdatedAt"].as_str() <= task["lastUpdatedAt"].as_str(),
        "{} then {task}",
        known.last
    );
    match known.last["status"].as_str().unwrap() {
        "working" => {}
        _ => assert_eq!(known.last["status"], task["status"], "an end is for ever"),
    }
    match (name, task["status"].as_str().unwrap()) {
        (_, "working") => {}
        (_, "completed") => {
            assert_eq!(steps_done, STEPS, "completed with {steps_done} steps: {task}");
            assert_eq!(task["result"]["structuredContent"], json!({ "steps": STEPS }));
        }
        (FRAGILE, "failed") => {
            assert_eq!(task["error"]["data"]["steadfast/error"]["outcome"], "unknown", "{task}");
            assert!(
                task["statusMessage"]
                    .as_str()
                    .unwrap()
                    .contains("the process that worked on this task ended")
            );
        }
        _ => panic!("{name} cannot be {task}"),
    }
    known.last = task;
}

// shows: G7, G8, G14, D-09, I-12, TSK-13
#[test]
fn g14_a_server_killed_a_hundred_times_charges_once_a_key_and_tells_no_lie_of_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    drop(Ledger::open(&path, steadfast_store::Options::default()).unwrap());
    let mut rng = Rng::new(0x7a5c);
    let mut receipts: BTreeMap<u64, Value> = BTreeMap::new();
    let mut tasks: BTreeMap<String, Known> = BTreeMap::new();
    let ledger = {
        let mut first = Server::start(&path);
        let charged = first.charge(0);
        first.answer(charged);
        first.kill();
        Ledger::open(&path, steadfast_store::Options::default()).unwrap()
    };
    let steps_of = |id: &str| {
        let count = "SELECT count(*) FROM shop_step WHERE job = ?1";
        ledger.look(|connection| connection.query_row(count, [id], |row| row.get::<_, u32>(0))).unwrap()
    };
    for round in 1..=ROUNDS {
        let mut server = Server::start(&path);
        let name = if rng.up_to(2) == 0 { FRAGILE } else { jobs::OPERATION };
        let sent = (server.charge(round), server.job(name));
        // Anywhere between the first byte and some way into the job.
        let polls = rng.up_to(6);
        let mut said = Vec::new();
        let mut keep = |tasks: &mut BTreeMap<String, Known>, answer: &Value| {
            if answer["id"] == sent.0 {
                receipts.insert(round, answer["result"]["structuredContent"].clone());
            } else if answer["id"] == sent.1 {
                let task = &answer["result"];
                assert_eq!(task["resultType"], "task", "{answer}");
                tasks.insert(task["taskId"].as_str().unwrap().into(), Known { name, last: task.clone() });
            }
        };
        if polls > 0 {
            for _ in 0..2 {
                let answer = server.answers.next().expect("two answers");
                keep(&mut tasks, &answer);
            }
            for _ in 1..polls {
                let id = tasks.keys().next_back().cloned().unwrap();
                let asked = server.send("tasks/get", json!({ "taskId": id }));
                server.answer(asked);
            }
        }
        for _ in 0..rng.up_to(3_000_000) {
            std::hint::spin_loop();
        }
        said.extend(server.kill());
        for answer in &said {
            keep(&mut tasks, answer);
        }

        // Started again: the same key, the same id.
        let mut server = Server::start(&path);
        let charged = server.charge(round);
        let receipt = server.answer(charged)["structuredContent"].clone();
        let first = receipts.entry(round).or_insert_with(|| receipt.clone());
        assert_eq!(*first, receipt, "one charge a key");
        for (id, known) in tasks.iter_mut().filter(|(_, known)| known.last["status"] == "working") {
            let asked = server.send("tasks/get", json!({ "taskId": id }));
            let task = server.answer(asked);
            assert!(task.get("taskId").is_some(), "a task whose handle left is there: {id}");
            follow(known, task, steps_of(id));
        }
        server.kill();
    }

    // Left alone, each comes to its end.
    let mut server = Server::start(&path);
    let begun = Instant::now();
    for (id, known) in &mut tasks {
        loop {
            let asked = server.send("tasks/get", json!({ "taskId": id }));
            let task = server.answer(asked);
            follow(known, task, steps_of(id));
            if known.last["status"] != "working" {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "{} still works", known.name);
        }
        if known.name == jobs::OPERATION {
            assert_eq!(known.last["status"], "completed", "it can resume");
        }
    }
    server.kill();
    let count = |sql: &str| {
        ledger.look(|connection| connection.query_row(sql, [], |row| row.get::<_, u32>(0))).unwrap()
    };
    assert_eq!(receipts.len() as u64, ROUNDS);
    assert_eq!(u64::from(count("SELECT count(*) FROM shop_charge")), ROUNDS + 1, "one charge a key");
    let ends = |status: &str| tasks.values().filter(|known| known.last["status"] == status).count();
    println!("{} tasks handed out: {} completed, {} failed", tasks.len(), ends("completed"), ends("failed"));
    assert!(ends("completed") > 10 && ends("failed") > 5, "the kills hit all over the place");
}
