//! A host of several servers and contexts: what they share, and what never crosses. Real children.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{
    CallOptions, Category, Client, Command, Config, ConnectionState, Context, Error, Host, HostError,
    Identity, Recent, Roots, Run,
};
use steadfast::core::call::Policy;
use steadfast::core::error::Outcome;
use steadfast::core::exchange::Limits;
use steadfast::core::policy::breaker::Thresholds;

const GRACE: Duration = Duration::from_secs(5);

fn child(script: &str, args: &[&str], folder: &Path) -> Command {
    let script = format!("{}/tests/client/{script}", env!("CARGO_MANIFEST_DIR"));
    let args = std::iter::once(script.into()).chain(args.iter().map(Into::into)).chain([folder.into()]);
    Command { program: "python3".into(), args: args.collect(), env: Vec::new(), cwd: None }
}

/// A server that writes to its own folder, and whose breaker opens at the second failure.
fn add(host: &Host, name: &str, folder: &Path) {
    let command = child("server.py", &["modern"], folder);
    let config = Config {
        name: name.to_owned(),
        retry: Policy { max_attempts: 1, ..Config::default().retry },
        breaker: Thresholds { failures: 2, ..Thresholds::DEFAULT },
        ..Config::default()
    };
    host.add(Client::of_command(command).config(config)).unwrap();
}

fn identity(tenant: &str, principal: &str) -> Identity {
    let context = Context { tenant: tenant.to_owned(), principal: principal.to_owned(), scopes: Vec::new() };
    Identity { context, ..Identity::default() }
}

fn started(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("started")).unwrap_or_default().lines().count()
}

async fn fail(client: &Client) -> Category {
    match client.call_tool("fail", "{}", CallOptions::default()).await.unwrap_err() {
        Error::Transport { category, .. } | Error::Local { category, .. } => category,
        error @ Error::Protocol { .. } => panic!("{error}"),
    }
}

#[tokio::test]
async fn d_26_d_41_clients_of_a_host_share_breakers_within_a_tenant_and_records_and_nothing_else() {
    let (notes, shop) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let records = Arc::new(Recent::default());
    let host = Host::recording(Arc::clone(&records) as Arc<_>);
    add(&host, "notes", notes.path());
    add(&host, "shop", shop.path());
    assert_eq!(host.servers(), ["notes", "shop"]);
    let (ann, ben, eve) = (identity("acme", "ann"), identity("acme", "ben"), identity("other", "eve"));

    let ann_shop = host.client("shop", &ann).unwrap();
    ann_shop.discover(CallOptions::default()).await.unwrap();
    host.client("shop", &ann).unwrap().discover(CallOptions::default()).await.unwrap();
    assert_eq!(started(shop.path()), 1, "one client, however often it is asked for");
    assert_eq!(started(notes.path()), 0, "nothing starts before its first use");
    let ben_shop = host.client("shop", &ben).unwrap();
    ben_shop.discover(CallOptions::default()).await.unwrap();
    assert_eq!(started(shop.path()), 2, "a child of its own for each context");

    // One server's outage, seen by ann: for her tenant the breaker is open, and for no other, and for no other server.
    assert_eq!(fail(&ann_shop).await, Category::TransportLost);
    assert_eq!(fail(&ann_shop).await, Category::TransportLost);
    assert_eq!(fail(&ann_shop).await, Category::BreakerOpen);
    assert_eq!(started(shop.path()), 3, "and starts nothing either");
    assert_eq!(fail(&ben_shop).await, Category::BreakerOpen);
    assert_eq!(fail(&host.client("shop", &eve).unwrap()).await, Category::TransportLost);
    assert_eq!(fail(&host.client("notes", &ann).unwrap()).await, Category::TransportLost);
    let refused = records.all().into_iter().filter(|it| it.error_code.as_deref() == Some("breaker_open"));
    assert_eq!(refused.count(), 2, "all records are in one place");

    // Who ends one context takes nothing from another.
    let eve_notes = host.client("notes", &eve).unwrap();
    eve_notes.discover(CallOptions::default()).await.unwrap();
    host.end(&ann.context, GRACE).await;
    assert_eq!(fail(&ann_shop).await, Category::Closed);
    eve_notes.discover(CallOptions::default()).await.unwrap();
    host.close(GRACE).await;
    assert_eq!(fail(&eve_notes).await, Category::Closed);
    assert_eq!(host.client("notes", &eve).unwrap_err(), HostError::Closed);
}

// Silence is waited for in real time; a healthy answer takes a hundredth of it.
#[tokio::test]
async fn d_46_a_client_whose_breaker_is_not_closed_is_degraded_and_ready_after_a_success() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        limits: Limits::new(Duration::from_secs(2), Duration::from_secs(60)).unwrap(),
        breaker: Thresholds { failures: 1, cooldown: Duration::ZERO, ..Thresholds::DEFAULT },
        ..Config::default()
    };
    let client =
        Client::of_command(child("crowd.py", &["shop", "acme"], folder.path())).config(config).build();
    let call = |fault: &str| {
        let arguments = json!({ "task": 1, "call": 1, "fault": fault }).to_string();
        let client = client.clone();
        async move {
            let options = CallOptions { on_progress: Some(Box::new(drop)), ..CallOptions::default() };
            client.call_tool("work", &arguments, options).await
        }
    };
    assert_eq!(*client.state().borrow(), ConnectionState::Disconnected);
    call("none").await.unwrap();
    assert_eq!(*client.state().borrow(), ConnectionState::Ready);
    call("outage").await.unwrap_err();
    assert_eq!(*client.state().borrow(), ConnectionState::Degraded);
    call("none").await.unwrap();
    assert_eq!(*client.state().borrow(), ConnectionState::Ready);
    client.close(GRACE).await;
    assert_eq!(*client.state().borrow(), ConnectionState::Disconnected);
}

#[tokio::test]
async fn d_41_each_context_lends_its_own_roots() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::default();
    add(&host, "notes", folder.path());
    for tenant in ["acme", "other"] {
        let lent = std::fs::canonicalize(folder.path()).unwrap().join(tenant);
        std::fs::create_dir(&lent).unwrap();
        let mut roots = Roots::within(&[&lent]).unwrap();
        let uri = format!("file://{}", lent.display());
        roots.lend(&uri, None).unwrap();
        let client = host.client("notes", &Identity { roots, ..identity(tenant, "p") }).unwrap();
        let told = client.call_tool("where", "{}", CallOptions::default()).await.unwrap();
        let told: Value = serde_json::from_slice(&told.result).unwrap();
        assert_eq!(told["content"][0]["text"], uri, "its own and no other's");
    }
    host.close(GRACE).await;
}

#[test]
fn names_are_unique_and_an_unknown_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::default();
    add(&host, "notes", folder.path());
    let twice = Client::of_command(Command { program: "x".into(), args: vec![], env: vec![], cwd: None })
        .config(Config { name: "notes".to_owned(), ..Config::default() });
    assert_eq!(host.add(twice), Err(HostError::Twice("notes".to_owned())));
    let unknown = host.client("shop", &Identity::default()).unwrap_err();
    assert_eq!(unknown, HostError::Unknown("shop".to_owned()));
}

// Real time: the pauses before rounds without questions begin at 250 ms.
// shows: MRT-20, D-41
#[tokio::test]
async fn d_41_a_deadline_covers_all_rounds_of_a_call_and_a_run_that_is_given_up_ends_them() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::of_command(child("server.py", &["modern"], folder.path())).build();
    let options = CallOptions { deadline: Some(Duration::from_secs(2)), ..CallOptions::default() };
    let error = client.call_tool("later", "{}", options).await.unwrap_err();
    let Error::Local { category: Category::Deadline, clock: Some(_), outcome, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*outcome, Outcome::Unknown);
    let rounds = std::fs::read_to_string(folder.path().join("rounds")).unwrap();
    // At 0 s, 0.25 s, 0.75 s and 1.75 s at the earliest; a deadline that began anew each round would know no end.
    assert!((1..=4).contains(&rounds.lines().count()), "{rounds}");

    let run = Run::new("one", None, 100);
    let options = CallOptions { run: Some(run.clone()), ..CallOptions::default() };
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("later", "{}", options).await }
    });
    client.discover(CallOptions::default()).await.unwrap();
    run.cancel();
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Local { category: Category::ClientCancelled, .. }), "{error:?}");
    client.close(GRACE).await;
}
