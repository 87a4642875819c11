//! The example of docs/SERVER.md is the one that is compiled, and it does what the page says.

#[path = "../../examples/notes.rs"]
#[allow(dead_code, reason = "its main serves a process's own stdin")]
mod notes;

use serde_json::{Value, json};

use crate::harness::{Disk, ask, call, modern, text};

#[test]
fn the_page_shows_the_example_that_is_compiled() {
    let page = include_str!("../../../../docs/SERVER.md");
    let example = include_str!("../../examples/notes.rs");
    assert!(page.contains(&format!("```rust\n{example}```\n")), "copy examples/notes.rs into docs/SERVER.md");
}

#[tokio::test]
async fn the_example_keeps_what_it_promises() {
    let disk = Disk::new();
    let server = notes::server(disk.ledger()).unwrap();
    let anna = modern("anna", &json!({ "elicitation": {} }));
    for _ in 0..2 {
        let params = json!({
            "name": "add_note",
            "arguments": { "text": "buy rope" },
            "_meta": { "steadfast/idempotencyKey": "k" },
        });
        let added = ask(&server, &anna, "tools/call", params).await.unwrap();
        assert_eq!(added["structuredContent"], json!({ "id": 1, "text": "buy rope" }));
    }
    let all = ask(&server, &anna, "resources/read", json!({ "uri": "notes://all" })).await.unwrap();
    assert_eq!(all["contents"][0]["text"], "1: buy rope", "one key, one note");
    let one = ask(&server, &anna, "resources/read", json!({ "uri": "notes://1" })).await.unwrap();
    assert_eq!(one["contents"][0]["text"], "buy rope");
    assert_eq!(call(&server, &anna, "add_note", json!({ "text": "" })).await.unwrap()["isError"], true);
    let counted = call(&server, &anna, "count_words", json!({})).await.unwrap();
    assert_eq!(counted["structuredContent"], json!({ "words": 2 }));

    let delete = async |answer: Value| {
        let params = json!({ "name": "delete_note", "arguments": { "id": 1 }, "inputResponses": answer });
        ask(&server, &anna, "tools/call", params).await.unwrap()
    };
    assert_eq!(delete(json!({})).await["inputRequests"]["sure"]["params"]["message"], "Delete note 1?");
    assert_eq!(text(&delete(json!({ "sure": { "action": "decline" } })).await), "Note 1 is kept.");
    let yes = json!({ "sure": { "action": "accept", "content": { "sure": true } } });
    assert_eq!(delete(yes).await["structuredContent"], json!({ "deleted": 1 }));
}
