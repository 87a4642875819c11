//! What a server says of how long its answer holds, and for whom.

use core::time::Duration;

use crate::object::Members;

/// Who may be served an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharing {
    /// Everybody: the server says so (CCH-15).
    Public,
    /// The authorization context that it was fetched in, and no other.
    Private,
}

impl Sharing {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

/// `ttlMs` and `cacheScope` of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hints {
    /// For how long it is fresh, from its receipt.
    pub ttl: Duration,
    /// For whom.
    pub sharing: Sharing,
}

impl Hints {
    /// Stale and private: what an answer without hints is (CCH-10, CCH-18, LEG-16, AMB-12).
    pub const NONE: Self = Self { ttl: Duration::ZERO, sharing: Sharing::Private };

    /// Reads those of a result. What is missing or makes no sense counts as [`Self::NONE`] (CCH-10, CCH-18).
    pub fn of(result: &Members<'_>) -> Self {
        let ttl = result.get("ttlMs").map_or(0, millis);
        let sharing = match result.get("cacheScope") {
            Some("\"public\"") => Sharing::Public,
            _ => Sharing::Private,
        };
        Self { ttl: Duration::from_millis(ttl), sharing }
    }
}

/// Whole milliseconds; what no number can be is none, and what is too large is as large as can be (CCH-32).
fn millis(json: &str) -> u64 {
    let double = || json.parse::<f64>().ok().filter(|ms| *ms >= 0.0);
    // A cast from a double saturates.
    json.parse::<u64>().ok().or_else(|| double().map(|ms| ms as u64)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: CCH-18, CCH-32, LEG-16, I-17
    #[test]
    fn cch_10_what_is_missing_or_strange_is_stale_and_private() {
        let ttl = |result: &str| Hints::of(&Members::parse(result).unwrap()).ttl;
        assert_eq!(Hints::of(&Members::parse("{}").unwrap()), Hints::NONE);
        for zero in ["0", "-5", "-0.5", "null", "\"60000\"", "[1]", "true"] {
            assert_eq!(ttl(&alloc::format!("{{\"ttlMs\":{zero}}}")), Duration::ZERO, "{zero}");
        }
        assert_eq!(ttl(r#"{"ttlMs":60000}"#), Duration::from_secs(60));
        assert_eq!(ttl(r#"{"ttlMs":6e4}"#), Duration::from_secs(60));
        for absurd in ["18446744073709551615", "18446744073709551616", "1e400", "1e30"] {
            let ttl = ttl(&alloc::format!("{{\"ttlMs\":{absurd}}}"));
            assert!(ttl >= Duration::from_millis(1 << 62), "{absurd}");
        }
        for (scope, sharing) in [
            (r#""public""#, Sharing::Public),
            (r#""private""#, Sharing::Private),
            (r#""PUBLIC""#, Sharing::Private),
            (r#""tenant""#, Sharing::Private),
            ("null", Sharing::Private),
            ("1", Sharing::Private),
        ] {
            let result = alloc::format!("{{\"cacheScope\":{scope}}}");
            assert_eq!(Hints::of(&Members::parse(&result).unwrap()).sharing, sharing, "{scope}");
        }
    }
}
