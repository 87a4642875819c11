//! Newline framing over a byte stream (STD-01).
//!
//! Only the byte `\n` ends a line, and one `\r` before it belongs to the ending: U+2028, U+2029, U+0085, a vertical
//! tab, a form feed or a lone `\r` inside a message stay where they are (F062). What is no message is reported and
//! skipped, a line beyond the limit too, and the stream stays in step (F061, F064).

use alloc::vec::Vec;
use core::mem;

/// How many bytes of a line that is no message are shown.
const PREVIEW_BYTES: usize = 200;

/// Something that a stream of lines brought.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// A line that begins like a JSON object or array; without its ending.
    Message(Vec<u8>),
    /// A line that is no JSON object or array, as programs print it that log to stdout: its first bytes.
    Noise(Vec<u8>),
    /// A line of white space, or of nothing.
    Blank,
    /// A line beyond the limit; it was skipped.
    TooLong {
        /// Its whole length in bytes, without its ending.
        bytes: u64,
    },
    /// Bytes that no line ending followed when the stream ended.
    Unfinished {
        /// How many.
        bytes: u64,
    },
}

/// Cuts a byte stream into lines. Holds at most the limit in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Framer {
    limit: usize,
    line: Vec<u8>,
    /// Set once the current line grew beyond the limit: nothing of it is kept.
    skipped: Option<Skipped>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Skipped {
    bytes: u64,
    /// Its last byte is a `\r`, which belongs to the ending if the line ends now.
    after_cr: bool,
}

impl Framer {
    /// A framer for lines of up to `limit` bytes, their ending not counted. The usual limit is
    /// [`MAX_BYTES`](crate::envelope::MAX_BYTES).
    pub const fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), skipped: None }
    }

    /// Takes bytes up to the end of the next line, and says how many it took. Call it again with the rest.
    pub fn push(&mut self, bytes: &[u8]) -> (usize, Option<Line>) {
        match bytes.iter().position(|byte| *byte == b'\n') {
            Some(length) => {
                self.grow(&bytes[..length]);
                (length + 1, Some(self.end_of_line()))
            }
            None => {
                self.grow(bytes);
                (bytes.len(), None)
            }
        }
    }

    /// The stream ended. Half a message is none, whatever it looks like.
    pub fn finish(&mut self) -> Option<Line> {
        let kept = mem::take(&mut self.line).len() as u64;
        let bytes = self.skipped.take().map_or(kept, |skipped| skipped.bytes);
        (bytes > 0).then_some(Line::Unfinished { bytes })
    }

    /// How many bytes are held: at most one more than the limit.
    pub const fn held_bytes(&self) -> usize {
        self.line.len()
    }

    fn grow(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        let length = self.line.len().saturating_add(bytes.len());
        if let Some(skipped) = &mut self.skipped {
            skipped.bytes = skipped.bytes.saturating_add(bytes.len() as u64);
            skipped.after_cr = *last == b'\r';
        // One byte more than the limit may be the `\r` of the ending.
        } else if length > self.limit.saturating_add(1) {
            self.skipped = Some(Skipped { bytes: length as u64, after_cr: *last == b'\r' });
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_of_line(&mut self) -> Line {
        if let Some(Skipped { bytes, after_cr }) = self.skipped.take() {
            return Line::TooLong { bytes: bytes - u64::from(after_cr) };
        }
        let mut line = mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.len() > self.limit {
            return Line::TooLong { bytes: line.len() as u64 };
        }
        match line.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r')) {
            None => Line::Blank,
            Some(b'{' | b'[') => Line::Message(line),
            Some(_) => {
                // A copy, so that a long line is not kept for its first bytes.
                Line::Noise(line[..line.len().min(PREVIEW_BYTES)].to_vec())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn lines(limit: usize, chunks: &[&[u8]]) -> Vec<Line> {
        let mut framer = Framer::new(limit);
        let mut lines = Vec::new();
        for chunk in chunks {
            let mut rest = *chunk;
            while !rest.is_empty() {
                let (taken, line) = framer.push(rest);
                rest = &rest[taken..];
                lines.extend(line);
            }
        }
        lines.extend(framer.finish());
        lines
    }

    fn message(text: &str) -> Line {
        Line::Message(text.as_bytes().to_vec())
    }

    #[test]
    fn f062_only_a_newline_ends_a_line() {
        let odd = "{\"x\":\"\u{2028}\u{2029}\u{85}\u{b}\u{c}\r\"}";
        let stream = alloc::format!("{odd}\r\n{odd}\n");
        assert_eq!(lines(100, &[stream.as_bytes()]), vec![message(odd), message(odd)]);
    }

    #[test]
    fn f061_noise_is_reported_and_the_stream_goes_on() {
        let stream = b"Server v1\n\x1b[32mready\x1b[0m\n\n \r\nINFO {\n{\"a\":1}\n{\"half";
        assert_eq!(
            lines(100, &[stream]),
            vec![
                Line::Noise(b"Server v1".to_vec()),
                Line::Noise(b"\x1b[32mready\x1b[0m".to_vec()),
                Line::Blank,
                Line::Blank,
                Line::Noise(b"INFO {".to_vec()),
                message("{\"a\":1}"),
                Line::Unfinished { bytes: 6 }
            ]
        );
        let long = alloc::format!("{}\n", "n".repeat(5_000));
        assert_eq!(lines(9_000, &[long.as_bytes()]), vec![Line::Noise(vec![b'n'; PREVIEW_BYTES])]);
    }

    #[test]
    fn f064_a_line_beyond_the_limit_is_skipped_and_the_stream_stays_in_step() {
        for ending in ["\n", "\r\n"] {
            let stream =
                alloc::format!("{{12345678}}{ending}{{123456789}}{ending}{{1234567890}}{ending}{{}}{ending}");
            assert_eq!(
                lines(10, &[stream.as_bytes()]),
                [
                    message("{12345678}"),
                    Line::TooLong { bytes: 11 },
                    Line::TooLong { bytes: 12 },
                    message("{}")
                ],
                "{ending:?}"
            );
        }
    }

    #[test]
    fn i_27_no_more_than_the_limit_is_held() {
        let mut framer = Framer::new(100);
        for _ in 0..1_000 {
            assert_eq!(framer.push(&[b'x'; 7]), (7, None));
            assert!(framer.line.len() <= 101 && framer.line.capacity() <= 256);
        }
        assert_eq!(framer.finish(), Some(Line::Unfinished { bytes: 7_000 }));
        assert_eq!(framer.finish(), None);
        assert_eq!(Framer::new(usize::MAX).push(b"{}\n"), (3, Some(message("{}"))));
    }

    #[test]
    fn i_26_wherever_it_is_cut_a_stream_gives_the_same_lines() {
        let stream =
            "noise\r\n{\"a\":\"\u{2028}\"}\r\n\n{12345678901}\r\r\n{123456789012345}\r\n[1]\n{\"end\""
                .as_bytes();
        let whole = lines(12, &[stream]);
        assert_eq!(whole.len(), 7, "{whole:?}");
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let cut = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(lines(12, &cut), whole, "cut at {first} and {second}");
            }
        }
    }

    /// All of them: every set of places to cut at.
    // shows: F061, F062, F064
    #[test]
    fn i_26_every_chunking_of_a_stream_gives_the_same_lines() {
        for (stream, expected) in [
            (&b"{}\r\n[1]\nno\n\r\n{"[..], 5),
            (b"\n\r\r\n{\r}\r\n \r\n\t", 5),
            ("{\u{2028}\u{85}}\n{\u{b}\r}\r\n".as_bytes(), 2),
            (b"{12345678}\r\n{}", 2),
            (b"{123456}\r\n[]\r", 2),
            (b"x2345678901\n{}", 2),
        ] {
            let whole = lines(8, &[stream]);
            assert_eq!(whole.len(), expected, "{whole:?}");
            for cuts in 0..1_u32 << (stream.len() - 1) {
                let mut chunks = Vec::new();
                let mut from = 0;
                for at in 1..=stream.len() {
                    if at == stream.len() || cuts & (1 << (at - 1)) != 0 {
                        chunks.push(&stream[from..at]);
                        from = at;
                    }
                }
                assert_eq!(lines(8, &chunks), whole, "{chunks:?}");
            }
        }
    }
}
