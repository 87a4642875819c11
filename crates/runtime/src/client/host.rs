//! Many servers, for many authorization contexts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use super::breakers::Breakers;
use super::catalog::{CatalogStore, InMemory};
use super::roots::Roots;
use super::{Builder, Client, Context, Credentials, Recorder};

/// Whose calls are made, and what belongs to that one alone.
#[derive(Clone, Default)]
pub struct Identity {
    /// The authorization context.
    pub context: Context,
    /// Its credentials for HTTP servers; absent: those of the server's own builder, the same for everybody.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// What it lends.
    pub roots: Roots,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("context", &self.context).finish_non_exhaustive()
    }
}

/// Why a host has no such client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nobody configured it.
    #[error("no server is named {0:?} here; add it to the host first")]
    Unknown(String),
    /// Another one has that name.
    #[error("two servers are named {0:?}; give each a name of its own")]
    Twice(String),
    /// It was closed.
    #[error("the host is closed; make a new one")]
    Closed,
}

/// Holds one [`Client`] for each server and authorization context, made at its first use.
///
/// Clients share nothing but what they may: the breakers of one server within one tenant, the records, and lists that their
/// server calls public. Transport, pending requests, other catalogs, queue and credentials are each client's own, so that one server's outage is no other
/// server's, and nothing of one context reaches another (D-26, D-41).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use steadfast::client::{CallOptions, Client, Command, Config, Host, Identity, ToolContract};
/// use steadfast::core::policy::{Effect, Idempotency};
///
/// // A child over stdio, and an HTTP server whose charges enforce their keys.
/// let notes = Command { program: "notes-server".into(), args: vec![], env: vec![], cwd: None };
/// let charges = ToolContract {
///     key: Some("/idempotencyKey".to_owned()),
///     ..ToolContract::new("charge_*", Effect::Write, Idempotency::Upstream)
/// };
/// let named = |name: &str| Config { name: name.to_owned(), ..Config::default() };
/// let host = Host::default();
/// host.add(Client::of_command(notes).config(named("notes")))?;
/// host.add(
///     Client::of_url("http://127.0.0.1:9000/mcp")?
///         .config(Config { contracts: vec![charges], ..named("billing") }),
/// )?;
///
/// let me = Identity::default();
/// let note = host.client("notes", &me)?.read_resource("notes://today", CallOptions::default()).await?;
/// println!("{}", String::from_utf8_lossy(&note.result));
///
/// // Lost answers of a keyed call are asked for again, under the same key: it happens once.
/// let options = CallOptions { key: Some("invoice-2031".to_owned()), ..CallOptions::default() };
/// match host.client("billing", &me)?.call_tool("charge_account", r#"{"cents":1200}"#, options).await {
///     Ok(done) => println!("{} after {} attempts", String::from_utf8_lossy(&done.result), done.attempts),
///     Err(error) => println!("{error}; what is known of the effect: {:?}", error.outcome()),
/// }
/// host.close(Duration::from_secs(5)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Host {
    recorder: Option<Arc<dyn Recorder>>,
    catalogs: Arc<InMemory>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    servers: BTreeMap<String, Builder>,
    clients: BTreeMap<(String, Context), Client>,
    /// By server and tenant.
    breakers: BTreeMap<(String, String), Arc<Breakers>>,
    closed: bool,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

impl Host {
    /// A host whose clients all leave their records with one recorder.
    pub fn recording(recorder: Arc<dyn Recorder>) -> Self {
        Self { recorder: Some(recorder), ..Self::default() }
    }

    /// Adds a server under the name of its configuration. Nothing is started.
    ///
    /// # Errors
    /// The name is taken, or the host is closed.
    pub fn add(&self, server: Builder) -> Result<(), HostError> {
        let mut kept = self.kept();
        if kept.closed {
            return Err(HostError::Closed);
        }
        let name = server.config.name.clone();
        if kept.servers.contains_key(&name) {
            return Err(HostError::Twice(name));
        }
        kept.servers.insert(name, server);
        Ok(())
    }

    /// The names of its servers, sorted.
    pub fn servers(&self) -> Vec<String> {
        self.kept().servers.keys().cloned().collect()
    }

    /// The client of a server for one context: the one that there is, or a new one that has sent nothing yet. The first
    /// identity of a context counts until [`Self::end`].
    ///
    /// # Errors
    /// No server has that name, or the host is closed.
    pub fn client(&self, server: &str, identity: &Identity) -> Result<Client, HostError> {
        let mut kept = self.kept();
        if kept.closed {
            return Err(HostError::Closed);
        }
        let place = (server.to_owned(), identity.context.clone());
        if let Some(client) = kept.clients.get(&place) {
            return Ok(client.clone());
        }
        let mut builder =
            kept.servers.get(server).cloned().ok_or_else(|| HostError::Unknown(server.to_owned()))?;
        builder.config.context = identity.context.clone();
        let shared = (server.to_owned(), identity.context.tenant.clone());
        let breakers =
            kept.breakers.entry(shared).or_insert_with(|| Arc::new(Breakers::new(&builder.config)));
        builder = builder.breakers(Arc::clone(breakers));
        if let Some(recorder) = &self.recorder {
            builder = builder.recorder(Arc::clone(recorder));
        }
        if let Some(credentials) = &identity.credentials {
            builder = builder.credentials(Arc::clone(credentials));
        }
        if !identity.roots.is_empty() {
            builder = builder.roots(identity.roots.clone());
        }
        builder.catalogs.get_or_insert_with(|| Arc::clone(&self.catalogs) as Arc<dyn CatalogStore>);
        let client = builder.build();
        kept.clients.insert(place, client.clone());
        Ok(client)
    }

    /// Closes all clients of one context, and forgets them: a signed-out user, a task that is over.
    pub async fn end(&self, context: &Context, grace: Duration) {
        let ended = {
            let mut kept = self.kept();
            let all = std::mem::take(&mut kept.clients);
            let (ended, rest): (BTreeMap<_, _>, _) = all.into_iter().partition(|(at, _)| at.1 == *context);
            kept.clients = rest;
            ended
        };
        close_all(ended.into_values(), grace).await;
    }

    /// Closes all clients side by side, each within about `grace`. What they were asked for and had not begun is
    /// refused; nothing that a server did is revoked.
    pub async fn close(&self, grace: Duration) {
        let ended = {
            let mut kept = self.kept();
            kept.closed = true;
            std::mem::take(&mut kept.clients)
        };
        close_all(ended.into_values(), grace).await;
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn close_all(clients: impl Iterator<Item = Client>, grace: Duration) {
    let mut closing: JoinSet<()> = clients.map(|client| async move { client.close(grace).await }).collect();
    while closing.join_next().await.is_some() {}
}
