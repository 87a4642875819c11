//! Which era a server speaks, decided by evidence and by nothing else (VER, AMB-04, AMB-16).
//!
//! The probe is `server/discover`: it changes nothing on any server, so no effect can come of finding out. Only when it
//! shows no modern server is the handshake tried, and only where that finds no endpoint the two endpoints of
//! 2024-11-05. What says nothing of the era (a refused login, an overloaded proxy, no connection) decides nothing
//! (VER-14): the next use asks again.

use alloc::string::String;
use alloc::vec::Vec;

use crate::hop::{Era, Revision, Transport};

/// What the operator wants (`era` in the configuration).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wish {
    /// Modern where the server speaks it, else legacy.
    #[default]
    Auto,
    /// Nothing but 2026-07-28.
    Modern,
    /// The handshake at once.
    Legacy,
}

/// What the probe, or the handshake, brought.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// A valid `DiscoverResult`, and the versions in it.
    Discovered(Vec<String>),
    /// -32022, and the versions in `data.supported`; an answer without that list is an [`Evidence::OtherError`].
    VersionRefused(Vec<String>),
    /// -32020 or -32021: no legacy meaning exists.
    ModernError,
    /// HTTP: 404 whose body is a JSON-RPC -32601 with the request's id. To anything but `server/discover` it is the
    /// modern word for an unknown method; a modern server always has that one (VER-13).
    UnknownMethod,
    /// Any other JSON-RPC error; over HTTP with a status that is no evidence by itself.
    OtherError,
    /// HTTP: 400, 404 or 405 whose body is no JSON-RPC error.
    NoSuchEndpoint,
    /// A result that is none of the method asked for.
    OtherResult,
    /// stdio: no answer in a reasonable time.
    Silence,
    /// stdio: the process ended.
    Exited,
    /// 401, 403, 429, 5xx and what else is no evidence (VER-14): TLS, connection failures, HTTP timeouts.
    Nothing,
}

/// How to go on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Speak this modern revision; it is decided.
    Speak(Revision),
    /// Send `initialize`.
    Handshake {
        /// In a new process: the old one ended at the probe (VER-18).
        fresh: bool,
    },
    /// GET the URL and wait for an `endpoint` event (LEG-138).
    TwoEndpoints,
    /// Nothing is decided: the failure itself is the answer to whoever waits.
    Undecided,
    /// There is no version that both speak, or none that may be spoken by the operator's wish.
    Unsupported {
        /// What the server names, if it names any.
        supported: Vec<String>,
    },
}

/// After the probe.
pub fn after_probe(wish: Wish, transport: Transport, evidence: Evidence) -> Step {
    let legacy = |fresh: bool| match wish {
        Wish::Auto | Wish::Legacy => Step::Handshake { fresh },
        Wish::Modern => Step::Unsupported { supported: Vec::new() },
    };
    match evidence {
        Evidence::Discovered(versions) | Evidence::VersionRefused(versions) => common(wish, versions),
        // It is modern, and what it minded of the probe is not its version: speak the newest.
        Evidence::ModernError => Step::Speak(Revision::V2026_07_28),
        Evidence::Exited => legacy(true),
        Evidence::Silence => match transport {
            Transport::Stdio => legacy(false),
            Transport::Http => Step::Undecided,
        },
        Evidence::UnknownMethod | Evidence::OtherError | Evidence::NoSuchEndpoint | Evidence::OtherResult => {
            legacy(false)
        }
        Evidence::Nothing => Step::Undecided,
    }
}

/// After an `initialize` that was not answered by an `InitializeResult` of a version we speak.
pub fn after_handshake(wish: Wish, transport: Transport, evidence: Evidence) -> Step {
    let none = Step::Unsupported { supported: Vec::new() };
    match evidence {
        // A modern server whose probe failed for another reason.
        Evidence::VersionRefused(versions) => match common(wish, versions) {
            // The handshake is what was just refused.
            Step::Handshake { .. } => none,
            step => step,
        },
        Evidence::ModernError => match wish {
            Wish::Auto => Step::Speak(Revision::V2026_07_28),
            Wish::Modern | Wish::Legacy => none,
        },
        Evidence::NoSuchEndpoint => match transport {
            Transport::Http => Step::TwoEndpoints,
            Transport::Stdio => none,
        },
        Evidence::UnknownMethod | Evidence::OtherError | Evidence::OtherResult => none,
        Evidence::Discovered(_) | Evidence::Silence | Evidence::Exited | Evidence::Nothing => Step::Undecided,
    }
}

/// The newest modern version that both speak; else the handshake if a legacy one is common (AMB-16).
fn common(wish: Wish, versions: Vec<String>) -> Step {
    let both = |era: Era| {
        Revision::ALL
            .into_iter()
            .filter(move |revision| revision.era() == era)
            .find(|revision| versions.iter().any(|version| version == revision.as_str()))
    };
    match (both(Era::Modern), both(Era::Legacy), wish) {
        (Some(modern), _, Wish::Auto | Wish::Modern) => Step::Speak(modern),
        (_, Some(_), Wish::Auto | Wish::Legacy) => Step::Handshake { fresh: false },
        (_, _, Wish::Auto | Wish::Modern | Wish::Legacy) => Step::Unsupported { supported: versions },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use alloc::vec;

    const MODERN: Step = Step::Speak(Revision::V2026_07_28);
    const HANDSHAKE: Step = Step::Handshake { fresh: false };

    fn versions(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    // shows: VER-07, VER-08, VER-13, AMB-04
    #[test]
    fn ver_07_what_the_probe_brings_decides_the_era() {
        for transport in [Transport::Stdio, Transport::Http] {
            let auto = |evidence| after_probe(Wish::Auto, transport, evidence);
            assert_eq!(auto(Evidence::Discovered(versions(&["2026-07-28"]))), MODERN);
            assert_eq!(auto(Evidence::VersionRefused(versions(&["2026-07-28"]))), MODERN, "VER-04");
            assert_eq!(auto(Evidence::ModernError), MODERN);
            for other in [Evidence::OtherError, Evidence::UnknownMethod, Evidence::OtherResult] {
                assert_eq!(auto(other), HANDSHAKE);
            }
            assert_eq!(auto(Evidence::Nothing), Step::Undecided, "VER-14");
        }
    }

    #[test]
    fn ver_18_silence_and_exit_mean_a_legacy_child_and_nothing_over_http() {
        assert_eq!(after_probe(Wish::Auto, Transport::Stdio, Evidence::Silence), HANDSHAKE);
        assert_eq!(after_probe(Wish::Auto, Transport::Http, Evidence::Silence), Step::Undecided);
        let fresh = Step::Handshake { fresh: true };
        assert_eq!(after_probe(Wish::Auto, Transport::Stdio, Evidence::Exited), fresh);
    }

    #[test]
    fn ver_03_a_common_version_is_taken_or_the_lack_is_told() {
        let refused = |wish, names: &[&str]| {
            after_probe(wish, Transport::Http, Evidence::VersionRefused(versions(names)))
        };
        assert_eq!(refused(Wish::Auto, &["2027-01-01", "2026-07-28", "2025-11-25"]), MODERN);
        assert_eq!(refused(Wish::Auto, &["2027-01-01", "2025-06-18"]), HANDSHAKE, "AMB-16");
        let strange = Step::Unsupported { supported: versions(&["2027-01-01"]) };
        assert_eq!(refused(Wish::Auto, &["2027-01-01"]), strange);
        let old = Step::Unsupported { supported: versions(&["2025-06-18"]) };
        assert_eq!(refused(Wish::Modern, &["2025-06-18"]), old);
    }

    #[test]
    fn ver_09_a_modern_only_client_never_falls_back() {
        for evidence in [Evidence::OtherError, Evidence::Silence, Evidence::Exited, Evidence::NoSuchEndpoint]
        {
            let step = after_probe(Wish::Modern, Transport::Stdio, evidence);
            assert_eq!(step, Step::Unsupported { supported: vec![] });
        }
    }

    // shows: VER-12, LEG-138
    #[test]
    fn ver_12_only_a_missing_endpoint_leads_to_the_two_of_2024() {
        let http = |evidence| after_handshake(Wish::Auto, Transport::Http, evidence);
        assert_eq!(http(Evidence::NoSuchEndpoint), Step::TwoEndpoints);
        assert_eq!(http(Evidence::Nothing), Step::Undecided);
        assert_eq!(http(Evidence::OtherError), Step::Unsupported { supported: vec![] });
        assert_eq!(http(Evidence::VersionRefused(versions(&["2026-07-28"]))), MODERN);
        let stdio = after_handshake(Wish::Auto, Transport::Stdio, Evidence::NoSuchEndpoint);
        assert_eq!(stdio, Step::Unsupported { supported: vec![] });
    }

    #[test]
    fn ver_04_a_version_refused_by_both_is_no_loop() {
        let again = Evidence::VersionRefused(versions(&["2025-11-25"]));
        assert_eq!(
            after_handshake(Wish::Auto, Transport::Http, again),
            Step::Unsupported { supported: vec![] }
        );
    }
}
