//! Calls of tools: what is checked before the handler, what it may do, and how it ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast::core::hop::Revision;
use steadfast::server::toolkit::{
    BuildError, Call, Content, Contents, Failure, Server, TaskPolicy, TaskSupport, Tool, ToolResult,
};

use crate::harness::{Disk, Headers, anybody, ask, ask_with, builder, call, legacy, modern, plain, text};

#[derive(Deserialize, JsonSchema)]
struct Order {
    #[schemars(length(min = 1))]
    sku: String,
    #[schemars(range(min = 1))]
    quantity: u32,
    #[serde(default)]
    note: Option<String>,
}

fn orders() -> Server {
    let order = |_: Call, order: Order| async move {
        let note = order.note.unwrap_or_default();
        Ok(ToolResult::text(format!("{} x {}{note}", order.quantity, order.sku)))
    };
    builder().tool(Tool::new("order", "Orders.", order)).build().unwrap()
}

#[tokio::test]
async fn amb_44_wrong_values_are_a_result_and_a_wrong_shape_is_an_error() {
    let server = orders();
    let right = call(&server, &anybody(), "order", json!({ "sku": "rope", "quantity": 2 })).await.unwrap();
    assert_eq!((text(&right), &right["isError"]), ("2 x rope", &Value::Null));

    let wrong = json!({ "sku": "", "quantity": "a secret" });
    let wrong = call(&server, &anybody(), "order", wrong).await.unwrap();
    assert_eq!(wrong["isError"], true);
    for part in ["/sku: ", "/quantity: "] {
        assert!(text(&wrong).contains(part), "{wrong}");
    }
    assert!(!text(&wrong).contains("secret"), "the value is not repeated: {wrong}");

    for params in [
        json!({}),
        json!({ "name": 1, "arguments": {} }),
        json!({ "name": "none", "arguments": {} }),
        json!({ "name": "order", "arguments": [] }),
        json!({ "name": "order", "arguments": null }),
    ] {
        assert_eq!(ask(&server, &anybody(), "tools/call", params).await.unwrap_err()["code"], -32602);
    }
    // Absent arguments are none.
    let absent = ask(&server, &anybody(), "tools/call", json!({ "name": "order" })).await.unwrap();
    assert_eq!(absent["isError"], true, "{absent}");
}

#[tokio::test]
async fn err_14_a_failure_of_the_tools_own_work_is_a_completed_call() {
    let failing = Tool::raw("fail", "", json!({ "type": "object" }), |call: Call| async move {
        match call.arguments().get("how").and_then(Value::as_str) {
            Some("failed") => Err(Failure::failed("out of rope")),
            Some("error") => Ok(ToolResult::text(std::fs::read_to_string("/nowhere/at/all")?)),
            _ => Err(Failure::protocol(-32603, "broken", Some(json!({ "part": 7 })))),
        }
    });
    let server = builder().tool(failing).build().unwrap();
    let failed = call(&server, &anybody(), "fail", json!({ "how": "failed" })).await.unwrap();
    assert_eq!((text(&failed), &failed["isError"]), ("out of rope", &json!(true)));
    assert_eq!(failed["resultType"], "complete", "ERR-22");
    let error = call(&server, &anybody(), "fail", json!({ "how": "error" })).await.unwrap();
    assert_eq!(error["isError"], true);
    let broken = call(&server, &anybody(), "fail", json!({})).await.unwrap_err();
    assert_eq!(broken, json!({ "code": -32603, "message": "broken", "data": { "part": 7 } }));
}

#[derive(Serialize, JsonSchema)]
struct Stock {
    left: u32,
}

#[tokio::test]
async fn err_19_a_result_that_is_not_what_was_published_is_not_handed_out() {
    let stock = Tool::raw("stock", "", json!({ "type": "object" }), |call: Call| async move {
        Ok(match call.arguments().get("how").and_then(Value::as_str) {
            Some("right") => ToolResult::structured(json!(Stock { left: 3 })),
            Some("wrong") => ToolResult::structured(json!({ "left": "a secret" })),
            Some("error") => ToolResult::error("the shelf is gone"),
            _ => ToolResult::text("3"),
        })
    });
    let server = builder().tool(stock.output::<Stock>()).build().unwrap();
    let how = async |how: &str| call(&server, &anybody(), "stock", json!({ "how": how })).await;
    let right = how("right").await.unwrap();
    assert_eq!(right["structuredContent"], json!({ "left": 3 }));
    assert_eq!(text(&right), r#"{"left":3}"#);
    let wrong = how("wrong").await.unwrap_err();
    assert_eq!(wrong["code"], -32603);
    assert!(!wrong.to_string().contains("secret"), "{wrong}");
    assert_eq!(how("text").await.unwrap_err()["code"], -32603, "a published result has its structure");
    assert_eq!(how("error").await.unwrap()["isError"], true, "an error has none");
}

// shows: CAP-08, CAP-05
#[tokio::test]
async fn cap_07_what_a_tool_needs_is_asked_for_before_anything_is_done() {
    let ran = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ran);
    let needy = Tool::raw("needy", "", json!({ "type": "object" }), move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(ToolResult::text("ok")) }
    });
    let server = builder().tool(needy.needs(&["sampling", "tools"])).build().unwrap();
    for capabilities in [json!({}), json!({ "sampling": {} })] {
        let refused = call(&server, &modern("a", &capabilities), "needy", json!({})).await.unwrap_err();
        assert_eq!(refused["code"], -32021);
        assert_eq!(refused["data"], json!({ "requiredCapabilities": { "sampling": { "tools": {} } } }));
    }
    let told = call(&server, &legacy(Revision::V2025_11_25), "needy", json!({})).await.unwrap();
    assert_eq!(told["isError"], true, "a legacy client has no such code: {told}");
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    let able = modern("a", &json!({ "sampling": { "tools": {} } }));
    assert_eq!(text(&call(&server, &able, "needy", json!({})).await.unwrap()), "ok");
}

#[derive(Deserialize, JsonSchema)]
struct Routed {
    region: Option<String>,
    shard: Option<i64>,
}

// shows: HDR-30, HDR-31
#[tokio::test]
async fn hdr_29_a_mirrored_argument_is_compared_before_the_call() {
    let routed = |_: Call, routed: Routed| async move {
        Ok(ToolResult::text(format!("{:?} {:?}", routed.region, routed.shard)))
    };
    let routed = Tool::new("routed", "", routed).mirror("region", "Region").mirror("shard", "Shard");
    let server = builder().tool(routed).build().unwrap();
    let with = async |arguments: Value, headers: &[(&'static str, &'static str)]| {
        let headers = Headers(headers.iter().copied().collect::<HashMap<_, _>>());
        let params = json!({ "name": "routed", "arguments": arguments });
        ask_with(&server, &anybody(), "tools/call", params, &headers).await
    };
    assert!(with(json!({}), &[]).await.is_ok());
    assert!(with(json!({ "region": "eu", "shard": 7 }), &[("Region", "eu"), ("Shard", "7.0")]).await.is_ok());
    for (arguments, headers) in [
        (json!({ "region": "eu" }), &[][..]),
        (json!({ "region": "eu" }), &[("Region", "us")]),
        (json!({}), &[("Region", "eu")]),
        (json!({ "shard": 7 }), &[("Shard", "8")]),
    ] {
        assert_eq!(with(arguments, headers).await.unwrap_err()["code"], -32020, "{headers:?}");
    }
    // Where there are no headers nothing is expected of them.
    assert!(call(&server, &anybody(), "routed", json!({ "region": "eu" })).await.is_ok());
}

// shows: F097
#[tokio::test]
async fn f097_a_pattern_that_backtracks_elsewhere_costs_nothing_here() {
    let schema = json!({ "type": "object", "properties": { "a": { "pattern": "^(a+)+$" } } });
    let tool = Tool::raw("match", "", schema, |_| async { Ok(ToolResult::text("ok")) });
    let server = builder().tool(tool).build().unwrap();
    let text = format!("{}x", "a".repeat(1 << 20));
    let refused = call(&server, &anybody(), "match", json!({ "a": text })).await.unwrap();
    assert_eq!(refused["isError"], true);
}

// shows: VAL-08
#[tokio::test]
async fn i_27_arguments_of_too_many_values_are_refused_before_they_are_read() {
    let server = builder().tool(plain("any")).build().unwrap();
    let many = json!({ "list": vec![0; 600_000] });
    let refused = call(&server, &anybody(), "any", many).await.unwrap();
    assert!(text(&refused).contains("500000 values"), "{}", text(&refused));
    let deep = (0..100).fold(json!(0), |inner, _| json!([inner]));
    let refused = call(&server, &anybody(), "any", json!({ "list": deep })).await.unwrap();
    assert!(text(&refused).contains("64 levels"), "{}", text(&refused));
    let large = json!({ "list": vec![0; 400_000] });
    assert_eq!(text(&call(&server, &anybody(), "any", large).await.unwrap()), "ok");
}

fn till(disk: &Disk) -> Server {
    let ledger = disk.ledger();
    ledger.prepare("CREATE TABLE IF NOT EXISTS till (cents INTEGER NOT NULL)").unwrap();
    let charge = |call: Call| async move {
        let cents = call.arguments()["cents"].as_i64().unwrap_or(0);
        Ok(call
            .execute("charge", move |effect| {
                effect.execute("INSERT INTO till VALUES (?1)", [cents])?;
                Ok(json!({ "total": effect.query::<i64>("SELECT sum(cents) FROM till", [])? }))
            })
            .await)
    };
    let find = |call: Call| async move {
        let key = call.arguments()["key"].as_str().unwrap_or_default().to_owned();
        let found = call.find("charge", &key).await?;
        Ok(found.map_or_else(|| ToolResult::text("nothing"), ToolResult::structured))
    };
    let object = || json!({ "type": "object" });
    builder()
        .store(ledger)
        .tool(Tool::raw("charge", "", object(), charge))
        .tool(Tool::raw("find", "", object(), find))
        .build()
        .unwrap()
}

// shows: G7, D-13, F005
#[tokio::test]
async fn g7_one_key_is_one_effect_in_every_process_and_is_found_by_its_owner() {
    let disk = Disk::new();
    let anna = modern("anna", &json!({}));
    let charge = async |server: &Server, cents: i64, meta: Value| {
        let params = json!({ "name": "charge", "arguments": { "cents": cents }, "_meta": meta });
        ask(server, &anna, "tools/call", params).await.unwrap()
    };
    let keyed = json!({ "steadfast/idempotencyKey": "k" });
    let first = {
        let server = till(&disk);
        charge(&server, 5, json!({})).await;
        charge(&server, 5, keyed.clone()).await
    };
    assert_eq!(first["structuredContent"], json!({ "total": 10 }));
    let server = till(&disk);
    let again = charge(&server, 5, keyed.clone()).await;
    assert_eq!(again["structuredContent"], json!({ "total": 10 }));
    assert_eq!(again["_meta"]["steadfast/replayed"], true);
    let other = charge(&server, 6, keyed).await;
    assert_eq!(other["_meta"]["steadfast/error"]["category"], "key_mismatch", "I-08");

    let found = call(&server, &anna, "find", json!({ "key": "k" })).await.unwrap();
    assert_eq!(found["structuredContent"], json!({ "total": 10 }));
    let foreign = call(&server, &modern("bert", &json!({})), "find", json!({ "key": "k" })).await.unwrap();
    assert_eq!(text(&foreign), "nothing", "a key is its principal's");
}

#[tokio::test]
async fn leg_89_what_an_older_revision_has_no_word_for_is_told_in_others() {
    let tool = Tool::raw("all", "", json!({ "type": "object" }), |_| async {
        let mut result = ToolResult::of([
            Content::text("a"),
            Content::image("AA==", "image/png"),
            Content::audio("AA==", "audio/wav"),
            Content::embedded(&Contents::text("x://1", "text/plain", "b")),
            Content::link("x://2", "two", Some("text/plain")),
            Content::raw(json!({ "type": "text", "text": "c", "annotations": { "priority": 1 } })),
        ]);
        result.structured = Some(json!([1, 2]));
        Ok(result)
    });
    let server = builder().tool(tool).build().unwrap();
    let types = |result: &Value| {
        let content = result["content"].as_array().unwrap();
        content.iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let newest = call(&server, &anybody(), "all", json!({})).await.unwrap();
    assert_eq!(types(&newest), ["text", "image", "audio", "resource", "resource_link", "text"]);
    assert_eq!(newest["structuredContent"], json!([1, 2]));
    assert_eq!(newest["content"][5]["annotations"]["priority"], 1, "other members pass");
    let older = call(&server, &legacy(Revision::V2025_11_25), "all", json!({})).await.unwrap();
    assert_eq!((types(&older), older.get("structuredContent")), (types(&newest), None));
    let oldest = call(&server, &legacy(Revision::V2025_03_26), "all", json!({})).await.unwrap();
    assert_eq!(types(&oldest), ["text", "image", "audio", "resource", "text", "text"]);
    assert_eq!(oldest["content"][4]["text"], "two: x://2");
}

#[tokio::test]
async fn no_debug_text_shows_arguments_or_keys() {
    let debug = Tool::raw("debug", "", json!({ "type": "object" }), |call: Call| async move {
        Ok(ToolResult::text(format!("{call:?} {:?}", call.dialogue())))
    });
    let server = builder().tool(debug).build().unwrap();
    let params = json!({ "name": "debug", "arguments": { "pin": "s3cret", "idempotencyKey": "s3cret-key" } });
    let said = ask(&server, &anybody(), "tools/call", params).await.unwrap();
    assert!(!text(&said).contains("s3cret"), "{said}");
}

// shows: F095
#[tokio::test]
async fn tsk_13_a_tool_that_makes_tasks_needs_a_place_to_keep_them() {
    let tasks = || plain("job").task(TaskPolicy { support: TaskSupport::Required, ..TaskPolicy::default() });
    assert!(matches!(builder().tool(tasks()).build(), Err(BuildError::NoStore)));
    let server = builder().changing().tool(plain("a")).build().unwrap();
    assert!(server.put_tool(tasks()).unwrap_err().to_string().contains("\"job\""));
    let disk = Disk::new();
    let server = builder().changing().store(disk.ledger()).tool(tasks()).build().unwrap();
    assert_eq!(server.put_tool(tasks().title("A job")), Ok(true));
    // Without the extension there is no task to give (TSK-06).
    let refused = call(&server, &anybody(), "job", json!({})).await.unwrap_err();
    let needed = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    assert_eq!((&refused["code"], &refused["data"]["requiredCapabilities"]), (&json!(-32021), &needed));
    let knowing = modern("anna", &needed);
    assert_eq!(call(&server, &knowing, "job", json!({})).await.unwrap()["resultType"], "task");
}

#[test]
fn tol_01_a_definition_that_breaks_a_rule_is_named_when_the_server_is_built() {
    let fault = |builder: steadfast::server::toolkit::Builder| match builder.build() {
        Err(BuildError::Definition(error)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was built"),
    };
    assert!(fault(builder().tool(plain("a")).tool(plain("a"))).contains("\"a\""));
    assert!(fault(builder().tool(plain("no spaces"))).contains("no spaces"));
    let scalar = Tool::raw("n", "", json!({ "type": "integer" }), |_| async { Ok(ToolResult::text("")) });
    assert!(fault(builder().tool(scalar)).contains("\"n\""), "VAL-10");
    let several = builder().tool(plain("b b")).tool(plain("c c"));
    assert!(fault(several).contains("b b"), "the first of several");
}
