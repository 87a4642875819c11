//! Reading an event stream, bounded in bytes (SSE-04, SSE-11).
//!
//! Lines end with LF, CR or CRLF wherever the stream is cut; a CR is held until the next byte shows whether an LF
//! belongs to it (F068). An event that no blank line ended when the stream did is no event (F070).

use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

/// Something that an event stream brought.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// An event with data.
    Event(Event),
    /// An event without data, as legacy servers send it to prime a reconnect: its `id` and `retry` were noted
    /// (SSE-05, F071).
    Primed,
    /// A comment: the stream lives. It is not progress (D-18).
    Comment,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The event's type; empty means `message`.
    pub kind: String,
    /// Its data lines, joined by LF.
    pub data: Vec<u8>,
}

/// The stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("an event of the stream is larger than {limit} bytes; ask the server for less, or raise the limit")]
pub struct TooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

/// Reads one event stream. Holds at most the limit in bytes of line and data together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decoder {
    limit: usize,
    start: Start,
    /// The last byte was a CR that ended a line; an LF now belongs to it.
    after_cr: bool,
    line: Vec<u8>,
    event: Pending,
    last_event_id: String,
    retry_ms: Option<u64>,
}

/// How much of a byte-order mark the stream began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Start {
    Bytes(u8),
    Over,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Pending {
    kind: String,
    data: Option<Vec<u8>>,
    touched: bool,
}

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

impl Decoder {
    /// A decoder for events of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            start: Start::Bytes(0),
            after_cr: false,
            line: Vec::new(),
            event: Pending::default(),
            last_event_id: String::new(),
            retry_ms: None,
        }
    }

    /// Takes bytes up to the end of the next item, and says how many it took. Call it again with the rest.
    ///
    /// # Errors
    /// An event beyond the limit: the stream cannot be read on, since what is left of it has lost its meaning.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(usize, Option<Item>), TooLarge> {
        for (index, byte) in bytes.iter().enumerate() {
            if let Some(item) = self.byte(*byte)? {
                return Ok((index + 1, Some(item)));
            }
        }
        Ok((bytes.len(), None))
    }

    /// Whether the stream, if it ended now, would cut an event off (F070).
    pub fn is_mid_event(&self) -> bool {
        self.event.touched || !self.line.is_empty()
    }

    /// The id that a legacy server gave last; empty if none (LEG-35).
    pub fn last_event_id(&self) -> &str {
        &self.last_event_id
    }

    /// The delay before a reconnect that a legacy server asked for last, in milliseconds (LEG-34).
    pub const fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    fn byte(&mut self, byte: u8) -> Result<Option<Item>, TooLarge> {
        if let Start::Bytes(seen) = self.start {
            if BYTE_ORDER_MARK.get(usize::from(seen)) == Some(&byte) {
                self.start = if seen == 2 { Start::Over } else { Start::Bytes(seen + 1) };
                return Ok(None);
            }
            self.start = Start::Over;
            self.line.extend_from_slice(&BYTE_ORDER_MARK[..usize::from(seen)]);
        }
        let lf_of_crlf = mem::take(&mut self.after_cr) && byte == b'\n';
        match byte {
            b'\n' if lf_of_crlf => Ok(None),
            b'\n' => Ok(self.end_of_line()),
            b'\r' => {
                self.after_cr = true;
                Ok(self.end_of_line())
            }
            _ => {
                self.line.push(byte);
                let held = self.line.len() + self.event.data.as_ref().map_or(0, Vec::len);
                if held > self.limit { Err(TooLarge { limit: self.limit }) } else { Ok(None) }
            }
        }
    }

    fn end_of_line(&mut self) -> Option<Item> {
        let line = mem::take(&mut self.line);
        if line.is_empty() {
            return self.end_of_event();
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if name.is_empty() {
            return Some(Item::Comment);
        }
        match name {
            b"data" => match &mut self.event.data {
                None => self.event.data = Some(value.to_vec()),
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            },
            b"event" => self.event.kind = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.last_event_id = String::from_utf8_lossy(value).into_owned(),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry_ms = core::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
            }
            _ => {}
        }
        self.event.touched = true;
        None
    }

    fn end_of_event(&mut self) -> Option<Item> {
        let event = mem::take(&mut self.event);
        match event.data {
            Some(data) if !data.is_empty() => Some(Item::Event(Event { kind: event.kind, data })),
            Some(_) => Some(Item::Primed),
            None if event.touched => Some(Item::Primed),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn decode(chunks: &[&[u8]]) -> (Vec<Item>, Decoder) {
        let mut decoder = Decoder::new(1_000);
        let mut items = Vec::new();
        for chunk in chunks {
            let mut rest = *chunk;
            while !rest.is_empty() {
                let (taken, item) = decoder.push(rest).unwrap();
                rest = &rest[taken..];
                items.extend(item);
            }
        }
        (items, decoder)
    }

    fn event(kind: &str, data: &str) -> Item {
        Item::Event(Event { kind: kind.into(), data: data.into() })
    }

    #[test]
    fn f067_all_line_endings_and_both_colon_forms_read_the_same() {
        for ending in ["\n", "\r", "\r\n"] {
            let lines =
                ["\u{feff}event: message", "data:x", ": comment", "data: y", "unknown: z", "nocolon", "", ""];
            let stream = lines.join(ending);
            let (items, decoder) = decode(&[stream.as_bytes()]);
            assert_eq!(items, [Item::Comment, event("message", "x\ny")], "{ending:?}");
            assert!(!decoder.is_mid_event());
        }
    }

    #[test]
    fn f068_wherever_it_is_cut_a_stream_gives_the_same_items() {
        let stream =
            "\u{feff}: c\r\nid: 7\r\ndata: \u{2028}a\r\ndata:\r\n\r\nretry: 15\rdata\r\rdata: b\n\n\r\n:\n"
                .as_bytes();
        let whole = decode(&[stream]);
        assert_eq!(
            whole.0,
            [Item::Comment, event("", "\u{2028}a\n"), Item::Primed, event("", "b"), Item::Comment]
        );
        assert_eq!((whole.1.last_event_id(), whole.1.retry_ms()), ("7", Some(15)));
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let cut = decode(&[&stream[..first], &stream[first..second], &stream[second..]]);
                assert_eq!(cut, whole, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn f070_an_event_without_its_blank_line_is_none() {
        for (tail, complete) in [("\n\n", true), ("\n", false), ("", false)] {
            let (items, decoder) = decode(&[format!("data: {{}}{tail}").as_bytes()]);
            assert_eq!(items.len(), usize::from(complete));
            assert_eq!(decoder.is_mid_event(), !complete, "{tail:?}");
        }
    }

    #[test]
    fn sse_11_an_event_beyond_the_limit_ends_the_stream() {
        let mut decoder = Decoder::new(8);
        assert_eq!(decoder.push(b"data: 123456789"), Err(TooLarge { limit: 8 }));
        let mut decoder = Decoder::new(8);
        assert!(decoder.push(b"data: 1\ndata: 2\n").is_ok());
        assert_eq!(decoder.push(b"data: 3456"), Err(TooLarge { limit: 8 }));
    }
}
