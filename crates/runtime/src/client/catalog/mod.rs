//! What a server offers, kept as long as may be: lists fetched once for all who wait, and resources that were read.
//!
//! An entry belongs to one connection's server and revision, to the capabilities that are declared and to one
//! authorization context; when any of these changes it is gone (G10). It shows what there is and grants nothing: the
//! server checks each call, whatever was listed.

mod calls;
mod definition;
mod fetch;
mod lists;
mod read;
mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use steadfast_core::catalog::{Entry, Key, Sharing, Subject};
use steadfast_core::hop::{Era, Revision, Transport};
use steadfast_core::object::Members;
use steadfast_core::time::Instant;
use tokio::sync::broadcast::{Receiver, error::TryRecvError};
use tokio::sync::watch;

use super::attempts::Pipeline;
use super::error::Error;
use super::inbound::Notice;
use definition::Snapshot;

pub(super) use calls::Defined;
pub use definition::{Definition, LeftOut};
pub use lists::{Found, Light, Listed};
pub use store::{CatalogStore, InMemory, Shared};

/// What one client keeps.
pub(super) struct Catalog {
    /// The server's configured name, and a digest of where it is: two servers of one name share nothing.
    server: String,
    store: Option<Arc<dyn CatalogStore>>,
    state: Mutex<State>,
}

struct State {
    notices: Receiver<Notice>,
    standing: Standing,
    lists: [List; 4],
    /// By URI.
    reads: BTreeMap<String, Entry<Bytes>>,
}

/// What entries were fetched under.
#[derive(Default)]
struct Standing {
    /// Which connection; 0 before the first.
    epoch: u64,
    hop: Option<(Transport, Revision)>,
    /// The server's own name and version, where it said them.
    info: Option<String>,
    capabilities: String,
    credentials: Option<[u8; 32]>,
}

#[derive(Default)]
struct List {
    entry: Entry<Arc<Snapshot>>,
    /// The last one that was seen, to tell what is new.
    known: Option<Arc<Snapshot>>,
    /// What those wait for who need it now.
    under_way: Option<Fetching>,
}

/// Ends with what came of the fetch.
type Fetching = watch::Receiver<Option<Result<Kept, Error>>>;

/// A list, and what is to be said of its age.
#[derive(Clone)]
struct Kept {
    snapshot: Arc<Snapshot>,
    received: Instant,
    stale: bool,
    /// The last request that fetched it.
    call_id: String,
}

impl Catalog {
    pub(super) fn new(pipeline: &Pipeline, store: Option<Arc<dyn CatalogStore>>) -> Self {
        let place = Sha256::digest(pipeline.connector.place().as_bytes());
        let place: String = place[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let state = State {
            notices: pipeline.connector.notices.subscribe(),
            standing: Standing { capabilities: pipeline.handler.capabilities(), ..Standing::default() },
            lists: Default::default(),
            reads: BTreeMap::new(),
        };
        Self { server: format!("{} {place}", pipeline.config.name), store, state: Mutex::new(state) }
    }

    /// The state, with all that was heard until now taken in.
    fn current(&self, pipeline: &Pipeline, now: Instant) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.hear(&mut state, now);
        let capabilities = pipeline.handler.capabilities();
        if capabilities != state.standing.capabilities {
            state.standing.capabilities = capabilities;
            state.forget(|_| true);
        }
        if let Some(ready) = pipeline.connector.current()
            && ready.epoch != state.standing.epoch
        {
            let hop = Some((ready.link.transport(), ready.revision));
            let info = ready.facts.as_ref().and_then(|facts| facts.info.clone());
            let standing = &mut state.standing;
            let first = standing.epoch == 0;
            let other = standing.hop != hop || (info.is_some() && standing.info != info);
            standing.epoch = ready.epoch;
            standing.hop = hop;
            if info.is_some() {
                standing.info = info;
            }
            match (first, other) {
                (true, _) => {}
                // Another server, or another version of it.
                (false, true) => state.forget(|_| true),
                // What it told while nobody listened is lost (SUB-19).
                (false, false) => state.all_changed(now),
            }
        }
        state
    }

    /// Notices take effect in the order in which they came, before anything is served or kept.
    fn hear(&self, state: &mut State, now: Instant) {
        loop {
            match state.notices.try_recv() {
                Ok(Notice { method, params, .. }) => self.changed(state, now, &method, &params),
                // Some were missed: anything may have changed.
                Err(TryRecvError::Lagged(_)) => {
                    for subject in Subject::LISTS {
                        self.tell_others(state, subject);
                    }
                    state.all_changed(now);
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    fn changed(&self, state: &mut State, now: Instant, notice: &str, params: &[u8]) {
        for subject in Subject::LISTS {
            if subject.is_changed_by(notice, None) {
                state.list(&subject).entry.changed(now);
                self.tell_others(state, subject);
            }
        }
        if notice == "notifications/resources/updated" {
            let params = std::str::from_utf8(params).ok().and_then(|params| Members::parse(params).ok());
            let uri = params.and_then(|params| params.get_str("uri"));
            for (known, entry) in &mut state.reads {
                if Subject::Resource(known.clone()).is_changed_by(notice, uri.as_deref()) {
                    entry.forget();
                }
            }
        }
    }

    fn tell_others(&self, state: &State, subject: Subject) {
        if let (Some(store), Some(key)) = (&self.store, self.key(state, subject)) {
            store.changed(&key);
        }
    }

    /// The key of what is everybody's, once it is known how the server is spoken to.
    fn key(&self, state: &State, subject: Subject) -> Option<Key> {
        let (transport, revision) = state.standing.hop?;
        let capabilities = state.standing.capabilities.clone();
        Some(Key { server: self.server.clone(), transport, revision, capabilities, subject, owner: None })
    }
}

impl State {
    const fn list(&mut self, subject: &Subject) -> &mut List {
        let at = match subject {
            Subject::Tools | Subject::Resource(_) => 0,
            Subject::Prompts => 1,
            Subject::Resources => 2,
            Subject::Templates => 3,
        };
        &mut self.lists[at]
    }

    fn all_changed(&mut self, now: Instant) {
        self.lists.iter_mut().for_each(|list| list.entry.changed(now));
        self.reads.values_mut().for_each(Entry::forget);
    }

    fn forget(&mut self, which: impl Fn(Sharing) -> bool) {
        for list in &mut self.lists {
            if list.entry.held().is_none_or(|held| which(held.sharing)) {
                list.entry.forget();
                list.known = None;
            }
        }
        for entry in self.reads.values_mut() {
            if entry.held().is_none_or(|held| which(held.sharing)) {
                entry.forget();
            }
        }
    }

    /// These are the credentials from now on: another token is another context, for the same person too (AUT-05).
    fn under(&mut self, credentials: Option<[u8; 32]>) {
        if self.standing.credentials != credentials {
            self.standing.credentials = credentials;
            self.forget(|sharing| sharing == Sharing::Private);
        }
    }

    /// Whether arguments travel in headers too.
    fn is_mirrored(&self) -> bool {
        self.standing.hop.is_some_and(|(transport, revision)| {
            transport == Transport::Http && revision.era() == Era::Modern
        })
    }
}
