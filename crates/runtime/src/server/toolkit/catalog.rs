//! A set of definitions that may change while it is listed: in the order in which they were added.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::page::{self, BadCursor};

/// Definitions by name. A page begins after a number that is never given twice, so that it stays the same page while
/// others come and go (PAG-05, STA-08).
#[derive(Debug)]
pub(super) struct Catalog<T>(RwLock<Entries<T>>);

#[derive(Debug)]
struct Entries<T> {
    by_number: BTreeMap<u64, Arc<T>>,
    by_name: HashMap<String, u64>,
    next: u64,
}

impl<T> Catalog<T> {
    pub(super) fn new() -> Self {
        Self(RwLock::new(Entries { by_number: BTreeMap::new(), by_name: HashMap::new(), next: 0 }))
    }

    /// Adds a definition; one of the same name is replaced at its place. Says whether there was one.
    pub(super) fn put(&self, name: &str, definition: T) -> bool {
        let mut entries = self.write();
        let known = entries.by_name.get(name).copied();
        let number = known.unwrap_or(entries.next);
        if known.is_none() {
            entries.next += 1;
            entries.by_name.insert(name.to_owned(), number);
        }
        entries.by_number.insert(number, Arc::new(definition));
        known.is_some()
    }

    /// Takes a definition away; says whether there was one.
    pub(super) fn remove(&self, name: &str) -> bool {
        let mut entries = self.write();
        let number = entries.by_name.remove(name);
        number.is_some_and(|number| entries.by_number.remove(&number).is_some())
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<T>> {
        let entries = self.read();
        entries.by_name.get(name).and_then(|number| entries.by_number.get(number)).map(Arc::clone)
    }

    /// The first that `pick` picks something of.
    pub(super) fn find<R>(&self, pick: impl Fn(&T) -> Option<R>) -> Option<(Arc<T>, R)> {
        let entries = self.read();
        entries.by_number.values().find_map(|it| pick(it).map(|found| (Arc::clone(it), found)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.read().by_number.is_empty()
    }

    /// One page, and the cursor of the next if there is one.
    pub(super) fn page(
        &self,
        cursor: Option<&str>,
        size: usize,
    ) -> Result<(Vec<Arc<T>>, Option<String>), BadCursor> {
        let start = match cursor {
            None => 0,
            Some(cursor) => page::start(cursor)?.parse::<u64>().map_err(|_| BadCursor)?.saturating_add(1),
        };
        let entries = self.read();
        let mut rest = entries.by_number.range(start..);
        let (mut page, mut last) = (Vec::new(), 0);
        for (number, definition) in rest.by_ref().take(size) {
            page.push(Arc::clone(definition));
            last = *number;
        }
        let more = rest.next().is_some();
        Ok((page, more.then(|| page::after(&last.to_string()))))
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f094_pages_cover_the_list_once_while_it_changes() {
        let catalog = Catalog::new();
        for name in ["c", "a", "e", "b", "d"] {
            catalog.put(name, name);
        }
        let (first, cursor) = catalog.page(None, 2).unwrap();
        assert_eq!(first.iter().map(|it| **it).collect::<Vec<_>>(), ["c", "a"], "STA-08: as they were added");
        catalog.remove("a");
        catalog.put("f", "f");
        let (second, cursor) = catalog.page(cursor.as_deref(), 2).unwrap();
        assert_eq!(second.iter().map(|it| **it).collect::<Vec<_>>(), ["e", "b"]);
        let (third, cursor) = catalog.page(cursor.as_deref(), 2).unwrap();
        assert_eq!(third.iter().map(|it| **it).collect::<Vec<_>>(), ["d", "f"]);
        assert_eq!(cursor, None);
        assert_eq!(catalog.page(Some("nonsense"), 2), Err(BadCursor));
    }
}
