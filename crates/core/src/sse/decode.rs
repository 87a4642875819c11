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

impl Event {
    /// Whether it is of the default type, as every event with a JSON-RPC message is (SSE-06).
    pub fn is_message(&self) -> bool {
        matches!(&*self.kind, "" | "message")
    }
}

/// The stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("an event of the stream is larger than {limit} bytes; ask the server for less, or raise the limit")]
pub struct TooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

/// Reads one event stream. Holds at most the limit in bytes: line, event and last id together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decoder {
    limit: usize,
    state: State,
    line: Vec<u8>,
    event: Pending,
    last_event_id: String,
    retry_ms: Option<u64>,
}

/// Where in the stream the next byte stands.
///
/// | state | byte | next |
/// |---|---|---|
/// | `Start(n)` | the `n`-th of a byte-order mark | `Start(n + 1)`; `Within` after the last |
/// | `Start(n)` | any other | as `Within`, after the `n` bytes that were no mark |
/// | `Within` | CR | `AfterCr`, the line ended |
/// | `Within` | LF | `Within`, the line ended |
/// | `Within` | any other | `Within` |
/// | `AfterCr` | LF | `Within`: it belongs to the CR (F068) |
/// | `AfterCr` | any other | as `Within` |
/// | `TooLarge` | any | `TooLarge` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Start(usize),
    Within,
    AfterCr,
    TooLarge,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Pending {
    kind: String,
    data: Option<Vec<u8>>,
    /// Taken over by the blank line: who resumed from the id of an event that was cut off would never get it.
    id: Option<String>,
    touched: bool,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Decoder {
    /// A decoder for events of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            state: State::Start(0),
            line: Vec::new(),
            event: Pending::default(),
            last_event_id: String::new(),
            retry_ms: None,
        }
    }

    /// Takes bytes up to the end of the next item, and says how many it took. Call it again with the rest.
    ///
    /// # Errors
    /// An event beyond the limit: the stream cannot be read on, since what is left of it has lost its meaning. Every
    /// later call says the same.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(usize, Option<Item>), TooLarge> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            match (self.state, byte) {
                (State::TooLarge, _) => return Err(TooLarge { limit: self.limit }),
                (State::Start(seen), byte) if BYTE_ORDER_MARK.get(seen) == Some(byte) => {
                    let whole = seen + 1 == BYTE_ORDER_MARK.len();
                    self.state = if whole { State::Within } else { State::Start(seen + 1) };
                    at += 1;
                }
                (State::Start(seen), _) => {
                    self.state = State::Within;
                    self.grow(&BYTE_ORDER_MARK[..seen])?;
                }
                (State::AfterCr, b'\n') => {
                    self.state = State::Within;
                    at += 1;
                }
                (State::Within | State::AfterCr, b'\n' | b'\r') => {
                    self.state = if *byte == b'\r' { State::AfterCr } else { State::Within };
                    at += 1;
                    if let Some(item) = self.end_of_line() {
                        return Ok((at, Some(item)));
                    }
                }
                (State::Within | State::AfterCr, _) => {
                    self.state = State::Within;
                    let rest = &bytes[at..];
                    let length =
                        rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
                    self.grow(&rest[..length])?;
                    at += length;
                }
            }
        }
        Ok((at, None))
    }

    /// Whether the stream, if it ended now, would cut an event off. What was cut off is no event (F070).
    pub fn is_mid_event(&self) -> bool {
        self.event.touched || !self.line.is_empty()
    }

    /// The id of the last whole event that had one, as legacy servers give it; empty if none (LEG-35).
    pub fn last_event_id(&self) -> &str {
        &self.last_event_id
    }

    /// The delay before a reconnect that a legacy server asked for last, in milliseconds (LEG-34).
    pub const fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// How many bytes are held: at most the limit when the next byte is taken.
    pub fn held_bytes(&self) -> usize {
        let Pending { kind, data, id, touched: _ } = &self.event;
        let event = kind.len() + data.as_ref().map_or(0, Vec::len) + id.as_ref().map_or(0, String::len);
        self.line.len() + event + self.last_event_id.len()
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if self.held_bytes() + bytes.len() > self.limit {
            self.state = State::TooLarge;
            self.line = Vec::new();
            self.event = Pending::default();
            return Err(TooLarge { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_of_line(&mut self) -> Option<Item> {
        let mut line = mem::take(&mut self.line);
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
                // Most events have one line: it is kept where it is, for a copy would take its memory twice.
                None => {
                    line.drain(..line.len() - value.len());
                    self.event.data = Some(line);
                }
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            },
            b"event" => self.event.kind = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.event.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry_ms = core::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
            }
            _ => {}
        }
        self.event.touched = true;
        None
    }

    fn end_of_event(&mut self) -> Option<Item> {
        let Pending { kind, data, id, touched } = mem::take(&mut self.event);
        if let Some(id) = id {
            self.last_event_id = id;
        }
        match data {
            Some(data) if !data.is_empty() => Some(Item::Event(Event { kind, data })),
            Some(_) => Some(Item::Primed),
            None if touched => Some(Item::Primed),
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
    fn f070_the_id_of_an_event_that_was_cut_off_is_not_taken() {
        let (_, decoder) = decode(&[b"id: 1\ndata: a\n\nid: 2\ndata: b\n"]);
        assert!(decoder.is_mid_event());
        assert_eq!(decoder.last_event_id(), "1");
        let (_, decoder) = decode(&[b"id: 1\n\nid: 2\0\n\nid\n\nid: 3\n\n"]);
        assert_eq!(decoder.last_event_id(), "3");
        assert_eq!(decode(&[b"id: 1\n\nid\n\n"]).1.last_event_id(), "");
    }

    #[test]
    fn f071_priming_events_are_noted_and_the_stream_goes_on() {
        let (items, decoder) =
            decode(&[b"id: 7\nretry: 1500\ndata:\n\nevent: ping\ndata: {}\n\nretry: soon\ndata: x\n\n"]);
        assert_eq!(items, [Item::Primed, event("ping", "{}"), event("", "x")]);
        let kinds = items.iter().filter_map(|item| match item {
            Item::Event(event) => Some(event.is_message()),
            Item::Primed | Item::Comment => None,
        });
        assert_eq!(kinds.collect::<Vec<_>>(), [false, true]);
        assert_eq!((decoder.last_event_id(), decoder.retry_ms()), ("7", Some(1500)));
    }

    #[test]
    fn sse_04_half_a_byte_order_mark_is_text() {
        for start in ["\u{ef}", "\u{fefe}"] {
            assert_eq!(decode(&[format!("{start}\ndata: x\n\n").as_bytes()]).0, [event("", "x")]);
        }
        let (items, _) = decode(&[b"\xef\xbb", b"\xbfdata: x\n\n"]);
        assert_eq!(items, [event("", "x")]);
        let (items, _) = decode(&[b"\xef\xbb", b"\n\ndata: x\n\n"]);
        assert_eq!(items, [Item::Primed, event("", "x")]);
        // A second mark is text: only the first is one.
        assert_eq!(decode(&["\u{feff}\u{feff}data: x\n\n".as_bytes()]).0, [Item::Primed]);
    }

    #[test]
    fn sse_11_an_event_beyond_the_limit_ends_the_stream() {
        let too_large = Err(TooLarge { limit: 16 });
        for stream in [
            &b"data: 12345678901"[..],
            b"data: 1\ndata: 2\ndata: 34567890",
            b": 123456789012345",
            b"event: 12345678\ndata: 123",
            b"id: 12345678\n\ndata: 123",
            b"id: \xff\xff\xff\xff\xff\ndata: 1",
        ] {
            let mut decoder = Decoder::new(16);
            let mut rest = stream;
            while let Ok((taken, _)) = decoder.push(rest) {
                rest = &rest[taken..];
                assert!(!rest.is_empty(), "{stream:?} was taken");
            }
            assert_eq!(decoder.push(b"\n\ndata: 1\n\n"), too_large, "the end is final");
            assert!(decoder.held_bytes() <= 16);

            let mut decoder = Decoder::new(16);
            assert!(
                stream.chunks(1).any(|byte| decoder.push(byte) == too_large),
                "cut, {stream:?} was taken"
            );
        }
        let mut decoder = Decoder::new(16);
        assert!(decoder.push(b"data: 1234567890\n\n").is_ok());
    }

    /// All of them: every set of places to cut at.
    #[test]
    fn f068_every_chunking_of_a_stream_gives_the_same_items() {
        for (stream, expected) in [
            (&b"\xef\xbb\xbfdata:x\r\n\r\n:\n"[..], 2),
            (b"\xef\xbb:\n\ndata:y\n\n", 2),
            (b"data\r\r\n\ndata:z\n\r", 2),
            ("data: \u{2028}\u{85}\n\n\r".as_bytes(), 1),
            (b"id:1\nid\n\nid:2\nd", 1),
            (b"event:a\rdata:b\n\n", 1),
            (b"retry:9\n\r\nid:\n\n", 2),
        ] {
            let whole = decode(&[stream]);
            assert_eq!(whole.0.len(), expected, "{:?}", whole.0);
            for cuts in 0..1_u32 << (stream.len() - 1) {
                let mut chunks = Vec::new();
                let mut from = 0;
                for at in 1..=stream.len() {
                    if at == stream.len() || cuts & (1 << (at - 1)) != 0 {
                        chunks.push(&stream[from..at]);
                        from = at;
                    }
                }
                assert_eq!(decode(&chunks), whole, "{chunks:?}");
            }
        }
    }
}
