//! What the bundled servers promise beyond one tool: capabilities that tell the truth, one charge a key on the wire,
//! questions that any process can go on with.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use steadfast::core::exchange::Reply;
use steadfast::core::hop::{Revision, Transport};
use steadfast::server::{Caller, Capabilities, Context, Options, Request, Service, stdio};
use steadfast_store::Ledger;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const ALL: &str =
    r#"{"elicitation":{},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

fn ledger(path: &Path) -> Arc<Ledger> {
    Arc::new(Ledger::open(path, steadfast_store::Options::default()).unwrap())
}

/// Both bundled servers, on a ledger each.
fn servers(folder: &Path) -> Vec<Arc<dyn Service>> {
    vec![
        Arc::new(steadfast_shop::server(ledger(&folder.join("shop.db"))).unwrap()),
        Arc::new(steadfast_shop::everything::server(ledger(&folder.join("every.db"))).unwrap()),
    ]
}

fn caller(revision: Revision) -> Caller {
    Caller { revision, capabilities: Capabilities::from_json(ALL), ..Caller::local(Transport::Http) }
}

async fn ask(service: &dyn Service, caller: &Caller, method: &str, params: Value) -> Value {
    let request = Request { method: method.into(), params: params.to_string() };
    match service.answer(request, Context::detached(caller.clone())).await {
        Reply::Result(result) => json!({ "result": serde_json::from_slice::<Value>(&result).unwrap() }),
        Reply::Error(error) => json!({ "error": serde_json::from_slice::<Value>(&error).unwrap() }),
    }
}

/// Every feature that is listed answers, and what is not listed is no method.
// shows: TSK-01, TSK-62, SUB-29, CAP-14, CAP-15
#[tokio::test]
async fn dsc_08_capabilities_tell_the_truth_in_every_revision() {
    let folder = tempfile::tempdir().unwrap();
    for service in servers(folder.path()) {
        for revision in Revision::ALL {
            let caller = caller(revision);
            let modern = revision == Revision::V2026_07_28;
            let hello = if modern { "server/discover" } else { "initialize" };
            let said = ask(&*service, &caller, hello, json!({})).await;
            let capabilities = &said["result"]["capabilities"];
            let has =
                |pointer: &str| capabilities.pointer(pointer).is_some_and(|value| *value != json!(false));
            let knows = |method: &str| service.knows(method, &caller);
            for (feature, methods) in [
                ("/tools", &["tools/list", "tools/call"][..]),
                ("/resources", &["resources/list", "resources/templates/list", "resources/read"]),
                ("/prompts", &["prompts/list", "prompts/get"]),
                ("/completions", &["completion/complete"]),
            ] {
                for method in methods {
                    assert_eq!(has(feature), knows(method), "{method} in {}", revision.as_str());
                }
            }
            let tells =
                ["/tools", "/prompts", "/resources"].iter().any(|it| has(&format!("{it}/listChanged")));
            if tells || has("/resources/subscribe") {
                assert_eq!(knows("subscriptions/listen"), modern, "SUB-29");
            }
            assert_eq!(has("/resources/subscribe") && !modern, knows("resources/subscribe"));
            assert_eq!(has("/logging") && !modern, knows("logging/setLevel"));
            assert_eq!(has("/extensions/io.modelcontextprotocol~1tasks"), modern, "TSK-01");
            assert_eq!(has("/tasks"), revision == Revision::V2025_11_25, "TSK-62, LEG-100");
            assert_eq!(has("/tasks") || modern, knows("tasks/get"));
            assert!(knows(hello));
            assert!(!knows("no/such"));
        }
    }
}

/// Nothing that is secret is mirrored into a header that proxies log.
#[tokio::test]
async fn hdr_37_only_what_is_no_secret_is_mirrored() {
    let folder = tempfile::tempdir().unwrap();
    let mut mirrored = Vec::new();
    for service in servers(folder.path()) {
        let listed = ask(&*service, &caller(Revision::V2026_07_28), "tools/list", json!({})).await;
        for tool in listed["result"]["tools"].as_array().unwrap() {
            for (name, property) in tool["inputSchema"]["properties"].as_object().into_iter().flatten() {
                if property.get("x-mcp-header").is_some() {
                    mirrored.push(name.clone());
                }
            }
        }
    }
    assert_eq!(mirrored, ["region"]);
}

/// The questions of a tool are asked before there is a task, and the task is made once they are answered.
// shows: CAP-09
#[tokio::test]
async fn tsk_14_questions_come_before_the_task() {
    let folder = tempfile::tempdir().unwrap();
    let service = steadfast_shop::everything::server(ledger(&folder.path().join("e.db"))).unwrap();
    let caller = caller(Revision::V2026_07_28);
    let mut params = json!({ "name": "test_tool_with_task", "arguments": {} });
    let first = ask(&service, &caller, "tools/call", params.clone()).await;
    assert_eq!(first["result"]["resultType"], "input_required");
    assert_eq!(first["result"].get("taskId"), None);
    params["inputResponses"] = json!({ "user_name": { "action": "accept", "content": { "name": "Alice" } } });
    let second = ask(&service, &caller, "tools/call", params).await;
    assert_eq!(second["result"]["resultType"], "task");
    let id = second["result"]["taskId"].clone();
    let task = ask(&service, &caller, "tasks/get", json!({ "taskId": id })).await;
    for answer in [&first, &second, &task] {
        assert_eq!(
            answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "everything",
            "CAP-09"
        );
    }
    for absent in ["inputRequests", "requestState", "result"] {
        assert_eq!(second["result"].get(absent), None, "TSK-10");
    }
}

/// The rounds of one call, each by another process of the same store (MRT-33).
#[tokio::test]
async fn f043_any_replica_serves_any_round() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.db");
    let replicas = [0, 1].map(|_| steadfast_shop::everything::server(ledger(&path)).unwrap());
    let elsewhere = steadfast_shop::everything::server(ledger(&folder.path().join("other.db"))).unwrap();
    let caller = caller(Revision::V2026_07_28);
    let mut params = json!({ "name": "test_input_required_result_multi_round", "arguments": {} });
    for round in 0..100 {
        let replica = &replicas[round % 2];
        let answer = ask(replica, &caller, "tools/call", params.clone()).await["result"].clone();
        if answer["resultType"] == "complete" {
            assert_eq!((round, &answer["content"][0]["text"]), (2, &json!("Alice likes blue")));
            return;
        }
        let (key, content) = if round == 0 {
            ("step1", json!({ "name": "Alice" }))
        } else {
            ("step2", json!({ "color": "blue" }))
        };
        assert!(answer["inputRequests"].get(key).is_some(), "{answer}");
        params["requestState"] = answer["requestState"].clone();
        params["inputResponses"] = json!({ key: { "action": "accept", "content": content } });
        // A store that did not seal it knows nothing of it.
        let refused = ask(&elsewhere, &caller, "tools/call", params.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "MRT-32");
    }
    panic!("the rounds have no end");
}

/// The charge is made, its answer is lost with the connection, and it is asked for again under a new id.
#[tokio::test]
async fn f005_a_lost_answer_is_asked_for_again_under_a_new_id_and_charged_once() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder.path().join("s.db"));
    let service: Arc<dyn Service> = Arc::new(steadfast_shop::server(Arc::clone(&ledger)).unwrap());
    let request = |id: u32, cents: u32| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let arguments = json!({ "account": "a", "cents": cents, "idempotencyKey": "order-7" });
        let params = json!({ "name": "charge_account", "arguments": arguments, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let mut receipts = Vec::new();
    for (id, cents, read) in [(5, 100, false), (6, 100, true), (7, 101, true)] {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(theirs);
        let never = std::future::pending();
        let server =
            tokio::spawn(stdio::serve(reader, writer, Arc::clone(&service), Options::default(), never));
        let (reader, mut writer) = tokio::io::split(ours);
        writer.write_all(format!("{}\n", request(id, cents)).as_bytes()).await.unwrap();
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).await.unwrap();
        if read {
            receipts.push(serde_json::from_str::<Value>(&line).unwrap());
        }
        writer.shutdown().await.unwrap();
        drop(writer);
        let _ = server.await.unwrap();
    }
    let [replayed, refused] = &receipts[..] else { panic!() };
    assert_eq!(replayed["id"], 6);
    assert_eq!(replayed["result"]["structuredContent"]["receipt"], "r-000001");
    assert_eq!(replayed["result"]["_meta"]["steadfast/replayed"], true);
    assert_eq!(refused["result"]["_meta"]["steadfast/error"]["category"], "key_mismatch");
    assert_eq!(refused["result"]["_meta"]["steadfast/error"]["outcome"], "not_executed");
}
