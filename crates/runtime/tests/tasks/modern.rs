//! The extension `io.modelcontextprotocol/tasks` of 2026-07-28.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast::server::toolkit::tasks::{AskError, Question};
use steadfast::server::{Caller, Capabilities};

use crate::harness::{Bench, Peer, Process, able, exchange};

fn question(message: &str) -> Question {
    Question { method: "elicitation/create".into(), params: json!({ "message": message }).to_string() }
}

fn questions<const N: usize>(keys: [&str; N]) -> std::collections::BTreeMap<String, Question> {
    keys.into_iter().map(|key| (key.to_owned(), question(key))).collect()
}

fn done() -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": "12 pages" }] })
}

fn names(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

// shows: TSK-02, TSK-08, TSK-09, TSK-10, TSK-11, TSK-12
#[tokio::test]
async fn tsk_10_the_handle_is_flat_and_holds_nothing_of_the_outcome() {
    let mut process = Bench::new().start();
    let created = process.call(&able("a"), "at_once").await.unwrap();
    let mut members = created.clone();
    members["taskId"] = Value::Null;
    assert_eq!(
        members,
        json!({
            "resultType": "task",
            "taskId": null,
            "status": "working",
            "createdAt": "2026-08-03T09:00:00.000Z",
            "lastUpdatedAt": "2026-08-03T09:00:00.000Z",
            "ttlMs": 60_000,
            "pollIntervalMs": 500,
        })
    );
    process.begun().await.finish(done());
}

// shows: TSK-03, TSK-61, TSK-63
#[tokio::test]
async fn tsk_03_who_does_not_declare_the_extension_in_this_very_request_gets_the_result() {
    let mut process = Bench::new().start();
    process.create(&able("a"), "at_once").await;
    process.begun().await.finish(done());
    for capabilities in ["{}", r#"{"tasks":{"requests":{"tools":{"call":{}}}}}"#] {
        let caller = Caller { capabilities: Capabilities::from_json(capabilities), ..able("a") };
        let params = json!({ "name": "at_once", "arguments": {}, "task": { "ttl": 60_000 } });
        let call = process.served.clone();
        let call = tokio::spawn(async move { ask(&call, &caller, "tools/call", params).await });
        process.begun().await.finish(done());
        assert_eq!(call.await.unwrap(), Ok(done()));
    }
}

// shows: TSK-61
#[tokio::test]
async fn tsk_61_a_task_member_means_nothing_in_this_era() {
    let mut process = Bench::new().start();
    let params = json!({ "name": "never", "arguments": {}, "task": { "ttl": "x" } });
    let served = process.served.clone();
    let call = tokio::spawn(async move { ask(&served, &able("a"), "tools/call", params).await });
    process.begun().await.finish(done());
    assert_eq!(call.await.unwrap(), Ok(done()));
}

#[tokio::test]
async fn tsk_06_a_tool_that_is_always_a_task_is_refused_to_who_cannot_take_one() {
    let mut process = Bench::new().start();
    let caller = Caller { capabilities: Capabilities::default(), ..able("a") };
    let refused = process.call(&caller, "only").await.unwrap_err();
    assert_eq!(refused["code"], -32021);
    assert_eq!(
        refused["data"]["requiredCapabilities"],
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
    );
    assert!(process.is_idle(), "nothing ran");
    process.create(&able("a"), "only").await;
}

// shows: TSK-13, G14
#[tokio::test]
async fn tsk_13_when_the_work_begins_every_process_finds_the_task() {
    let bench = Bench::new();
    let (mut ours, theirs) = (bench.start(), bench.start());
    let served = ours.served.clone();
    let params = json!({ "name": "at_once", "arguments": {} });
    let call = tokio::spawn(async move { ask(&served, &able("a"), "tools/call", params).await });
    let begun = ours.begun().await;
    let id = call.await.unwrap().unwrap()["taskId"].as_str().unwrap().to_owned();
    assert_eq!(theirs.get(&able("a"), &id).await["status"], "working");
    begun.finish(done());
    let task = theirs.until(&able("a"), &id, "completed").await;
    assert_eq!(task["result"], done());
}

// shows: TSK-16, TSK-25, TSK-26, TSK-27, TSK-28
// shows: TSK-07
#[tokio::test]
async fn tsk_27_the_outcome_is_what_the_call_would_have_been_answered_with() {
    let mut process = Bench::new().start();
    let caller = able("a");
    let own =
        json!({ "resultType": "complete", "isError": true, "content": [], "n": 1.0, "x": { "y": null } });
    let id = process.create(&caller, "at_once").await;
    process.begun().await.finish(own.clone());
    let task = process.until(&caller, &id, "completed").await;
    assert_eq!(
        (&task["result"], &task["resultType"]),
        (&own, &json!("complete")),
        "TSK-25: isError is completed"
    );

    let id = process.create(&caller, "at_once").await;
    process.begun().await.fail(-32000, "the renderer crashed");
    let task = process.until(&caller, &id, "failed").await;
    assert_eq!(task["error"], json!({ "code": -32000, "message": "the renderer crashed" }));
    assert_eq!(task["statusMessage"], "the renderer crashed");
    assert!(task.get("result").is_none());
}

#[tokio::test]
async fn g1_a_handler_that_panics_fails_its_task_and_says_what_is_known() {
    let mut process = Bench::new().start();
    for (tool, outcome) in [("write", "unknown"), ("at_once", "not_executed")] {
        let id = process.create(&able("a"), tool).await;
        process.begun().await.panic();
        let task = process.until(&able("a"), &id, "failed").await;
        assert_eq!(task["error"]["data"]["steadfast/error"]["outcome"], outcome, "{tool}");
    }
}

// shows: TSK-38, TSK-42, TSK-43
#[tokio::test]
async fn d_09_a_cancel_acknowledges_an_intent_and_the_worker_that_sees_it_ends_the_task() {
    let mut process = Bench::new().start();
    let caller = able("a");
    let cancel = async |process: &Process, id: &str| {
        let acknowledged = process.ask(&caller, "tasks/cancel", json!({ "taskId": id })).await.unwrap();
        assert_eq!(acknowledged, json!({ "resultType": "complete" }), "TSK-38");
    };
    // A worker that looks.
    let id = process.create(&caller, "at_once").await;
    let _begun = process.begun().await;
    cancel(&process, &id).await;
    let task = process.until(&caller, &id, "cancelled").await;
    assert!(task.get("result").is_none() && task.get("error").is_none());
    cancel(&process, &id).await;
    assert_eq!(process.get(&caller, &id).await, task, "TSK-43: idempotent");

    // One that does not, and is done before it would.
    let id = process.create(&caller, "stubborn").await;
    let begun = process.begun().await;
    cancel(&process, &id).await;
    begun.worker.context().cancelled().cancelled().await;
    let task = process.get(&caller, &id).await;
    assert_eq!(task["status"], "working", "acknowledged is not cancelled");
    assert_eq!(task["statusMessage"], "a cancel was asked for and the worker has not seen it yet");
    begun.finish(done());
    assert_eq!(process.until(&caller, &id, "completed").await["result"], done());
}

// shows: TSK-17, TSK-33, TSK-34, TSK-36, TSK-37, TSK-39, AMB-21
#[tokio::test]
async fn tsk_37_questions_are_answered_key_by_key_and_gone_once_acknowledged() {
    let mut process = Bench::new().start();
    let caller = able("a");
    let id = process.create(&caller, "at_once").await;
    let begun = process.begun().await;
    let worker = begun.worker.clone();
    let asking = tokio::spawn(async move { worker.ask(questions(["approve", "audience"])).await });
    let task = process.until(&caller, &id, "input_required").await;
    assert_eq!(
        task["inputRequests"],
        json!({
            "approve": { "method": "elicitation/create", "params": { "message": "approve" } },
            "audience": { "method": "elicitation/create", "params": { "message": "audience" } },
        })
    );
    let update = async |answers: Value| {
        let params = json!({ "taskId": id, "inputResponses": answers });
        let acknowledged = process.ask(&caller, "tasks/update", params).await.unwrap();
        assert_eq!(acknowledged, json!({ "resultType": "complete" }));
        process.get(&caller, &id).await
    };
    let yes = json!({ "action": "accept", "content": { "yes": true } });
    let task = update(json!({ "approve": yes, "never asked": yes })).await;
    assert_eq!(names(&task["inputRequests"]), ["audience"], "AMB-21: gone with the acknowledgment");
    let task = update(json!({ "approve": { "action": "decline" } })).await;
    assert_eq!(names(&task["inputRequests"]), ["audience"], "TSK-36: ignored");
    let task = update(json!({ "audience": { "action": "cancel" } })).await;
    assert_eq!(task["status"], "working");
    let answers = asking.await.unwrap().unwrap();
    let answer = |key: &str| serde_json::from_str::<Value>(&answers[key]).unwrap();
    assert_eq!((answer("approve"), answer("audience")), (yes, json!({ "action": "cancel" })));

    let again = begun.worker.ask(questions(["approve"])).await;
    assert_eq!(again, Err(AskError::KeyReused("approve".into())), "TSK-34");
    begun.finish(done());
    process.until(&caller, &id, "completed").await;
    let params = json!({ "taskId": id, "inputResponses": { "approve": {} } });
    assert_eq!(process.ask(&caller, "tasks/update", params).await, Ok(json!({ "resultType": "complete" })));
}

#[tokio::test]
async fn amb_20_what_may_be_asked_is_what_the_call_declared() {
    let mut process = Bench::new().start();
    process.create(&able("a"), "at_once").await;
    let begun = process.begun().await;
    let sampling = Question { method: "sampling/createMessage".into(), params: "{}".into() };
    let refused = begun.worker.ask([("x".to_owned(), sampling)].into()).await;
    assert_eq!(refused, Err(AskError::NotDeclared("sampling/createMessage".into())));
    let url = Question { method: "elicitation/create".into(), params: r#"{"mode":"url"}"#.into() };
    let refused = begun.worker.ask([("y".to_owned(), url)].into()).await;
    assert_eq!(refused, Err(AskError::NotDeclared("elicitation/create".into())));
}

#[tokio::test]
async fn d_09_a_cancel_ends_a_question_that_nobody_answered() {
    let mut process = Bench::new().start();
    let caller = able("a");
    let id = process.create(&caller, "stubborn").await;
    let begun = process.begun().await;
    let worker = begun.worker.clone();
    let asking = tokio::spawn(async move { worker.ask(questions(["a"])).await });
    process.until(&caller, &id, "input_required").await;
    process.ask(&caller, "tasks/cancel", json!({ "taskId": id })).await.unwrap();
    assert_eq!(asking.await.unwrap(), Err(AskError::Ended));
    assert_eq!(process.get(&caller, &id).await["status"], "input_required", "until the worker ends it");
    begun.finish(done());
}

// shows: TSK-46, TSK-47, TSK-50, TSK-51, TSK-52
#[tokio::test]
async fn tsk_52_somebody_elses_task_is_as_unknown_as_one_that_never_was() {
    let mut process = Bench::new().start();
    let id = process.create(&able("a"), "at_once").await;
    let other_tenant = Caller {
        principal: steadfast::core::task::TaskOwner { tenant: "u".into(), principal: "a".into() },
        ..able("a")
    };
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = |id: &str| json!({ "taskId": id, "inputResponses": {} });
        let unknown = process.ask(&able("a"), method, params("tk_0")).await.unwrap_err();
        assert_eq!(unknown["code"], -32602, "{method}");
        for thief in [able("b"), other_tenant.clone()] {
            assert_eq!(process.ask(&thief, method, params(&id)).await, Err(unknown.clone()), "{method}");
        }
        let missing = process.ask(&able("a"), method, json!({ "inputResponses": {} })).await.unwrap_err();
        assert_eq!(missing["code"], -32602, "{method} without an id");
    }
    let shapeless = process.ask(&able("a"), "tasks/update", json!({ "taskId": id })).await.unwrap_err();
    assert_eq!(shapeless["code"], -32602);
    let task = process.get(&able("a"), &id).await;
    assert_eq!(
        (&task["status"], task.get("statusMessage")),
        (&json!("working"), None),
        "nobody cancelled it"
    );
    process.begun().await.finish(done());
}

// shows: TSK-48, TSK-60, TSK-63
#[tokio::test]
async fn tsk_48_task_methods_are_refused_to_who_does_not_declare_the_extension() {
    let process = Bench::new().start();
    let mut peer = Peer::connect(&process);
    for (method, declared, code) in [
        ("tasks/get", json!({}), -32021),
        ("tasks/update", json!({ "tasks": {} }), -32021),
        ("tasks/cancel", json!({}), -32021),
        ("tasks/get", serde_json::from_str(crate::harness::ABLE).unwrap(), -32602),
        ("tasks/result", serde_json::from_str(crate::harness::ABLE).unwrap(), -32601),
        ("tasks/list", serde_json::from_str(crate::harness::ABLE).unwrap(), -32601),
    ] {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": declared,
        });
        let params = json!({ "taskId": "tk_0", "inputResponses": {}, "_meta": meta });
        peer.send(json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).await;
        assert_eq!(peer.next().await["error"]["code"], code, "{method}");
    }
}

// shows: TSK-49, ruling 11
#[tokio::test]
async fn tsk_49_a_store_that_fails_is_internal_trouble_and_begins_no_work() {
    let bench = Bench::new();
    let mut process = bench.start();
    let id = process.create(&able("a"), "at_once").await;
    let _begun = process.begun().await;
    bench.break_store();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({ "taskId": id, "inputResponses": {} });
        let trouble = process.ask(&able("a"), method, params).await.unwrap_err();
        assert_eq!(trouble["code"], -32603, "{method}");
    }
    let refused = process.call(&able("a"), "at_once").await.unwrap();
    let error = &refused["_meta"]["steadfast/error"];
    assert_eq!((&error["category"], &error["outcome"]), (&json!("store"), &json!("not_executed")));
    assert!(process.is_idle(), "what cannot be stored is not begun");
}

// shows: TSK-54, TSK-55, TSK-56, SUB-06
#[tokio::test]
async fn tsk_54_a_listener_hears_of_its_own_tasks_and_each_time_the_whole_of_it() {
    let mut process = Bench::new().start();
    let mut peer = Peer::connect(&process);
    peer.ask("call", "tools/call", json!({ "name": "at_once", "arguments": {} })).await;
    let id = peer.next().await["result"]["taskId"].as_str().unwrap().to_owned();
    let theirs = process.create(&able("b"), "at_once").await;
    peer.ask(
        "sub-7",
        "subscriptions/listen",
        json!({ "notifications": { "taskIds": [id, theirs, "tk_0"] } }),
    )
    .await;
    let acknowledged = peer.next().await;
    assert_eq!(acknowledged["params"]["notifications"], json!({ "taskIds": [id] }));
    process.begun().await.finish(done());
    loop {
        let notice = peer.next().await;
        assert_eq!(notice["method"], "notifications/tasks");
        let params = &notice["params"];
        assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub-7");
        assert_eq!(params["taskId"], json!(id));
        assert!(params.get("resultType").is_none());
        if params["status"] == "completed" {
            assert_eq!(params["result"], done());
            break;
        }
        assert_eq!(params["status"], "working");
    }
}

#[tokio::test]
async fn tsk_59_a_task_sends_no_progress_and_no_log() {
    let mut process = Bench::new().start();
    let mut peer = Peer::connect(&process);
    let meta = json!({ "progressToken": 7, "io.modelcontextprotocol/logLevel": "debug" });
    peer.ask("call", "tools/call", json!({ "name": "at_once", "arguments": {}, "_meta": meta })).await;
    let begun = process.begun().await;
    let context = begun.worker.context().clone();
    context.progress(steadfast::core::exchange::Progress::of(1.0).unwrap());
    context.log(steadfast::server::Level::Error, None, &json!("x"));
    let created = peer.next().await;
    assert_eq!(created["result"]["resultType"], "task");
    context.progress(steadfast::core::exchange::Progress::of(2.0).unwrap());
    context.log(steadfast::server::Level::Error, None, &json!("y"));
    peer.ask("get", "tasks/get", json!({ "taskId": created["result"]["taskId"] })).await;
    assert_eq!(peer.next().await["id"], "get", "nothing came before it");
    begun.finish(done());
}

// shows: CAN-20
#[tokio::test]
async fn can_20_a_call_that_was_cancelled_before_its_handle_left_leaves_no_working_task() {
    let mut process = Bench::new().start();
    let caller = able("a");
    let (context, cancelled) = exchange(&caller);
    cancelled.cancel();
    let created = process.ask_in(&context, "tools/call", json!({ "name": "at_once" })).await.unwrap();
    let id = created["taskId"].as_str().unwrap();
    process.until(&caller, id, "cancelled").await;
    let _ = process.begun().await;

    // After delivery the exchange is over, and its way to cancel with it.
    let mut peer = Peer::connect(&process);
    peer.ask("call", "tools/call", json!({ "name": "at_once", "arguments": {} })).await;
    let id = peer.next().await["result"]["taskId"].clone();
    let begun = process.begun().await;
    let notice = json!({ "requestId": "call" });
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": notice })).await;
    peer.ask("get", "tasks/get", json!({ "taskId": id })).await;
    assert_eq!(peer.next().await["result"]["status"], "working");
    assert!(!begun.worker.context().cancelled().is_cancelled());
    begun.finish(done());
}

// shows: G14, F106
#[tokio::test]
async fn f106_a_task_outlives_the_connection_that_made_it() {
    let mut process = Bench::new().start();
    let mut peer = Peer::connect(&process);
    peer.ask("call", "tools/call", json!({ "name": "at_once", "arguments": {} })).await;
    let id = peer.next().await["result"]["taskId"].clone();
    drop(peer);
    let begun = process.begun().await;
    assert!(!begun.worker.context().cancelled().is_cancelled());
    begun.finish(done());
    let mut peer = Peer::connect(&process);
    loop {
        peer.ask("get", "tasks/get", json!({ "taskId": id })).await;
        let task = peer.next().await["result"].clone();
        if task["status"] == "completed" {
            break assert_eq!(task["result"], done());
        }
    }
}

// shows: TSK-23, TSK-24
#[tokio::test]
async fn f104_a_task_that_works_longer_than_its_ttl_fails_visibly_and_is_never_just_gone() {
    let bench = Bench::new();
    let mut process = bench.start();
    for (tool, outcome) in [("write", "unknown"), ("at_once", "not_executed")] {
        let id = process.create(&able("a"), tool).await;
        let begun = process.begun().await;
        bench.clock.wait(Duration::from_millis(59_999));
        assert_eq!(process.get(&able("a"), &id).await["status"], "working", "TSK-24");
        bench.clock.wait(Duration::from_millis(1));
        let task = process.until(&able("a"), &id, "failed").await;
        let error = &task["error"]["data"]["steadfast/error"];
        assert_eq!((&error["category"], &error["outcome"]), (&json!("task_expired"), &json!(outcome)));
        begun.worker.context().cancelled().cancelled().await;
        begun.finish(done());
    }
}

#[tokio::test]
async fn leg_117_more_open_tasks_than_may_be_are_refused_and_nothing_runs() {
    let bench = Bench::new();
    let mut process = bench.start_with(1);
    process.create(&able("a"), "at_once").await;
    process.begun().await;
    let refused = process.call(&able("a"), "at_once").await.unwrap();
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["_meta"]["steadfast/error"]["outcome"], "not_executed");
    assert!(process.is_idle());
    process.create(&able("b"), "at_once").await;
}

// shows: ruling 13
#[tokio::test]
async fn ruling_13_a_call_becomes_a_task_once_it_takes_long_and_is_a_call_before() {
    let mut process = Bench::new().start();
    let call = |process: &Process, tool: &str| {
        let (served, params) = (process.served.clone(), json!({ "name": tool }));
        tokio::spawn(async move { ask(&served, &able("a"), "tools/call", params).await })
    };
    let answered = call(&process, "later");
    process.begun().await.finish(done());
    assert_eq!(answered.await.unwrap(), Ok(done()), "in time, so no task");

    let created = call(&process, "soon").await.unwrap().unwrap();
    assert_eq!(created["resultType"], "task");
    process.begun().await.finish(done());
    let task = process.until(&able("a"), created["taskId"].as_str().unwrap(), "completed").await;
    assert_eq!(task["result"], done());
}

#[tokio::test]
async fn ruling_13_a_call_that_asks_becomes_a_task_for_it() {
    let mut process = Bench::new().start();
    let caller = able("a");
    let (served, params) = (process.served.clone(), json!({ "name": "later" }));
    let call = tokio::spawn(async move { ask(&served, &able("a"), "tools/call", params).await });
    let begun = process.begun().await;
    let worker = begun.worker.clone();
    let asking = tokio::spawn(async move { worker.ask(questions(["name"])).await });
    let created = call.await.unwrap().unwrap();
    assert_eq!(created["resultType"], "task");
    let id = created["taskId"].as_str().unwrap();
    process.until(&caller, id, "input_required").await;
    let params = json!({ "taskId": id, "inputResponses": { "name": { "action": "decline" } } });
    process.ask(&caller, "tasks/update", params).await.unwrap();
    assert_eq!(asking.await.unwrap().unwrap()["name"], r#"{"action":"decline"}"#);
    begun.finish(done());
    process.until(&caller, id, "completed").await;
}

#[tokio::test]
async fn can_05_a_call_that_is_no_task_yet_is_cancelled_as_a_call() {
    let mut process = Bench::new().start();
    let (context, cancelled) = exchange(&able("a"));
    let served = process.served.clone();
    let call = tokio::spawn(async move {
        let request =
            steadfast::server::Request { method: "tools/call".into(), params: r#"{"name":"later"}"#.into() };
        steadfast::server::Service::answer(&served, request, context).await
    });
    let begun = process.begun().await;
    cancelled.cancel();
    begun.worker.context().cancelled().cancelled().await;
    crate::harness::read(call.await.unwrap()).unwrap_err();
}

#[tokio::test]
async fn tsk_11_what_a_worker_reports_is_the_status_message() {
    let mut process = Bench::new().start();
    let caller = able("a");
    let id = process.create(&caller, "at_once").await;
    let begun = process.begun().await;
    begun.worker.report("1 of 12");
    begun.worker.report("2 of 12");
    while process.get(&caller, &id).await["statusMessage"] != "2 of 12" {
        tokio::task::yield_now().await;
    }
    begun.finish(done());
    let task = process.until(&caller, &id, "completed").await;
    assert!(task.get("statusMessage").is_none(), "G8: what it said on its way is no longer so");
}

async fn ask(
    served: &crate::harness::Served,
    caller: &Caller,
    method: &str,
    params: Value,
) -> Result<Value, Value> {
    let request = steadfast::server::Request { method: method.into(), params: params.to_string() };
    let context = steadfast::server::Context::detached(caller.clone());
    crate::harness::read(steadfast::server::Service::answer(served, request, context).await)
}
