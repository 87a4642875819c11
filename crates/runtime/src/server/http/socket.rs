//! A connection's socket: it is given up when the peer takes nothing of what waits for it (ruling 17), and it tells
//! what the server at its other end cannot see.

use std::io;
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// One connection, as those see it who do not read or write it.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    open: AtomicUsize,
    /// Since when nothing is open, if nothing is.
    quiet_since: Mutex<Instant>,
    /// The bodies of an HTTP/2 connection: what the socket cannot see is that a stream has no window.
    pulses: Mutex<Vec<Weak<Pulse>>>,
}

/// Whether the peer takes what one body has.
#[derive(Debug)]
pub(super) struct Pulse(Mutex<Beat>);

#[derive(Debug)]
struct Beat {
    /// Since when something is there and was not asked for; `None` while the body waits for something to say.
    untaken_since: Option<Instant>,
    waker: Option<Waker>,
}

impl Pulse {
    /// The body is asked for its next piece: until it is asked again, it waits for something to say.
    pub(super) fn asked(self: &Arc<Self>, context: &Context<'_>) -> Waker {
        let mut beat = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beat.untaken_since = None;
        if !beat.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            beat.waker = Some(context.waker().clone());
        }
        Waker::from(Arc::clone(self))
    }

    /// It gave a piece and is to be asked for the next.
    pub(super) fn gave(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).untaken_since = Some(Instant::now());
    }
}

impl Wake for Pulse {
    fn wake(self: Arc<Self>) {
        let waker = {
            let mut beat = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            beat.untaken_since.get_or_insert_with(Instant::now);
            beat.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A request whose answer is not yet written.
#[derive(Debug)]
pub(super) struct Work(Arc<Line>);

impl Line {
    pub(super) fn new(stream: TcpStream) -> Arc<Self> {
        let (open, quiet_since) = (AtomicUsize::new(0), Mutex::new(Instant::now()));
        Arc::new(Self { stream, open, quiet_since, pulses: Mutex::default() })
    }

    /// Watches one more body, which has something to say from the beginning.
    pub(super) fn watch(&self) -> Arc<Pulse> {
        let beat = Beat { untaken_since: Some(Instant::now()), waker: None };
        let pulse = Arc::new(Pulse(Mutex::new(beat)));
        let mut pulses = self.pulses();
        pulses.retain(|pulse| pulse.strong_count() > 0);
        pulses.push(Arc::downgrade(&pulse));
        pulse
    }

    /// Waits until the peer took nothing of what some body has for `limit` (ruling 17). Looked for four times in that
    /// time. Never comes where no body is watched.
    pub(super) async fn stalled(&self, limit: Duration) {
        loop {
            let is_stalled = |pulse: &Weak<Pulse>| {
                let since = pulse
                    .upgrade()
                    .and_then(|pulse| pulse.0.lock().unwrap_or_else(PoisonError::into_inner).untaken_since);
                since.is_some_and(|since| since.elapsed() >= limit)
            };
            if self.pulses().iter().any(is_stalled) {
                return;
            }
            // Boxed, since few connections are watched.
            Box::pin(tokio::time::sleep(limit / 4)).await;
        }
    }

    fn pulses(&self) -> MutexGuard<'_, Vec<Weak<Pulse>>> {
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request came.
    pub(super) fn begin(self: &Arc<Self>) -> Work {
        self.open.fetch_add(1, Ordering::Relaxed);
        Work(Arc::clone(self))
    }

    /// Waits until no request was open for `limit`. A head that drips in is none, and what is no HTTP is none.
    pub(super) async fn quiet(&self, limit: Duration) {
        loop {
            let since = *self.quiet_since.lock().unwrap_or_else(PoisonError::into_inner);
            let left = if self.open.load(Ordering::Relaxed) > 0 {
                limit
            } else {
                limit.saturating_sub(since.elapsed())
            };
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    /// Waits until the peer has closed its end, whatever it sent before and nobody has read yet.
    pub(super) async fn left(&self) {
        // Of all interests this alone is met by the end and not by bytes: there are no urgent ones, since the socket is
        // not registered for them.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = self.stream.ready(Interest::PRIORITY).await;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        std::future::pending::<()>().await;
    }

    /// Whether the peer has closed its end. The HTTP/1.1 server does not look while bytes of a pipelined request wait
    /// to be read, so a stream asks for itself whenever it is time for a sign of life.
    pub(super) fn peer_is_gone(&self) -> bool {
        let mut readiness = pin!(self.stream.ready(Interest::READABLE));
        match readiness.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) => ready.is_read_closed(),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }
}

/// Whether [`Line::left`] tells. Where it does not, the HTTP/1.1 server has to read ahead to find out, which costs each
/// stream a buffer and works only while no pipelined request waits.
pub(super) const TELLS_WHO_LEFT: bool = cfg!(any(target_os = "linux", target_os = "android"));

impl Drop for Work {
    fn drop(&mut self) {
        *self.0.quiet_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Or no HTTP at all: then it is told so in HTTP/1.1.
    Http1,
    Http2,
}

/// How HTTP/2 begins, and nothing else: a method of HTTP/1.1 has no such name.
const HTTP2_START: [u8; 4] = *b"PRI ";

/// The reading and writing end.
#[derive(Debug)]
pub(super) struct Socket {
    line: Arc<Line>,
    /// What was read to tell the version, and is still to be read.
    start: [u8; HTTP2_START.len()],
    start_bytes: usize,
    stall: Duration,
    /// Runs while bytes wait and the peer takes none.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub(super) const fn new(line: Arc<Line>, stall: Duration) -> Self {
        Self { line, start: HTTP2_START, start_bytes: 0, stall, stalled: None }
    }

    /// What the connection speaks, by its first bytes; they are read again with what follows. Dropping the future loses
    /// nothing.
    pub(super) async fn version(&mut self) -> Version {
        while self.start_bytes < self.start.len() {
            let rest = &mut self.start[self.start_bytes..];
            // Whoever reads next finds out how it ended.
            let Ok(()) = self.line.stream.readable().await else { return Version::Http1 };
            match self.line.stream.try_read(rest) {
                Ok(0) => return Version::Http1,
                Ok(bytes) => self.start_bytes += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Version::Http1,
            }
            if !HTTP2_START.starts_with(&self.start[..self.start_bytes]) {
                return Version::Http1;
            }
        }
        Version::Http2
    }

    fn poll_written(
        &mut self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let stream = &self.line.stream;
        loop {
            if stream.poll_write_ready(context)?.is_pending() {
                let stall = self.stall;
                let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
                ready!(stalled.as_mut().poll(context));
                let text = format!("the peer took nothing for {} s while an answer waited", stall.as_secs());
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)));
            }
            match write(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => {
                    self.stalled = None;
                    return Poll::Ready(outcome);
                }
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.start_bytes > 0 {
            let bytes = self.start_bytes.min(buffer.remaining());
            buffer.put_slice(&self.start[..bytes]);
            self.start.copy_within(bytes.., 0);
            self.start_bytes -= bytes;
            // With what is there already, so that a request comes in one piece. How that fails is told the next time.
            let _ = self.line.stream.try_read_buf(buffer);
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.line.stream.poll_read_ready(context))?;
            match self.line.stream.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome.map(drop)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(context, |stream| stream.try_write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&self.line.stream).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What is found out and what is then read, of a peer that sends these pieces one after another and then ends.
    async fn of(pieces: &[&str]) -> (Version, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut socket = Socket::new(Line::new(listener.accept().await.unwrap().0), Duration::from_secs(60));
        let sending = async {
            for piece in pieces {
                peer.write_all(piece.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
            peer.shutdown().await.unwrap();
        };
        let (version, ()) = tokio::join!(socket.version(), sending);
        let mut read = String::new();
        socket.read_to_string(&mut read).await.unwrap();
        (version, read)
    }

    #[tokio::test]
    async fn the_first_bytes_tell_the_version_and_are_read_again() {
        for (pieces, version) in [
            (&["POST /mcp HTTP/1.1\r\n"][..], Version::Http1),
            (&["P", "O", "ST /"], Version::Http1),
            (&["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], Version::Http2),
            (&["P", "R", "I", " ", "* HTTP/2.0\r\n"], Version::Http2),
            (&["PRIX"], Version::Http1),
            (&["PR"], Version::Http1),
            (&["\u{16}\u{3}\u{1}"], Version::Http1),
            (&[], Version::Http1),
        ] {
            assert_eq!(of(pieces).await, (version, pieces.concat()), "{pieces:?}");
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[tokio::test]
    async fn can_05_that_the_peer_left_is_told_whatever_waits_to_be_read() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let line = Line::new(listener.accept().await.unwrap().0);
        peer.write_all(b"POST /mcp HTTP/1.1\r\n").await.unwrap();
        line.stream.readable().await.unwrap();
        let mut left = pin!(line.left());
        assert!(left.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(peer);
        left.await;
    }
}
