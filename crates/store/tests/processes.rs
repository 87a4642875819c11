//! Real processes on one file: racing with one key, and killed at any point.
//!
//! The children are this test binary itself, told by the environment what to be. Real time is needed, since real
//! processes are killed; nothing is asserted about how long anything takes.
#![allow(clippy::print_stdout)] // the children speak to their parent over stdout

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use steadfast_core::fingerprint::{Key, Scope};
use steadfast_core::rng::Rng;
use steadfast_store::{Executed, Execution, Ledger, LedgerView, Options};

const RACE_ROUNDS: u64 = 1_000;
const KILLS: u64 = 200;
const THREADS: u64 = 4;
const PATH: &str = "STEADFAST_TEST_STORE";

/// One charge: a row in the author's table, and the row's number as the answer.
fn charge(ledger: &Ledger, key: &str) -> Executed {
    let name = key.to_owned();
    let execution = Execution {
        scope: Scope::local("shop"),
        key: Some(Key::new(key).unwrap()),
        operation: "charge",
        arguments: b"",
    };
    let effect = move |effect: &steadfast_store::Effect<'_>| {
        effect.execute("INSERT INTO charge (key) VALUES (?1)", [&name])?;
        Ok(effect.execution().to_string().into_bytes())
    };
    ledger.execute(execution, effect).unwrap()
}

fn prepare(path: &Path) {
    drop(Ledger::open(path, Options::default()).unwrap());
    let raw = rusqlite::Connection::open(path).unwrap();
    raw.execute("CREATE TABLE charge (number INTEGER PRIMARY KEY, key TEXT NOT NULL)", []).unwrap();
}

/// Starts one of the two children below on a file.
fn start(role: &str, path: &Path, argument: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", role, "--nocapture", "--include-ignored"])
        .env(PATH, path)
        .env("STEADFAST_TEST_ARGUMENT", argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The child's own lines: the test harness prints others.
fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.lines().map_while(Result::ok).filter_map(|line| {
        let (_, own) = line.split_once("charged ")?;
        Some(own.to_owned())
    })
}

#[test]
fn child_that_races() {
    let Ok(path) = std::env::var(PATH) else { return };
    let ledger = Ledger::open(path, Options::default()).unwrap();
    println!("charged ready");
    for key in std::io::stdin().lines() {
        let executed = charge(&ledger, &key.unwrap());
        println!("charged {} {}", String::from_utf8(executed.answer).unwrap(), executed.replayed);
    }
}

/// Both processes open one new file at once, then execute each key at a barrier: the line that names it.
#[test]
fn d_12_two_processes_racing_with_one_key_execute_once_in_1000_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    prepare(&path);
    let mut racers = [start("child_that_races", &path, ""), start("child_that_races", &path, "")];
    let mut answers = racers.each_mut().map(lines);
    let mut barrier: Vec<ChildStdin> = racers.iter_mut().map(|racer| racer.stdin.take().unwrap()).collect();
    for answers in &mut answers {
        assert_eq!(answers.next().as_deref(), Some("ready"));
    }
    let mut winners = [0_u64; 2];
    for round in 1..=RACE_ROUNDS {
        for stdin in &mut barrier {
            writeln!(stdin, "key-{round}").unwrap();
        }
        let seen = answers.each_mut().map(|answers| answers.next().unwrap());
        for (racer, answer) in seen.iter().enumerate() {
            let (number, replayed) = answer.split_once(' ').unwrap();
            assert_eq!(number, round.to_string(), "the first execution's answer, for both");
            winners[racer] += u64::from(replayed == "false");
        }
        assert_eq!(winners[0] + winners[1], round, "one execution a key");
    }
    drop(barrier);
    for racer in &mut racers {
        assert!(racer.wait().unwrap().success());
    }
    assert_eq!(check(&path, &BTreeMap::new()), RACE_ROUNDS);
}

#[test]
fn child_that_is_killed() {
    let Ok(path) = std::env::var(PATH) else { return };
    let from: Vec<u64> = std::env::var("STEADFAST_TEST_ARGUMENT")
        .unwrap()
        .split(',')
        .map(|number| number.parse().unwrap())
        .collect();
    let ledger = Ledger::open(path, Options::default()).unwrap();
    std::thread::scope(|scope| {
        for (thread, first) in from.into_iter().enumerate() {
            let ledger = &ledger;
            scope.spawn(move || {
                for number in first.. {
                    let executed = charge(ledger, &format!("{thread}-{number}"));
                    let answer = String::from_utf8(executed.answer).unwrap();
                    // One write, so that a kill cuts no line in half that could be read as another.
                    let line = format!("charged {thread} {number} {answer}\n");
                    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

#[test]
fn i_12_a_writer_killed_200_times_loses_no_acknowledged_commit_and_repeats_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    prepare(&path);
    let mut rng = Rng::new(0x5eed);
    // What was acknowledged: the answer by thread and number. Each next child begins at the key that was in flight.
    let mut acknowledged: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut next = [0_u64; THREADS as usize];
    for _ in 0..KILLS {
        let from = next.map(|number| number.to_string()).join(",");
        let mut child = start("child_that_is_killed", &path, &from);
        let mut answers = lines(&mut child);
        let after = 1 + rng.up_to(40);
        for _ in 0..after {
            keep(&answers.next().unwrap(), &mut acknowledged, &mut next);
        }
        // Somewhere in the next commit, and not always at its acknowledgement.
        for _ in 0..rng.up_to(20_000) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for answer in answers {
            keep(&answer, &mut acknowledged, &mut next);
        }
    }
    assert!(acknowledged.len() as u64 >= KILLS, "{} were acknowledged", acknowledged.len());
    let rows = check(&path, &acknowledged);
    // A kill may leave what was committed and not yet acknowledged: at most one key a thread, and it is the next one.
    assert!(rows >= acknowledged.len() as u64 && rows <= acknowledged.len() as u64 + THREADS, "{rows} rows");
    println!("{KILLS} kills, {} acknowledged, {rows} rows", acknowledged.len());
}

fn keep(line: &str, acknowledged: &mut BTreeMap<(u64, u64), u64>, next: &mut [u64]) {
    let numbers: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [thread, number, answer] = numbers[..] else { return };
    if let Some(before) = acknowledged.insert((thread, number), answer) {
        assert_eq!(before, answer, "a replay gives the first answer");
    }
    next[thread as usize] = number + 1;
}

/// Looks into the file: sound, no key twice, effects and counts and records agree, all acknowledged ones there with
/// their answers. Gives the number of effects.
fn check(path: &Path, acknowledged: &BTreeMap<(u64, u64), u64>) -> u64 {
    let raw = rusqlite::Connection::open(path).unwrap();
    let integrity: String = raw.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    let count = |sql| raw.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as u64;
    let rows = count("SELECT count(*) FROM charge");
    assert_eq!(rows, count("SELECT count(DISTINCT key) FROM charge"), "no key was executed twice");
    assert_eq!(rows, count("SELECT count(*) FROM steadfast_record WHERE state = 3"));
    assert_eq!(LedgerView::open(path, Options::default()).unwrap().executions("charge"), Ok(rows));
    let ledger = Ledger::open(path, Options::default()).unwrap();
    for ((thread, number), answer) in acknowledged {
        let executed = charge(&ledger, &format!("{thread}-{number}"));
        assert!(executed.replayed, "{thread}-{number} was acknowledged and is gone");
        assert_eq!(executed.answer, answer.to_string().into_bytes());
    }
    rows
}
