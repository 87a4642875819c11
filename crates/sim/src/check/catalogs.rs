//! The account of fetches that three checkers keep alike.

use super::attempts::Attempts;
use crate::event::Catalog;

/// What was seen of one fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    pub(super) owner: u8,
    /// How many changes had been heard when it began.
    pub(super) began_after: u8,
    pub(super) pages: u8,
    pub(super) all_public: bool,
    /// When the first of its pages is stale.
    pub(super) expires_ms: u64,
    pub(super) asked: bool,
    pub(super) bad_cursor: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Fetches {
    pub(super) changes: u8,
    fetches: Attempts<Fetch>,
}

impl Fetches {
    /// Takes an event in, and gives back the fetch that is served, if one is.
    pub(super) fn see(&mut self, now_ms: u64, event: &Catalog) -> Option<Fetch> {
        match *event {
            Catalog::Fetching { owner, fetch } => self.fetches.set(
                fetch,
                Fetch {
                    owner,
                    began_after: self.changes,
                    pages: 0,
                    all_public: true,
                    expires_ms: u64::MAX,
                    asked: false,
                    bad_cursor: false,
                },
            ),
            Catalog::Page { fetch, ttl_ms, public } => self.note(fetch, |of| {
                of.pages += 1;
                of.all_public &= public;
                of.expires_ms = of.expires_ms.min(now_ms + ttl_ms);
            }),
            Catalog::Asks { fetch } => self.note(fetch, |of| of.asked = true),
            Catalog::BadCursor { fetch } => self.note(fetch, |of| of.bad_cursor = true),
            Catalog::Failed { .. } => {}
            Catalog::Changed => self.changes += 1,
            Catalog::Served { fetch, .. } => return self.fetches.get(fetch),
        }
        None
    }

    fn note(&mut self, fetch: u8, what: impl FnOnce(&mut Fetch)) {
        if let Some(mut of) = self.fetches.get(fetch) {
            what(&mut of);
            self.fetches.set(fetch, of);
        }
    }
}
