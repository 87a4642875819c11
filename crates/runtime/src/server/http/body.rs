//! Bodies: of requests, read within bounds of size and time; of responses, written as the peer takes them.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

use super::post::Events;
use super::socket::{Pulse, Work};
use super::streams::Reading;
use crate::server::endpoint::Buffered;

/// The most that is handed over at once of what is written: the peer takes that before it gets more.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// Why a request body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// More bytes than a message may have.
    TooLarge,
    /// It took too long, however steadily it dripped.
    TooSlow,
    /// All bodies that are being read hold as much as they may together.
    NoRoom,
    /// The client left.
    Lost,
}

/// Reads a body of up to `limit` bytes `within` that time; it counts for `uploads` as long as it comes in.
pub(super) async fn read(
    body: Incoming,
    limit: usize,
    within: Duration,
    uploads: &Buffered,
) -> Result<Bytes, Unread> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLarge);
    }
    tokio::time::timeout(within, gather(body, limit, uploads)).await.unwrap_or(Err(Unread::TooSlow))
}

async fn gather(body: Incoming, limit: usize, uploads: &Buffered) -> Result<Bytes, Unread> {
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut gathered = BytesMut::new();
    let mut held = Held::new(uploads, 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Unread::Lost)?.into_data() else { continue };
        let bytes = first.len() + gathered.len() + data.len();
        if bytes > limit {
            return Err(Unread::TooLarge);
        }
        if !uploads.has_room_for(data.len()) {
            return Err(Unread::NoRoom);
        }
        held.grow(bytes);
        // Most bodies come in one piece, and are not copied.
        if bytes == data.len() {
            first = data;
        } else {
            gathered.extend_from_slice(&std::mem::take(&mut first));
            gathered.extend_from_slice(&data);
        }
    }
    Ok(if gathered.is_empty() { first } else { gathered.freeze() })
}

/// Bytes that count as waiting as long as this exists.
#[derive(Debug)]
pub(super) struct Held {
    buffered: Buffered,
    bytes: usize,
}

impl Held {
    pub(super) fn new(buffered: &Buffered, bytes: usize) -> Self {
        buffered.moved(0, bytes);
        Self { buffered: buffered.clone(), bytes }
    }

    fn grow(&mut self, bytes: usize) {
        self.buffered.moved(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.buffered.moved(self.bytes, 0);
    }
}

/// Bytes on their way to the peer: handed over piece by piece, counted until the last piece is gone.
#[derive(Debug)]
pub(super) struct Pieces {
    rest: Bytes,
    _held: Held,
}

impl Pieces {
    pub(super) fn new(bytes: Bytes, buffered: &Buffered) -> Self {
        let _held = Held::new(buffered, bytes.len());
        Self { rest: bytes, _held }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next piece; `None` after the last.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        (!self.rest.is_empty()).then(|| self.rest.split_to(self.rest.len().min(PIECE_BYTES)))
    }
}

/// The body of a response.
pub(super) struct Body {
    content: Content,
    work: Option<Work>,
    /// Where the peer could take nothing of it and the socket would not show it: HTTP/2.
    pulse: Option<Arc<Pulse>>,
}

enum Content {
    Empty,
    Whole(Pieces),
    Events(Events),
    Reading(Reading),
}

/// The stream broke, and must not look as if it had ended (HTTP-29).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream was broken off before its last message; fetch again what it covered")]
pub(super) struct BrokenOff;

impl Body {
    pub(super) const EMPTY: Self = Self { content: Content::Empty, work: None, pulse: None };

    pub(super) const fn whole(pieces: Pieces) -> Self {
        Self { content: Content::Whole(pieces), work: None, pulse: None }
    }

    pub(super) const fn events(events: Events) -> Self {
        Self { content: Content::Events(events), work: None, pulse: None }
    }

    pub(super) const fn reading(reading: Reading) -> Self {
        Self { content: Content::Reading(reading), work: None, pulse: None }
    }

    /// Keeps the connection at work until this body is written.
    pub(super) fn keep(&mut self, work: Work, pulse: Option<Arc<Pulse>>) {
        self.work = Some(work);
        self.pulse = pulse;
    }

    fn poll_content(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match &mut self.content {
            Content::Empty => Poll::Ready(None),
            Content::Whole(pieces) => Poll::Ready(pieces.next().map(|piece| Ok(Frame::data(piece)))),
            Content::Events(events) => {
                events.poll_piece(context).map(|next| next.map(|it| it.map(Frame::data)))
            }
            Content::Reading(reading) => {
                reading.poll_piece(context).map(|next| next.map(|it| it.map(Frame::data)))
            }
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let Some(pulse) = self.pulse.clone() else { return self.poll_content(context) };
        let waker = pulse.asked(context);
        let next = self.poll_content(&mut Context::from_waker(&waker));
        if matches!(next, Poll::Ready(Some(_))) {
            pulse.gave();
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty => true,
            Content::Whole(pieces) => pieces.is_empty(),
            Content::Events(events) => events.is_over(),
            Content::Reading(reading) => reading.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty => SizeHint::with_exact(0),
            Content::Whole(pieces) => SizeHint::with_exact(pieces.rest.len() as u64),
            Content::Events(_) | Content::Reading(_) => SizeHint::default(),
        }
    }
}
