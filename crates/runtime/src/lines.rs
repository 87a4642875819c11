//! Lines from an async byte stream.

use std::io;

use steadfast_core::stdio::{Framer, Line};
use tokio::io::{AsyncRead, AsyncReadExt};

const CHUNK_BYTES: usize = 64 << 10;

/// Reads one line after another; holds one chunk and one line.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    stream: R,
    framer: Framer,
    chunk: Box<[u8]>,
    unread: std::ops::Range<usize>,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(stream: R, limit_bytes: usize) -> Self {
        let chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
        Self { stream, framer: Framer::new(limit_bytes), chunk, unread: 0..0, ended: false }
    }

    /// The next line worth reporting; `None` at the end of the stream. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            while !self.unread.is_empty() {
                let (taken, line) = self.framer.push(&self.chunk[self.unread.clone()]);
                self.unread.start += taken;
                if line.is_some() {
                    return Ok(line);
                }
            }
            if self.ended {
                return Ok(None);
            }
            let read = self.stream.read(&mut self.chunk).await?;
            self.unread = 0..read;
            if read == 0 {
                self.ended = true;
                return Ok(self.framer.finish());
            }
        }
    }
}
