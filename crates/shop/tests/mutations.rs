//! What `charge_account` and `reserve_inventory` promise, through the tools as a client sees them (D-15).

use std::path::Path;
use std::sync::{Arc, Barrier};

use serde_json::{Value, json};
use steadfast::core::exchange::Reply;
use steadfast::core::hop::Transport;
use steadfast::server::{Caller, Context, Request, Service};
use steadfast_shop::inventory;
use steadfast_store::{Ledger, Options};

fn open(path: &Path) -> Arc<Ledger> {
    Arc::new(Ledger::open(path, Options::default()).unwrap())
}

/// Calls a tool as the server would, and gives its result.
fn call(ledger: &Arc<Ledger>, tool: &str, arguments: &Value) -> Value {
    let service = steadfast_shop::server(Arc::clone(ledger)).unwrap();
    let params = json!({ "name": tool, "arguments": arguments }).to_string();
    let request = Request { method: "tools/call".into(), params };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    match runtime.block_on(service.answer(request, Context::detached(Caller::local(Transport::Stdio)))) {
        Reply::Result(raw) => serde_json::from_slice(&raw).unwrap(),
        Reply::Error(raw) => panic!("{}", String::from_utf8_lossy(&raw)),
    }
}

fn reserve(ledger: &Arc<Ledger>, key: Option<&str>, quantity: i64, tenant: &str) -> Value {
    let mut arguments = json!({ "sku": "anvil", "quantity": quantity, "tenant": tenant });
    if let Some(key) = key {
        arguments["idempotencyKey"] = key.into();
    }
    call(ledger, "reserve_inventory", &arguments)
}

fn stock(ledger: &Ledger) -> (i64, i64) {
    let stock = inventory::stock(ledger, "anvil").unwrap().unwrap();
    (stock.available, stock.reservations)
}

#[test]
fn d_15_a_replay_returns_the_first_reservation_and_a_changed_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("s.db"));
    let first = reserve(&ledger, Some("k"), 3, "acme");
    assert_eq!(first["structuredContent"]["reservation"], "v-000001");
    assert_eq!(first["_meta"].get("steadfast/replayed"), None);
    let again = reserve(&ledger, Some("k"), 3, "acme");
    assert_eq!(again["structuredContent"], first["structuredContent"]);
    assert_eq!(again["_meta"]["steadfast/replayed"], true);
    // The key is bound to quantity, tenant, article and operation.
    for (tool, arguments) in [
        (
            "reserve_inventory",
            json!({ "sku": "anvil", "quantity": 4, "tenant": "acme", "idempotencyKey": "k" }),
        ),
        (
            "reserve_inventory",
            json!({ "sku": "anvil", "quantity": 3, "tenant": "other", "idempotencyKey": "k" }),
        ),
        (
            "reserve_inventory",
            json!({ "sku": "rope", "quantity": 3, "tenant": "acme", "idempotencyKey": "k" }),
        ),
        ("charge_account", json!({ "account": "a", "cents": 3, "idempotencyKey": "k" })),
    ] {
        let refused = call(&ledger, tool, &arguments);
        assert_eq!(refused["isError"], true);
        assert_eq!(refused["_meta"]["steadfast/error"]["category"], "key_mismatch", "{refused}");
        assert_eq!(refused["_meta"]["steadfast/error"]["outcome"], "not_executed");
    }
    assert_eq!(stock(&ledger), (7, 1), "one reservation, and nothing of the refused ones");
}

#[test]
fn d_15_a_lost_response_is_found_by_key_also_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let ledger = open(&path);
    let lost = reserve(&ledger, Some("k"), 2, "acme");
    drop(ledger);
    let ledger = open(&path);
    let found = call(&ledger, "find_reservation", &json!({ "key": "k" }));
    assert_eq!(found["structuredContent"], lost["structuredContent"]);
    assert_eq!(call(&ledger, "find_reservation", &json!({ "key": "none" }))["isError"], true);
    assert_eq!(
        call(&ledger, "find_charge", &json!({ "key": "k" }))["isError"],
        true,
        "another operation's key"
    );
    assert_eq!(reserve(&ledger, Some("k"), 2, "acme")["_meta"]["steadfast/replayed"], true);
    assert_eq!(stock(&ledger), (8, 1));
}

#[test]
fn d_10_without_a_key_each_call_reserves_again() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("s.db"));
    reserve(&ledger, None, 2, "acme");
    reserve(&ledger, None, 2, "acme");
    assert_eq!(stock(&ledger), (6, 2));
}

#[test]
fn d_15_stock_never_goes_below_zero_and_a_refusal_frees_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("s.db"));
    let refused = reserve(&ledger, Some("k"), 11, "acme");
    assert_eq!(refused["isError"], true);
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("only 10"), "{refused}");
    assert_eq!(stock(&ledger), (10, 0));
    assert_eq!(reserve(&ledger, Some("k"), 10, "acme")["structuredContent"]["available"], 0);
    assert_eq!(reserve(&ledger, None, 1, "acme")["isError"], true);
    assert_eq!(stock(&ledger), (0, 1));
}

#[test]
fn d_15_two_connections_at_a_barrier_commit_one_reservation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let ledgers = [open(&path), open(&path)];
    let barrier = Barrier::new(2);
    let seen = std::thread::scope(|scope| {
        ledgers
            .each_ref()
            .map(|ledger| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    reserve(ledger, Some("k"), 4, "acme")
                })
            })
            .map(|racer| racer.join().unwrap())
    });
    assert_eq!(seen[0]["structuredContent"], seen[1]["structuredContent"]);
    assert_eq!(stock(&ledgers[0]), (6, 1));
}

#[test]
fn d_15_nothing_that_was_not_asked_for_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let ledger = open(&path);
    let arguments = json!({
        "sku": "anvil", "quantity": 1, "tenant": "acme", "idempotencyKey": "k", "card": "4929-1234-5678-9012",
    });
    assert_ne!(call(&ledger, "reserve_inventory", &arguments)["isError"], true);
    drop(ledger);
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(9).any(|window| window == b"4929-1234"), "the arguments are stored");
    }
}

#[test]
fn charges_are_checked_and_numbered_by_execution() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("s.db"));
    for (arguments, place) in [
        (json!({ "cents": 1 }), "\"account\" is a required property"),
        (json!({ "account": "a", "cents": 0 }), "/cents"),
        (json!({ "account": "a", "cents": -5 }), "/cents"),
        (json!({ "account": "a", "cents": 1.5 }), "/cents"),
        (json!({ "account": "a", "cents": "5" }), "/cents"),
    ] {
        let refused = call(&ledger, "charge_account", &arguments);
        assert!(refused["content"][0]["text"].as_str().unwrap().contains(place), "{refused}");
    }
    for (key, receipt) in [("a", "r-000001"), ("b", "r-000002"), ("a", "r-000001")] {
        let arguments = json!({ "account": "x", "cents": 5, "idempotencyKey": key });
        let charged = call(&ledger, "charge_account", &arguments);
        assert_eq!(charged["structuredContent"]["receipt"], receipt);
    }
}

/// The subscription drops while a reservation is in flight. The client may not repeat it: it listens again, fetches the
/// inventory record, and only then decides.
#[test]
fn d_15_after_a_dropped_subscription_the_record_is_fetched_before_anything_is_decided() {
    use steadfast::core::subscription::{
        End, Filter, InFlight, Input, Output, Refetch, Subscription, reconnect_plan,
    };
    use steadfast::core::time::Now;

    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder.path().join("s.db"));
    let filter = Filter { uris: ["inventory://anvil".to_owned()].into(), ..Filter::default() };
    let mut listening = Subscription::start(filter.clone(), 1);
    listening.handle(Now::at_millis(0), Input::Acknowledged { listen: 1, granted: filter.clone() });

    // Executed; its response and the subscription are lost together.
    reserve(&ledger, Some("k"), 3, "acme");
    listening.handle(Now::at_millis(1), Input::Ended { listen: 1, end: End::Lost });
    let in_flight = [InFlight { operation: inventory::OPERATION.into(), key: Some("k".into()) }];
    let plan = reconnect_plan(&filter, &in_flight);
    assert_eq!(plan.reconcile, in_flight, "found out about, not repeated");

    listening.handle_timeout(Now::at_millis(10_000));
    listening.handle(Now::at_millis(10_001), Input::Acknowledged { listen: 2, granted: filter });
    let fetches: Vec<Refetch> = std::iter::from_fn(|| listening.poll_output())
        .filter_map(|output| match output {
            Output::Refetch(fetches) => Some(fetches),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(fetches, [Refetch::Resource("inventory://anvil".into())]);
    assert_eq!(fetches, plan.refetch);

    // The record says that it happened, the key says what: nothing is left to repeat.
    assert_eq!(stock(&ledger), (7, 1));
    assert_eq!(call(&ledger, "find_reservation", &json!({ "key": "k" }))["structuredContent"]["quantity"], 3);
}
