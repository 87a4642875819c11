//! Arguments that travel in headers too: what a client sends by a tool's definition, and what it does where the server
//! refuses it. The server is a bare socket.

#[path = "client/peer.rs"]
mod peer;

use peer::{Asked, Peer, quick, within};
use serde_json::{Value, json};
use steadfast::client::{CallOptions, Category, Client, Config, Error, Listed};
use steadfast::core::era::Wish;
use steadfast::core::error::Outcome;
use tokio::task::JoinHandle;

fn modern(peer: &Peer) -> Client {
    peer.client().config(Config { era: Wish::Modern, ..quick() }).build()
}

fn call(client: &Client) -> JoinHandle<Result<Value, Error>> {
    let client = client.clone();
    tokio::spawn(async move {
        let arguments = r#"{"region":"Zürich","n":7.0,"flag":false,"none":null,"in":{"s":""}}"#;
        let done = client.call_tool("ship", arguments, CallOptions::default()).await?;
        Ok(serde_json::from_slice(&done.result).unwrap())
    })
}

/// Answers a list with a tool whose arguments have these headers.
fn tools(asked: Asked, headers: &[(&str, &str, &str)]) {
    let mut properties = json!({ "in": { "type": "object" } });
    for (pointer, kind, header) in headers {
        let schema = json!({ "type": kind, "x-mcp-header": header });
        match pointer.split_once('/') {
            Some((outer, inner)) => properties[outer]["properties"][inner] = schema,
            None => properties[pointer] = schema,
        }
    }
    let ship = json!({ "name": "ship", "inputSchema": { "type": "object", "properties": properties } });
    let plain = json!({ "name": "plain", "inputSchema": { "type": "object" } });
    assert_eq!(asked.rpc(), "tools/list");
    asked.result(json!({ "tools": [ship, plain], "ttlMs": 3_600_000, "cacheScope": "private" }));
}

async fn list(client: &Client, peer: &mut Peer, headers: &[(&str, &str, &str)]) -> Listed {
    let client = client.clone();
    let listing = tokio::spawn(async move { client.list_tools(CallOptions::default()).await });
    tools(peer.next().await, headers);
    within("the list", listing).await.unwrap().unwrap()
}

/// The `Mcp-Param-*` headers of a call.
fn said(asked: &Asked) -> String {
    assert_eq!(asked.rpc(), "tools/call");
    let names = ["region", "n", "flag", "none", "inner"];
    let header = |name: &&str| Some(format!("{name}={}", asked.header(&format!("mcp-param-{name}"))?));
    names.iter().filter_map(header).collect::<Vec<_>>().join(" ")
}

fn refuse(asked: Asked) {
    asked.error(400, -32_020);
}

const REGION: (&str, &str, &str) = ("region", "string", "Region");

// shows: HDR-26, HDR-27, HDR-28, HDR-33, HDR-05, HDR-41
#[tokio::test]
async fn hdr_19_marked_arguments_travel_in_headers_by_the_newest_definition() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    let calling = call(&client);
    let asked = peer.next().await;
    assert_eq!(said(&asked), "", "nothing is known of the tool yet");
    asked.result(json!({ "content": [] }));
    calling.await.unwrap().unwrap();

    let marks = [REGION, ("n", "integer", "N"), ("flag", "boolean", "Flag"), ("none", "string", "None")];
    list(&client, &mut peer, &[&marks[..3], &[("in/s", "string", "Inner")]].concat()).await;
    let calling = call(&client);
    let asked = peer.next().await;
    assert_eq!(said(&asked), "region==?base64?WsO8cmljaA==?= n=7 flag=false inner=");
    assert_eq!(asked.header("mcp-name"), Some("ship"));
    asked.result(json!({ "content": [] }));
    calling.await.unwrap().unwrap();
}

// shows: HDR-23
#[tokio::test]
async fn hdr_24_a_tool_with_an_annotation_that_cannot_be_is_left_out_with_its_name_and_the_reason() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    let listed = list(&client, &mut peer, &[("n", "number", "N")]).await;
    let names: Vec<&str> = listed.definitions.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["plain"]);
    assert_eq!(listed.left_out[0].name, "ship");
    assert!(listed.left_out[0].reason.contains("x-mcp-header"), "{}", listed.left_out[0].reason);
}

// shows: HDR-41, RTY-14
#[tokio::test]
async fn hdr_32_refused_headers_are_made_anew_by_a_new_list_and_the_call_repeated_once() {
    let mut peer = Peer::start().await;
    let client = modern(&peer);
    let calling = call(&client);
    let first = peer.next().await;
    let first_id = first.body["id"].clone();
    assert_eq!(said(&first), "");
    refuse(first);
    tools(peer.next().await, &[REGION]);
    let again = peer.next().await;
    assert_eq!(said(&again), "region==?base64?WsO8cmljaA==?=");
    assert_ne!(again.body["id"], first_id, "an attempt has an id of its own");
    again.result(json!({ "content": [] }));
    calling.await.unwrap().unwrap();

    // It changed once more, and then the server refuses whatever comes: nothing was executed, and that is the end.
    let calling = call(&client);
    refuse(peer.next().await);
    tools(peer.next().await, &[REGION, ("flag", "boolean", "Flag")]);
    let again = peer.next().await;
    assert_eq!(said(&again), "region==?base64?WsO8cmljaA==?= flag=false");
    refuse(again);
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Protocol { code: -32_020, .. }), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotExecuted);
    let records = client.records(error.call_id());
    assert_eq!(records.iter().map(|record| record.attempt).collect::<Vec<_>>(), [1, 2]);
    assert!(records.iter().all(|record| record.headers_equal == Some(false)));

    // Headers that come out the same are not tried again.
    let calling = call(&client);
    refuse(peer.next().await);
    tools(peer.next().await, &[REGION, ("flag", "boolean", "Flag")]);
    calling.await.unwrap().unwrap_err();
    assert!(peer.is_undisturbed());
}

#[tokio::test]
async fn hdr_32_the_list_that_mends_a_call_waits_for_no_slot() {
    let mut peer = Peer::start().await;
    let client = peer.client().config(Config { era: Wish::Modern, concurrency: 1, ..quick() }).build();
    let calling = call(&client);
    refuse(peer.next().await);
    tools(peer.next().await, &[REGION]);
    peer.next().await.result(json!({ "content": [] }));
    calling.await.unwrap().unwrap();
}

// shows: CCH-14, CCH-28
#[tokio::test]
async fn f089_a_right_that_is_gone_takes_what_it_showed() {
    let mut peer = Peer::start().await;
    let mut config = Config { era: Wish::Modern, ..quick() };
    config.catalog.ttl = std::time::Duration::ZERO;
    let client = peer.client().config(config).build();
    list(&client, &mut peer, &[]).await;
    // What may be passing is tried a few times, until the breaker says that it is not.
    for (status, attempts, serves) in [(503, 3, true), (403, 1, false), (503, 2, false)] {
        let asking = client.clone();
        let listing = tokio::spawn(async move { asking.list_tools(CallOptions::default()).await });
        for _ in 0..attempts {
            peer.next().await.status(status);
        }
        match within("the list", listing).await.unwrap() {
            Ok(listed) => assert!(serves && listed.stale, "{status}"),
            Err(error) => {
                assert!(!serves, "{status}: {error:?}");
                if status == 403 {
                    assert!(
                        matches!(error, Error::Transport { category: Category::Authorization, .. }),
                        "{error:?}"
                    );
                }
            }
        }
    }
}
