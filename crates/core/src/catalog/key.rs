//! Whose a cached entry is.

use alloc::string::String;
use alloc::vec::Vec;

use crate::hop::{Revision, Transport};

/// What may be cached: no other method, no error, no task (CCH-28).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// All tools.
    Tools,
    /// All prompts.
    Prompts,
    /// All resources.
    Resources,
    /// All templates of resources.
    Templates,
    /// One resource, by its URI.
    Resource(String),
}

impl Subject {
    /// The four lists.
    pub const LISTS: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that fetches it.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Resource(_) => "resources/read",
        }
    }

    /// The member of the result that holds the list, and the member of each item that names it.
    pub const fn members(&self) -> (&'static str, &'static str) {
        match self {
            Self::Tools => ("tools", "name"),
            Self::Prompts => ("prompts", "name"),
            Self::Resources => ("resources", "uri"),
            Self::Templates => ("resourceTemplates", "uriTemplate"),
            Self::Resource(_) => ("contents", "uri"),
        }
    }

    /// Whether a notice makes it stale (CCH-19). `uri` is the notice's: it may name a part of a resource, and then the
    /// whole has changed as well (CCH-21).
    pub fn is_changed_by(&self, notice: &str, uri: Option<&str>) -> bool {
        match (self, notice) {
            (Self::Tools, "notifications/tools/list_changed")
            | (Self::Prompts, "notifications/prompts/list_changed")
            | (Self::Resources | Self::Templates, "notifications/resources/list_changed") => true,
            // A notice that says not which may mean any.
            (Self::Resource(known), "notifications/resources/updated") => {
                uri.is_none_or(|changed| is_part_of(changed, known))
            }
            (Self::Tools | Self::Prompts | Self::Resources | Self::Templates | Self::Resource(_), _) => false,
        }
    }
}

/// Whether a URI is another one, or lies below it.
fn is_part_of(part: &str, whole: &str) -> bool {
    part.strip_prefix(whole)
        .is_some_and(|rest| rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

/// The authorization context: nothing private crosses from one to another (CCH-16).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The tenant.
    pub tenant: String,
    /// The principal within the tenant.
    pub principal: String,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// A digest of its credentials, where there are any: another token is another context, for the same person too
    /// (AUT-05, AMB-14).
    pub credentials: Option<[u8; 32]>,
}

/// What an entry is kept under (G10, CCH-29). Progress tokens, traces, log levels and the client's own name are no part
/// of it (TRC-07, AMB-13).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The server's configured name and address.
    pub server: String,
    /// How it is spoken to.
    pub transport: Transport,
    /// In which revision.
    pub revision: Revision,
    /// The capabilities and extensions that are declared to it, as they are sent.
    pub capabilities: String,
    /// What of it.
    pub subject: Subject,
    /// For whom; nobody in particular if it may be shared.
    pub owner: Option<Owner>,
}

impl Key {
    /// The key of the same thing for everybody: for what the server calls public, and nothing else.
    #[must_use]
    pub fn for_everybody(&self) -> Self {
        Self { owner: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: I-17, CCH-08, CCH-16
    #[test]
    fn cch_29_each_part_of_the_key_tells_entries_apart() {
        let owner = Owner {
            tenant: "acme".into(),
            principal: "ann".into(),
            scopes: ["read".into()].into(),
            credentials: Some([1; 32]),
        };
        let key = Key {
            server: "shop".into(),
            transport: Transport::Http,
            revision: Revision::V2026_07_28,
            capabilities: "{}".into(),
            subject: Subject::Tools,
            owner: Some(owner.clone()),
        };
        let of = |owner: Owner| Key { owner: Some(owner), ..key.clone() };
        for other in [
            Key { server: "till".into(), ..key.clone() },
            Key { transport: Transport::Stdio, ..key.clone() },
            Key { revision: Revision::V2025_11_25, ..key.clone() },
            Key { capabilities: r#"{"extensions":{"x":{}}}"#.into(), ..key.clone() },
            Key { subject: Subject::Prompts, ..key.clone() },
            Key { subject: Subject::Resource("a".into()), ..key.clone() },
            of(Owner { tenant: "umbra".into(), ..owner.clone() }),
            of(Owner { principal: "bob".into(), ..owner.clone() }),
            of(Owner { scopes: ["write".into()].into(), ..owner.clone() }),
            of(Owner { credentials: Some([2; 32]), ..owner.clone() }),
            of(Owner { credentials: None, ..owner }),
            key.for_everybody(),
        ] {
            assert_ne!(key, other);
        }
    }

    #[test]
    fn cch_19_each_notice_makes_stale_what_it_is_about() {
        let changed = |notice: &str| {
            Subject::LISTS.map(|list| list.is_changed_by(&alloc::format!("notifications/{notice}"), None))
        };
        assert_eq!(changed("tools/list_changed"), [true, false, false, false]);
        assert_eq!(changed("prompts/list_changed"), [false, true, false, false]);
        assert_eq!(changed("resources/list_changed"), [false, false, true, true]);
        assert_eq!(changed("resources/updated"), [false; 4]);
        assert_eq!(changed("message"), [false; 4]);
    }

    #[test]
    fn cch_21_an_update_of_a_part_is_one_of_the_whole() {
        let updated = |known: &str, changed| {
            Subject::Resource(known.into()).is_changed_by("notifications/resources/updated", changed)
        };
        assert!(updated("file:///a/b", Some("file:///a/b")));
        assert!(updated("file:///a", Some("file:///a/b")), "a part of it");
        assert!(updated("file:///a/", Some("file:///a/b")));
        assert!(updated("shop://stock", Some("shop://stock?item=1")));
        assert!(updated("file:///a", None), "it says not which");
        assert!(!updated("file:///a/b", Some("file:///a")));
        assert!(!updated("file:///a", Some("file:///ab")));
    }
}
