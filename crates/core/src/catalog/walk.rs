//! The pages of one list, put together (PAG, CCH-22..25).

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use core::time::Duration;

use super::hints::{Hints, Sharing};
use crate::time::Instant;

/// How much one list may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Pages.
    pub pages: u32,
    /// Bytes of all pages together.
    pub bytes: usize,
}

impl Bounds {
    /// A thousand pages, 32 MiB.
    pub const DEFAULT: Self = Self { pages: 1_000, bytes: 32 << 20 };
}

/// Why a list ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// A cursor led to where it had led before (PAG-06).
    Loop,
    /// There are more pages than may be.
    Pages,
    /// It is larger than may be.
    Bytes,
}

impl Cut {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loop => "a cursor came a second time",
            Self::Pages => "it has more pages than are read",
            Self::Bytes => "it is larger than is read",
        }
    }
}

/// What all pages say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Whole {
    /// When the first of them is stale: a list is as fresh as its oldest page, each by its own clock (CCH-22).
    pub expires: Instant,
    /// Private if any page is: they share a scope (CCH-04, I-19).
    pub sharing: Sharing,
    /// It is not all of it.
    pub cut: Option<Cut>,
}

/// What follows a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The next page, by this cursor: its JSON as it came (PAG-02).
    Page(String),
    /// That was all.
    Done(Whole),
}

/// One walk over the pages, from the first on: a list is wanted as a snapshot, so never from a later one (CCH-24).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    bounds: Bounds,
    ttl: Duration,
    cursors: BTreeSet<String>,
    pages: u32,
    bytes: usize,
    expires: Instant,
    sharing: Sharing,
    began_again: bool,
}

impl Walk {
    /// Before the first page. `ttl` is the policy's.
    pub const fn new(bounds: Bounds, ttl: Duration) -> Self {
        Self {
            bounds,
            ttl,
            cursors: BTreeSet::new(),
            pages: 0,
            bytes: 0,
            expires: Instant::from_nanos(u64::MAX),
            sharing: Sharing::Public,
            began_again: false,
        }
    }

    /// A page came. `next` is the JSON of its `nextCursor`: anything but an absent one or `null` means more, `""`
    /// included (PAG-03, PAG-04).
    pub fn page(&mut self, now: Instant, hints: Hints, bytes: usize, next: Option<&str>) -> Step {
        self.pages += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.expires = self.expires.min(now.saturating_add(hints.ttl.min(self.ttl)));
        self.sharing = self.sharing.max(hints.sharing);
        let Some(next) = next.filter(|next| *next != "null") else { return self.done(None) };
        if self.pages >= self.bounds.pages {
            return self.done(Some(Cut::Pages));
        }
        if self.bytes >= self.bounds.bytes {
            return self.done(Some(Cut::Bytes));
        }
        if !self.cursors.insert(next.to_owned()) {
            return self.done(Some(Cut::Loop));
        }
        Step::Page(next.to_owned())
    }

    /// The server refuses a cursor of its own. All pages so far are dropped, and the walk begins again without one
    /// (CCH-25, I-19): once. Whether it may.
    pub fn bad_cursor(&mut self) -> bool {
        if self.pages == 0 || self.began_again {
            return false;
        }
        *self = Self { began_again: true, ..Self::new(self.bounds, self.ttl) };
        true
    }

    const fn done(&self, cut: Option<Cut>) -> Step {
        Step::Done(Whole { expires: self.expires, sharing: self.sharing, cut })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(300);

    fn hints(ms: u64, sharing: Sharing) -> Hints {
        Hints { ttl: Duration::from_millis(ms), sharing }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn done(step: Step) -> Whole {
        match step {
            Step::Done(whole) => whole,
            Step::Page(next) => panic!("{next}"),
        }
    }

    // shows: CCH-22, CCH-04, CCH-32
    #[test]
    fn i_19_a_list_is_as_fresh_as_its_oldest_page_and_as_private_as_any() {
        let mut walk = Walk::new(Bounds::DEFAULT, TTL);
        assert_eq!(
            walk.page(at(0), hints(100, Sharing::Public), 1, Some(r#""a""#)),
            Step::Page(r#""a""#.into())
        );
        walk.page(at(50), hints(60, Sharing::Private), 1, Some(r#""b""#));
        let whole = done(walk.page(at(60), hints(1_000, Sharing::Public), 1, None));
        assert_eq!(whole, Whole { expires: at(100), sharing: Sharing::Private, cut: None });

        let one = |ms| done(Walk::new(Bounds::DEFAULT, TTL).page(at(7), hints(ms, Sharing::Public), 1, None));
        assert_eq!(one(u64::MAX).expires, at(300_007), "the smaller of what the server and the policy say");
        assert_eq!(one(0).expires, at(7), "stale at once");
        assert_eq!(one(0).sharing, Sharing::Public);
    }

    // shows: PAG-02, PAG-03, PAG-04, PAG-06
    #[test]
    fn f094_cursors_are_followed_as_they_are_and_never_for_ever() {
        let mut walk = Walk::new(Bounds { pages: 4, bytes: 100 }, TTL);
        let mut page = |bytes, next| walk.page(at(0), Hints::NONE, bytes, next);
        assert_eq!(page(1, Some(r#""""#)), Step::Page(r#""""#.into()), "an empty cursor is one");
        assert_eq!(page(1, Some(r#""\u0061""#)), Step::Page(r#""\u0061""#.into()), "as it came");
        assert_eq!(done(page(1, Some(r#""""#))).cut, Some(Cut::Loop));
        assert_eq!(done(page(1, Some(r#""c""#))).cut, Some(Cut::Pages));
        let mut walk = Walk::new(Bounds { pages: 4, bytes: 100 }, TTL);
        assert_eq!(done(walk.page(at(0), Hints::NONE, 100, Some(r#""a""#))).cut, Some(Cut::Bytes));
        assert_eq!(done(walk.page(at(0), Hints::NONE, 1, Some("null"))).cut, None, "null is none");
    }

    // shows: I-19, CCH-24
    #[test]
    fn cch_25_a_bad_cursor_drops_all_pages_and_the_walk_begins_again_once() {
        let mut walk = Walk::new(Bounds::DEFAULT, TTL);
        assert!(!walk.bad_cursor(), "the first page has none");
        walk.page(at(0), hints(10, Sharing::Private), 1, Some(r#""a""#));
        assert!(walk.bad_cursor());
        assert_eq!(
            walk.page(at(50), hints(100, Sharing::Public), 1, Some(r#""a""#)),
            Step::Page(r#""a""#.into())
        );
        assert_eq!(done(walk.page(at(60), hints(100, Sharing::Public), 1, None)).expires, at(150));
        assert!(!walk.bad_cursor());
    }
}
