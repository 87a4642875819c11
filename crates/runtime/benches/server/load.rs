//! A client of raw bytes, as cheap as a client can be.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// One keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request of the modern era.
pub(crate) fn post(method: &str, name: Option<&str>, body: &str) -> Vec<u8> {
    let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n\
         {name}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; 1 << 10] })
    }

    /// Sends a request whose answer is one piece, and gives its body.
    pub(crate) fn call(&mut self, request: &[u8]) -> io::Result<&[u8]> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        loop {
            filled += self.fill(filled)?;
            let Some(head) = find(&self.buffer[..filled], b"\r\n\r\n").map(|at| at + 4) else { continue };
            let length = content_length(&self.buffer[..head])?;
            if filled >= head + length {
                return Ok(&self.buffer[head..head + length]);
            }
            if self.buffer.len() < head + length {
                self.buffer.resize(head + length, 0);
            }
        }
    }

    /// Sends a request whose answer is a stream, and reads until its first event.
    pub(crate) fn begin_stream(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        while find(&self.buffer[..filled], b"\n\n").is_none() {
            filled += self.fill(filled)?;
        }
        let seen = &self.buffer[..filled];
        if find(seen, b"text/event-stream").is_none() {
            return Err(io::Error::other(String::from_utf8_lossy(seen).into_owned()));
        }
        // What waits in this process is not measured, but it would take memory from the other.
        self.buffer = Vec::new();
        Ok(())
    }

    /// Sends a request whose answer is a stream, reads it to its end, and counts its events.
    pub(crate) fn stream(&mut self, request: &[u8]) -> io::Result<usize> {
        self.stream.write_all(request)?;
        self.buffer.resize(1 << 16, 0);
        let (mut events, mut last, mut tail) = (0, 0, Vec::new());
        loop {
            let filled = self.fill(0)?;
            for byte in &self.buffer[..filled] {
                events += usize::from(*byte == b'\n' && last == b'\n');
                last = *byte;
            }
            tail.extend_from_slice(&self.buffer[filled.saturating_sub(END.len())..filled]);
            tail.drain(..tail.len().saturating_sub(END.len()));
            if tail == END {
                return Ok(events);
            }
        }
    }

    fn fill(&mut self, from: usize) -> io::Result<usize> {
        match self.stream.read(&mut self.buffer[from..])? {
            0 => Err(io::Error::other(String::from_utf8_lossy(&self.buffer[..from]).into_owned())),
            bytes => Ok(bytes),
        }
    }
}

/// The last chunk.
const END: &[u8] = b"\r\n0\r\n\r\n";

pub(crate) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn content_length(head: &[u8]) -> io::Result<usize> {
    let head = String::from_utf8_lossy(head);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.parse().ok()).ok_or_else(|| io::Error::other(head.into_owned()))
}
