//! Many tasks of two tenants at three servers that fail: whatever is heard is heard by the one whom it is for.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{
    CallOptions, Category, Client, Command, Config, Context, Error, Host, Identity, Recent, Run, ToolContract,
};
use steadfast::core::call::Policy;
use steadfast::core::exchange::Limits;
use steadfast::core::policy::breaker::Thresholds;
use steadfast::core::policy::{Backoff, Effect, Idempotency};
use tokio::task::JoinSet;

const SERVERS: [&str; 3] = ["notes", "shop", "mail"];
const TENANTS: [&str; 2] = ["acme", "other"];
const TASKS: usize = 50;
const CALLS: usize = 4;

/// What the server does at a task's call: most of the time nothing.
const fn fault(task: usize, call: usize) -> &'static str {
    match (task * CALLS + call) % 17 {
        3 => "twice",
        5 => "stray",
        7 => "foreign",
        12 if task == 20 => "lost",
        13 => "crash",
        _ => "none",
    }
}

fn host(folder: &Path, tenant: &str, records: Arc<Recent>) -> Host {
    let host = Host::recording(records);
    for name in SERVERS {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/crowd.py");
        let args = [script.into(), name.into(), tenant.into(), folder.into()].to_vec();
        let command = Command { program: "python3".into(), args, env: Vec::new(), cwd: None };
        let config = Config {
            name: name.to_owned(),
            // Lost answers are waited for in real time; a server that is only slow is far below this.
            limits: Limits::new(Duration::from_secs(2), Duration::from_secs(60)).unwrap(),
            retry: Policy {
                max_attempts: 3,
                backoff: Backoff::new(Duration::from_millis(1), Duration::from_millis(50)).unwrap(),
            },
            // A crash fails all that are in flight at once; whether breakers are apart is shown elsewhere.
            breaker: Thresholds { failures: 10_000, ..Thresholds::DEFAULT },
            contracts: vec![ToolContract::new("*", Effect::Read, Idempotency::None)],
            ..Config::default()
        };
        host.add(Client::of_command(command).config(config)).unwrap();
    }
    host
}

/// What one call heard: its answer's text or how it ended, and the messages of its progress.
struct Heard {
    asked: String,
    run: String,
    ended: Result<String, Error>,
    call_id: String,
    progress: Vec<(f64, String)>,
}

async fn task(client: Client, server: &'static str, tenant: &'static str, task: usize) -> Vec<Heard> {
    let run = Run::new(&format!("{tenant}-{server}-{task}"), None, 100);
    let mut all = Vec::new();
    for call in 0..CALLS {
        let progress = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&progress);
        let options = CallOptions {
            run: Some(run.clone()),
            on_progress: Some(Box::new(move |progress| {
                let message = progress.message.unwrap_or_default();
                kept.lock().unwrap().push((progress.value.get(), message.to_string()));
            })),
            ..CallOptions::default()
        };
        let arguments = json!({ "task": task, "call": call, "fault": fault(task, call) }).to_string();
        let ended = client.call_tool("work", &arguments, options).await;
        let call_id = ended.as_ref().map_or_else(Error::call_id, |done| &done.call_id).to_owned();
        let ended = ended.map(|done| {
            let result: Value = serde_json::from_slice(&done.result).unwrap();
            result["content"][0]["text"].as_str().unwrap().to_owned()
        });
        let progress = std::mem::take(&mut *progress.lock().unwrap());
        let asked = format!("{server} {tenant} {task} {call}");
        all.push(Heard { asked, run: run.id().to_owned(), ended, call_id, progress });
    }
    all
}

// shows: I-07, D-41, F013, F014, F019
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d_41_nothing_crosses_between_fifty_tasks_at_three_servers_of_two_tenants() {
    let planned = |kind: &str| {
        (0..TASKS)
            .flat_map(|task| (0..CALLS).map(move |call| fault(task, call)))
            .filter(|it| *it == kind)
            .count()
    };
    assert_eq!(planned("lost"), 1);
    assert!(["twice", "stray", "foreign", "crash"].into_iter().all(|kind| planned(kind) > 5));
    let folder = tempfile::tempdir().unwrap();
    let records = Arc::new(Recent::default());
    let hosts = TENANTS.map(|tenant| host(folder.path(), tenant, Arc::clone(&records)));
    let identities = TENANTS.map(|tenant| Identity {
        context: Context { tenant: tenant.to_owned(), ..Context::default() },
        ..Identity::default()
    });
    let mut running = JoinSet::new();
    for (at, tenant) in TENANTS.into_iter().enumerate() {
        for server in SERVERS {
            let client = hosts[at].client(server, &identities[at]).unwrap();
            for number in 0..TASKS {
                running.spawn(task(client.clone(), server, tenant, number));
            }
        }
    }
    let heard: Vec<Heard> = running.join_all().await.into_iter().flatten().collect();
    assert_eq!(heard.len(), SERVERS.len() * TENANTS.len() * TASKS * CALLS);

    let mut answered = 0;
    for Heard { asked, run, ended, call_id, progress } in &heard {
        match ended {
            Ok(text) => {
                assert_eq!(text, asked, "an answer is for the one who asked");
                answered += 1;
            }
            Err(Error::Local { category: Category::Deadline, .. } | Error::Transport { .. }) => {}
            Err(error) => panic!("{asked}: {error}"),
        }
        for (value, message) in progress {
            assert_eq!(message, asked, "progress is for the one who waits for it");
            assert!(*value <= 2.0, "{asked}: {value}");
        }
        for record in records.of(call_id) {
            assert_eq!(record.agent_run_id.as_deref(), Some(&**run));
        }
    }
    // A lost answer was lost at each of three attempts, or not at all; a crash is repeated, as all are reads.
    let lost = SERVERS.len() * TENANTS.len();
    assert_eq!(answered, heard.len() - lost);
    for server in SERVERS {
        for tenant in TENANTS {
            assert!(folder.path().join(format!("{server}-{tenant}-crashed")).exists(), "each crashed once");
        }
    }

    // No permit was kept: as many as may run at once run at once again, and each catalog is its own server's.
    for (at, tenant) in TENANTS.into_iter().enumerate() {
        for server in SERVERS {
            let client = hosts[at].client(server, &identities[at]).unwrap();
            let listed = client.request("tools/list", "{}", CallOptions::default()).await.unwrap();
            let listed: Value = serde_json::from_slice(&listed.result).unwrap();
            assert_eq!(listed["tools"][0]["name"], format!("of_{server}_{tenant}"));
            let again: JoinSet<_> =
                (0..TASKS).map(|number| task(client.clone(), server, tenant, number * 17)).collect();
            for Heard { asked, ended, .. } in again.join_all().await.into_iter().flatten() {
                if let Ok(text) = ended {
                    assert_eq!(text, asked);
                }
            }
        }
    }
    for host in hosts {
        host.close(Duration::from_secs(5)).await;
    }
}
