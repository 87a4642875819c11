//! One fetch of one list: all its pages, looked at, kept, and told to all who wait.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::catalog::{
    Bounds, Changes, Failed, Hints, Next, Sharing, Step, Subject, Ticket, Walk, Whole,
};
use steadfast_core::error::Outcome;
use steadfast_core::object::Members;
use steadfast_core::time::Instant;
use tokio::sync::watch;

use super::definition::Snapshot;
use super::{Fetching, Kept};
use crate::client::Client;
use crate::client::attempts::{Ask, Kinds};
use crate::client::error::{Category, Error};
use crate::client::options::CallOptions;

/// What a fetch brought, before it is looked at.
struct Fetched {
    pages: Vec<Bytes>,
    whole: Whole,
    received: Instant,
    ticket: Ticket,
    call_id: String,
    /// The generation of the store before the first page; none if it came from there.
    generation: Option<u64>,
}

impl Client {
    /// The list: what is kept if that may serve, else what is being fetched or is fetched now. The flag says whether
    /// it was there already. `doubting`: what is kept may be wrong, so it is asked for anew (CCH-14).
    pub(super) async fn list(
        &self,
        subject: &Subject,
        doubting: bool,
        options: &CallOptions,
    ) -> Result<(Kept, bool), Error> {
        let credentials = self.credentials(options).await?;
        let fetching = {
            let now = self.pipeline.clock.now().mono;
            let mut state = self.catalog.current(&self.pipeline, now);
            state.under(credentials);
            let list = state.list(subject);
            let next = if doubting { list.entry.doubt() } else { list.entry.need(now) };
            match (next, list.entry.held(), &list.under_way) {
                (Next::Serve, Some(held), _) => {
                    let (snapshot, stale) = (Arc::clone(&held.value), !held.is_fresh(now));
                    let kept = Kept { snapshot, received: held.received, stale, call_id: String::new() };
                    return Ok((kept, true));
                }
                (Next::Fetch(ticket), ..) => {
                    // The fetch is everybody's; the budget that it is taken from is that of who needs it first.
                    if let Some(run) = &options.run
                        && run.spend().is_err()
                    {
                        list.entry.failed(ticket, now, Failed::Passing, self.pipeline.config.catalog);
                        let sentence =
                            format!("run {} has used up its calls; give it more, or end it", run.id());
                        return Err(self.refused(Category::Budget, sentence));
                    }
                    let (tell, fetching) = watch::channel(None);
                    list.under_way = Some(fetching.clone());
                    let (client, subject) = (self.clone(), subject.clone());
                    tokio::spawn(async move {
                        let fetched = client.fetch(&subject, ticket, doubting).await;
                        tell.send_replace(Some(fetched));
                    });
                    fetching
                }
                (Next::Join, _, Some(fetching)) => fetching.clone(),
                // Neither is without the other.
                (Next::Serve, None, _) | (Next::Join, _, None) => {
                    return Err(self.refused(Category::Closed, "the client is closed".to_owned()));
                }
            }
        };
        self.wait_for(fetching, options).await.map(|kept| (kept, false))
    }

    /// What is fresh and at hand, where no credentials have to be asked for first: nothing is waited for.
    pub(super) fn at_hand(&self, subject: &Subject) -> Option<Kept> {
        if self.pipeline.credentials.is_some() {
            return None;
        }
        let now = self.pipeline.clock.now().mono;
        let mut state = self.catalog.current(&self.pipeline, now);
        let held = state.list(subject).entry.held().filter(|held| held.is_fresh(now))?;
        let (snapshot, received) = (Arc::clone(&held.value), held.received);
        Some(Kept { snapshot, received, stale: false, call_id: String::new() })
    }

    /// Who stops waiting stops nothing for the others.
    async fn wait_for(&self, mut fetching: Fetching, options: &CallOptions) -> Result<Kept, Error> {
        let within = options.deadline.unwrap_or_else(|| self.pipeline.config.limits.maximum());
        let run = async {
            match &options.run {
                Some(run) => run.cancel_token().cancelled().await,
                None => std::future::pending().await,
            }
        };
        let fetched = tokio::select! {
            fetched = fetching.wait_for(Option::is_some) => fetched.ok().and_then(|fetched| fetched.clone()),
            () = options.cancel.cancelled() => {
                return Err(self.refused(Category::ClientCancelled, "the call was cancelled".to_owned()));
            }
            () = run => return Err(self.refused(Category::ClientCancelled, "the run was cancelled".to_owned())),
            () = tokio::time::sleep(within) => {
                let sentence = format!("server {} did not list within {within:?} what it offers", self.name());
                return Err(self.refused(Category::Deadline, sentence));
            }
        };
        fetched.unwrap_or_else(|| Err(self.refused(Category::Closed, "the client is closed".to_owned())))
    }

    /// A digest of the credentials that the next request would carry, where there are any.
    pub(super) async fn credentials(&self, options: &CallOptions) -> Result<Option<[u8; 32]>, Error> {
        use sha2::{Digest, Sha256};
        let Some(credentials) = &self.pipeline.credentials else { return Ok(None) };
        let headers = tokio::select! {
            headers = credentials.headers() => headers,
            () = options.cancel.cancelled() => {
                return Err(self.refused(Category::ClientCancelled, "the call was cancelled".to_owned()));
            }
        };
        let headers = headers.map_err(|why| self.refused(Category::Authorization, why))?;
        let mut digest = Sha256::new();
        for part in headers.iter().flat_map(|(name, value)| [name, value]) {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        Ok(Some(digest.finalize().into()))
    }

    pub(super) fn refused(&self, category: Category, sentence: String) -> Error {
        Error::Local {
            category,
            clock: None,
            outcome: Outcome::NotExecuted,
            sentence,
            call_id: String::new(),
        }
    }

    async fn fetch(&self, subject: &Subject, ticket: Ticket, doubting: bool) -> Result<Kept, Error> {
        let (fetched, pages) = match self.walk(subject, ticket, doubting).await {
            Ok(fetched) => (self.keep(subject, fetched).await, 0),
            Err((error, pages)) => (Err(error), pages),
        };
        fetched.or_else(|error| self.in_need(subject, ticket, error, pages))
    }

    /// Fetches page after page, unless another client of this host has just done so. An error comes with the number of
    /// pages before it.
    async fn walk(
        &self,
        subject: &Subject,
        mut ticket: Ticket,
        doubting: bool,
    ) -> Result<Fetched, (Error, usize)> {
        let pipeline = &self.pipeline;
        let policy = pipeline.config.catalog;
        let deadline = pipeline.clock.now().mono.saturating_add(pipeline.config.limits.maximum());
        // How the server is spoken to is part of the key. If there is no connection, the request says why.
        let _ = pipeline.connector.ready().await;
        let mut walk = Walk::new(Bounds::DEFAULT, policy.ttl);
        let mut session = AtomicU64::new(0);
        let mut pages = Vec::new();
        let mut cursor: Option<String> = None;
        let mut whole: Option<(Whole, String)> = None;
        let mut generation = None;
        loop {
            let now = pipeline.clock.now().mono;
            let (key, renewed) = {
                let mut state = self.catalog.current(pipeline, now);
                let renewed = state.list(subject).entry.renew(ticket);
                (self.catalog.key(&state, subject.clone()), renewed)
            };
            if let Some(renewed) = renewed {
                ticket = renewed;
                (walk, cursor, whole) = (Walk::new(Bounds::DEFAULT, policy.ttl), None, None);
                session = AtomicU64::new(0);
                pages.clear();
            }
            if let Some((whole, call_id)) = whole {
                return Ok(Fetched { pages, whole, received: now, ticket, call_id, generation });
            }
            if let (true, Some(store), Some(key)) = (pages.is_empty(), &self.catalog.store, &key) {
                if !doubting && let Some(shared) = store.get(key) {
                    let received = Instant::from_nanos(now.as_nanos().saturating_sub(nanos(shared.age)));
                    let expires =
                        received.saturating_add(policy.ttl).min(now.saturating_add(shared.fresh_for));
                    let whole = Whole { expires, sharing: Sharing::Public, cut: None };
                    let call_id = String::new();
                    return Ok(Fetched {
                        pages: shared.pages,
                        whole,
                        received,
                        ticket,
                        call_id,
                        generation: None,
                    });
                }
                generation = Some(store.generation(key));
            }
            let params =
                cursor.take().map_or_else(|| "{}".to_owned(), |cursor| format!("{{\"cursor\":{cursor}}}"));
            let mut options =
                CallOptions { deadline: Some(deadline.saturating_since(now)), ..CallOptions::default() };
            let ask = Ask {
                aside: true,
                bound_to: Some(&session),
                ..self.plain(subject.method(), &params, Kinds::default(), &options)
            };
            let done = match pipeline.ask(ask, &mut options).await {
                Ok(done) => done,
                // A cursor that is refused, or whose session is gone: from the first page, once.
                Err(
                    Error::Protocol { code: -32_602, .. }
                    | Error::Transport { category: Category::TransportLost, sent: false, .. },
                ) if walk.bad_cursor() => {
                    session = AtomicU64::new(0);
                    pages.clear();
                    continue;
                }
                Err(error) => return Err((error, pages.len())),
            };
            let received = pipeline.clock.now().mono;
            let step = {
                let text = std::str::from_utf8(&done.result).unwrap_or_default();
                let members = Members::parse(text).unwrap_or_default();
                walk.page(received, Hints::of(&members), done.result.len(), members.get("nextCursor"))
            };
            pages.push(done.result);
            match step {
                Step::Page(next) => cursor = Some(next),
                Step::Done(done_with) => whole = Some((done_with, done.call_id)),
            }
        }
    }

    /// Looks at what was fetched, keeps it, and tells the host what is new.
    async fn keep(&self, subject: &Subject, fetched: Fetched) -> Result<Kept, Error> {
        let Fetched { pages, whole, received, ticket, call_id, generation } = fetched;
        let pipeline = &self.pipeline;
        let (known, mirrored) = {
            let mut state = self.catalog.current(pipeline, received);
            (state.list(subject).known.clone(), state.is_mirrored())
        };
        // Schemas are compiled, which takes a while for many.
        let looked_at = {
            let (subject, known, pages) = (subject.clone(), known.clone(), pages.clone());
            tokio::task::spawn_blocking(move || {
                Snapshot::of(&subject, mirrored, &pages, whole.cut, known.as_deref())
            })
            .await
        };
        let snapshot = match looked_at {
            Ok(Ok(snapshot)) => Arc::new(snapshot),
            Ok(Err(why)) => return Err(self.unreadable(subject, &why, call_id)),
            Err(_) => return Err(self.unreadable(subject, "it cannot be looked at", call_id)),
        };
        if let Some(cut) = snapshot.cut {
            tracing::warn!(server = self.name(), list = subject.method(), "a list was cut: {}", cut.as_str());
        }
        let were_out = known.as_ref().map_or(&[][..], |known| &known.left_out);
        for out in snapshot.left_out.iter().filter(|out| !were_out.contains(out)) {
            tracing::warn!(
                server = self.name(),
                list = subject.method(),
                name = out.name,
                "left out: {}",
                out.reason
            );
        }
        let now = pipeline.clock.now().mono;
        let is_current = {
            let mut state = self.catalog.current(pipeline, now);
            let key = self.catalog.key(&state, subject.clone());
            let list = state.list(subject);
            let kept = Arc::clone(&snapshot);
            let is_current = list.entry.fetched(ticket, received, whole.expires, whole.sharing, kept);
            // Of what was forgotten meanwhile nothing is known.
            if is_current || list.known.is_some() {
                list.known = Some(Arc::clone(&snapshot));
            }
            if let (true, Some(store), Some(key), Some(generation), Sharing::Public) =
                (is_current, &self.catalog.store, key, generation, whole.sharing)
            {
                store.put(&key, generation, &pages, whole.expires.saturating_since(now));
            }
            is_current
        };
        if let Some(known) = known {
            let changes = Changes::between(known.contents(), snapshot.contents());
            if !changes.is_empty() {
                pipeline.handler.definitions_changed(self.name(), subject.method(), &changes);
            }
        }
        Ok(Kept { snapshot, received, stale: !is_current, call_id })
    }

    fn unreadable(&self, subject: &Subject, why: &str, call_id: String) -> Error {
        let sentence =
            format!("server {} answered {} with what is no such list: {why}", self.name(), subject.method());
        let (category, outcome) = (Category::InvalidResponse, Outcome::Executed);
        Error::Transport { category, sent: true, outcome, sentence, call_id }
    }

    /// The fetch failed. What is kept serves, marked, if it may.
    fn in_need(&self, subject: &Subject, ticket: Ticket, error: Error, pages: usize) -> Result<Kept, Error> {
        let why = match &error {
            Error::Protocol { code: -32_603, .. } => Failed::Passing,
            // The list began to come, so it may be had; one page of it failed (F094).
            Error::Protocol { .. } if pages > 0 => Failed::Passing,
            Error::Protocol { .. } => Failed::Refused,
            Error::Transport { category: Category::Authorization, .. }
            | Error::Local { category: Category::Authorization, .. } => Failed::Refused,
            Error::Transport { .. } | Error::Local { .. } => Failed::Passing,
        };
        let now = self.pipeline.clock.now().mono;
        let mut state = self.catalog.current(&self.pipeline, now);
        let list = state.list(subject);
        let serves = list.entry.failed(ticket, now, why, self.pipeline.config.catalog);
        let closed = matches!(&error, Error::Local { category: Category::Closed, .. });
        match list.entry.held() {
            Some(held) if serves && !closed => Ok(Kept {
                snapshot: Arc::clone(&held.value),
                received: held.received,
                stale: true,
                call_id: error.call_id().to_owned(),
            }),
            Some(_) | None => Err(error),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
