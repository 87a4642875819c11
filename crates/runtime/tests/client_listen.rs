//! What a client makes of its subscriptions: real children over real pipes.

mod follow;

use std::time::Duration;

use follow::{GRACE, LIMIT, Peer, Stage, pass};
use serde_json::{Value, json};
use steadfast::client::{CallOptions, Client, Error, ListenEvent, Subscription};
use steadfast::core::subscription::{Change, Filter, Refetch};

fn everything() -> Filter {
    Filter {
        tools: true,
        prompts: true,
        resources: true,
        uris: ["x://a".to_owned()].into(),
        tasks: Default::default(),
    }
}

fn tools() -> Filter {
    Filter { tools: true, ..Filter::default() }
}

fn all_granted() -> Value {
    json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["x://a"],
    })
}

fn all_again() -> Vec<Refetch> {
    let uri = Refetch::Resource("x://a".into());
    vec![Refetch::Tools, Refetch::Prompts, Refetch::Resources, Refetch::ResourceTemplates, uri]
}

fn able() -> Value {
    json!({ "tools": { "listChanged": true } })
}

async fn next(subscription: &mut Subscription) -> ListenEvent {
    tokio::time::timeout(LIMIT, subscription.next()).await.expect("nothing happened").expect("it is over")
}

async fn acknowledged(subscription: &mut Subscription) -> Filter {
    match next(subscription).await {
        ListenEvent::Acknowledged { missing, .. } => missing,
        other => panic!("{other:?}"),
    }
}

async fn changed(subscription: &mut Subscription) -> Change {
    match next(subscription).await {
        ListenEvent::Changed { change, .. } => change,
        other => panic!("{other:?}"),
    }
}

/// A client that listens, and the child's side of it.
async fn listening(stage: &Stage, filter: Filter, granted: Value) -> (Client, Subscription, Peer, Value) {
    let client = stage.client().build();
    let mut subscription = client.listen(filter);
    let mut peer = stage.modern(able()).await;
    let listen = peer.hears("subscriptions/listen").await;
    peer.acknowledge(&listen, granted).await;
    assert_eq!(acknowledged(&mut subscription).await, Filter::default());
    (client, subscription, peer, listen)
}

// shows: SUB-01, SUB-07, SUB-33, SUB-34
#[tokio::test]
async fn sub_07_what_is_not_granted_is_told_and_not_waited_for() {
    let stage = Stage::new();
    let client = stage.client().build();
    let mut subscription = client.listen(everything());
    let mut peer = stage.modern(able()).await;
    let listen = peer.hears("subscriptions/listen").await;
    assert_eq!(listen["params"]["notifications"], all_granted(), "SUB-01: neither more nor less");
    assert!(listen["id"].as_i64().is_some_and(|id| id > 0), "SUB-34");
    peer.acknowledge(&listen, json!({ "toolsListChanged": true })).await;
    let missing = Filter { tools: false, ..everything() };
    assert_eq!(acknowledged(&mut subscription).await, missing);
    // What was not granted is nobody's news, though the server tells it (SUB-02).
    peer.notify(&listen["id"], "notifications/prompts/list_changed", json!({})).await;
    peer.notify(&listen["id"], "notifications/tools/list_changed", json!({})).await;
    assert_eq!(changed(&mut subscription).await, Change::Tools);

    // One that grants nothing lasts, and hinders nothing.
    let mut idle = client.listen(tools());
    let listen = peer.hears("subscriptions/listen").await;
    peer.acknowledge(&listen, json!({})).await;
    assert_eq!(acknowledged(&mut idle).await, tools());
    let called = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", "{}", CallOptions::default()).await }
    });
    let call = peer.hears("tools/call").await;
    peer.answer(&call, json!({ "resultType": "complete", "content": [] })).await;
    called.await.unwrap().unwrap();
    client.close(GRACE).await;
    assert_eq!(idle.next().await, None);
}

// shows: SUB-09, SUB-10
#[tokio::test]
async fn sub_09_several_share_a_pipe_and_each_hears_its_own_by_id_and_type() {
    let stage = Stage::new();
    let granted = json!({ "resourceSubscriptions": ["x://a"] });
    let filter = Filter { uris: ["x://a".to_owned()].into(), ..Filter::default() };
    let (client, mut first, mut peer, one) = listening(&stage, filter.clone(), granted.clone()).await;
    let mut second = client.listen(filter);
    let two = peer.hears("subscriptions/listen").await;
    assert_ne!(one["id"], two["id"]);
    peer.acknowledge(&two, granted).await;
    acknowledged(&mut second).await;
    let updated = |uri: &str| json!({ "uri": uri });
    let update = "notifications/resources/updated";
    // As text it is nobody's id, and an id of nobody is not guessed at.
    let text = json!(one["id"].to_string());
    peer.notify(&text, update, updated("x://a/text")).await;
    peer.notify(&json!(1_000_000), update, updated("x://a/nobody")).await;
    peer.notify(&two["id"], update, updated("x://a/2")).await;
    peer.notify(&one["id"], update, updated("x://a/1")).await;
    assert_eq!(changed(&mut first).await, Change::Resource("x://a/1".into()));
    assert_eq!(changed(&mut second).await, Change::Resource("x://a/2".into()));
    client.close(GRACE).await;
}

// shows: SUB-12, CAN-01
#[tokio::test]
async fn sub_12_one_that_is_not_wanted_any_more_is_ended_by_its_own_id() {
    let stage = Stage::new();
    let (client, subscription, mut peer, listen) =
        listening(&stage, tools(), json!({ "toolsListChanged": true })).await;
    let mut other = client.listen(tools());
    let second = peer.hears("subscriptions/listen").await;
    peer.acknowledge(&second, json!({ "toolsListChanged": true })).await;
    acknowledged(&mut other).await;
    subscription.close().await;
    let cancelled = peer.hears("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], listen["id"]);
    // The other one goes on, until it is dropped.
    peer.notify(&second["id"], "notifications/tools/list_changed", json!({})).await;
    assert_eq!(changed(&mut other).await, Change::Tools);
    drop(other);
    let cancelled = peer.hears("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], second["id"]);
    client.close(GRACE).await;
}

// shows: STD-17, SUB-17, SUB-18, SUB-19, SUB-21, RTY-10, D-19
#[tokio::test]
async fn sub_18_after_a_lost_child_it_listens_again_for_the_same_and_says_what_to_fetch() {
    let stage = Stage::new();
    let (client, mut subscription, peer, listen) = listening(&stage, everything(), all_granted()).await;
    drop(peer);
    let ended = ListenEvent::Ended { graceful: false, stale: all_again() };
    assert_eq!(next(&mut subscription).await, ended);

    // The era is known, but what it can do is asked for again, and then it is listened to before anything is fetched.
    let mut peer = stage.modern(json!({ "tools": {} })).await;
    let again = peer.hears("subscriptions/listen").await;
    assert_eq!(again["params"]["notifications"], listen["params"]["notifications"], "the filter is restored");
    assert_ne!(again["id"], listen["id"], "a new id");
    peer.acknowledge(&again, all_granted()).await;
    match next(&mut subscription).await {
        ListenEvent::Acknowledged { missing, facts } => {
            assert_eq!(missing, Filter::default());
            assert_eq!(facts.unwrap().capabilities, r#"{"tools":{}}"#, "it can do less now");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(next(&mut subscription).await, ListenEvent::Gap(all_again()));
    client.close(GRACE).await;
}

// shows: SUB-21, SUB-22
#[tokio::test]
async fn sub_22_after_a_graceful_end_nobody_hurries_back_until_the_server_is_used() {
    let stage = Stage::new();
    let (client, mut subscription, mut peer, listen) =
        listening(&stage, tools(), json!({ "toolsListChanged": true })).await;
    peer.finish(&listen).await;
    // The second end is of one that has ended.
    peer.cancel(&listen).await;
    let ended = ListenEvent::Ended { graceful: true, stale: vec![Refetch::Tools] };
    assert_eq!(next(&mut subscription).await, ended);
    // Longer than any return after a loss, and shorter than any after a graceful end.
    pass(Duration::from_millis(7_900)).await;
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", "{}", CallOptions::default()).await }
    });
    // The call comes first or just after what it woke.
    let mut methods = Vec::new();
    while methods.len() < 3 {
        let heard = peer.hear().await;
        let method = heard["method"].as_str().unwrap().to_owned();
        match method.as_str() {
            "tools/call" => peer.answer(&heard, json!({ "resultType": "complete", "content": [] })).await,
            "server/discover" => peer.discovered(&heard, able()).await,
            _ => peer.acknowledge(&heard, json!({ "toolsListChanged": true })).await,
        }
        methods.push(method);
    }
    methods.sort();
    assert_eq!(methods, ["server/discover", "subscriptions/listen", "tools/call"]);
    call.await.unwrap().unwrap();
    acknowledged(&mut subscription).await;
    assert_eq!(next(&mut subscription).await, ListenEvent::Gap(vec![Refetch::Tools]));
    client.close(GRACE).await;
}

// shows: SUB-21, AMB-01, AMB-47
#[tokio::test]
async fn sub_21_every_end_is_one_and_what_comes_after_it_is_nobodys() {
    let stage = Stage::new();
    let (client, mut subscription, mut peer, mut listen) =
        listening(&stage, tools(), json!({ "toolsListChanged": true })).await;
    // A cancel; an error after the acknowledgement; a cancel that a result follows, which makes it graceful.
    for (end, graceful) in [("cancel", false), ("error", false), ("both", true)] {
        match end {
            "cancel" => peer.cancel(&listen).await,
            "error" => peer.refuse(&listen, -32_602, "no more").await,
            _ => {
                peer.cancel(&listen).await;
                peer.finish(&listen).await;
            }
        }
        let ended = ListenEvent::Ended { graceful, stale: vec![Refetch::Tools] };
        assert_eq!(next(&mut subscription).await, ended, "{end}");
        peer.notify(&listen["id"], "notifications/tools/list_changed", json!({})).await;
        if graceful {
            break;
        }
        let again = peer.hears("server/discover").await;
        peer.discovered(&again, able()).await;
        listen = peer.hears("subscriptions/listen").await;
        peer.acknowledge(&listen, json!({ "toolsListChanged": true })).await;
        acknowledged(&mut subscription).await;
        assert_eq!(next(&mut subscription).await, ListenEvent::Gap(vec![Refetch::Tools]));
    }
    client.close(GRACE).await;
    assert_eq!(subscription.next().await, None, "what came after the end was dropped");
}

// shows: SUB-21
#[tokio::test]
async fn sub_21_a_server_that_refuses_is_not_asked_again() {
    let stage = Stage::new();
    let client = stage.client().build();
    let mut subscription = client.listen(tools());
    let mut peer = stage.modern(json!({})).await;
    let listen = peer.hears("subscriptions/listen").await;
    peer.refuse(&listen, -32_601, "no such method").await;
    match next(&mut subscription).await {
        ListenEvent::Refused(Error::Protocol { code, .. }) => assert_eq!(code, -32_601),
        other => panic!("{other:?}"),
    }
    assert_eq!(subscription.next().await, None);
    client.close(GRACE).await;
}

// shows: TMO-08
#[tokio::test]
async fn ruling_18_one_that_is_never_acknowledged_is_given_up_and_begun_anew() {
    let stage = Stage::new();
    let client = stage.client().build();
    let mut subscription = client.listen(tools());
    let mut peer = stage.modern(able()).await;
    let listen = peer.hears("subscriptions/listen").await;
    // What comes before the acknowledgement is nobody's (SUB-04).
    peer.notify(&listen["id"], "notifications/tools/list_changed", json!({})).await;
    pass(Duration::from_secs(11)).await;
    assert_eq!(peer.hears("notifications/cancelled").await["params"]["requestId"], listen["id"]);
    // Too late: it is about one that was given up.
    peer.acknowledge(&listen, json!({ "toolsListChanged": true })).await;
    let again = peer.hears("server/discover").await;
    peer.discovered(&again, able()).await;
    let second = peer.hears("subscriptions/listen").await;
    assert_ne!(second["id"], listen["id"]);
    peer.acknowledge(&second, json!({ "toolsListChanged": true })).await;
    assert_eq!(acknowledged(&mut subscription).await, Filter::default());
    peer.notify(&second["id"], "notifications/tools/list_changed", json!({})).await;
    assert_eq!(changed(&mut subscription).await, Change::Tools, "nothing was missed, so nothing is fetched");
    client.close(GRACE).await;
}

// shows: LEG-82
#[tokio::test]
async fn sub_01_a_legacy_server_is_listened_to_by_what_it_has_instead() {
    let stage = Stage::new();
    let client = stage.client().build();
    let mut subscription = client.listen(Filter { tasks: ["t".to_owned()].into(), ..everything() });
    let capabilities =
        json!({ "tools": { "listChanged": true }, "resources": { "subscribe": true }, "prompts": {} });
    let mut peer = stage.legacy(capabilities.clone()).await;
    let subscribe = peer.hears("resources/subscribe").await;
    assert_eq!(subscribe["params"]["uri"], "x://a");
    peer.answer(&subscribe, json!({})).await;
    let missing =
        Filter { prompts: true, resources: true, tasks: ["t".to_owned()].into(), ..Filter::default() };
    assert_eq!(acknowledged(&mut subscription).await, missing);
    for (method, params) in [
        ("notifications/prompts/list_changed", json!({})),
        ("notifications/tools/list_changed", json!({})),
        ("notifications/resources/updated", json!({ "uri": "x://b" })),
        ("notifications/resources/updated", json!({ "uri": "x://a" })),
    ] {
        peer.say(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }
    assert_eq!(changed(&mut subscription).await, Change::Tools);
    assert_eq!(changed(&mut subscription).await, Change::Resource("x://a".into()));

    // A new process remembers nothing.
    drop(peer);
    let stale = vec![Refetch::Tools, Refetch::Resource("x://a".into())];
    assert_eq!(next(&mut subscription).await, ListenEvent::Ended { graceful: false, stale });
    let mut peer = stage.legacy(capabilities).await;
    let subscribe = peer.hears("resources/subscribe").await;
    peer.answer(&subscribe, json!({})).await;
    acknowledged(&mut subscription).await;
    assert!(matches!(next(&mut subscription).await, ListenEvent::Gap(_)));
    let close = tokio::spawn(subscription.close());
    let unsubscribe = peer.hears("resources/unsubscribe").await;
    assert_eq!(unsubscribe["params"]["uri"], "x://a");
    peer.answer(&unsubscribe, json!({})).await;
    close.await.unwrap();
    client.close(GRACE).await;
}

#[tokio::test]
async fn can_01_a_closed_client_ends_its_subscriptions_and_tells_the_server() {
    let stage = Stage::new();
    let (client, mut subscription, mut peer, listen) =
        listening(&stage, tools(), json!({ "toolsListChanged": true })).await;
    let closing = tokio::spawn(async move { client.close(GRACE).await });
    assert_eq!(peer.hears("notifications/cancelled").await["params"]["requestId"], listen["id"]);
    assert_eq!(subscription.next().await, None);
    drop(peer);
    closing.await.unwrap();
}

#[tokio::test]
async fn f080_a_server_that_is_gone_at_its_start_is_tried_again_by_the_subscription() {
    let stage = Stage::new();
    let client = stage.client().build();
    let mut subscription = client.listen(tools());
    drop(stage.next().await);
    // It came and went before it said anything; the next one is no better, and the third one is.
    drop(stage.next().await);
    let mut peer = stage.modern(able()).await;
    let heard = peer.hear().await;
    let listen = if heard["method"] == "server/discover" {
        peer.discovered(&heard, able()).await;
        peer.hears("subscriptions/listen").await
    } else {
        heard
    };
    assert_eq!(listen["method"], "subscriptions/listen");
    peer.acknowledge(&listen, json!({ "toolsListChanged": true })).await;
    acknowledged(&mut subscription).await;
    client.close(GRACE).await;
}
