//! The tasks of 2025-11-25, over the same store.

use serde_json::{Value, json};
use steadfast::core::exchange::Progress;
use steadfast::core::hop::Revision;
use steadfast::server::toolkit::tasks::{AskError, Question, TaskSupport, Tasks};

use crate::harness::{Bench, Peer, Process, able, legacy, policy};

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn done() -> Value {
    json!({ "content": [{ "type": "text", "text": "12 pages" }] })
}

fn augmented(tool: &str) -> Value {
    json!({ "name": tool, "arguments": {}, "task": { "ttl": 60_000 } })
}

fn old() -> steadfast::server::Caller {
    legacy("a", Revision::V2025_11_25)
}

async fn create(process: &Process, tool: &str) -> String {
    let created = process.ask(&old(), "tools/call", augmented(tool)).await.unwrap();
    created["task"]["taskId"].as_str().unwrap().to_owned()
}

// shows: LEG-101, LEG-106, LEG-107
#[tokio::test]
async fn leg_106_an_augmented_call_is_answered_with_a_nested_task() {
    let mut process = Bench::new().start();
    let mut created = process.ask(&old(), "tools/call", augmented("at_once")).await.unwrap();
    created["task"]["taskId"] = Value::Null;
    assert_eq!(
        created,
        json!({ "task": {
            "taskId": null,
            "status": "working",
            "createdAt": "2026-08-03T09:00:00.000Z",
            "lastUpdatedAt": "2026-08-03T09:00:00.000Z",
            "ttl": 60_000,
            "pollInterval": 500,
        } })
    );
    process.begun().await.finish(done());
}

// shows: LEG-117, F104
#[tokio::test]
async fn leg_117_the_retention_asked_for_is_kept_within_bounds() {
    let process = Bench::new().start();
    for (asked, given) in [
        (json!({ "ttl": 7_000 }), 7_000),
        (json!({ "ttl": 0 }), 5_000),
        (json!({ "ttl": 9_000_000 }), 3_600_000),
        (json!({ "ttl": null }), 60_000),
        (json!({ "ttl": 7e3 }), 7_000),
        (json!({}), 60_000),
    ] {
        let params = json!({ "name": "at_once", "task": asked });
        let created = process.ask(&old(), "tools/call", params).await.unwrap();
        assert_eq!(created["task"]["ttl"], given, "{asked}");
    }
    for broken in [json!({ "ttl": "soon" }), json!({ "ttl": -5 }), json!({ "ttl": 1.5 }), json!([]), json!(5)]
    {
        let params = json!({ "name": "at_once", "task": broken });
        let refused = process.ask(&old(), "tools/call", params).await.unwrap_err();
        assert_eq!(refused["code"], -32602, "AMB-44: {broken}");
    }
}

// shows: LEG-102, LEG-103, LEG-104
#[tokio::test]
async fn leg_104_a_call_must_be_augmented_as_the_listing_says() {
    let mut process = Bench::new().start();
    let refused = process.ask(&old(), "tools/call", augmented("never")).await.unwrap_err();
    assert_eq!(refused["code"], -32601);
    let refused = process.ask(&old(), "tools/call", json!({ "name": "only" })).await.unwrap_err();
    assert_eq!(refused["code"], -32601);
    assert!(process.is_idle(), "nothing ran");
    for (tool, word) in [("never", "forbidden"), ("later", "optional"), ("only", "required")] {
        let support: TaskSupport = policy(tool).unwrap().support;
        assert_eq!(support.listed(&old()), Some(word));
        assert_eq!(support.listed(&able("a")), None);
        assert_eq!(support.listed(&legacy("a", Revision::V2025_06_18)), None);
    }
    create(&process, "later").await;
    process.begun().await.finish(done());
}

// shows: LEG-105, TSK-65
// shows: TSK-65
#[tokio::test]
async fn leg_105_revisions_without_tasks_ignore_the_member_and_the_extension_enables_nothing() {
    let mut process = Bench::new().start();
    for revision in [Revision::V2025_06_18, Revision::V2025_03_26, Revision::V2025_11_25] {
        let mut caller = legacy("a", revision);
        caller.capabilities = able("a").capabilities;
        let params = match revision {
            Revision::V2025_11_25 => json!({ "name": "at_once" }),
            _ => augmented("at_once"),
        };
        let served = process.served.clone();
        let call = tokio::spawn(async move {
            let request =
                steadfast::server::Request { method: "tools/call".into(), params: params.to_string() };
            let context = steadfast::server::Context::detached(caller);
            crate::harness::read(steadfast::server::Service::answer(&served, request, context).await)
        });
        process.begun().await.finish(done());
        assert_eq!(call.await.unwrap(), Ok(done()));
        assert_eq!(Tasks::knows("tasks/get", &legacy("a", revision)), revision == Revision::V2025_11_25);
    }
}

// shows: LEG-100, LEG-116, TSK-62
#[tokio::test]
async fn leg_116_a_list_is_declared_and_served_only_where_callers_are_told_apart() {
    let mut process = Bench::new().start();
    let mut nobody = old();
    nobody.principal = steadfast::server::Caller::local(nobody.transport).principal;
    assert_eq!(
        Tasks::legacy_capability(&nobody),
        Some(json!({ "cancel": {}, "requests": { "tools": { "call": {} } } }))
    );
    assert!(!Tasks::knows("tasks/list", &nobody));
    assert_eq!(
        Tasks::legacy_capability(&old()),
        Some(json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } }))
    );
    assert_eq!(Tasks::legacy_capability(&able("a")), None);
    assert_eq!(Tasks::legacy_capability(&legacy("a", Revision::V2025_06_18)), None);

    let id = create(&process, "at_once").await;
    process.begun().await.finish(done());
    let list = process.ask(&old(), "tasks/list", json!({})).await.unwrap();
    assert_eq!(list["tasks"][0]["taskId"], json!(id));
    let others = process.ask(&legacy("b", Revision::V2025_11_25), "tasks/list", json!({})).await.unwrap();
    assert_eq!(others, json!({ "tasks": [] }));
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let stolen = process.ask(&legacy("b", Revision::V2025_11_25), method, json!({ "taskId": id })).await;
        assert_eq!(stolen.unwrap_err()["code"], -32602, "{method}");
    }
}

#[tokio::test]
async fn leg_115_pages_of_a_list_follow_one_another_and_an_unknown_cursor_is_refused() {
    let process = Bench::new().start();
    let mut created = Vec::new();
    for _ in 0..60 {
        created.push(json!(create(&process, "at_once").await));
    }
    let first = process.ask(&old(), "tasks/list", json!({})).await.unwrap();
    let second = process.ask(&old(), "tasks/list", json!({ "cursor": first["nextCursor"] })).await.unwrap();
    assert_eq!(second.get("nextCursor"), None);
    let pages = [&first, &second].map(|page| page["tasks"].as_array().unwrap().clone()).concat();
    let ids: Vec<Value> = pages.iter().rev().map(|task| task["taskId"].clone()).collect();
    assert_eq!(ids, created);
    assert_eq!(pages[0], process.ask(&old(), "tasks/get", json!({ "taskId": ids[59] })).await.unwrap());
    let unknown = process.ask(&old(), "tasks/list", json!({ "cursor": "x" })).await.unwrap_err();
    assert_eq!(unknown["code"], -32602);
}

// shows: LEG-108, LEG-110, LEG-111
#[tokio::test]
async fn leg_108_the_result_is_waited_for_and_is_exactly_the_calls_own() {
    let mut process = Bench::new().start();
    let result = |process: &Process, id: &str| {
        let (served, params) = (process.served.clone(), json!({ "taskId": id }));
        let request =
            steadfast::server::Request { method: "tasks/result".into(), params: params.to_string() };
        let context = steadfast::server::Context::detached(old());
        tokio::spawn(steadfast::server::Service::answer(&served, request, context))
    };
    let id = create(&process, "at_once").await;
    let waiting = result(&process, &id);
    let begun = process.begun().await;
    assert!(!waiting.is_finished());
    begun.finish(json!({ "resultType": "complete", "content": [], "isError": true, "_meta": { "x": 1.0 } }));
    let answered = crate::harness::read(waiting.await.unwrap()).unwrap();
    assert_eq!(
        answered,
        json!({ "content": [], "isError": true, "_meta": { "x": 1.0, RELATED: { "taskId": id } } })
    );
    let task = process.ask(&old(), "tasks/get", json!({ "taskId": id })).await.unwrap();
    assert_eq!(task["status"], "failed", "LEG-111");
    assert!(task.get("result").is_none() && task.get("resultType").is_none() && task.get("_meta").is_none());
    assert_eq!(process.get(&able("a"), &id).await["status"], "completed", "TSK-25, TSK-64");

    let id = create(&process, "at_once").await;
    process.begun().await.fail(-32000, "the renderer crashed");
    let answered = crate::harness::read(result(&process, &id).await.unwrap());
    assert_eq!(answered, Err(json!({ "code": -32000, "message": "the renderer crashed" })));
}

// shows: TSK-64
#[tokio::test]
async fn leg_112_a_cancel_is_the_end_before_it_is_answered_and_final_tasks_refuse_it() {
    let mut process = Bench::new().start();
    let id = create(&process, "stubborn").await;
    let begun = process.begun().await;
    let task = process.ask(&old(), "tasks/cancel", json!({ "taskId": id })).await.unwrap();
    assert_eq!((&task["taskId"], &task["status"]), (&json!(id), &json!("cancelled")));
    begun.worker.context().cancelled().cancelled().await;
    begun.finish(done());
    let refused = process.ask(&old(), "tasks/cancel", json!({ "taskId": id })).await.unwrap_err();
    assert_eq!(refused["code"], -32602);
    process.ask(&old(), "tasks/result", json!({ "taskId": id })).await.unwrap_err();
    assert_eq!(process.get(&able("a"), &id).await["status"], "cancelled", "it stays so");
}

// shows: LEG-109, LEG-110, LEG-113
#[tokio::test]
async fn leg_109_who_waits_for_the_result_is_asked_and_told_of_progress_on_the_same_stream() {
    let mut process = Bench::new().start();
    let mut peer = Peer::connect(&process);
    let declared = peer.initialize().await["result"]["capabilities"]["tasks"].clone();
    assert_eq!(declared, json!({ "cancel": {}, "requests": { "tools": { "call": {} } } }));
    let mut params = augmented("at_once");
    params["_meta"] = json!({ "progressToken": "p" });
    peer.ask_legacy("call", "tools/call", params).await;
    let id = peer.next().await["result"]["task"]["taskId"].clone();
    let begun = process.begun().await;
    peer.ask_legacy("result", "tasks/result", json!({ "taskId": id })).await;

    begun.worker.context().progress(Progress::of(1.0).unwrap());
    let progress = peer.next().await;
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(
        (&progress["params"]["progressToken"], &progress["params"]["progress"]),
        (&json!("p"), &json!(1))
    );
    assert_eq!(progress["params"]["_meta"][RELATED], json!({ "taskId": id }));

    let worker = begun.worker.clone();
    let question = |key: &str| {
        let params = json!({ "message": key }).to_string();
        [(key.to_owned(), Question { method: "elicitation/create".into(), params })].into()
    };
    let asking = question("name");
    let asking = tokio::spawn(async move { worker.ask(asking).await });
    let asked = loop {
        let message = peer.next().await;
        match message["method"].as_str().unwrap() {
            "notifications/tasks/status" => assert_eq!(message["params"]["taskId"], id),
            _ => break message,
        }
    };
    assert_eq!(asked["method"], "elicitation/create");
    assert_eq!(asked["params"], json!({ "message": "name", "_meta": { RELATED: { "taskId": id } } }));
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    peer.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).await;
    let given = asking.await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&given["name"]).unwrap(), answer);

    let worker = begun.worker.clone();
    let asking = question("size");
    let asking = tokio::spawn(async move { worker.ask(asking).await });
    let asked = question_of(&mut peer).await;
    let error = json!({ "code": -1, "message": "no" });
    peer.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).await;
    let Err(AskError::Refused { key, error: given }) = asking.await.unwrap() else { panic!("not refused") };
    assert_eq!((&*key, serde_json::from_str::<Value>(&given).unwrap()), ("size", error));

    begun.finish(done());
    let result = loop {
        let message = peer.next().await;
        if message["id"] == "result" {
            break message["result"].clone();
        }
    };
    assert_eq!(result["content"], done()["content"]);
    assert_eq!(result["_meta"][RELATED], json!({ "taskId": id }));
}

// shows: TSK-68, I-24
#[tokio::test]
async fn leg_109_a_question_whose_stream_went_away_is_put_on_the_next_one() {
    let mut process = Bench::new().start();
    let mut peer = Peer::connect(&process);
    peer.initialize().await;
    peer.ask_legacy("call", "tools/call", augmented("at_once")).await;
    let id = peer.next().await["result"]["task"]["taskId"].clone();
    let begun = process.begun().await;
    peer.ask_legacy("first", "tasks/result", json!({ "taskId": id })).await;
    let worker = begun.worker.clone();
    let question = Question { method: "elicitation/create".into(), params: r#"{"message":"?"}"#.into() };
    let asking = tokio::spawn(async move { worker.ask([("name".to_owned(), question)].into()).await });
    let first = question_of(&mut peer).await;
    peer.ask_legacy("second", "tasks/result", json!({ "taskId": id })).await;
    let notice = json!({ "requestId": "first" });
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": notice })).await;
    let second = question_of(&mut peer).await;
    assert_ne!(first["id"], second["id"]);
    peer.send(json!({ "jsonrpc": "2.0", "id": second["id"], "result": { "action": "accept" } })).await;
    assert_eq!(asking.await.unwrap().unwrap()["name"], r#"{"action":"accept"}"#);
    begun.finish(done());
    loop {
        let message = peer.next().await;
        assert_ne!(message["id"], "first", "G5");
        if message["id"] == "second" {
            break assert_eq!(message["result"]["content"], done()["content"]);
        }
    }
}

/// The next question, past what is only told.
async fn question_of(peer: &mut Peer) -> Value {
    loop {
        let message = peer.next().await;
        if message["method"] == "elicitation/create" {
            break message;
        }
    }
}

#[tokio::test]
async fn leg_77_a_call_that_is_no_task_asks_while_it_runs() {
    let mut process = Bench::new().start();
    let mut peer = Peer::connect(&process);
    peer.initialize().await;
    peer.ask_legacy("call", "tools/call", json!({ "name": "at_once" })).await;
    let begun = process.begun().await;
    let worker = begun.worker.clone();
    let question = Question { method: "elicitation/create".into(), params: r#"{"message":"?"}"#.into() };
    let asking = tokio::spawn(async move { worker.ask([("name".to_owned(), question)].into()).await });
    let asked = peer.next().await;
    assert_eq!(
        (&asked["method"], &asked["params"]),
        (&json!("elicitation/create"), &json!({ "message": "?" }))
    );
    peer.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } })).await;
    assert_eq!(asking.await.unwrap().unwrap()["name"], r#"{"action":"decline"}"#);
    begun.finish(done());
    assert_eq!(peer.next().await["result"], done());
}
