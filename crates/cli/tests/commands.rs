//! What commands print and how they exit, as scripts rely on it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn steadfast(args: &[&str]) -> Output {
    steadfast_at(Path::new(env!("CARGO_TARGET_TMPDIR")), args)
}

/// With the call log below this folder.
fn steadfast_at(state: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.env("XDG_STATE_HOME", state).args(args).output().unwrap()
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

// shows: D-45
#[test]
fn the_exit_code_says_whose_failure_it_was() {
    let shop = ["--", env!("CARGO_BIN_EXE_steadfast"), "serve", "--stdio"];
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("dies.py");
    // It answers the probe, and dies of the call.
    std::fs::write(
        &script,
        r#"
import json, sys
id = json.loads(sys.stdin.readline())["id"]
found = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}
print(json.dumps({"jsonrpc": "2.0", "id": id, "result": found}), flush=True)
sys.stdin.readline()
"#,
    )
    .unwrap();
    let dies = ["--", "python3", script.to_str().unwrap()];
    let long = r#"{"steps":1000000,"step_ms":20}"#;
    for (args, server, code, terminal) in [
        (&["call", "echo", r#"{"a":9007199254740993}"#][..], &shop[..], 0, "completed"),
        (&["call", "fail_in", r#"{"kind":"tool_error"}"#], &shop, 3, "tool_error"),
        (&["call", "no_such_tool"], &shop, 4, "failed"),
        (&["call", "t"], &["--", "true"], 5, "not_executed"),
        // The default idle limit is longer than this maximum, which is no contradiction.
        (&["call", "--max", "300ms", "count_slowly", long], &shop, 7, "timed_out_max"),
        (&["call", "t"], &dies, 7, "unknown"),
    ] {
        let output = steadfast(&[args, &["--json"], server].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?} {output:?}");
        let report = json_of(&output);
        assert_eq!(report["terminal"], terminal, "{report}");
        assert!(!report["call_id"].as_str().unwrap().is_empty());
        let help = steadfast(&[args[0], "--help"]).stdout;
        assert!(String::from_utf8(help).unwrap().contains(&format!("{code} ")), "{code} is not documented");
    }
    let echoed = steadfast(&[&["call", "echo", r#"{"a":9007199254740993}"#][..], &shop].concat());
    assert_eq!(String::from_utf8(echoed.stdout).unwrap(), "{\"a\":9007199254740993}\n", "digit for digit");
}

// shows: D-29
#[test]
fn d_50_discover_tells_what_a_server_says_of_itself() {
    let shop = ["--", env!("CARGO_BIN_EXE_steadfast"), "serve", "--stdio"];
    let found = json_of(&steadfast(&[&["discover", "--json"][..], &shop].concat()));
    assert_eq!((&found["revision"], &found["era"]), (&json!("2026-07-28"), &json!("modern")));
    assert!(found["capabilities"]["tools"].is_object(), "{found}");
    let text = String::from_utf8(steadfast(&[&["discover"][..], &shop].concat()).stdout).unwrap();
    assert!(text.contains("2026-07-28 (modern)") && text.contains("tools"), "{text}");
    let silent = steadfast(&["discover", "--", "false"]);
    assert_eq!(silent.status.code(), Some(5));
    sentence(&silent);
}

// shows: D-29, D-33
#[test]
fn d_33_tools_are_listed_whole_or_searched_by_words() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("servers.json");
    let server = json!({ "command": env!("CARGO_BIN_EXE_steadfast"), "args": ["serve", "--stdio"] });
    std::fs::write(&config, json!({ "servers": { "shop": server } }).to_string()).unwrap();
    let config = config.to_str().unwrap();
    let listed = json_of(&steadfast(&["tools", "--json", "--config", config, "shop"]));
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert!(names.contains(&&json!("charge_account")) && names.contains(&&json!("echo")), "{names:?}");
    assert!(listed["tools"].as_array().unwrap().iter().all(|tool| tool["inputSchema"].is_object()));
    let shop = ["--", env!("CARGO_BIN_EXE_steadfast"), "serve", "--stdio"];
    let found =
        json_of(&steadfast(&[&["tools", "--json", "--limit", "2", "charge", "account"][..], &shop].concat()));
    assert_eq!((&found["tools"][0]["name"], &found["of"]), (&json!("charge_account"), &json!(names.len())));
    assert_eq!(found["tools"].as_array().unwrap().len(), 2);
    assert!(found["tools"][0].get("inputSchema").is_none(), "light until it is chosen");
    let text = String::from_utf8(steadfast(&[&["tools"][..], &shop].concat()).stdout).unwrap();
    assert!(text.contains("charge_account  "), "{text}");
}

/// The operator's word makes a lost read worth another attempt, and a header of the environment opens a server with keys.
#[test]
fn g6_what_the_configuration_says_of_a_server_is_how_call_treats_it() {
    use std::io::{BufRead, BufReader};

    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("server.py");
    // The first process dies of its call.
    std::fs::write(
        &script,
        r#"
import json, pathlib, sys
died = pathlib.Path(sys.argv[1]) / "died"
for line in sys.stdin:
    message = json.loads(line)
    result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    if message["method"] == "tools/call":
        if not died.exists():
            died.touch()
            sys.exit(3)
        result = {"resultType": "complete", "content": [{"type": "text", "text": "found"}]}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#,
    )
    .unwrap();
    // printf %s open-sesame | sha256sum
    let digest = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
    let mut serve = Command::new(env!("CARGO_BIN_EXE_steadfast"))
        .args(["serve", "--http", "127.0.0.1:0", "--key", &format!("ann={digest}")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let line = BufReader::new(serve.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    let config = folder.path().join("servers.json");
    let servers = json!({
        "finder": {
            "command": "python3",
            "args": [script, folder.path()],
            "tools": { "find_*": { "effect": "read" } },
        },
        "shop": {
            "url": line.strip_prefix("steadfast: listening on ").unwrap(),
            "headers": { "Authorization": "Bearer ${STEADFAST_TEST_KEY}" },
        },
    });
    std::fs::write(&config, json!({ "servers": servers }).to_string()).unwrap();
    let call = |server: &str, tool: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
        command.env("XDG_STATE_HOME", folder.path()).env("STEADFAST_TEST_KEY", "open-sesame");
        command.args(["call", "--json", "--config", config.to_str().unwrap(), server, tool]).output().unwrap()
    };
    let found = call("finder", "find_it");
    assert_eq!(json_of(&found)["answer"]["content"][0]["text"], "found", "{found:?}");
    std::fs::remove_file(folder.path().join("died")).unwrap();
    assert_eq!(call("finder", "change_it").status.code(), Some(7), "no word on it, so it is not repeated");
    let echoed = call("shop", "echo");
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert!(echoed.status.success(), "{echoed:?}");
}

#[test]
fn f095_a_tool_that_cannot_be_used_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("server.py");
    std::fs::write(
        &script,
        r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    found = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    tools = [{"name": "good", "inputSchema": {"type": "object"}}, {"name": "ba\x1bd", "inputSchema": 7}]
    result = {"resultType": "complete", "tools": tools} if message["method"] == "tools/list" else found
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#,
    )
    .unwrap();
    let server = ["--", "python3", script.to_str().unwrap()];
    let listed = json_of(&steadfast(&[&["tools", "--json"][..], &server].concat()));
    assert_eq!(listed["tools"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["left_out"][0]["name"], "bad");
    let text = String::from_utf8(steadfast(&[&["tools"][..], &server].concat()).stdout).unwrap();
    assert!(text.contains("left out: bad: ") && !text.contains('\x1b'), "{text}");
}

/// What a command wrote below a folder, in whatever file.
fn bytes_below(folder: &Path) -> Vec<u8> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        found.extend(if path.is_dir() { bytes_below(&path) } else { std::fs::read(path).unwrap() });
    }
    found
}

// shows: D-47, G15
#[test]
fn d_48_a_call_is_explained_after_its_process_is_gone_and_without_its_payload() {
    let state = tempfile::tempdir().unwrap();
    let steadfast = |args: &[&str]| steadfast_at(state.path(), args);
    let shop = ["--", env!("CARGO_BIN_EXE_steadfast"), "serve", "--stdio"];
    let answers = |id: &str| {
        let explained = json_of(&steadfast(&["explain", id, "--json"]));
        let findings = explained["findings"].as_array().unwrap().clone();
        assert!(!explained["attempts"].as_array().unwrap().is_empty());
        findings.iter().map(|it| it["answer"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let secret = "swordfish-7731";
    let arguments = format!(r#"{{"a":"{secret}"}}"#);
    let done = json_of(&steadfast(
        &[&["call", "--json", "--key", "swordfish-7731-key", "echo", &arguments][..], &shop].concat(),
    ));
    assert!(done["answer"].to_string().contains(secret));
    assert_eq!(answers(done["call_id"].as_str().unwrap()), ["no", "yes", "none", "yes", "yes", "none"]);

    let limited =
        steadfast(&[&["call", "--max", "300ms", "count_slowly", r#"{"steps":999}"#][..], &shop].concat());
    assert_eq!(limited.status.code(), Some(7));
    let told = String::from_utf8(limited.stderr).unwrap();
    let id = told.rsplit_once("steadfast explain ").unwrap().1.trim_end_matches([')', '\n']);
    assert_eq!(answers(id), ["no", "yes", "none", "no", "perhaps", "none"]);
    let text = String::from_utf8(steadfast(&["explain", id]).stdout).unwrap();
    for part in ["tools/call count_slowly", "executed?", "perhaps", "look before you repeat it", "deadline"] {
        assert!(text.contains(part), "{text}");
    }

    let url = format!("http://127.0.0.1:1/{secret}");
    let unreached = json_of(&steadfast(&["call", "--json", &url, "echo", &arguments]));
    assert_eq!(answers(unreached["call_id"].as_str().unwrap()), ["no", "no", "none", "no", "no", "none"]);

    // Refused before anything leaves: no key is empty.
    let refused = steadfast(&[&["call", "--key", "", "echo", &arguments][..], &shop].concat());
    assert_eq!(refused.status.code(), Some(6), "{refused:?}");
    let told = String::from_utf8(refused.stderr).unwrap();
    let id = told.rsplit_once("steadfast explain ").unwrap().1.trim_end_matches([')', '\n']);
    assert_eq!(answers(id), ["yes", "no", "none", "no", "no", "none"]);
    let stored = bytes_below(state.path());
    assert!(stored.windows(5).any(|it| it == b"echo\""), "the log is there");
    assert!(
        !stored.windows(secret.len()).any(|it| it == secret.as_bytes()),
        "and holds no payload, key or address"
    );
}

#[test]
fn a_log_that_cannot_be_written_keeps_nobody_from_calling() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let shop = ["--", env!("CARGO_BIN_EXE_steadfast"), "serve", "--stdio"];
    let called = steadfast_at(&file, &[&["call", "echo"][..], &shop].concat());
    assert!(called.status.success());
    assert!(String::from_utf8(called.stderr).unwrap().contains("the call log cannot be used"));
}

#[test]
fn errors_are_one_sentence_and_have_their_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.toml");
    std::fs::write(&bad, "[servers.shop]\nurl = 'http://127.0.0.1:1/mcp'\ncolour = 1\n").unwrap();
    let bad = bad.to_str().unwrap();
    let two = folder.path().join("two.toml");
    let servers = "[servers.shop]\nurl = 'http://127.0.0.1:1/mcp'\n[servers.other]\ncommand = 'cat'\n";
    std::fs::write(&two, servers).unwrap();
    let two = two.to_str().unwrap();
    for (args, code, part) in [
        (vec!["call", "http://127.0.0.1:1/mcp", "echo"], 5, "no connection"),
        (vec!["call", "shop", "echo"], 2, "--config FILE"),
        (vec!["call", "--config", two, "shoe", "echo"], 2, "other, shop"),
        (vec!["call", "--config", two, "shop", "echo"], 5, "no connection"),
        (vec!["call", "--config", two, "shop"], 2, "no tool is named"),
        (vec!["call", "--max", "0s", "http://127.0.0.1:1/mcp", "echo"], 2, "positive"),
        (vec!["discover", "http://127.0.0.1:1/mcp"], 5, "no connection"),
        (vec!["discover"], 2, "no server is named"),
        (vec!["tools", "http://127.0.0.1:1/mcp"], 5, "no connection"),
        (vec!["tools", "shop"], 2, "--config FILE"),
        (vec!["explain", "0-0"], 6, "0-0"),
        (vec!["explain", "0-0", "--store", "/no/such.db"], 6, "/no/such.db"),
        (vec!["call", "ftp://x/mcp", "echo"], 2, "http://HOST"),
        (vec!["call", "http://127.0.0.1:1/mcp", "echo", "[]"], 2, "JSON object"),
        (vec!["call", "http://127.0.0.1:1/mcp", "echo", r#"{"a":1,"a":2}"#], 2, "occurs twice"),
        (vec!["call", "--key", "k", "http://127.0.0.1:1/mcp", "echo", r#"{"a":9007199254740993}"#], 2, "/a"),
        (vec!["call", "echo", "{}", "--", "/no/such/program"], 5, "/no/such/program"),
        (vec!["gateway", "--config", two, "--stdio"], 2, "2 servers"),
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
        &["discover"],
        &["explain"],
        &["tools"],
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
