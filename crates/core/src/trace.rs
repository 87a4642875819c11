//! Trace context as a peer sends it in `_meta` (W3C Trace Context and Baggage), read as what it is: untrusted.

use alloc::borrow::ToOwned;
use alloc::string::String;

/// The most bytes of `tracestate` that are kept.
const MAX_STATE_BYTES: usize = 512;
/// The most bytes of `baggage` that are kept (TRC-09).
const MAX_BAGGAGE_BYTES: usize = 8_192;

/// Where a request stands in its caller's trace. Its `Debug` leaves the baggage out: it may hold anything.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Trace {
    parent: String,
    state: Option<String>,
    baggage: Option<String>,
}

impl Trace {
    /// The context of a request, from the three values of its `_meta`. An invalid value is as none and never an error
    /// (TRC-04); without a valid `traceparent` there is no trace to continue.
    pub fn of(parent: Option<&str>, state: Option<&str>, baggage: Option<&str>) -> Option<Self> {
        let printable = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let kept = |text: Option<&str>, limit: usize| {
            text.filter(|text| !text.is_empty() && text.len() <= limit && printable(text))
                .map(ToOwned::to_owned)
        };
        let parent = parent.filter(|parent| is_parent(parent))?.to_owned();
        Some(Self { parent, state: kept(state, MAX_STATE_BYTES), baggage: kept(baggage, MAX_BAGGAGE_BYTES) })
    }

    /// `traceparent`, as it came.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// The trace's id: 32 hex digits.
    pub fn id(&self) -> &str {
        self.parent.get(3..35).unwrap_or_default()
    }

    /// `tracestate`, where there is a valid one.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// `baggage`, where there is a valid one. Anybody may have written it: do not log it, and do not hand it on to
    /// whom it was not meant for (TRC-09).
    pub fn baggage(&self) -> Option<&str> {
        self.baggage.as_deref()
    }
}

impl core::fmt::Debug for Trace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Trace").field("parent", &self.parent).finish_non_exhaustive()
    }
}

/// `00-<32 hex>-<16 hex>-<2 hex>` in lower case, neither id all zero; of a later version what follows is not looked at.
fn is_parent(text: &str) -> bool {
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    let mut parts = text.splitn(5, '-');
    let [Some(version), Some(trace), Some(parent), Some(flags)] = [(); 4].map(|()| parts.next()) else {
        return false;
    };
    let rest = parts.next();
    is_hex(version, 2)
        && version != "ff"
        && (version != "00" || rest.is_none())
        && is_hex(trace, 32)
        && !is_zero(trace)
        && is_hex(parent, 16)
        && !is_zero(parent)
        && is_hex(flags, 2)
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    const PARENT: &str = "00-7b1f0c6be2a94c0d8f3c5a1de40972ab-51c2a7d09e6f3b18-01";

    // shows: TRC-02, TRC-09
    #[test]
    fn trc_04_an_invalid_value_is_as_none() {
        let trace = Trace::of(Some(PARENT), Some("relay=51c2"), Some("tenant=acme")).unwrap();
        assert_eq!((trace.parent(), trace.id()), (PARENT, "7b1f0c6be2a94c0d8f3c5a1de40972ab"));
        assert_eq!((trace.state(), trace.baggage()), (Some("relay=51c2"), Some("tenant=acme")));
        assert!(!format!("{trace:?}").contains("acme"));
        let later = PARENT.replacen("00", "01", 1) + "-more";
        assert!(Trace::of(Some(&later), None, None).is_some());
        for broken in [
            "",
            "00",
            &PARENT.to_uppercase(),
            &PARENT.replacen("00", "ff", 1),
            &PARENT[..54],
            &format!("{PARENT}-more"),
            "00-00000000000000000000000000000000-51c2a7d09e6f3b18-01",
            "00-7b1f0c6be2a94c0d8f3c5a1de40972ab-0000000000000000-01",
        ] {
            assert_eq!(Trace::of(Some(broken), Some("a=b"), Some("c=d")), None, "{broken}");
        }
        let odd = Trace::of(Some(PARENT), Some("a\nb"), Some(&"x".repeat(9_000))).unwrap();
        assert_eq!((odd.state(), odd.baggage()), (None, None));
    }
}
