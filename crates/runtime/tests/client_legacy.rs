//! What is said beside requests in the legacy era, by a child whose every word the test says.

#[path = "client/child.rs"]
mod child;

use std::sync::{Arc, Mutex};

use child::{Child, Time, call, config, gathering, progress, text, token_of, words};
use serde_json::json;
use steadfast::client::{Answering, CallOptions, Handler, Question};

/// A host that answers everything, and has no roots.
struct Agrees;

impl Handler for Agrees {
    fn capabilities(&self) -> String {
        r#"{"elicitation":{},"roots":{}}"#.to_owned()
    }

    fn answer<'a>(&'a self, question: Question) -> Answering<'a> {
        let answer = match question.method.as_str() {
            "roots/list" => r#"{"roots":[]}"#,
            _ => r#"{"action":"accept","content":{}}"#,
        };
        Box::pin(std::future::ready(Ok(answer.to_owned())))
    }
}

#[tokio::test]
async fn leg_80_a_question_that_belongs_to_no_request_is_refused_and_roots_are_told() {
    let child = Child::new();
    let client = child.builder(config()).handler(Arc::new(Agrees)).build();
    let ready = tokio::spawn({
        let client = client.clone();
        async move { client.discover(CallOptions::default()).await }
    });
    let mut process = child.legacy().await;
    ready.await.unwrap().unwrap();
    let form = json!({ "message": "sure?", "requestedSchema": { "type": "object", "properties": {} } });
    let ask =
        |id: &str, method: &str| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": form });
    process.say(&ask("a", "elicitation/create")).await;
    let refused = process.next().await.unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("a"), &json!(-32_602)), "{refused}");
    process.say(&json!({ "jsonrpc": "2.0", "id": "b", "method": "roots/list" })).await;
    assert_eq!(process.next().await.unwrap()["result"], json!({ "roots": [] }));

    let calling = call(&client, "ask", CallOptions::default());
    let request = process.hear_call("ask").await;
    process.say(&ask("c", "elicitation/create")).await;
    assert_eq!(process.next().await.unwrap()["result"]["action"], "accept");
    process.answer(&request, text("done")).await;
    assert_eq!(words(&calling.await.unwrap().unwrap()), "done");
}

#[tokio::test]
async fn leg_87_the_end_of_an_elicitation_that_nobody_knows_is_ignored() {
    let child = Child::new();
    let client = child.builder(config()).handler(Arc::new(Agrees)).build();
    let calling = call(&client, "ask", CallOptions::default());
    let mut process = child.legacy().await;
    let request = process.hear_call("ask").await;
    for id in [json!("never-asked"), json!(7), json!(null)] {
        let params = json!({ "elicitationId": id });
        let complete = "notifications/elicitation/complete";
        process.say(&json!({ "jsonrpc": "2.0", "method": complete, "params": params })).await;
    }
    process.hears_nothing().await;
    process.answer(&request, text("done")).await;
    assert_eq!(words(&calling.await.unwrap().unwrap()), "done", "and nothing waits for one");
}

#[tokio::test]
async fn leg_73_progress_of_a_legacy_server_is_asked_for_by_a_token_and_comes_in_order() {
    let child = Child::new();
    let client = child.builder(config()).build();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let calling = call(&client, "work", gathering(&heard));
    let mut process = child.legacy().await;
    let request = process.hear_call("work").await;
    let token = token_of(&request);
    for value in [1.0, 2.0, 2.0, 1.5, 3.0] {
        process.say(&progress(&token, value)).await;
    }
    process.answer(&request, text("done")).await;
    calling.await.unwrap().unwrap();
    assert_eq!(*heard.lock().unwrap(), [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn leg_90_a_cursor_is_of_its_session_and_a_list_begins_again_in_the_next() {
    let time = Time::stands_still();
    let child = Child::new();
    let client = child.builder(config()).build();
    let listing = tokio::spawn(async move { client.list_tools(CallOptions::default()).await });
    let mut process = child.legacy().await;
    let page = |name: &str, next: Option<&str>| json!({ "tools": [{ "name": name, "inputSchema": { "type": "object" } }], "nextCursor": next });
    let first = process.hear("tools/list").await;
    process.answer(&first, page("a", Some("of-the-first"))).await;
    let second = process.hear("tools/list").await;
    assert_eq!(second["params"]["cursor"], "of-the-first");
    drop(process);

    let mut process = child.restarted(&time).await;
    let initialize = process.hear("initialize").await;
    let facts = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "old", "version": "1" },
    });
    process.answer(&initialize, facts).await;
    process.hear("notifications/initialized").await;
    let again = process.hear("tools/list").await;
    assert_eq!(again["params"].get("cursor"), None, "{again}");
    let mut whole = page("b", None);
    whole.as_object_mut().unwrap().remove("nextCursor");
    process.answer(&again, whole).await;
    let listed = listing.await.unwrap().unwrap();
    let names: Vec<_> = listed.definitions.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["b"], "and nothing of the first session is in it");
}
