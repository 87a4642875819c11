//! What clients of one host share: lists that their server calls public, and nothing else (CCH-15, CCH-16).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::catalog::Key;
use tokio::time::Instant;

/// A list that another client fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The results of its pages, as they came.
    pub pages: Vec<Bytes>,
    /// How long ago it was received.
    pub age: Duration,
    /// How much longer it is fresh.
    pub fresh_for: Duration,
}

/// Keeps what may be shared. Clients hand in nothing that is private, and only keys without an owner. No method may
/// block for long: they run between a request and its answer.
pub trait CatalogStore: Send + Sync {
    /// What is kept, if it is still fresh.
    fn get(&self, key: &Key) -> Option<Shared>;

    /// How often the key's server told of changes; asked before a fetch begins.
    fn generation(&self, key: &Key) -> u64;

    /// Keeps what was fetched, for so long, unless the server told of a change since that generation: then it may be
    /// what was before (I-18).
    fn put(&self, key: &Key, generation: u64, pages: &[Bytes], fresh_for: Duration);

    /// The server told of a change: what is kept under the key is forgotten.
    fn changed(&self, key: &Key);
}

/// A [`CatalogStore`] in memory, bounded.
#[derive(Debug, Default)]
pub struct InMemory(Mutex<Kept>);

/// How many lists, and how many bytes of them, are kept.
const MOST_LISTS: usize = 1_024;
const MOST_BYTES: usize = 64 << 20;

#[derive(Debug, Default)]
struct Kept {
    lists: BTreeMap<Key, One>,
    /// By server; there are as many as a host has.
    generations: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct One {
    pages: Vec<Bytes>,
    received: Instant,
    expires: Instant,
}

impl One {
    fn bytes(&self) -> usize {
        self.pages.iter().map(Bytes::len).sum()
    }
}

impl InMemory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CatalogStore for InMemory {
    fn get(&self, key: &Key) -> Option<Shared> {
        let now = Instant::now();
        let kept = self.kept();
        let one = kept.lists.get(key).filter(|one| now < one.expires)?;
        let (age, fresh_for) = (now.duration_since(one.received), one.expires.duration_since(now));
        Some(Shared { pages: one.pages.clone(), age, fresh_for })
    }

    fn generation(&self, key: &Key) -> u64 {
        self.kept().generations.get(&key.server).copied().unwrap_or_default()
    }

    fn put(&self, key: &Key, generation: u64, pages: &[Bytes], fresh_for: Duration) {
        let now = Instant::now();
        let mut kept = self.kept();
        if key.owner.is_some() || generation != kept.generations.get(&key.server).copied().unwrap_or_default()
        {
            return;
        }
        let Some(expires) = now.checked_add(fresh_for).filter(|expires| *expires > now) else { return };
        kept.lists.retain(|_, one| now < one.expires);
        kept.lists.insert(key.clone(), One { pages: pages.to_vec(), received: now, expires });
        while kept.lists.len() > MOST_LISTS || kept.lists.values().map(One::bytes).sum::<usize>() > MOST_BYTES
        {
            let oldest = kept.lists.iter().min_by_key(|(_, one)| one.received).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| kept.lists.remove(&oldest));
        }
    }

    fn changed(&self, key: &Key) {
        let mut kept = self.kept();
        *kept.generations.entry(key.server.clone()).or_default() += 1;
        kept.lists.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::catalog::{Owner, Subject};
    use steadfast_core::hop::{Revision, Transport};

    use super::*;

    fn key(server: &str) -> Key {
        Key {
            server: server.into(),
            transport: Transport::Http,
            revision: Revision::V2026_07_28,
            capabilities: "{}".into(),
            subject: Subject::Tools,
            owner: None,
        }
    }

    // shows: I-18
    #[tokio::test(start_paused = true)]
    async fn i_17_what_is_shared_is_public_fresh_and_not_from_before_a_change() {
        let store = InMemory::default();
        let (shop, pages) = (key("shop"), [Bytes::from_static(b"{}")]);
        let minute = Duration::from_secs(60);
        store.put(&shop, store.generation(&shop), &pages, minute);
        tokio::time::advance(Duration::from_secs(45)).await;
        let shared = store.get(&shop).unwrap();
        assert_eq!((shared.age, shared.fresh_for), (Duration::from_secs(45), Duration::from_secs(15)));
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(store.get(&shop), None, "not a moment longer");

        let before = store.generation(&shop);
        store.changed(&shop);
        store.put(&shop, before, &pages, minute);
        assert_eq!(store.get(&shop), None, "its fetch began before the change");
        store.put(&key("till"), store.generation(&key("till")), &pages, minute);
        store.changed(&shop);
        assert!(store.get(&key("till")).is_some(), "of another server");

        let ann =
            Owner { tenant: "a".into(), principal: "ann".into(), scopes: Vec::new(), credentials: None };
        let private = Key { owner: Some(ann), ..key("till") };
        store.put(&private, store.generation(&private), &pages, minute);
        assert_eq!(store.get(&private), None, "what is somebody's is not kept here");
        store.put(&shop, store.generation(&shop), &pages, Duration::ZERO);
        assert_eq!(store.get(&shop), None, "stale at once");
    }

    #[tokio::test(start_paused = true)]
    async fn i_27_the_oldest_goes_where_there_is_no_room() {
        let store = InMemory::default();
        let page = Bytes::from(vec![b' '; MOST_BYTES / 4]);
        for at in 0..6 {
            let key = key(&format!("{at}"));
            store.put(&key, 0, std::slice::from_ref(&page), Duration::from_secs(60));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let kept: Vec<bool> = (0..6).map(|at| store.get(&key(&format!("{at}"))).is_some()).collect();
        assert_eq!(kept, [false, false, true, true, true, true]);
    }
}
