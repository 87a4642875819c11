//! The answer to a request of HTTP: its head, and its body as it comes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, AsHeaderName, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

use super::pool::{Pool, Wire, reason};

/// How long the end of a body may take that nobody waits for, for its connection to be used again.
const LET_END: Duration = Duration::from_secs(1);
/// The longest wait that a server is believed to mean.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// The most bytes of a challenge that are handed on.
const MAX_CHALLENGE: usize = 8 << 10;

/// An answer whose head is there. Dropped before its end, its connection is closed: no other request can be on it, and
/// what it still carries must not be taken for the next answer.
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    pool: Arc<Pool>,
    /// Gone once the body came to its end.
    wire: Option<Wire>,
}

/// Why a body cannot be had.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is larger than the limit.
    TooLarge,
    /// It broke, and how.
    Broke(String),
}

impl Answer {
    pub(super) fn new(response: Response<Incoming>, wire: Wire, pool: Arc<Pool>) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, body, pool, wire: Some(wire) }
    }

    pub(super) const fn status(&self) -> StatusCode {
        self.status
    }

    /// A header's value, the first where there are several; not one that is no text.
    pub(super) fn header(&self, name: impl AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A header's value as it came.
    pub(super) fn raw_header(&self, name: &str) -> Option<&HeaderValue> {
        self.headers.get(name)
    }

    /// Whether the body is an event stream; parameters of the media type mean nothing (SSE-04).
    pub(super) fn is_stream(&self) -> bool {
        let kind =
            self.header(header::CONTENT_TYPE).unwrap_or_default().split(';').next().unwrap_or_default();
        self.status.is_success() && kind.trim().eq_ignore_ascii_case("text/event-stream")
    }

    /// `Retry-After`, whichever of its two forms. A date is taken relative to the server's own clock where it tells it.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let text = self.header(header::RETRY_AFTER)?.trim();
        let wait = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            Duration::from_secs(text.parse().unwrap_or(u64::MAX))
        } else {
            let date = httpdate::parse_http_date(text).ok()?;
            let servers = self.header(header::DATE).and_then(|date| httpdate::parse_http_date(date).ok());
            date.duration_since(servers.unwrap_or_else(SystemTime::now)).unwrap_or_default()
        };
        Some(wait.min(MAX_RETRY_AFTER))
    }

    /// `WWW-Authenticate`, all of them as one list.
    pub(super) fn challenge(&self) -> Option<String> {
        let all = self.headers.get_all(header::WWW_AUTHENTICATE).iter();
        let all: Vec<&str> = all.filter_map(|value| value.to_str().ok()).collect();
        Some(all.join(", ")).filter(|text| !text.is_empty() && text.len() <= MAX_CHALLENGE)
    }

    /// The next bytes; `None` at the end, and then the connection is free again.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(reason(&error)),
                None => {
                    if let Some(wire) = self.wire.take() {
                        self.pool.put(wire, self.server_keeps());
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// The whole body.
    pub(super) async fn whole(mut self, limit: usize) -> Result<Bytes, Unread> {
        if self.body.size_hint().lower() > limit as u64 {
            return Err(Unread::TooLarge);
        }
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.chunk().await.map_err(Unread::Broke)? {
            if chunk.len() > limit - whole.len() {
                return Err(Unread::TooLarge);
            }
            if whole.is_empty() && self.body.is_end_stream() {
                // The usual answer comes in one piece, which needs no copy.
                let _ = self.chunk().await;
                return Ok(chunk);
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// What is left of the body is of no interest: it may end within a moment, or its connection is closed.
    pub(super) fn let_end(mut self) {
        tokio::spawn(tokio::time::timeout(LET_END, async move {
            // A short page of a redirect is read over; a stream that goes on is not.
            let mut left = 64 << 10;
            while let Ok(Some(chunk)) = self.chunk().await {
                match usize::checked_sub(left, chunk.len()) {
                    Some(rest) => left = rest,
                    None => return,
                }
            }
        }));
    }

    /// How long the server keeps an idle connection, where it says so, less what a request may take to reach it.
    fn server_keeps(&self) -> Option<Duration> {
        let parameters = self.header("keep-alive")?.split(',');
        let seconds =
            parameters.filter_map(|it| it.trim().strip_prefix("timeout=")?.parse::<u64>().ok()).next()?;
        Some(Duration::from_secs(seconds.saturating_sub(1)))
    }
}
