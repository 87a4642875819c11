//! Writing an event stream that proxies pass on at once (D-18).

use alloc::vec::Vec;

/// The headers of a streamed answer. The last one tells proxies not to hold events back (HTTP-15).
pub const HEADERS: [(&str, &str); 3] =
    [("content-type", "text/event-stream"), ("cache-control", "no-cache"), ("x-accel-buffering", "no")];

/// A comment: it keeps a quiet stream open, is no event and no progress (SSE-01, SSE-02).
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// One message as one event of the default type (SSE-06).
pub fn event(message: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(message.len() + 8);
    write_event(&mut event, None, message);
    event
}

/// Writes one message as one event behind what `out` holds. `id` names the event for a client that comes back for what
/// follows it (LEG-41); it is the server's own and holds no line ending. A message is one line; should it hold line
/// endings all the same, each line becomes a `data:` line, so that no part of it can be read as a field.
pub fn write_event(out: &mut Vec<u8>, id: Option<&str>, message: &[u8]) {
    if let Some(id) = id {
        field(out, b"id: ", id.as_bytes());
    }
    let mut rest = message;
    loop {
        let length = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
        field(out, b"data: ", &rest[..length]);
        let ending = if rest[length..].starts_with(b"\r\n") { 2 } else { 1 };
        match rest.get(length + ending..) {
            Some(next) if length < rest.len() => rest = next,
            _ => break,
        }
    }
    out.push(b'\n');
}

/// Writes an event without data: a client that knows its `id` can come back before there was a message (LEG-31).
pub fn write_primer(out: &mut Vec<u8>, id: &str) {
    field(out, b"id: ", id.as_bytes());
    out.extend_from_slice(b"data:\n\n");
}

/// Writes how long a client is to wait before it comes back (LEG-33).
pub fn write_retry(out: &mut Vec<u8>, wait: core::time::Duration) {
    field(out, b"retry: ", alloc::format!("{}", wait.as_millis()).as_bytes());
    out.push(b'\n');
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sse::{Decoder, Item};

    fn read_back(stream: &[u8]) -> Vec<Item> {
        let mut decoder = Decoder::new(1_000);
        let (mut items, mut rest) = (Vec::new(), stream);
        while !rest.is_empty() {
            let (taken, item) = decoder.push(rest).unwrap();
            rest = &rest[taken..];
            items.extend(item);
        }
        items
    }

    #[test]
    fn d_18_what_is_written_reads_back_as_one_event_or_one_comment() {
        for (message, data) in [("{\"a\":1}", "{\"a\":1}"), ("a\nid: 1\n\nb\r\nc\rd", "a\nid: 1\n\nb\nc\nd")]
        {
            let items = read_back(&event(message.as_bytes()));
            let [Item::Event(event)] = &items[..] else { panic!("{items:?}") };
            assert_eq!((event.data.as_slice(), event.kind.as_str()), (data.as_bytes(), ""));
        }
        assert_eq!(read_back(KEEP_ALIVE), [Item::Comment]);
    }

    #[test]
    fn leg_31_a_primer_has_an_id_and_no_data_and_leg_33_a_retry_is_no_event() {
        let mut out = Vec::new();
        write_primer(&mut out, "3-0");
        write_event(&mut out, Some("3-1"), b"{}");
        write_retry(&mut out, core::time::Duration::from_millis(1_500));
        assert_eq!(core::str::from_utf8(&out), Ok("id: 3-0\ndata:\n\nid: 3-1\ndata: {}\n\nretry: 1500\n\n"));
    }

    proptest! {
        #[test]
        fn d_18_no_part_of_a_message_can_be_read_as_anything_else(message in "[a-d:\\r\\n\u{feff} ]{0,40}") {
            let lines = message.replace("\r\n", "\n").replace('\r', "\n");
            let items = read_back(&event(message.as_bytes()));
            match &items[..] {
                [Item::Event(event)] => prop_assert_eq!(event.data.as_slice(), lines.as_bytes()),
                [Item::Primed] => prop_assert!(lines.is_empty()),
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
