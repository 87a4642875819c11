//! Writing an event stream that proxies pass on at once (D-18).

use alloc::vec::Vec;

/// The headers of a streamed answer. The last one tells proxies not to hold events back (HTTP-15).
pub const HEADERS: [(&str, &str); 3] =
    [("content-type", "text/event-stream"), ("cache-control", "no-cache"), ("x-accel-buffering", "no")];

/// A comment: it keeps a quiet stream open, is no event and no progress (SSE-01, SSE-02).
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// One message as one event of the default type (SSE-06). A message is one line; should it hold line endings all the
/// same, each line becomes a `data:` line, so that no part of it can be read as a field.
pub fn event(message: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(message.len() + 8);
    let mut rest = message;
    loop {
        let length = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(&rest[..length]);
        event.push(b'\n');
        let ending = if rest[length..].starts_with(b"\r\n") { 2 } else { 1 };
        match rest.get(length + ending..) {
            Some(next) if length < rest.len() => rest = next,
            _ => break,
        }
    }
    event.push(b'\n');
    event
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
