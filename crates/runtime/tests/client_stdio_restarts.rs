//! 200 crashes with calls in flight. Alone in its file: it counts what the whole process holds.

use std::collections::BTreeSet;
use std::time::Duration;

use steadfast::client::{CallOptions, Category, Client, Command, Config, Error};
use steadfast::core::error::Outcome;
use steadfast::core::policy::breaker::Thresholds;
use steadfast::core::policy::{Backoff, Budget};

const ROUNDS: usize = 200;
const CALLS: usize = 4;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Children of this process, running or not reaped.
fn children() -> usize {
    let of_thread = |thread: std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("children")).unwrap_or_default()
    };
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    threads.map(|thread| of_thread(thread).split_whitespace().count()).sum()
}

// shows: F074, I-26, STD-18, G12
#[tokio::test]
async fn g12_200_crashes_with_calls_in_flight_leave_each_with_one_end_and_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/child.py");
    let args = ["-I".into(), "-S".into(), script.into(), folder.path().into()].to_vec();
    let command = Command { program: "python3".into(), args, env: Vec::new(), cwd: None };
    let short = Duration::from_millis(1);
    let backoff = Backoff::new(short, short).unwrap();
    let config = Config {
        restarts: Budget { starts: 10_000, backoff, ..Budget::DEFAULT },
        breaker: Thresholds { failures: u32::MAX, ..Thresholds::DEFAULT },
        ..Config::default()
    };
    let client = Client::of_command(command).config(config).build();
    let mut ends = BTreeSet::new();
    let mut after_ten = 0;
    for round in 0..ROUNDS {
        // All are sent before the last one crashes the process: a child reads in order.
        let calls: Vec<_> = (0..CALLS)
            .map(|n| {
                let client = client.clone();
                let tool = if n + 1 == CALLS { "crash" } else { "hang" };
                tokio::spawn(async move { client.call_tool(tool, "{}", CallOptions::default()).await })
            })
            .collect();
        for call in calls {
            let error = call.await.unwrap().unwrap_err();
            let Error::Transport { category, outcome, call_id, .. } = &error else { panic!("{error:?}") };
            // One that came too late for this process found no way to it, and nothing of it left.
            match category {
                Category::TransportLost => assert_eq!(*outcome, Outcome::Unknown),
                Category::Connect => assert_eq!(*outcome, Outcome::NotExecuted),
                other => panic!("{other:?}: {error}"),
            }
            let records = client.records(call_id);
            assert_eq!(
                records.iter().filter(|record| record.outcome == "unknown").count(),
                usize::from(*outcome == Outcome::Unknown)
            );
            assert!(ends.insert(call_id.clone()), "one end a call");
        }
        if round == 10 {
            after_ten = descriptors();
        }
    }
    assert_eq!(ends.len(), ROUNDS * CALLS);
    client.close(Duration::from_secs(2)).await;
    assert_eq!(children(), 0, "all are reaped");
    assert!(descriptors() <= after_ten, "{} descriptors, {after_ten} after ten rounds", descriptors());
    let pids = std::fs::read_to_string(folder.path().join("pids")).unwrap();
    assert!(pids.lines().count() >= ROUNDS);
    assert!(!folder.path().join("overlaps").exists(), "never two at once");
}
