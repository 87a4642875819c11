//! Questions of modern calls: rounds, and the state that travels between them.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast::server::Caller;
use steadfast::server::toolkit::{
    Builder, Call, Content, Contents, Message, Prompt, Question, Resource, Server, Tool, ToolResult,
};

use crate::harness::{Disk, anybody, ask, builder, call, modern, text};

fn form(field: &str) -> Question {
    let schema =
        json!({ "type": "object", "properties": { field: { "type": "string" } }, "required": [field] });
    Question::form(format!("Your {field}?"), schema)
}

fn accept(field: &str, value: &str) -> Value {
    json!({ "action": "accept", "content": { field: value } })
}

fn object() -> Value {
    json!({ "type": "object" })
}

/// Who can be asked by a form.
fn able() -> Caller {
    modern("anna", &json!({ "elicitation": {} }))
}

/// Tools `greet` (one question), `paint` (a name, then a colour), `both` (two at once).
fn asking(builder: Builder) -> Builder {
    builder
        .tool(Tool::raw("greet", "", object(), |call: Call| async move {
            let answer = call.ask("name", form("name")).await?;
            Ok(ToolResult::text(format!("{} {}", answer["action"], answer["content"]["name"])))
        }))
        .tool(Tool::raw("paint", "", object(), |call: Call| async move {
            let name = call.ask("name", form("name")).await?;
            call.remember(
                json!({ "rounds": call.remembered().map_or(1, |it| it["rounds"].as_i64().unwrap() + 1) }),
            );
            let colour = call.ask("colour", form("colour")).await?;
            let rounds = call.remembered().map_or(&Value::Null, |it| &it["rounds"]);
            Ok(ToolResult::text(format!(
                "{} {} {rounds}",
                name["content"]["name"], colour["content"]["colour"]
            )))
        }))
        .tool(Tool::raw("both", "", object(), |call: Call| async move {
            let answers = call.ask_all([("name", form("name")), ("colour", form("colour"))]).await?;
            Ok(ToolResult::text(format!("{} answers", answers.len())))
        }))
}

fn server() -> Server {
    asking(builder()).build().unwrap()
}

/// One round of a call.
async fn round(
    server: &Server,
    caller: &Caller,
    name: &str,
    responses: Value,
    state: Option<&Value>,
) -> Result<Value, Value> {
    let mut params = json!({ "name": name, "arguments": {}, "inputResponses": responses });
    if let Some(state) = state {
        params["requestState"] = state.clone();
    }
    ask(server, caller, "tools/call", params).await
}

fn keys(result: &Value) -> Vec<&str> {
    assert_eq!(result["resultType"], "input_required", "{result}");
    result["inputRequests"].as_object().unwrap().keys().map(String::as_str).collect()
}

// shows: MRT-01, MRT-06, MRT-12, CCH-06
#[tokio::test]
async fn mrt_05_a_question_is_an_answer_and_its_answer_a_new_request() {
    let server = server();
    let asked = call(&server, &able(), "greet", json!({})).await.unwrap();
    assert_eq!(keys(&asked), ["name"]);
    let request = &asked["inputRequests"]["name"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "Your name?");
    for absent in ["jsonrpc", "id"] {
        assert_eq!(request.get(absent), None);
    }
    assert_eq!(asked.get("requestState"), None, "there is nothing to keep");
    assert_eq!(asked.get("ttlMs"), None);
    let done =
        round(&server, &able(), "greet", json!({ "name": accept("name", "Anna") }), None).await.unwrap();
    assert_eq!(text(&done), r#""accept" "Anna""#);
}

#[tokio::test]
async fn mrt_30_a_declined_and_a_cancelled_question_are_answers() {
    for action in ["decline", "cancel"] {
        let answers = json!({ "name": { "action": action } });
        let done = round(&server(), &able(), "greet", answers, None).await.unwrap();
        assert_eq!(text(&done), format!("\"{action}\" null"));
    }
}

#[tokio::test]
async fn mrt_29_what_is_missing_is_asked_again_and_what_nobody_asked_for_is_ignored() {
    let server = server();
    let again =
        round(&server, &able(), "greet", json!({ "other": accept("name", "Anna") }), None).await.unwrap();
    assert_eq!(keys(&again), ["name"]);
    let surplus = json!({ "name": accept("name", "Anna"), "other": 1 });
    assert_eq!(
        text(&round(&server, &able(), "greet", surplus, None).await.unwrap()),
        r#""accept" "Anna""#,
        "MRT-28"
    );
    // Of two that were asked together, the one that was answered is not asked again.
    let half =
        round(&server, &able(), "both", json!({ "name": accept("name", "Anna") }), None).await.unwrap();
    assert_eq!(keys(&half), ["colour"]);
    let rest = json!({ "colour": accept("colour", "red") });
    let done = round(&server, &able(), "both", rest, Some(&half["requestState"])).await.unwrap();
    assert_eq!(text(&done), "2 answers");
}

#[tokio::test]
async fn mrt_27_an_answer_that_is_none_is_refused() {
    let server = server();
    for answer in [json!(12345), json!({ "action": "accept", "content": { "name": 1 } }), Value::Null] {
        let refused = round(&server, &able(), "greet", json!({ "name": answer }), None).await.unwrap_err();
        assert_eq!(refused["code"], -32602, "{refused}");
    }
    for responses in [Value::Null, json!([]), json!("x")] {
        assert_eq!(round(&server, &able(), "greet", responses, None).await.unwrap_err()["code"], -32602);
    }
}

#[tokio::test]
async fn mrt_18_each_round_stands_on_its_own_and_the_state_carries_what_went_before() {
    let server = server();
    let first = call(&server, &able(), "paint", json!({})).await.unwrap();
    assert_eq!(keys(&first), ["name"]);
    let second =
        round(&server, &able(), "paint", json!({ "name": accept("name", "Anna") }), None).await.unwrap();
    assert_eq!(keys(&second), ["colour"]);
    // Only the answers to the latest round are sent (MRT-19).
    let colour = json!({ "colour": accept("colour", "red") });
    let done = round(&server, &able(), "paint", colour, Some(&second["requestState"])).await.unwrap();
    assert_eq!(text(&done), r#""Anna" "red" 1"#);
    // Nothing of an earlier round was kept here (MRT-33).
    let colour = json!({ "colour": accept("colour", "red") });
    assert_eq!(keys(&round(&server, &able(), "paint", colour, None).await.unwrap()), ["name"]);
}

// shows: MRT-22, MRT-23, MRT-25, MRT-39
#[tokio::test]
async fn mrt_32_a_state_that_is_not_this_calls_is_refused() {
    let server = server();
    let name = || json!({ "name": accept("name", "Anna") });
    let colour = || json!({ "colour": accept("colour", "red") });
    let state = round(&server, &able(), "paint", name(), None).await.unwrap()["requestState"].clone();
    assert!(round(&server, &able(), "paint", colour(), Some(&state)).await.is_ok());

    let tampered = json!(format!("{}-TAMPERED", state.as_str().unwrap()));
    for state in [&tampered, &json!(""), &json!(1), &Value::Null] {
        let refused = round(&server, &able(), "paint", colour(), Some(state)).await.unwrap_err();
        assert_eq!(refused["code"], -32602, "{state}");
    }
    let bert = modern("bert", &json!({ "elicitation": {} }));
    assert_eq!(round(&server, &bert, "paint", colour(), Some(&state)).await.unwrap_err()["code"], -32602);
    assert_eq!(round(&server, &able(), "both", colour(), Some(&state)).await.unwrap_err()["code"], -32602);
    let other = json!({ "name": "paint", "arguments": { "wall": 2 }, "requestState": state });
    assert_eq!(ask(&server, &able(), "tools/call", other).await.unwrap_err()["code"], -32602);
    let elsewhere = self::server();
    assert_eq!(
        round(&elsewhere, &able(), "paint", colour(), Some(&state)).await.unwrap_err()["code"],
        -32602
    );

    let at_once = asking(builder().question_timeout(Duration::ZERO)).build().unwrap();
    let state = round(&at_once, &able(), "paint", name(), None).await.unwrap()["requestState"].clone();
    let expired = round(&at_once, &able(), "paint", colour(), Some(&state)).await.unwrap_err();
    assert_eq!(expired["code"], -32602);
}

#[tokio::test]
async fn mrt_33_any_process_of_a_store_serves_any_round() {
    let disk = Disk::new();
    let process = || asking(builder().store(disk.ledger())).build().unwrap();
    let state = {
        let first = process();
        let answers = json!({ "name": accept("name", "Anna") });
        round(&first, &able(), "paint", answers, None).await.unwrap()["requestState"].clone()
    };
    let colour = json!({ "colour": accept("colour", "red") });
    let done = round(&process(), &able(), "paint", colour.clone(), Some(&state)).await.unwrap();
    assert_eq!(text(&done), r#""Anna" "red" 1"#);
    let stranger = asking(Server::builder("other", "1").store(disk.ledger())).build().unwrap();
    let foreign = round(&stranger, &able(), "paint", colour, Some(&state)).await.unwrap_err();
    assert_eq!(foreign["code"], -32602, "another server of the same file");
}

// shows: CAP-06, CAP-19
#[tokio::test]
async fn mrt_07_who_did_not_declare_it_is_not_asked() {
    let refused = call(&server(), &anybody(), "greet", json!({})).await.unwrap_err();
    assert_eq!(refused["code"], -32021);
    assert_eq!(refused["data"], json!({ "requiredCapabilities": { "elicitation": { "form": {} } } }));
    let by_page = modern("a", &json!({ "elicitation": { "url": {} } }));
    assert_eq!(call(&server(), &by_page, "greet", json!({})).await.unwrap_err()["code"], -32021);
}

#[tokio::test]
async fn mrt_02_prompts_and_resources_ask_as_tools_do() {
    let server = builder()
        .prompt(Prompt::new("story", "", |dialogue, _| async move {
            let about = dialogue.ask("about", form("subject")).await?;
            let text = format!("Tell of {}.", about["content"]["subject"]);
            Ok(vec![Message::user(&Content::text(text))])
        }))
        .resource(Resource::new("x://secret", "secret", "", "text/plain", |dialogue| async move {
            let word = dialogue.ask("word", form("word")).await?;
            Ok(vec![Contents::text("x://secret", "text/plain", word["content"]["word"].to_string())])
        }))
        .build()
        .unwrap();
    let prompt = json!({ "name": "story" });
    let asked = ask(&server, &able(), "prompts/get", prompt).await.unwrap();
    assert_eq!(keys(&asked), ["about"]);
    let prompt = json!({ "name": "story", "inputResponses": { "about": accept("subject", "rope") } });
    let told = ask(&server, &able(), "prompts/get", prompt).await.unwrap();
    assert_eq!(told["messages"][0]["content"]["text"], r#"Tell of "rope"."#);

    let asked = ask(&server, &able(), "resources/read", json!({ "uri": "x://secret" })).await.unwrap();
    assert_eq!((keys(&asked), asked.get("cacheScope")), (vec!["word"], None));
    let answered = json!({ "uri": "x://secret", "inputResponses": { "word": accept("word", "abc") } });
    let read = ask(&server, &able(), "resources/read", answered).await.unwrap();
    assert_eq!(read["contents"][0]["text"], r#""abc""#);
}
