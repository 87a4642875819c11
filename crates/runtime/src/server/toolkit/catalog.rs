//! A set of definitions that may change while it is listed: in the order in which they were added.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;
use steadfast_core::hop::{Revision, Transport};

use super::page::{self, BadCursor};
use crate::server::Caller;

/// What is listed: a tool, a resource, a template or a prompt.
pub(super) trait Definition {
    /// What it is called by, unique in its catalog.
    fn id(&self) -> &str;

    /// Who may see it.
    fn audience(&self) -> &Audience;

    /// The definition as this caller is shown it.
    fn to_json(&self, caller: &Caller) -> Value;
}

/// Who may see a definition. What a caller may not see is neither listed nor found: access is decided with each request,
/// and no cached list decides it (CCH-27, F089).
#[derive(Clone, Default)]
pub(super) struct Audience(Option<Arc<Rule>>);

type Rule = dyn Fn(&Caller) -> bool + Send + Sync;

impl Audience {
    pub(super) fn only(rule: impl Fn(&Caller) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(rule)))
    }

    fn includes(&self, caller: &Caller) -> bool {
        self.0.as_ref().is_none_or(|rule| rule(caller))
    }

    const fn is_everybody(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_everybody() { "everybody" } else { "some" })
    }
}

/// Definitions by name. A page begins behind a number that is never given twice, so that it stays the same page while
/// others come and go (PAG-05, STA-08).
#[derive(Debug)]
pub(super) struct Catalog<T> {
    /// What its cursors begin with: a cursor of another list is none of this one.
    mark: &'static str,
    entries: RwLock<Entries<T>>,
}

#[derive(Debug)]
struct Entries<T> {
    by_number: BTreeMap<u64, Arc<T>>,
    by_name: HashMap<String, u64>,
    next: u64,
}

/// What putting a definition did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Added,
    Replaced,
    /// As callers see it, nothing changed: there is nothing to tell (F091).
    Unchanged,
}

impl<T: Definition> Catalog<T> {
    pub(super) fn new(mark: &'static str) -> Self {
        let entries = Entries { by_number: BTreeMap::new(), by_name: HashMap::new(), next: 0 };
        Self { mark, entries: RwLock::new(entries) }
    }

    /// Adds a definition; one of the same name is replaced at its place.
    pub(super) fn put(&self, definition: T) -> Put {
        let mut entries = self.write();
        let name = definition.id().to_owned();
        let number = match entries.by_name.get(&name) {
            Some(number) => *number,
            None => {
                let number = entries.next;
                entries.next += 1;
                entries.by_name.insert(name, number);
                number
            }
        };
        let definition = Arc::new(definition);
        match entries.by_number.insert(number, Arc::clone(&definition)) {
            None => Put::Added,
            Some(old) if look_alike(&*old, &*definition) => Put::Unchanged,
            Some(_) => Put::Replaced,
        }
    }

    /// Takes a definition away; says whether there was one.
    pub(super) fn remove(&self, name: &str) -> bool {
        let mut entries = self.write();
        let number = entries.by_name.remove(name);
        number.is_some_and(|number| entries.by_number.remove(&number).is_some())
    }

    /// The definition of this name, whoever may see it.
    pub(super) fn any(&self, name: &str) -> Option<Arc<T>> {
        let entries = self.read();
        entries.by_name.get(name).and_then(|number| entries.by_number.get(number)).map(Arc::clone)
    }

    /// The definition of this name, if the caller may see it.
    pub(super) fn get(&self, caller: &Caller, name: &str) -> Option<Arc<T>> {
        self.any(name).filter(|definition| definition.audience().includes(caller))
    }

    /// The first of what the caller may see that `pick` picks something of.
    pub(super) fn find<R>(&self, caller: &Caller, pick: impl Fn(&T) -> Option<R>) -> Option<(Arc<T>, R)> {
        let seen = |it: &Arc<T>| it.audience().includes(caller).then(|| Arc::clone(it));
        // The rules and `pick` are the author's code: the lock is not held while they run.
        self.all().iter().filter_map(seen).find_map(|it| pick(&it).map(|found| (Arc::clone(&it), found)))
    }

    pub(super) fn has(&self, is_one: impl Fn(&T) -> bool) -> bool {
        self.read().by_number.values().any(|it| is_one(it))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.read().by_number.is_empty()
    }

    /// Whether everybody sees the same (CCH-04).
    pub(super) fn is_public(&self) -> bool {
        !self.has(|it| !it.audience().is_everybody())
    }

    /// One page of what the caller may see, and the cursor of the next if there is one.
    pub(super) fn page(
        &self,
        caller: &Caller,
        cursor: Option<&str>,
        size: usize,
    ) -> Result<(Vec<Arc<T>>, Option<String>), BadCursor> {
        let behind = cursor.map(|cursor| page::number_of(self.mark, cursor)).transpose()?;
        let rest: Vec<(u64, Arc<T>)> = {
            let entries = self.read();
            if behind.is_some_and(|number| number >= entries.next) {
                return Err(BadCursor);
            }
            let start = behind.map_or(0, |number| number + 1);
            entries.by_number.range(start..).map(|(number, it)| (*number, Arc::clone(it))).collect()
        };
        let mut rest = rest.into_iter().filter(|(_, it)| it.audience().includes(caller)).peekable();
        let (mut page, mut last) = (Vec::new(), 0);
        for (number, definition) in rest.by_ref().take(size) {
            page.push(definition);
            last = number;
        }
        let more = rest.peek().is_some();
        Ok((page, more.then(|| page::cursor(self.mark, last))))
    }

    fn all(&self) -> Vec<Arc<T>> {
        self.read().by_number.values().map(Arc::clone).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries<T>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries<T>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether callers see no difference. Two rules cannot be compared.
fn look_alike<T: Definition>(old: &T, new: &T) -> bool {
    let callers = Revision::ALL.map(|revision| Caller { revision, ..Caller::local(Transport::Stdio) });
    old.audience().is_everybody()
        && new.audience().is_everybody()
        && callers.iter().all(|caller| old.to_json(caller) == new.to_json(caller))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str, Audience);

    impl Definition for Named {
        fn id(&self) -> &str {
            self.0
        }

        fn audience(&self) -> &Audience {
            &self.1
        }

        fn to_json(&self, _: &Caller) -> Value {
            self.0.into()
        }
    }

    fn catalog(names: &[&'static str]) -> Catalog<Named> {
        let catalog = Catalog::new("t");
        for name in names {
            assert_eq!(catalog.put(Named(name, Audience::default())), Put::Added);
        }
        catalog
    }

    fn nobody() -> Caller {
        Caller::local(Transport::Http)
    }

    fn walk(catalog: &Catalog<Named>, cursor: Option<&str>) -> (Vec<&'static str>, Option<String>) {
        let (page, next) = catalog.page(&nobody(), cursor, 2).unwrap_or_else(|_| panic!("{cursor:?}"));
        (page.iter().map(|it| it.0).collect(), next)
    }

    #[test]
    fn f094_pages_cover_the_list_once_while_it_changes() {
        let catalog = catalog(&["c", "a", "e", "b", "d"]);
        let (first, cursor) = walk(&catalog, None);
        assert_eq!(first, ["c", "a"], "STA-08: as they were added");
        catalog.remove("a");
        catalog.put(Named("f", Audience::default()));
        let (second, cursor) = walk(&catalog, cursor.as_deref());
        assert_eq!(second, ["e", "b"]);
        let (third, cursor) = walk(&catalog, cursor.as_deref());
        assert_eq!(third, ["d", "f"]);
        assert_eq!(cursor, None);
    }

    #[test]
    fn pag_05_a_cursor_that_was_never_given_is_refused() {
        let tools = catalog(&["a", "b", "c"]);
        let (_, cursor) = walk(&tools, None);
        let other: Catalog<Named> = Catalog::new("other");
        for cursor in ["", "nonsense", &page::cursor("t", 3), &page::cursor("t", u64::MAX)] {
            assert!(tools.page(&nobody(), Some(cursor), 2).is_err(), "{cursor:?}");
        }
        assert!(other.page(&nobody(), cursor.as_deref(), 2).is_err(), "of another list");
    }

    // shows: F088, CCH-27
    #[test]
    fn f089_what_a_caller_may_not_see_is_neither_listed_nor_found() {
        let catalog = catalog(&["a"]);
        assert!(catalog.is_public());
        catalog.put(Named("b", Audience::only(|caller| caller.principal.principal == "anna")));
        let mut anna = nobody();
        anna.principal.principal = "anna".into();
        assert!(!catalog.is_public(), "CCH-04");
        assert_eq!(walk(&catalog, None), (vec!["a"], None));
        assert_eq!(catalog.page(&anna, None, 2).map(|(page, _)| page.len()), Ok(2));
        assert!(catalog.get(&nobody(), "b").is_none() && catalog.get(&anna, "b").is_some());
        assert!(catalog.find(&nobody(), |it| (it.0 == "b").then_some(())).is_none());
    }

    #[test]
    fn f091_what_looks_the_same_is_no_change() {
        let catalog = catalog(&["a"]);
        assert_eq!(catalog.put(Named("a", Audience::default())), Put::Unchanged);
        assert_eq!(catalog.put(Named("a", Audience::only(|_| true))), Put::Replaced);
    }
}
