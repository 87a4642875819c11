//! The record of a run: a digest always, and the lines when they are asked for.
//!
//! The digest runs over a compact form of the events, their derived `Hash` written little-endian, so that an
//! exploration of millions of orders can afford it. Two runs with equal digests saw the same events at the
//! same times.

use std::hash::{Hash, Hasher};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use steadfast_core::time::Now;

use crate::event::Event;

/// A running transcript.
#[derive(Clone, Debug)]
pub struct Transcript {
    digest: Digest,
    kept: Option<Vec<(Now, Event)>>,
    len: u64,
}

/// A line: when, and what.
#[derive(Serialize)]
struct Line<'a> {
    seq: usize,
    mono_ms: u64,
    wall_ms: u64,
    #[serde(flatten)]
    event: &'a Event,
}

impl Transcript {
    /// Only the digest: for exploring.
    pub fn digest_only() -> Self {
        Self { digest: Digest::new(), kept: None, len: 0 }
    }

    /// The digest and the events: for people.
    pub fn with_events() -> Self {
        Self { kept: Some(Vec::new()), ..Self::digest_only() }
    }

    /// Adds an event.
    #[inline]
    pub fn record(&mut self, now: Now, event: &Event) {
        now.mono.hash(&mut self.digest);
        event.hash(&mut self.digest);
        self.len += 1;
        if let Some(kept) = &mut self.kept {
            kept.push((now, *event));
        }
    }

    /// How many events were recorded.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was recorded.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The events, if they were kept.
    pub fn events(&self) -> &[(Now, Event)] {
        self.kept.as_deref().unwrap_or_default()
    }

    /// One JSON object an event, if they were kept: JSON Lines without the line ends.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.events().iter().enumerate().map(|(seq, (now, event))| {
            let line = Line { seq, mono_ms: now.mono.as_millis(), wall_ms: now.wall.as_unix_millis(), event };
            serde_json::to_string(&line).unwrap_or_default()
        })
    }

    /// The SHA-256 of all that was recorded so far, in hexadecimal.
    pub fn digest(&self) -> String {
        self.digest.clone().finish_hex()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A `Hasher` that feeds SHA-256 in large pieces. Integers are written little-endian and small ones in one
/// byte, so that the digest does not depend on the platform.
#[derive(Clone, Debug)]
pub(crate) struct Digest {
    sha: Sha256,
    buffer: [u8; Self::CAPACITY],
    filled: usize,
}

impl Digest {
    const CAPACITY: usize = 1024;

    pub(crate) fn new() -> Self {
        Self { sha: Sha256::new(), buffer: [0; Self::CAPACITY], filled: 0 }
    }

    pub(crate) fn finish_hex(mut self) -> String {
        self.flush();
        hex(&self.sha.finalize())
    }

    fn flush(&mut self) {
        self.sha.update(&self.buffer[..self.filled]);
        self.filled = 0;
    }

    /// Seven bits a byte, the high bit telling that more follow.
    #[inline]
    fn varint(&mut self, mut n: u64) {
        if self.filled + 10 > Self::CAPACITY {
            self.flush();
        }
        while n >= 0x80 {
            self.buffer[self.filled] = n as u8 | 0x80;
            self.filled += 1;
            n >>= 7;
        }
        self.buffer[self.filled] = n as u8;
        self.filled += 1;
    }
}

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(Self::CAPACITY) {
            if self.filled + part.len() > Self::CAPACITY {
                self.flush();
            }
            self.buffer[self.filled..self.filled + part.len()].copy_from_slice(part);
            self.filled += part.len();
        }
    }

    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.varint(n.into());
    }
    #[inline]
    fn write_u16(&mut self, n: u16) {
        self.varint(n.into());
    }
    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.varint(n.into());
    }
    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.varint(n);
    }
    #[inline]
    fn write_u128(&mut self, n: u128) {
        self.varint(n as u64);
        self.varint((n >> 64) as u64);
    }
    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.varint(n as u64);
    }
    #[inline]
    fn write_i8(&mut self, n: i8) {
        self.write_i64(n.into());
    }
    #[inline]
    fn write_i16(&mut self, n: i16) {
        self.write_i64(n.into());
    }
    #[inline]
    fn write_i32(&mut self, n: i32) {
        self.write_i64(n.into());
    }
    #[inline]
    fn write_i64(&mut self, n: i64) {
        self.varint(((n << 1) ^ (n >> 63)) as u64);
    }
    #[inline]
    fn write_i128(&mut self, n: i128) {
        self.write_u128(n as u128);
    }
    #[inline]
    fn write_isize(&mut self, n: isize) {
        self.write_i64(n as i64);
    }
}
