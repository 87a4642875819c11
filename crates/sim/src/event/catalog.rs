//! What can be seen of two clients that keep a server's list, and of the server.

use serde::Serialize;

/// What can be seen around one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Catalog {
    /// A fetch begins with the request for the first page.
    Fetching {
        /// Whose authorization context.
        owner: u8,
        /// The fetch's number.
        fetch: u8,
    },
    /// A page of it came.
    Page {
        /// The fetch's number.
        fetch: u8,
        /// For how long the server calls it fresh, in milliseconds.
        ttl_ms: u64,
        /// Whether the server calls it public.
        public: bool,
    },
    /// The server asks a question in place of a page: `input_required`.
    Asks {
        /// The fetch's number.
        fetch: u8,
    },
    /// The server refuses the cursor of its own first page.
    BadCursor {
        /// The fetch's number.
        fetch: u8,
    },
    /// The request for a page failed.
    Failed {
        /// The fetch's number.
        fetch: u8,
    },
    /// All clients heard that the list changed.
    Changed,
    /// Somebody got the list.
    Served {
        /// In which authorization context.
        owner: u8,
        /// What a fetch of this number brought.
        fetch: u8,
        /// Of how many pages it consists.
        pages: u8,
        /// Whether it is called fresh.
        fresh: bool,
    },
}
