//! What a child wrote to stderr last. It says nothing of success or failure (STD-06); it explains an end.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::Shared;

/// How much is kept.
const KEPT_BYTES: usize = 4 << 10;
/// How much of it an error's sentence shows.
const SHOWN_CHARS: usize = 400;
/// How much of what came at once goes to the log.
const LOGGED_BYTES: usize = 1 << 10;

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail(VecDeque<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT_BYTES)..];
        let surplus = (self.0.len() + bytes.len()).saturating_sub(KEPT_BYTES);
        self.0.drain(..surplus);
        self.0.extend(bytes);
    }

    /// Its end on one line, `None` if there is nothing to read in it.
    pub(super) fn shown(&self) -> Option<String> {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        let text = one_line(&bytes);
        let from = text.char_indices().rev().nth(SHOWN_CHARS - 1).map_or(0, |(at, _)| at);
        (!text.is_empty()).then(|| text[from..].to_owned())
    }
}

/// Text on one line, without what could steer a terminal: breaks become ` | `.
pub(super) fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(|line| line.replace(char::is_control, " "));
    let lines: Vec<String> =
        lines.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    lines.join(" | ")
}

/// Reads until the child closes it: a full pipe would block the child (STD-07).
pub(super) async fn drain(mut stderr: impl AsyncRead + Unpin, shared: std::sync::Arc<Shared>) {
    let mut chunk = [0; 4 << 10];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        let chunk = &chunk[..read];
        shared.tail().push(chunk);
        tracing::debug!(bytes = read, "stderr: {}", one_line(&chunk[..read.min(LOGGED_BYTES)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn std_05_the_end_of_stderr_is_kept_and_shown_within_limits() {
        let mut tail = Tail::default();
        assert_eq!(tail.shown(), None);
        tail.push(b" \n\t\n");
        assert_eq!(tail.shown(), None);
        tail.push(b"\x1b[31mred\x1b[0m\r\nTraceback:\n\n  no such \xff file\n");
        assert_eq!(tail.shown().as_deref(), Some("[31mred [0m | Traceback: | no such \u{fffd} file"));
        for _ in 0..1_000 {
            tail.push("é".repeat(100).as_bytes());
            assert!(tail.0.len() <= KEPT_BYTES);
        }
        tail.push(&[b'x'; 2 * KEPT_BYTES]);
        assert_eq!(tail.0.len(), KEPT_BYTES);
        tail.push(b"last words");
        let shown = tail.shown().unwrap();
        assert!(shown.ends_with("xxlast words") && shown.chars().count() == SHOWN_CHARS, "{shown}");
    }
}
