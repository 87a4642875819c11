//! What one hop speaks: its transport and its era decide how a cancel looks and what a disconnect means.

/// How messages travel on a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Newline-framed messages over a byte stream: a child's pipes, a Unix socket, TCP.
    Stdio,
    /// Streamable HTTP: one POST a request, answered as JSON or as an event stream.
    Http,
}

/// Which half of MCP's history a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// 2026-07-28 and later: no handshake, metadata on every request.
    Modern,
    /// 2025-11-25 and earlier: `initialize`, sessions, requests in both directions.
    Legacy,
}

/// One hop: who is at its other end changes, these two do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// How messages travel.
    pub transport: Transport,
    /// Which rules the request obeys.
    pub era: Era,
}

impl Hop {
    /// All four, in the order in which reports print them.
    pub const ALL: [Self; 4] = [
        Self { transport: Transport::Stdio, era: Era::Modern },
        Self { transport: Transport::Stdio, era: Era::Legacy },
        Self { transport: Transport::Http, era: Era::Modern },
        Self { transport: Transport::Http, era: Era::Legacy },
    ];
}

impl Transport {
    /// The word used in reports: `stdio` or `http`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

impl Era {
    /// The word used in reports: `modern` or `legacy`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }
}
