//! What commands print and how they exit, as scripts rely on it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn steadfast(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steadfast")).args(args).output().unwrap()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
}

fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/operations");
    root.join(name).to_string_lossy().into_owned()
}

/// The one sentence on stderr of a command that could not do its work.
fn sentence(output: &Output) -> String {
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    text
}

#[test]
fn d_22_the_lab_prints_sixteen_rows() {
    let output = steadfast(&["sim", "lab", "--json"]);
    assert!(output.status.success());
    let rows = json_of(&output);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 16);
    for (index, row) in rows.iter().enumerate() {
        let transport = row["transport"].as_str().unwrap();
        let era = row["era"].as_str().unwrap();
        let signal = match (transport, era) {
            ("stdio", _) => "notification",
            ("http", "modern") => "close_stream",
            ("http", "legacy") => "post_notification",
            other => panic!("{other:?}"),
        };
        let (scenario, terminal, answered, signal) = match index / 4 {
            0 => ("A", "cancelled", false, signal),
            1 => ("B", "completed", true, "none"),
            2 => ("C", "timed_out_max", false, signal),
            _ => ("D", "cancelled", false, signal),
        };
        assert_eq!(row["scenario"], scenario);
        assert_eq!(row["terminal"], terminal);
        assert_eq!(row["final_response"], answered);
        assert_eq!(row["signal"], signal);
        assert!(row["ignored"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

#[test]
fn d_21_the_demo_shows_what_it_must() {
    let output = steadfast(&["demo", "--json"]);
    assert!(output.status.success());
    let tour = json_of(&output);
    assert_eq!(tour["as_it_must_be"], true);
    assert_eq!(tour["charge"]["attempts"].as_array().unwrap().len(), 5);
    let text = steadfast(&["demo"]);
    assert!(text.status.success());
    assert!(String::from_utf8(text.stdout).unwrap().contains("All as it must be."));
}

#[test]
fn d_25_the_evidence_is_eight_artifacts_and_an_index_that_names_each() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/evidence");
    let output = steadfast(&["evidence", "--out", out.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{output:?}");
    let index = json_of(&output);
    let artifacts = index.as_array().unwrap();
    assert_eq!(artifacts.len(), 8);
    let page = std::fs::read_to_string(out.join("index.md")).unwrap();
    for artifact in artifacts {
        let file = artifact["file"].as_str().unwrap();
        assert_eq!(artifact["holds"], true, "{file}");
        assert!(page.contains(file), "the index does not name {file}");
        let content = std::fs::read(out.join(file)).unwrap();
        assert!(serde_json::from_slice::<Value>(&content).is_ok_and(|it| !it.is_null()), "{file}");
    }
    assert_eq!(
        json_of(&output),
        serde_json::from_slice::<Value>(&std::fs::read(out.join("index.json")).unwrap()).unwrap()
    );
    let races: Value =
        serde_json::from_slice(&std::fs::read(out.join("1-race-transcripts.json")).unwrap()).unwrap();
    assert_eq!(races.as_array().unwrap().len(), 16);
}

#[test]
fn d_23_a_review_refuses_with_reasons_and_its_exit_code() {
    for ready in ["charge_account.toml", "reserve_inventory.toml"] {
        let output = steadfast(&["review", &example(ready), "--json"]);
        assert!(output.status.success(), "{ready}");
        let report = json_of(&output);
        assert_eq!(report["production_ready"], true);
        assert_eq!(report["race_table"].as_array().unwrap().len(), 4);
    }
    let output = steadfast(&["review", &example("refused.toml"), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let rules: Vec<Value> = json_of(&output)["refusals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refusal| refusal["rule"].clone())
        .collect();
    let expected = [
        "retry-on-timeout",
        "process-local-ledger",
        "effect-outside-boundary",
        "aliased-results",
        "queue-capacity",
        "task-acknowledgement",
    ];
    assert_eq!(json!(rules), json!(expected));
}

#[test]
fn d_24_every_fixture_that_a_review_names_was_run_both_ways() {
    let mut seen = std::collections::BTreeSet::new();
    for file in ["charge_account.toml", "reserve_inventory.toml", "refused.toml"] {
        let report = json_of(&steadfast(&["review", &example(file), "--json"]));
        let runs = report["fixture_runs"].as_array().unwrap();
        assert_eq!(runs.len(), report["fixtures"].as_array().unwrap().len(), "{file}");
        for run in runs {
            assert_eq!(run["wrong_behaviour_caught"], true, "{run}");
            assert_eq!(run["ours_holds"], true, "{run}");
            seen.insert(run["name"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(seen.len(), 14);
}

#[test]
fn the_ledger_is_listed_shown_and_only_an_unknown_is_reconciled() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("s.db").display());
    let missing = steadfast(&["ledger", "list", "--store", &store]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(sentence(&missing).contains("s.db"));

    let steadfast_bin = env!("CARGO_BIN_EXE_steadfast");
    let call = steadfast(&[
        "call",
        "--key",
        "order-17",
        "charge_account",
        r#"{"account":"a","cents":5}"#,
        "--",
        steadfast_bin,
        "serve",
        "--stdio",
        "--store",
        &store,
    ]);
    assert!(call.status.success(), "{call:?}");
    let list = json_of(&steadfast(&["ledger", "list", "--store", &store, "--json"]));
    assert_eq!((&list[0]["key"], &list[0]["state"]), (&json!("order-17"), &json!("committed")));
    let none = steadfast(&["ledger", "list", "--store", &store, "--state", "unknown", "--json"]);
    assert_eq!(json_of(&none), json!([]));
    assert_eq!(steadfast(&["ledger", "show", "nothing", "--store", &store]).status.code(), Some(1));
    let refused = steadfast(&["ledger", "reconcile", "order-17", "--as", "rejected", "--store", &store]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(sentence(&refused).contains("committed"));
}

#[test]
fn errors_are_one_sentence_and_have_their_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.toml");
    std::fs::write(&bad, "[servers.shop]\nurl = 'http://127.0.0.1:1/mcp'\ncolour = 1\n").unwrap();
    let bad = bad.to_str().unwrap();
    for (args, code, part) in [
        (vec!["call", "http://127.0.0.1:1/mcp", "echo"], 4, "no connection"),
        (vec!["call", "ftp://x/mcp", "echo"], 2, "http://HOST"),
        (vec!["call", "http://127.0.0.1:1/mcp", "echo", "[]"], 2, "JSON object"),
        (vec!["call", "http://127.0.0.1:1/mcp", "echo", r#"{"a":1,"a":2}"#], 2, "occurs twice"),
        (vec!["call", "http://127.0.0.1:1/mcp", "echo", r#"{"a":9007199254740993}"#], 2, "/a"),
        (vec!["call", "echo", "{}", "--", "/no/such/program"], 4, "/no/such/program"),
        (vec!["gateway", "--config", "/no/such/file.toml", "--stdio"], 2, "/no/such/file.toml"),
        (vec!["gateway", "--config", bad, "--stdio"], 2, "colour"),
        (vec!["review", "/no/such/file.toml"], 2, "/no/such/file.toml"),
        (vec!["sim", "replay", "no-such-scope:0"], 2, "no-such-scope"),
        (vec!["serve", "--http", "0.0.0.0:0"], 2, "127.0.0.1"),
        (vec!["serve", "--stdio", "--store", "postgres://x"], 2, "sqlite:PATH"),
        (vec!["evidence", "--out", "/proc/nowhere"], 2, "/proc/nowhere"),
    ] {
        let output = steadfast(&args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        let sentence = sentence(&output);
        assert!(sentence.contains(part), "{args:?}: {sentence}");
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in [
        &["demo"][..],
        &["serve"],
        &["gateway"],
        &["call"],
        &["ledger"],
        &["ledger", "list"],
        &["ledger", "show"],
        &["ledger", "reconcile"],
        &["review"],
        &["evidence"],
        &["sim"],
        &["sim", "lab"],
        &["sim", "explore"],
        &["sim", "replay"],
    ] {
        let output = steadfast(&[command, &["--help"]].concat());
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("Example"), "{command:?} has no example:\n{text}");
    }
}
