//! The reviewer refuses what it must, and nothing else (D-23).

use serde_json::{Value, json};
use steadfast_core::review::{Operation, Review, review};

fn judge(changes: Value) -> Review {
    let mut operation = json!({
        "name": "reserve", "transport": "http", "era": "modern", "effect": "write", "idempotency": "upstream",
        "key": "/key", "boundary": "upstream_key", "remote_effect": true, "ledger": "durable", "results": "fresh",
        "idle_timeout_ms": 1000, "max_timeout_ms": 5000, "retry": "classified",
        "queue": { "items": 8, "bytes": 4096 },
    });
    for (name, value) in changes.as_object().unwrap() {
        operation[name] = value.clone();
    }
    // Null stands for a line that nobody wrote.
    operation.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let operation: Operation = serde_json::from_value(operation).unwrap();
    review(&operation)
}

fn rules(changes: Value) -> Vec<&'static str> {
    judge(changes).refusals.iter().map(|refusal| refusal.rule).collect()
}

#[test]
fn d_23_each_refusal_rule_refuses_alone() {
    assert_eq!(rules(json!({})), [""; 0]);
    for (changes, rule) in [
        (json!({ "retry": "on_timeout" }), "retry-on-timeout"),
        (json!({ "ledger": "process_local" }), "process-local-ledger"),
        (json!({ "ledger": "none" }), "process-local-ledger"),
        (json!({ "boundary": "none" }), "effect-outside-boundary"),
        (json!({ "boundary": "local_transaction" }), "effect-outside-boundary"),
        (json!({ "boundary": "process_lock" }), "effect-outside-boundary"),
        (json!({ "boundary": "process_lock", "remote_effect": false }), "effect-outside-boundary"),
        (json!({ "boundary": "none", "remote_effect": false }), "effect-outside-boundary"),
        (json!({ "boundary": "local_transaction", "remote_effect": null }), "effect-outside-boundary"),
        (json!({ "idempotency": "gateway" }), "effect-outside-boundary"),
        (json!({ "idempotency": null }), "effect-outside-boundary"),
        (json!({ "key": null }), "effect-outside-boundary"),
        (json!({ "results": "aliased" }), "aliased-results"),
        (json!({ "results": null }), "aliased-results"),
        (json!({ "queue": null }), "queue-capacity"),
        (json!({ "queue": { "items": 1, "bytes": 10 } }), "queue-capacity"),
        (json!({ "queue": { "items": 9, "bytes": 0 } }), "queue-capacity"),
        (json!({ "idle_timeout_ms": 0 }), "limits"),
        (json!({ "max_timeout_ms": 10 }), "limits"),
        (json!({ "task": "end" }), "task-acknowledgement"),
    ] {
        let review = judge(changes.clone());
        assert!(!review.production_ready);
        assert_eq!(rules(changes.clone()), [rule], "{changes}");
    }
    for fine in [
        json!({ "boundary": "outbox" }),
        json!({ "boundary": "local_transaction", "remote_effect": false }),
        json!({ "idempotency": null, "boundary": "outbox" }),
        json!({ "effect": "read", "boundary": "none", "ledger": "none", "results": null }),
        // A write without a key claims nothing about a second attempt, and gets none.
        json!({ "key": null, "boundary": "none", "remote_effect": false, "ledger": "none", "results": null }),
        json!({ "task": "intent" }),
    ] {
        assert!(judge(fine.clone()).production_ready, "{fine}");
    }
}

#[test]
fn d_23_class_plan_and_fixtures_follow_from_the_description() {
    let of = judge(json!({ "listen": { "resources": true, "uris": ["b", "a"] } }));
    assert_eq!(of.retry_class, "conditional (upstream key)");
    assert_eq!(
        of.reconnect_plan.refetch,
        ["resources/list", "resources/templates/list", "resources/read a", "resources/read b"]
    );
    assert_eq!(of.reconnect_plan.reconcile, ["reserve"]);
    assert_eq!(of.reconnect_plan.backoff_ms, [250, 500, 1000, 2000, 4000, 8000]);
    assert_eq!(of.reconnect_plan.after_graceful_end_ms, [8_000, 300_000]);
    assert!(!of.reconnect_plan.last_event_id);
    assert_eq!(of.fixtures.len(), 13);

    let read = judge(json!({ "effect": "read", "transport": "stdio" }));
    assert_eq!((read.retry_class, read.fixtures.len()), ("safe", 5));
    assert_eq!(read.reconnect_plan.reconcile, [""; 0]);
    assert_eq!(judge(json!({ "key": null })).retry_class, "unsafe");
    assert_eq!(judge(json!({ "idempotency": null })).retry_class, "conditional (gateway key)", "ruling 15");
}

#[test]
fn d_23_the_examples_are_judged_as_their_names_say() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/operations");
    let mut judged = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let operation: Operation = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let refusals: Vec<_> = review(&operation).refusals.iter().map(|refusal| refusal.rule).collect();
        let name = path.file_stem().unwrap().to_str().unwrap();
        match name.strip_prefix("refused") {
            None => assert_eq!(refusals, [""; 0], "{name}"),
            Some("") => assert_eq!(refusals.len(), 6, "{name}: {refusals:?}"),
            Some(rule) => assert_eq!(refusals, [&rule[1..]], "{name}"),
        }
        judged += 1;
    }
    assert_eq!(judged, 8);
}

#[test]
fn d_23_a_mistyped_description_is_refused_by_a_sentence_that_names_the_place() {
    for (line, named) in [
        ("", "missing field `transport`"),
        (r#""transport":"pigeon","#, "unknown variant `pigeon`, expected `stdio` or `http`"),
        (r#""transport":"http","color":1,"#, "unknown field `color`"),
        (r#""transport":"http","queue":{"items":8},"#, "missing field `bytes`"),
        (r#""transport":"http","idempotency":"me","#, "expected one of `none`, `gateway`, `upstream`"),
    ] {
        let text = format!(
            r#"{{"name":"x",{line}"era":"modern","effect":"read","idle_timeout_ms":1,"max_timeout_ms":1}}"#
        );
        let error = serde_json::from_str::<Operation>(&text).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
