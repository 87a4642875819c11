//! What the records of a call say, as answers to the six questions of G15 (D-48).

use serde::Serialize;
use steadfast_core::error::{Kind, Outcome};
use steadfast_core::hop::{Era, Revision, Transport};

use super::record::Record;

/// One call, explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The call.
    pub call_id: String,
    /// The trace that it belongs to.
    pub trace_id: String,
    /// The server's configured name.
    pub server_key: String,
    /// What was asked for.
    pub method: String,
    /// The tool or prompt.
    pub tool_name: Option<String>,
    /// The six answers, in the order in which they are asked.
    pub findings: Vec<Finding>,
    /// What they are read from: one record an attempt, in order.
    pub attempts: Vec<Record>,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `refused_here`, `sent`, `headers_equal`, `answered`, `executed` or `catalog_stale`.
    pub question: &'static str,
    /// The answer.
    pub answer: Said,
    /// What it rests on, for a person.
    pub because: String,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// It is so.
    Yes,
    /// It is not so.
    No,
    /// It may be so: nobody here can know.
    Perhaps,
    /// The question does not arise.
    None,
}

impl Said {
    /// For a person.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Perhaps => "perhaps",
            Self::None => "-",
        }
    }

    const fn of(is_so: bool) -> Self {
        if is_so { Self::Yes } else { Self::No }
    }
}

impl Explanation {
    /// Of the records of one call, in order; `None` if there are none.
    pub fn of(attempts: Vec<Record>) -> Option<Self> {
        let last = attempts.last()?;
        let finding = |question, (answer, because): (Said, String)| Finding { question, answer, because };
        let findings = vec![
            finding("refused_here", refused_here(last, &attempts)),
            finding("sent", sent(&attempts)),
            finding("headers_equal", headers_equal(&attempts)),
            finding("answered", answered(last)),
            finding("executed", executed(&attempts)),
            finding("catalog_stale", catalog_stale(last)),
        ];
        Some(Self {
            call_id: last.call_id.clone(),
            trace_id: last.trace_id.clone(),
            server_key: last.server_key.clone(),
            method: last.method.clone(),
            tool_name: last.tool_name.clone(),
            findings,
            attempts,
        })
    }
}

fn error_of(record: &Record) -> &str {
    record.error_code.as_deref().unwrap_or("no error")
}

fn refused_here(last: &Record, attempts: &[Record]) -> (Said, String) {
    let local = last.error_kind.as_deref() == Some(Kind::Local.as_str());
    match (local, attempts.iter().any(|record| record.sent)) {
        (true, false) => (Said::Yes, format!("nothing was sent: {}", error_of(last))),
        (true, true) => (Said::No, format!("it was given up here after it was sent: {}", error_of(last))),
        (false, _) => (Said::No, "it was let through".to_owned()),
    }
}

fn sent(attempts: &[Record]) -> (Said, String) {
    let ids: Vec<&str> =
        attempts.iter().filter(|one| one.sent).filter_map(|one| one.request_id.as_deref()).collect();
    if attempts.iter().any(|one| one.cache_hit) {
        return (Said::No, "it was answered from what is kept here".to_owned());
    }
    if ids.is_empty() {
        let last = attempts.last().map_or("no error", error_of);
        return (Said::No, format!("no byte left: {last}"));
    }
    (
        Said::Yes,
        format!("{} of {} recorded attempts, as request {}", ids.len(), attempts.len(), ids.join(", ")),
    )
}

fn headers_equal(attempts: &[Record]) -> (Said, String) {
    let Some(last) = attempts.iter().rfind(|record| record.sent) else {
        return (Said::None, "nothing was sent".to_owned());
    };
    let modern = last.protocol_version.as_deref().and_then(Revision::from_name).map(Revision::era)
        == Some(Era::Modern);
    match last.headers_equal {
        Some(true) => (Said::Yes, "the server took them, as it must not if they differ".to_owned()),
        Some(false) => (Said::No, "the server refused them as unequal (-32020)".to_owned()),
        None if modern && last.transport.as_deref() == Some(Transport::Http.as_str()) => {
            (Said::Perhaps, "they were made of the body, and the server said nothing".to_owned())
        }
        None => (Said::None, "this transport and revision mirror nothing in headers".to_owned()),
    }
}

fn answered(last: &Record) -> (Said, String) {
    let took = last.network_time_ms.map(|ms| format!(" after {ms} ms")).unwrap_or_default();
    if last.cache_hit {
        return (Said::Yes, "from what is kept here".to_owned());
    }
    let because = match (last.answered, last.error_kind.as_deref()) {
        (true, None) => format!("with a result{took}"),
        (true, Some("tool")) => format!("with a result that reports the tool's failure{took}"),
        (true, Some(_)) => format!("with {}{took}", error_of(last)),
        (false, _) => format!("{}{took}", error_of(last)),
    };
    (Said::of(last.answered), because)
}

fn executed(attempts: &[Record]) -> (Said, String) {
    if attempts.iter().any(|one| one.cache_hit) {
        return (Said::No, "the server was not asked".to_owned());
    }
    let any = |outcome: Outcome| attempts.iter().any(|record| record.outcome == outcome.as_str());
    let keyed = attempts.iter().any(|record| record.keyed);
    if any(Outcome::Executed) {
        (Said::Yes, "the server answered with a result".to_owned())
    } else if any(Outcome::Unknown) {
        let mend = if keyed {
            "look it up, or repeat it under the same key where somebody enforces that"
        } else {
            "look before you repeat it"
        };
        (Said::Perhaps, format!("bytes left and nothing proves that it was not; {mend}"))
    } else {
        (Said::No, "every attempt is proven not to have been executed; it may be repeated".to_owned())
    }
}

fn catalog_stale(last: &Record) -> (Said, String) {
    match (last.cache_stale, last.cache_age_ms) {
        (true, Some(age)) => {
            (Said::Yes, format!("it was {age} ms old, and kept although it could not be refreshed"))
        }
        (true, None) => (Said::Yes, "it was kept although it could not be refreshed".to_owned()),
        (false, Some(age)) => {
            (Said::No, format!("it was {age} ms old and fresh, and of this server and context alone"))
        }
        (false, None) => (Said::None, "no catalog was used".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(attempts: Vec<Record>) -> Vec<&'static str> {
        let explained = Explanation::of(attempts).unwrap();
        explained.findings.iter().map(|finding| finding.answer.as_str()).collect()
    }

    // shows: G15
    #[test]
    fn d_48_six_answers_for_each_place_where_a_call_can_fail() {
        let sent = Record {
            transport: Some("http".to_owned()),
            protocol_version: Some("2026-07-28".to_owned()),
            request_id: Some("4".to_owned()),
            attempt: 1,
            sent: true,
            outcome: "unknown".to_owned(),
            error_kind: Some("transport".to_owned()),
            error_code: Some("stream_ended".to_owned()),
            cache_age_ms: Some(7),
            ..Record::default()
        };
        let refused = Record {
            error_kind: Some("local".to_owned()),
            error_code: Some("breaker_open".to_owned()),
            outcome: "not_executed".to_owned(),
            ..Record::default()
        };
        let unreached = Record { error_kind: Some("transport".to_owned()), ..refused.clone() };
        let answered = Record {
            answered: true,
            error_kind: None,
            error_code: None,
            headers_equal: Some(true),
            outcome: "executed".to_owned(),
            ..sent.clone()
        };
        let unequal = Record {
            answered: true,
            error_kind: Some("protocol".to_owned()),
            error_code: Some("-32020".to_owned()),
            headers_equal: Some(false),
            outcome: "not_executed".to_owned(),
            ..sent.clone()
        };
        let cancelled = Record {
            cancelled: true,
            error_kind: Some("local".to_owned()),
            error_code: Some("client_cancelled".to_owned()),
            transport: Some("stdio".to_owned()),
            cache_stale: true,
            ..sent.clone()
        };
        let kept = Record { cache_hit: true, sent: false, ..answered.clone() };
        let legacy =
            Record { protocol_version: Some("2025-11-25".to_owned()), cache_age_ms: None, ..sent.clone() };
        for (attempts, expected) in [
            (vec![refused], ["yes", "no", "-", "no", "no", "-"]),
            (vec![unreached], ["no", "no", "-", "no", "no", "-"]),
            (vec![sent.clone()], ["no", "yes", "perhaps", "no", "perhaps", "no"]),
            (vec![sent, answered], ["no", "yes", "yes", "yes", "yes", "no"]),
            (vec![unequal], ["no", "yes", "no", "yes", "no", "no"]),
            (vec![cancelled], ["no", "yes", "-", "no", "perhaps", "yes"]),
            (vec![kept], ["no", "no", "-", "yes", "no", "no"]),
            (vec![legacy], ["no", "yes", "-", "no", "perhaps", "-"]),
        ] {
            assert_eq!(answers(attempts.clone()), expected, "{attempts:?}");
        }
        assert_eq!(Explanation::of(Vec::new()), None);
    }
}
