//! Resources that were read, kept where the server says for how long.

use std::time::Duration;

use bytes::Bytes;
use steadfast_core::catalog::{Entry, Failed, Hints, Next, Ticket};
use steadfast_core::object::{self, Members};
use steadfast_core::time::Instant;

use super::State;
use crate::client::error::Error;
use crate::client::options::CallOptions;
use crate::client::{Answered, Client};

/// How many resources, and how many bytes of them, are kept.
const MOST_READS: usize = 256;
const MOST_BYTES: usize = 16 << 20;
/// One takes no more than this.
const LARGEST: usize = MOST_BYTES / 4;

impl Client {
    /// Reads a resource. What the server gives with a `ttlMs` is kept for that long, and then given again with
    /// `attempts` 0; what it asked questions for is not (CCH-06, CCH-07).
    ///
    /// # Errors
    /// As [`Self::call_tool`].
    pub async fn read_resource(&self, uri: &str, options: CallOptions) -> Result<Answered, Error> {
        let credentials = self.credentials(&options).await?;
        let (next, served) = {
            let now = self.pipeline.clock.now().mono;
            let mut state = self.catalog.current(&self.pipeline, now);
            state.under(credentials);
            let hop = state.standing.hop;
            let entry = state.reads.entry(uri.to_owned()).or_default();
            let next = entry.need(now);
            let held = entry.held().filter(|held| next == Next::Serve && held.is_fresh(now));
            let served = held.zip(hop).map(|(held, (_, revision))| {
                (held.value.clone(), revision, now.saturating_since(held.received))
            });
            (next, served)
        };
        if let Some((result, revision, age)) = served {
            let call_id = self.served("resources/read", age, false, &options);
            return Ok(Answered { result, revision, call_id, attempts: 0 });
        }
        // Who reads it at the same time reads it apart, with limits and questions of their own.
        let fetching = match next {
            Next::Fetch(ticket) => Some(Reading { client: self, uri, ticket: Some(ticket) }),
            Next::Serve | Next::Join => None,
        };
        let mut params = Members::default();
        params.set("uri", object::string(uri));
        let done = self.send("resources/read", &params.to_json(), options, true).await?;
        if let Some(fetching) = fetching {
            fetching.keep(done.round, &done.result);
        }
        Ok(done.into())
    }
}

/// A read that may be kept. Dropped without that, it leaves nothing.
struct Reading<'a> {
    client: &'a Client,
    uri: &'a str,
    ticket: Option<Ticket>,
}

impl Reading<'_> {
    fn keep(mut self, round: u32, result: &Bytes) {
        let policy = self.client.pipeline.config.catalog;
        let text = std::str::from_utf8(result).unwrap_or_default();
        let hints = Members::parse(text).map_or(Hints::NONE, |members| Hints::of(&members));
        if round > 0 || hints.ttl == Duration::ZERO || result.len() > LARGEST {
            return;
        }
        let Some(ticket) = self.ticket.take() else { return };
        let now = self.client.pipeline.clock.now().mono;
        let mut state = self.client.catalog.current(&self.client.pipeline, now);
        // It may have been dropped meanwhile, for room.
        if let Some(entry) = state.reads.get_mut(self.uri) {
            let expires = now.saturating_add(hints.ttl.min(policy.ttl));
            entry.fetched(ticket, now, expires, hints.sharing, result.clone());
        }
        state.make_room(now);
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let now = self.client.pipeline.clock.now().mono;
        let mut state = self.client.catalog.current(&self.client.pipeline, now);
        if let Some(entry) = state.reads.get_mut(self.uri) {
            entry.failed(ticket, now, Failed::Refused, self.client.pipeline.config.catalog);
        }
        state.make_room(now);
    }
}

impl State {
    /// What is stale serves no read, and the oldest goes where there is no room.
    fn make_room(&mut self, now: Instant) {
        self.reads
            .retain(|_, entry| entry.is_fetching() || entry.held().is_some_and(|held| held.is_fresh(now)));
        let bytes = |state: &Self| -> usize {
            state.reads.values().filter_map(|entry| entry.held()).map(|held| held.value.len()).sum()
        };
        while self.reads.len() > MOST_READS || bytes(self) > MOST_BYTES {
            let age = |entry: &Entry<Bytes>| entry.held().map(|held| held.received);
            let oldest = self.reads.iter().filter(|(_, entry)| entry.held().is_some());
            let oldest = oldest.min_by_key(|(_, entry)| age(entry)).map(|(uri, _)| uri.clone());
            let Some(oldest) = oldest else { return };
            self.reads.remove(&oldest);
        }
    }
}
