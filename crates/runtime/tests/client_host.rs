//! A host of several servers and contexts: what they share, and what never crosses. Real children.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steadfast::client::{
    CallOptions, Category, Client, Command, Config, Context, Error, Host, HostError, Identity, Recent, Roots,
};
use steadfast::core::call::Policy;
use steadfast::core::policy::breaker::Thresholds;

const GRACE: Duration = Duration::from_secs(5);

/// A server that writes to its own folder, and whose breaker opens at the second failure.
fn add(host: &Host, name: &str, folder: &Path) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/server.py");
    let args = [script.into(), "modern".into(), folder.into()].to_vec();
    let command = Command { program: "python3".into(), args, env: Vec::new(), cwd: None };
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
