//! What must hold for any bytes: the bodies of the fuzz targets, as plain functions that panic when it does not (I-27).
//!
//! `fuzz/` runs them under a coverage-guided fuzzer; the corpus test replays every file of `fuzz/corpus/` through them.
//! Each judges by something simpler than what it tests: another reading of the same bytes, or the same reading with
//! other cuts.

use serde::de::IgnoredAny;
use serde_json::Value;
use steadfast_core::envelope::{self, Message};
use steadfast_core::exchange::{CancelNotice, Reply};
use steadfast_core::fingerprint::{Fingerprint, Secret};
use steadfast_core::ijson::{Document, FaultKind};
use steadfast_core::rng::Rng;
use steadfast_core::sse::{self, Decoder, Item, encode};
use steadfast_core::stdio::{Framer, Line};

/// One target.
pub type Body = fn(&[u8]);

/// The targets by name, which is also that of their folder in the corpus.
pub const TARGETS: [(&str, Body); 4] = [
    ("envelope", envelope),
    ("sse_decode", sse_decode),
    ("stdio_frames", stdio_frames),
    ("fingerprint", fingerprint),
];

/// One message: what is read is written and read back the same; what is refused knows its code.
pub fn envelope(bytes: &[u8]) {
    let message = match envelope::parse(bytes) {
        Ok(message) => message,
        Err(error) => {
            assert_eq!(error.code(), if is_json(bytes) { -32600 } else { -32700 });
            return;
        }
    };
    let one_line = |payload: &str| payload.replace(['\n', '\r'], " ");
    match message {
        Message::Request { id, method, params } => {
            let params = one_line(params.map_or("{}", |params| params.get()));
            look_into(&params);
            let line = envelope::request(&id, &method, &params);
            let Message::Request { id: id_again, method: method_again, params: Some(params_again) } =
                read_back(&line)
            else {
                panic!("no longer a request: {line}")
            };
            assert_eq!((id_again, &*method_again, params_again.get()), (id, &*method, &*params));
        }
        Message::Notification { method, params } => {
            let params = one_line(params.map_or("{}", |params| params.get()));
            look_into(&params);
            let line = envelope::notification(&method, &params);
            let Message::Notification { method: method_again, params: Some(params_again) } = read_back(&line)
            else {
                panic!("no longer a notification: {line}")
            };
            assert_eq!((&*method_again, params_again.get()), (&*method, &*params));
        }
        Message::Response { id, reply: Reply::Result(result) } => {
            let result = one_line(result.get());
            let line = envelope::response(id.as_ref(), Reply::Result(&result));
            let Message::Response { id: id_again, reply: Reply::Result(result_again) } = read_back(&line)
            else {
                panic!("no longer a result: {line}")
            };
            assert_eq!((id_again, result_again.get()), (id, &*result));
        }
        Message::Response { id, reply: Reply::Error(error) } => {
            let error = one_line(error.get());
            let line = envelope::response(id.as_ref(), Reply::Error(&error));
            let Message::Response { id: id_again, reply: Reply::Error(error_again) } = read_back(&line)
            else {
                panic!("no longer an error: {line}")
            };
            assert_eq!((&id_again, error_again.get()), (&id, &*error));
            if let Some(object) = envelope::error_object_of(&error) {
                let data = object.data.map(|data| data.get());
                let line = envelope::error(id.as_ref(), object.code, &object.message, data);
                let Message::Response { id: id_again, reply: Reply::Error(error_again) } = read_back(&line)
                else {
                    panic!("no longer an error: {line}")
                };
                let again = envelope::error_object_of(error_again.get()).expect("an error object");
                assert_eq!((id_again, again.code, again.message), (id, object.code, object.message.clone()));
                assert_eq!(again.data.map(|data| data.get()), data);
            }
        }
    }
}

fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

fn read_back(line: &str) -> Message<'_> {
    assert!(!line.contains(['\n', '\r']), "a message of several lines: {line:?}");
    envelope::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The views of `params`: what is read is written and read back the same.
fn look_into(params: &str) {
    let _ = envelope::params_of(params);
    if let Some((token, progress)) = envelope::progress_of(params) {
        let line = envelope::progress(&token, &progress);
        let Message::Notification { params: Some(params), .. } = read_back(&line) else {
            panic!("no progress: {line}")
        };
        assert_eq!(envelope::progress_of(params.get()), Some((token, progress)));
    }
    if let CancelNotice::Names { id, reason } = envelope::cancel_notice_of(Some(params)) {
        let line = envelope::cancelled(&id, reason.as_deref());
        let Message::Notification { params: Some(params), .. } = read_back(&line) else {
            panic!("no cancel: {line}")
        };
        assert_eq!(envelope::cancel_notice_of(Some(params.get())), CancelNotice::Names { id, reason });
    }
}

/// One event stream, as far as it was read.
#[derive(Debug, PartialEq)]
struct Heard {
    items: Vec<Item>,
    last_event_id: String,
    retry_ms: Option<u64>,
    end: End,
}

#[derive(Debug, PartialEq)]
enum End {
    BetweenEvents,
    MidEvent,
    TooLarge,
}

/// One event stream. The first byte sets the limit, the second the cuts. However it is cut, the same items come out,
/// and they are those of a reader that has the whole text before it.
pub fn sse_decode(bytes: &[u8]) {
    let [limit, cuts, stream @ ..] = bytes else { return };
    let limit = 1 + usize::from(*limit) * 4;
    let whole = hear(limit, [stream]);
    assert_eq!(hear(limit, pieces(stream, *cuts)), whole, "cut otherwise");
    assert_eq!(hear(limit, stream.chunks(1)), whole, "cut after every byte");

    // Too large for any event, so that nothing but the text decides.
    let unbounded = hear(usize::MAX >> 1, [stream]);
    assert_eq!(unbounded, hear_all_at_once(stream));
    if whole.end != End::TooLarge {
        assert_eq!(whole, unbounded);
    }
    for item in &whole.items {
        if let Item::Event(event) = item {
            let again = hear(usize::MAX >> 1, [encode::event(&event.data).as_slice()]);
            let expected = Item::Event(sse::Event { kind: String::new(), data: event.data.clone() });
            assert_eq!(again.items, [expected], "written and read back");
        }
    }
}

fn hear<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Heard {
    let mut decoder = Decoder::new(limit);
    let mut items = Vec::new();
    let mut too_large = false;
    'stream: for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            match decoder.push(rest) {
                Ok((taken, item)) => {
                    rest = &rest[taken..];
                    items.extend(item);
                }
                Err(_) => {
                    too_large = true;
                    break 'stream;
                }
            }
            // Text that is no UTF-8 may take three times its bytes, until the next byte is looked at.
            assert!(decoder.held_bytes() <= limit.saturating_mul(3), "{} bytes held", decoder.held_bytes());
        }
    }
    let end = match (too_large, decoder.is_mid_event()) {
        (true, _) => End::TooLarge,
        (false, true) => End::MidEvent,
        (false, false) => End::BetweenEvents,
    };
    Heard { items, last_event_id: decoder.last_event_id().to_owned(), retry_ms: decoder.retry_ms(), end }
}

/// The event-stream standard, read literally over a whole text.
fn hear_all_at_once(whole: &[u8]) -> Heard {
    let stream = whole.strip_prefix(b"\xef\xbb\xbf").unwrap_or(whole);
    let mut heard =
        Heard { items: Vec::new(), last_event_id: String::new(), retry_ms: None, end: End::BetweenEvents };
    let mut lines = Vec::new();
    let mut rest = stream;
    while let Some(length) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        lines.push(&rest[..length]);
        rest = &rest[length + if rest[length..].starts_with(b"\r\n") { 2 } else { 1 }..];
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (mut kind, mut data, mut id, mut fields) = (String::new(), None::<Vec<&[u8]>>, None, 0);
    for line in lines {
        if line.is_empty() {
            let data = data.take().map(|lines| lines.join(&b'\n')).unwrap_or_default();
            let kind = std::mem::take(&mut kind);
            if !data.is_empty() {
                heard.items.push(Item::Event(sse::Event { kind, data }));
            } else if fields > 0 {
                heard.items.push(Item::Primed);
            }
            heard.last_event_id = id.take().unwrap_or(heard.last_event_id);
            fields = 0;
            continue;
        }
        let mut halves = line.splitn(2, |byte| *byte == b':');
        let name = halves.next().unwrap_or_default();
        let value = halves.next().unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"" => {
                heard.items.push(Item::Comment);
                continue;
            }
            b"data" => data.get_or_insert_default().push(value),
            b"event" => kind = text(value),
            b"id" if !value.contains(&0) => id = Some(text(value)),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                heard.retry_ms = text(value).parse().ok();
            }
            _ => {}
        }
        fields += 1;
    }
    // Of a stream that ends within its byte-order mark nothing was read yet.
    let unread_mark = b"\xef\xbb\xbf".starts_with(whole);
    if fields > 0 || !(rest.is_empty() || unread_mark) {
        heard.end = End::MidEvent;
    }
    heard
}

/// One byte stream of lines. The first byte sets the limit, the second the cuts. However it is cut, the same lines come
/// out, they are those of a plain split, and no more than the limit is ever held.
pub fn stdio_frames(bytes: &[u8]) {
    let [limit, cuts, stream @ ..] = bytes else { return };
    let limit = usize::from(*limit);
    let whole = lines(limit, [stream]);
    assert_eq!(lines(limit, pieces(stream, *cuts)), whole, "cut otherwise");
    assert_eq!(lines(limit, stream.chunks(1)), whole, "cut after every byte");

    let first_of = |line: &[u8]| line.iter().find(|byte| !b" \t\r".contains(byte)).copied();
    let mut split: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    let unfinished = split.pop().unwrap_or_default().len() as u64;
    let mut seen = whole.iter();
    for line in split {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match seen.next().expect("a line was lost") {
            Line::Message(message) => {
                assert_eq!(message, line);
                assert!(matches!(first_of(line), Some(b'{' | b'[')));
            }
            Line::Noise(preview) => {
                assert!(line.starts_with(preview) && !matches!(first_of(line), None | Some(b'{' | b'[')));
            }
            Line::Blank => assert_eq!(first_of(line), None),
            Line::TooLong { bytes } => assert_eq!((*bytes, line.len() > limit), (line.len() as u64, true)),
            Line::Unfinished { .. } => panic!("unfinished before the end"),
        }
    }
    assert_eq!(seen.next(), (unfinished > 0).then_some(&Line::Unfinished { bytes: unfinished }));
    assert_eq!(seen.next(), None);
}

fn lines<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Line> {
    let mut framer = Framer::new(limit);
    let mut lines = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let (taken, line) = framer.push(rest);
            rest = &rest[taken..];
            lines.extend(line);
            assert!(framer.held_bytes() <= limit + 1, "{} bytes held of {limit}", framer.held_bytes());
        }
    }
    lines.extend(framer.finish());
    lines
}

/// Arguments on their way to a fingerprint: what the guard lets through has one canonical text, which is its own, and
/// says what another reader reads in the arguments.
pub fn fingerprint(bytes: &[u8]) {
    let Ok(document) = Document::parse(bytes) else { return };
    let canonical = document.canonical();
    assert!(is_json(bytes), "the guard let through what is no JSON");
    match (serde_json::from_slice(bytes), serde_json::from_str(&canonical)) {
        (Ok(one), Ok(other)) => assert!(alike(&one, &other), "{canonical}"),
        // That reader goes one level less deep.
        (Err(error), Err(_)) => assert!(error.to_string().starts_with("recursion limit"), "{error}"),
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => panic!("{error}: {canonical}"),
    }
    match Document::parse(canonical.as_bytes()) {
        Ok(again) => {
            assert_eq!(again.canonical(), canonical);
            let of = |document| Fingerprint::of(&Secret([7; 32]), "operation", document);
            assert_eq!(of(&again), of(&document));
        }
        // The canonical text of 1e17 is an integer beyond 2^53, which the guard takes only where it was not written as
        // one.
        Err(fault) => assert_eq!(fault.what, FaultKind::LargeInteger, "{canonical}"),
    }
}

/// Whether two values are the same. Numbers may be neighbours, since this reader rounds twice.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| {
                one.to_bits().abs_diff(other.to_bits()) <= 2 || one == 0.0 && other == 0.0
            })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| alike(one, other)))
        }
        (Value::Null | Value::Bool(_) | Value::String(_), _) => one == other,
        (Value::Number(_) | Value::Array(_) | Value::Object(_), _) => false,
    }
}

/// The same bytes in other pieces, as `seed` says.
fn pieces(mut bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut rng = Rng::new(seed.into());
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let length = 1 + rng.up_to(8) as usize;
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}
