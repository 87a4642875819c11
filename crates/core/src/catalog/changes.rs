//! What is new in a list: by content, not by what the server says of it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use sha2::{Digest, Sha256};

use crate::ijson::Document;

/// What a definition says, whatever the order of its members.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// Of one JSON value: SHA-256 over its canonical form, or over its own bytes where it has none.
    pub fn of(json: &str) -> Self {
        let canonical = Document::parse(json.as_bytes()).map(|document| document.canonical());
        Self(Sha256::digest(canonical.as_deref().unwrap_or(json).as_bytes()).into())
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// What differs between two states of one list, by name, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Changes {
    /// Only in the new one.
    pub added: Vec<String>,
    /// Only in the old one.
    pub removed: Vec<String>,
    /// In both, with another content.
    pub changed: Vec<String>,
}

impl Changes {
    /// From one list of names and contents to another.
    pub fn between<'a>(
        old: impl IntoIterator<Item = (&'a str, ContentHash)>,
        new: impl IntoIterator<Item = (&'a str, ContentHash)>,
    ) -> Self {
        let mut old: BTreeMap<&str, ContentHash> = old.into_iter().collect();
        let mut changes = Self::default();
        for (name, content) in new.into_iter().collect::<BTreeMap<_, _>>() {
            match old.remove(name) {
                None => changes.added.push(name.into()),
                Some(was) if was != content => changes.changed.push(name.into()),
                Some(_) => {}
            }
        }
        changes.removed.extend(old.into_keys().map(String::from));
        changes
    }

    /// Whether both are the same.
    pub const fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f091_only_what_says_something_else_is_a_change() {
        let list = |items: &[(&'static str, &'static str)]| -> Vec<(&'static str, ContentHash)> {
            items.iter().map(|(name, json)| (*name, ContentHash::of(json))).collect()
        };
        let old = list(&[("a", r#"{"name":"a","x":1.0}"#), ("b", "{}"), ("c", r#"{"n":1}"#)]);
        let new = list(&[("d", "{}"), ("a", r#"{ "x": 1, "name": "a" }"#), ("c", r#"{"n":2}"#)]);
        let changes = Changes::between(old.clone(), new);
        assert_eq!(changes.added, ["d"]);
        assert_eq!(changes.removed, ["b"]);
        assert_eq!(changes.changed, ["c"]);
        assert!(Changes::between(old.clone(), old).is_empty());
        let strange = r#"{"n":9007199254740993}"#;
        assert_ne!(
            ContentHash::of(strange),
            ContentHash::of(r#"{"n":9007199254740992}"#),
            "no double holds it"
        );
    }
}
