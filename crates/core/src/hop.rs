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

/// A published revision of the protocol that can be spoken, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// `2025-03-26`: the only one with batches.
    V2025_03_26,
    /// `2025-06-18`: batches gone, elicitation and structured output come.
    V2025_06_18,
    /// `2025-11-25`: streams that a client may resume after the server closed them, experimental tasks.
    V2025_11_25,
    /// `2026-07-28`: no handshake, no session, metadata on every request.
    V2026_07_28,
}

impl Revision {
    /// All, newest first: the order of `supportedVersions` and of the error -32022 (AMB-16).
    pub const ALL: [Self; 4] = [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26];

    /// The newest that is negotiated by `initialize` (VER-24, LEG-07).
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// The revision with exactly this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whose rules it obeys.
    pub const fn era(self) -> Era {
        match self {
            Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }
}
