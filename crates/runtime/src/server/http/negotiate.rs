//! What a client takes as an answer, and whether its body is what this endpoint reads (AMB-46).

use hyper::HeaderMap;
use hyper::header::{ACCEPT, AsHeaderName, CONTENT_ENCODING, CONTENT_TYPE};

/// The forms of an answer that a client takes. At least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    /// `application/json`: one object.
    pub(super) json: bool,
    /// `text/event-stream`.
    pub(super) stream: bool,
}

impl Accepted {
    /// What `Accept` names; without it everything. `None` if neither form is acceptable.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let ranges: Vec<Range<'_>> =
            headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(ranges).collect();
        let takes = |kind: &str, subkind: &str| {
            let found = ranges.iter().filter_map(|range| Some((range.rank(kind, subkind)?, range.wanted)));
            // The most specific range decides; of two equal ones the one that wants it.
            found.max().map_or(ranges.is_empty(), |(_, wanted)| wanted)
        };
        let accepted = Self { json: takes("application", "json"), stream: takes("text", "event-stream") };
        (accepted.json || accepted.stream).then_some(accepted)
    }
}

/// One media range of `Accept`, such as `text/*;q=0.5`.
struct Range<'a> {
    kind: &'a str,
    subkind: &'a str,
    /// Its quality is not 0.
    wanted: bool,
}

impl Range<'_> {
    /// How closely it names a media type; `None` if it does not.
    fn rank(&self, kind: &str, subkind: &str) -> Option<u8> {
        let same = |range: &str, name: &str| range.eq_ignore_ascii_case(name);
        match (self.kind, self.subkind) {
            ("*", "*") => Some(0),
            (range, "*") if same(range, kind) => Some(1),
            (range, subrange) if same(range, kind) && same(subrange, subkind) => Some(2),
            _ => None,
        }
    }
}

fn ranges(header: &str) -> impl Iterator<Item = Range<'_>> {
    header.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let (kind, subkind) = parts.next()?.split_once('/')?;
        let quality = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
        });
        let refused =
            quality.is_some_and(|quality| quality.parse::<f32>().is_ok_and(|quality| quality <= 0.0));
        Some(Range { kind, subkind, wanted: !refused })
    })
}

/// Whether the body is JSON, whatever the media type's parameters.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    only(headers, CONTENT_TYPE).is_some_and(|value| {
        value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    })
}

/// Whether the body comes as it is: nothing is unpacked here, so that no small body becomes a large one.
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    !headers.contains_key(CONTENT_ENCODING)
        || only(headers, CONTENT_ENCODING).is_some_and(|value| value.trim().eq_ignore_ascii_case("identity"))
}

/// The value of a header that occurs once and is text.
pub(super) fn only(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn amb_46_what_is_acceptable_is_used_and_nothing_else() {
        for (values, expected) in [
            (&[][..], Some((true, true))),
            (&["application/json, text/event-stream"], Some((true, true))),
            (&["application/json", "text/event-stream"], Some((true, true))),
            (&["*/*"], Some((true, true))),
            (&["application/json"], Some((true, false))),
            (&["Application/JSON; charset=utf-8"], Some((true, false))),
            (&["text/event-stream"], Some((false, true))),
            (&["text/*;q=0.1"], Some((false, true))),
            (&["*/*, text/event-stream;q=0"], Some((true, false))),
            (&["text/event-stream, */*;q=0"], Some((false, true))),
            (&["application/json;q=0.000, text/event-stream;q=0"], None),
            (&["text/html, image/*"], None),
            (&["json"], Some((true, true))),
        ] {
            let accepted = Accepted::of(&headers("accept", values));
            assert_eq!(accepted.map(|it| (it.json, it.stream)), expected, "{values:?}");
        }
    }

    #[test]
    fn amb_46_a_body_is_json_as_it_is_or_refused() {
        for (values, expected) in [
            (&["application/json"][..], true),
            (&["APPLICATION/JSON ; charset=utf-8"], true),
            (&[], false),
            (&["text/plain"], false),
            (&["application/jsonp"], false),
            (&["application/json", "application/json"], false),
        ] {
            assert_eq!(is_json(&headers("content-type", values)), expected, "{values:?}");
        }
        for (values, expected) in
            [(&[][..], true), (&["Identity"], true), (&["gzip"], false), (&["identity", "gzip"], false)]
        {
            assert_eq!(is_plain(&headers("content-encoding", values)), expected, "{values:?}");
        }
    }
}
