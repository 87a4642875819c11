//! What a server says of itself, and its lists.

use serde_json::{Value, json};
use steadfast::core::hop::Revision;
use steadfast::core::subscription::{Change, Filter};
use steadfast::server::toolkit::{
    Builder, Content, Contents, Message, Prompt, Resource, Server, Template, Tool, ToolResult,
};
use steadfast::server::{Caller, Heard};

use crate::harness::{anybody, ask, builder, call, heard, legacy, listen, modern, plain};

fn note(uri: &'static str) -> Resource {
    Resource::new(uri, "note", "A note.", "text/plain", move |_| async move {
        Ok(vec![Contents::text(uri, "text/plain", "noted")])
    })
}

fn greeting() -> Prompt {
    let get = |_, arguments: std::collections::BTreeMap<String, String>| async move {
        Ok(vec![Message::user(&Content::text(format!("Greet {}.", arguments["whom"])))])
    };
    let many = |_: &str, typed: &str| (0..250).map(|n| format!("{typed}{n}")).collect();
    Prompt::new("greeting", "Greets.", get).required("whom", "Whom.").completes(many)
}

fn numbered() -> Template {
    Template::new("x://{id}/data", "data", "Data.", "text/plain", |_, uri, named| async move {
        let found = (named["id"] != "0").then(|| Contents::text(&uri, "text/plain", named["id"].clone()));
        Ok(found.into_iter().collect())
    })
}

fn full(builder: Builder) -> Server {
    builder
        .instructions("Be kind.")
        .tool(plain("a"))
        .resource(note("x://a"))
        .template(numbered())
        .prompt(greeting())
        .logs()
        .build()
        .unwrap()
}

/// The six methods whose results may be cached.
const CACHEABLE: [(&str, &str); 6] = [
    ("server/discover", "{}"),
    ("tools/list", "{}"),
    ("prompts/list", "{}"),
    ("resources/list", "{}"),
    ("resources/templates/list", "{}"),
    ("resources/read", r#"{"uri":"x://a"}"#),
];

// shows: CCH-02, CCH-03, MSG-13, CAP-09, DSC-03, DSC-04, CAP-22
#[tokio::test]
async fn cch_01_what_may_be_cached_says_for_how_long_and_for_whom() {
    let server = full(builder());
    for (method, params) in CACHEABLE {
        let result = ask(&server, &anybody(), method, serde_json::from_str(params).unwrap()).await.unwrap();
        assert!(result["ttlMs"].is_u64(), "{method}: {result}");
        assert!(["public", "private"].contains(&result["cacheScope"].as_str().unwrap()), "{method}");
        assert_eq!(result["resultType"], "complete", "{method}");
        let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(*info, json!({ "name": "bench", "version": "1.0" }), "{method}");
    }
    let discovered = ask(&server, &anybody(), "server/discover", json!({})).await.unwrap();
    let versions = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]);
    assert_eq!(discovered["supportedVersions"], versions, "AMB-16");
    assert_eq!(discovered["instructions"], "Be kind.");
    assert_eq!(discovered.get("serverInfo"), None);
}

#[tokio::test]
async fn leg_15_a_legacy_caller_sees_nothing_that_its_revision_does_not_have() {
    let server = full(builder());
    for revision in [Revision::V2025_11_25, Revision::V2025_06_18, Revision::V2025_03_26] {
        let caller = legacy(revision);
        let mut asked: Vec<(&str, Value)> = CACHEABLE[1..]
            .iter()
            .map(|(method, params)| (*method, serde_json::from_str(params).unwrap()))
            .collect();
        asked.push(("initialize", json!({})));
        asked.push(("tools/call", json!({ "name": "a" })));
        asked.push(("prompts/get", json!({ "name": "greeting", "arguments": { "whom": "Anna" } })));
        for (method, params) in asked {
            let result = ask(&server, &caller, method, params).await.unwrap();
            for modern in ["resultType", "ttlMs", "cacheScope", "_meta"] {
                assert_eq!(result.get(modern), None, "{method} in {}: {result}", revision.as_str());
            }
        }
        let begun = ask(&server, &caller, "initialize", json!({})).await.unwrap();
        assert_eq!(begun["protocolVersion"], revision.as_str(), "LEG-02");
        assert_eq!(begun["serverInfo"]["name"], "bench");
        assert_eq!(begun["instructions"], "Be kind.");
        assert_eq!(begun["capabilities"].get("extensions"), None);
    }
}

// shows: CAP-14, CAP-15, CAP-21, SUB-29
#[tokio::test]
async fn dsc_08_what_is_declared_answers_and_what_is_not_does_not() {
    let methods: [(&str, &[&str]); 4] = [
        ("tools", &["tools/list", "tools/call"]),
        ("resources", &["resources/list", "resources/templates/list", "resources/read"]),
        ("prompts", &["prompts/list", "prompts/get"]),
        ("completions", &["completion/complete"]),
    ];
    let servers = [
        builder().build().unwrap(),
        builder().tool(plain("a")).build().unwrap(),
        builder().resource(note("x://a")).build().unwrap(),
        builder().template(numbered()).build().unwrap(),
        builder().prompt(greeting()).build().unwrap(),
        full(builder()),
        builder().changing().build().unwrap(),
    ];
    for server in &servers {
        for (method, caller) in
            [("server/discover", anybody()), ("initialize", legacy(Revision::V2025_11_25))]
        {
            let declared = ask(server, &caller, method, json!({})).await.unwrap()["capabilities"].clone();
            for (capability, methods) in methods {
                for method in methods {
                    let code = ask(server, &caller, method, json!({}))
                        .await
                        .err()
                        .map(|error| error["code"].clone());
                    let exists = code != Some(json!(-32601));
                    assert_eq!(exists, declared.get(capability).is_some(), "{method}: {declared}");
                }
            }
        }
    }
    let declared = |server: &Server, caller: Caller, method: &'static str| {
        let server = server.clone();
        async move { ask(&server, &caller, method, json!({})).await.unwrap()["capabilities"].clone() }
    };
    let still = declared(&full(builder()), anybody(), "server/discover").await;
    assert_eq!(still["tools"], json!({}), "a set that stays");
    assert_eq!(still["resources"], json!({ "subscribe": true }));
    let moving = declared(&full(builder().changing()), anybody(), "server/discover").await;
    assert_eq!(moving["tools"], json!({ "listChanged": true }));
    assert_eq!(moving["prompts"], json!({ "listChanged": true }));
}

#[tokio::test]
async fn cap_15_each_era_has_its_own_methods() {
    let server = full(builder());
    let code = async |caller: &Caller, method: &str| {
        ask(&server, caller, method, json!({})).await.err().map(|error| error["code"].clone())
    };
    for method in
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "no"]
    {
        assert_eq!(code(&anybody(), method).await, Some(json!(-32601)), "{method}");
    }
    let older = legacy(Revision::V2025_11_25);
    for method in ["server/discover", "subscriptions/listen", "tasks/get"] {
        assert_eq!(code(&older, method).await, Some(json!(-32601)), "{method}");
    }
}

// shows: PAG-05, STA-08, CCH-04, ERR-18
#[tokio::test]
async fn pag_05_pages_follow_one_another_in_the_order_of_definition() {
    let names: Vec<String> = (0..7).map(|n| format!("tool-{}", 9 - n)).collect();
    let server =
        names.iter().fold(builder().page_size(3), |builder, name| builder.tool(plain(name))).build().unwrap();
    let (mut listed, mut cursor, mut scopes) = (Vec::new(), Value::Null, Vec::new());
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = ask(&server, &anybody(), "tools/list", params).await.unwrap();
        let tools = page["tools"].as_array().unwrap();
        listed.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        scopes.push(page["cacheScope"].clone());
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    assert_eq!(listed, names);
    assert_eq!(scopes, vec![json!("public"); 3]);
    for bad in [json!(""), json!("x"), json!(7)] {
        let refused = ask(&server, &anybody(), "tools/list", json!({ "cursor": bad })).await.unwrap_err();
        assert_eq!(refused["code"], -32602, "{bad}");
    }
    // One of the first page stays good in a process that was built alike.
    assert!(ask(&server, &anybody(), "tools/list", json!({ "cursor": cursor })).await.is_ok());
}

// shows: ERR-12, LEG-88
#[tokio::test]
async fn err_11_a_missing_resource_is_an_error_that_names_it() {
    let server = full(builder());
    for uri in ["x://none", "x://0/data", "y://a"] {
        let missing = ask(&server, &anybody(), "resources/read", json!({ "uri": uri })).await.unwrap_err();
        assert_eq!((&missing["code"], &missing["data"]["uri"]), (&json!(-32602), &json!(uri)));
        let older = legacy(Revision::V2025_11_25);
        let missing = ask(&server, &older, "resources/read", json!({ "uri": uri })).await.unwrap_err();
        assert_eq!(missing["code"], -32002);
    }
    assert_eq!(ask(&server, &anybody(), "resources/read", json!({})).await.unwrap_err()["code"], -32602);
    let found = ask(&server, &anybody(), "resources/read", json!({ "uri": "x://a%20b/data" })).await.unwrap();
    assert_eq!(
        found["contents"],
        json!([{ "uri": "x://a%20b/data", "mimeType": "text/plain", "text": "a b" }])
    );
    assert_eq!(found["cacheScope"], "private");
}

// shows: TOL-05
#[tokio::test]
async fn err_17_prompts_and_completions_name_what_is_missing() {
    let server = full(builder());
    for params in [
        json!({}),
        json!({ "name": "none" }),
        json!({ "name": "greeting" }),
        json!({ "name": "greeting", "arguments": { "whom": 1 } }),
    ] {
        assert_eq!(ask(&server, &anybody(), "prompts/get", params).await.unwrap_err()["code"], -32602);
    }
    let params = json!({ "name": "greeting", "arguments": { "whom": "Anna" } });
    let got = ask(&server, &anybody(), "prompts/get", params).await.unwrap();
    assert_eq!(got["messages"][0]["content"]["text"], "Greet Anna.");

    let complete = async |to: Value, name: &str| {
        let params = json!({ "ref": to, "argument": { "name": name, "value": "x" } });
        ask(&server, &anybody(), "completion/complete", params).await
    };
    let prompt = json!({ "type": "ref/prompt", "name": "greeting" });
    let completed = complete(prompt.clone(), "whom").await.unwrap()["completion"].clone();
    assert_eq!(completed["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completed["total"], &completed["hasMore"]), (&json!(250), &json!(true)));
    let template = json!({ "type": "ref/resource", "uri": "x://{id}/data" });
    assert_eq!(complete(template, "id").await.unwrap()["completion"]["values"], json!([]));
    assert_eq!(complete(prompt, "nobody").await.unwrap_err()["code"], -32602);
    assert_eq!(
        complete(json!({ "type": "ref/prompt", "name": "none" }), "a").await.unwrap_err()["code"],
        -32602
    );
    assert_eq!(complete(json!({ "type": "ref/other" }), "a").await.unwrap_err()["code"], -32602);
}

// shows: F088, CCH-27, STA-07
#[tokio::test]
async fn f089_what_a_caller_may_use_is_decided_with_each_request() {
    let secret = plain("secret").only_for(|caller| caller.principal.principal == "anna");
    let private = note("x://private").only_for(|caller| caller.principal.principal == "anna");
    let server = builder().changing().tool(plain("open")).tool(secret).resource(private).build().unwrap();
    let (anna, bert) = (modern("anna", &json!({})), modern("bert", &json!({})));
    let names = async |caller: &Caller| {
        let list = ask(&server, caller, "tools/list", json!({})).await.unwrap();
        assert_eq!(list["cacheScope"], "private");
        list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&anna).await, names(&bert).await),
        (vec![json!("open"), json!("secret")], vec![json!("open")])
    );
    assert!(call(&server, &anna, "secret", json!({})).await.is_ok());
    assert_eq!(call(&server, &bert, "secret", json!({})).await.unwrap_err()["code"], -32602);
    let read = json!({ "uri": "x://private" });
    assert_eq!(ask(&server, &bert, "resources/read", read).await.unwrap_err()["code"], -32602);
    let wanted = Filter { uris: ["x://private".into()].into(), ..Filter::default() };
    assert_eq!(listen(&server, &bert, wanted.clone()).await.granted(), Filter::default(), "AMB-35");
    assert_eq!(listen(&server, &anna, wanted.clone()).await.granted(), wanted);

    // Between the list and the call it was taken away, or became another.
    assert!(server.remove_tool("secret"));
    assert_eq!(call(&server, &anna, "secret", json!({})).await.unwrap_err()["code"], -32602);
    let schema = json!({ "type": "object", "required": ["now"] });
    let stricter = Tool::raw("open", "", schema, |_| async { Ok(ToolResult::text("ok")) });
    assert_eq!(server.put_tool(stricter), Ok(true));
    assert_eq!(call(&server, &anna, "open", json!({})).await.unwrap()["isError"], true);
}

// shows: F091
#[tokio::test]
async fn sub_06_who_listens_hears_of_sets_that_may_change_when_they_do() {
    let everything = Filter {
        tools: true,
        prompts: true,
        resources: true,
        uris: ["x://a".into(), "x://none".into()].into(),
        ..Filter::default()
    };
    let still = full(builder());
    let granted = Filter { uris: ["x://a".into()].into(), ..Filter::default() };
    assert_eq!(listen(&still, &anybody(), everything.clone()).await.granted(), granted);

    let server = full(builder().changing());
    let listening = listen(&server, &anybody(), everything).await;
    let next = || match heard(&listening) {
        Some(Heard::Change { change, .. }) => Some(change),
        Some(Heard::Overflow) => panic!("overflow"),
        None => None,
    };
    assert_eq!(server.put_tool(plain("a")), Ok(false), "it is there already, and looks the same");
    server.put_resource(note("x://a"));
    assert!(!server.remove_tool("none"));
    assert_eq!(next(), None);
    assert_eq!(server.put_tool(plain("b")), Ok(true));
    assert_eq!(next(), Some(Change::Tools));
    server.put_prompt(Prompt::new("p", "", |_, _| async { Ok(Vec::new()) }));
    assert_eq!(next(), Some(Change::Prompts));
    assert!(server.remove_template("x://{id}/data"));
    assert_eq!(next(), Some(Change::Resources));
    server.resource_updated("x://a");
    assert_eq!(next(), Some(Change::Resource("x://a".into())));
    assert!(server.put_tool(plain("b b")).is_err());
    assert_eq!(next(), None);
}
