//! Ledger commits against a bare group-commit loop that runs the same SQL, and replays. Prints ratios within one run.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use steadfast_core::fingerprint::{Key, Scope};
use steadfast_store::{Execution, Ledger, Options};

const RESULT_BYTES: usize = 1_024;
const RUN: Duration = Duration::from_secs(3);
const ROUNDS: usize = 5;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    println!("commits with a 1 KiB result, medians of {ROUNDS} runs of {} s each", RUN.as_secs());
    for callers in [1, 64] {
        let mut ours = Vec::new();
        let mut bare = Vec::new();
        for round in 0..ROUNDS {
            // Alternating, so that a drifting disk meets both.
            ours.push(ledger(&folder.path().join(format!("ours-{callers}-{round}.db")), callers));
            bare.push(bare_loop(&folder.path().join(format!("bare-{callers}-{round}.db")), callers));
        }
        let (ours, bare) = (median(&mut ours), median(&mut bare));
        println!(
            "{callers:>2} callers: ledger {ours:>8.0}/s, bare loop {bare:>8.0}/s, ratio {:.2}",
            ours / bare
        );
    }
    let (replays, commits) = replays(&folder.path().join("replays.db"));
    println!("replays: {replays:.0}/s on one thread, {:.1} × the commits of one caller", replays / commits);
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Calls `once` from so many threads for a while; gives calls a second.
fn rate(callers: usize, once: impl Fn(usize, u64) + Send + Sync) -> f64 {
    let start = Instant::now();
    let total: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|caller| {
                let once = &once;
                scope.spawn(move || {
                    let mut calls = 0;
                    while start.elapsed() < RUN {
                        once(caller, calls);
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a caller")).sum()
    });
    total as f64 / start.elapsed().as_secs_f64()
}

/// Random text, as callers choose it.
fn key(caller: usize, call: u64) -> String {
    let mut rng = steadfast_core::rng::Rng::new((caller as u64) << 32 | call);
    format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64())
}

fn ledger(path: &Path, callers: usize) -> f64 {
    let ledger = Ledger::open(path, Options::default()).expect("a ledger");
    rate(callers, |caller, call| {
        let execution = Execution {
            scope: Scope::local("bench"),
            key: Key::new(&key(caller, call)).ok(),
            operation: "bench",
            arguments: br#"{"account":"a","cents":5}"#,
        };
        ledger.execute(execution, |_| Ok(vec![b'x'; RESULT_BYTES])).expect("a commit");
    })
}

fn replays(path: &Path) -> (f64, f64) {
    let ledger = Ledger::open(path, Options::default()).expect("a ledger");
    let run = |key: &str| {
        let execution = Execution {
            scope: Scope::local("bench"),
            key: Key::new(key).ok(),
            operation: "bench",
            arguments: br#"{"account":"a","cents":5}"#,
        };
        ledger.execute(execution, |_| Ok(vec![b'x'; RESULT_BYTES])).expect("an execution")
    };
    let commits = rate(1, |caller, call| drop(run(&key(caller, call))));
    // A slow disk commits fewer than these in its time.
    let kept: Vec<String> = (0..1_000).map(|call| key(0, call)).collect();
    kept.iter().for_each(|key| drop(run(key)));
    let replays = rate(1, |_, call| assert!(run(&kept[call as usize % kept.len()]).replayed));
    (replays, commits)
}

struct Row {
    key: String,
    done: std::sync::mpsc::SyncSender<Vec<u8>>,
}

/// What anyone would write: one thread, one transaction for what waits, the very statements of the ledger.
fn bare_loop(path: &Path, callers: usize) -> f64 {
    // The ledger makes the tables, so that both write the same schema under the same settings.
    drop(Ledger::open(path, Options::default()).expect("a ledger"));
    let (jobs, queue) = sync_channel::<Row>(1_024);
    let path = path.to_owned();
    let writer = std::thread::spawn(move || {
        let connection = Connection::open(path).expect("the file");
        connection.pragma_update(None, "synchronous", "FULL").expect("synchronous");
        connection.pragma_update(None, "wal_autocheckpoint", 8_000).expect("wal_autocheckpoint");
        connection.set_prepared_statement_cache_capacity(64);
        let statement = |sql: &str| {
            connection.prepare_cached(sql).and_then(|mut it| it.execute([])).expect("a statement");
        };
        while let Ok(first) = queue.recv() {
            let mut batch = vec![first];
            while batch.len() < 256
                && let Ok(row) = queue.try_recv()
            {
                batch.push(row);
            }
            statement("BEGIN IMMEDIATE");
            connection
                .prepare_cached("INSERT OR REPLACE INTO steadfast_batch VALUES (x'00', 1)")
                .and_then(|mut it| it.execute([]))
                .expect("the batch");
            let answers: Vec<Vec<u8>> = batch
                .iter()
                .map(|row| {
                    statement("SAVEPOINT job");
                    let answer = insert(&connection, &row.key);
                    statement("RELEASE job");
                    answer
                })
                .collect();
            statement("COMMIT");
            for (row, answer) in batch.into_iter().zip(answers) {
                let _ = row.done.send(answer);
            }
        }
    });
    let jobs = Arc::new(jobs);
    let rate = rate(callers, |caller, call| {
        let (done, answer) = sync_channel(1);
        jobs.send(Row { key: key(caller, call), done }).expect("the writer");
        assert_eq!(answer.recv().expect("an answer").len(), RESULT_BYTES);
    });
    drop(jobs);
    writer.join().expect("the writer");
    rate
}

fn insert(connection: &Connection, key: &str) -> Vec<u8> {
    let address = Scope::local("bench").address(&Key::new(key).expect("a key"));
    let hash = i64::from_be_bytes(address[..8].try_into().expect("eight bytes"));
    let known = connection
        .prepare_cached("SELECT id FROM steadfast_record WHERE hash = ?1 AND address = ?2")
        .and_then(|mut it| it.exists((hash, address)))
        .expect("a look");
    assert!(!known);
    connection
        .prepare_cached(
            "INSERT INTO steadfast_execution VALUES ('bench', 1)
             ON CONFLICT (operation) DO UPDATE SET count = count + 1 RETURNING count",
        )
        .and_then(|mut it| it.query_row([], |row| row.get::<_, i64>(0)))
        .expect("a count");
    connection
        .prepare_cached(
            "INSERT INTO steadfast_record (hash, address, tenant, principal, server, key, operation, fingerprint,
                 state, epoch, doubtful, answer, version, claimed_at, settled_at)
             VALUES (?1, ?2, 'local', 'local', 'bench', ?3, 'bench', ?4, 3, 1, 0, ?5, '', 1, 1) RETURNING answer",
        )
        .and_then(|mut it| {
            it.query_row((hash, address, key, [7_u8; 32], vec![b'x'; RESULT_BYTES]), |row| row.get(0))
        })
        .expect("an insert")
}
