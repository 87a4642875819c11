//! Newline framing over a byte stream (STD-01).
//!
//! Only the byte `\n` ends a line, and one `\r` before it belongs to the ending: U+2028, U+2029, U+0085, a vertical
//! tab, a form feed or a lone `\r` inside a message stay where they are (F062). What is no message is reported and
//! skipped, a line beyond the limit too, and the stream stays in step (F061, F064).

use alloc::vec::Vec;
use core::mem;

/// How many bytes of a line that is no message are shown.
const PREVIEW_BYTES: usize = 120;

/// Something that a stream of lines brought.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// A line that begins like a JSON object or array; without its ending.
    Message(Vec<u8>),
    /// A line that is no JSON object or array, as programs print it that log to stdout: its first bytes.
    Noise(Vec<u8>),
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
    /// The length of the current line, once it grew beyond the limit and is skipped.
    skipped: Option<u64>,
}

impl Framer {
    /// A framer for lines of up to `limit` bytes, their ending not counted; 16 MiB is what Steadfast uses.
    pub const fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), skipped: None }
    }

    /// Takes bytes up to the end of the next line that is worth reporting, and says how many it took. Call it again
    /// with the rest; blank lines are passed over.
    pub fn push(&mut self, bytes: &[u8]) -> (usize, Option<Line>) {
        let mut taken = 0;
        while let Some(length) = bytes[taken..].iter().position(|byte| *byte == b'\n') {
            self.grow(&bytes[taken..taken + length]);
            taken += length + 1;
            if let Some(line) = self.end_of_line() {
                return (taken, Some(line));
            }
        }
        self.grow(&bytes[taken..]);
        (bytes.len(), None)
    }

    /// The stream ended.
    pub fn finish(&mut self) -> Option<Line> {
        let bytes = self.skipped.take().unwrap_or(mem::take(&mut self.line).len() as u64);
        (bytes > 0).then_some(Line::Unfinished { bytes })
    }

    fn grow(&mut self, bytes: &[u8]) {
        if let Some(skipped) = &mut self.skipped {
            *skipped += bytes.len() as u64;
        // One byte more than the limit may be the `\r` of the ending.
        } else if self.line.len() + bytes.len() > self.limit + 1 {
            self.skipped = Some((self.line.len() + bytes.len()) as u64);
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_of_line(&mut self) -> Option<Line> {
        if let Some(bytes) = self.skipped.take() {
            return Some(Line::TooLong { bytes });
        }
        let mut line = mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.len() > self.limit {
            return Some(Line::TooLong { bytes: line.len() as u64 });
        }
        match line.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r')) {
            None => None,
            Some(b'{' | b'[') => Some(Line::Message(line)),
            Some(_) => {
                line.truncate(PREVIEW_BYTES);
                Some(Line::Noise(line))
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
        let stream = b"Server v1\n\x1b[32mready\x1b[0m\n\n \r\n{\"a\":1}\n{\"half";
        assert_eq!(
            lines(100, &[stream]),
            vec![
                Line::Noise(b"Server v1".to_vec()),
                Line::Noise(b"\x1b[32mready\x1b[0m".to_vec()),
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
            let stream = alloc::format!("{{12345678}}{ending}{{123456789}}{ending}{{}}{ending}");
            let expected = [message("{12345678}"), message("{}")];
            let seen = lines(10, &[stream.as_bytes()]);
            // A line that is skipped is counted with its `\r`, since nothing of it is kept.
            assert_eq!(seen[0], expected[0]);
            assert!(matches!(seen[1], Line::TooLong { bytes: 11..=12 }), "{seen:?}");
            assert_eq!(seen[2], expected[1]);
        }
    }

    #[test]
    fn i_26_wherever_it_is_cut_a_stream_gives_the_same_lines() {
        let stream = "noise\r\n{\"a\":\"\u{2028}\"}\r\n\n{123456789012345}\n[1]\n{\"end\"".as_bytes();
        let whole = lines(12, &[stream]);
        assert_eq!(whole.len(), 5);
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let cut = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(lines(12, &cut), whole, "cut at {first} and {second}");
            }
        }
    }
}
