//! The connections of an endpoint: how many, for how long, and how they end.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::graceful::GracefulConnection;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::Site;
use super::body::PIECE_BYTES;
use super::socket::{Line, Socket, TELLS_WHO_LEFT, Version};

/// The longest head of a request, in bytes, and the most header lines in it; beyond either it is answered 431 (HTTP-26).
pub const MAX_HEADER_BYTES: usize = 64 << 10;
/// See [`MAX_HEADER_BYTES`].
pub const MAX_HEADERS: usize = 100;
/// The most requests under way at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 256;
/// Streams that a peer opens and resets before they were looked at, and that the server resets for faults of the peer:
/// beyond either the connection is closed, so that resets cost no more than requests.
const MAX_RESETS: usize = 32;
/// How long an idle connection may take to end once it was asked to.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long accepting rests after the system refused a connection, as when files run out; doubled each time up to the
/// second of the two.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Serves until `ended` is ready, then ends gracefully: no connection is taken, requests finish within `drain`, listens
/// end with their results, and what is left is cut.
pub(super) async fn serve(tcp: TcpListener, site: Arc<Site>, ended: impl Future<Output = ()> + Send) {
    let places = Arc::new(Semaphore::new(site.settings.max_connections));
    let mut running = JoinSet::new();
    let mut sweep = tokio::time::interval((site.settings.session_idle / 4).max(Duration::from_millis(10)));
    let mut ended = pin!(ended);
    loop {
        tokio::select! {
            () = &mut ended => break,
            Some(_) = running.join_next() => {}
            (stream, place) = accept(&tcp, &places) => {
                running.spawn(converse(stream, place, Arc::clone(&site)));
            }
            _ = sweep.tick() => site.sweep(),
        }
    }
    drop(tcp);
    site.end_listening();
    site.shared.end().await;
    site.end_sessions();
    let drained = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(site.shared.options.drain, drained).await.is_err() {
        running.shutdown().await;
    }
}

/// The next connection, once there is a place for it. No error ends a server: either it was the connection's own, or
/// it passes.
async fn accept(tcp: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, OwnedSemaphorePermit) {
    let [mut pause, longest] = PAUSES;
    loop {
        // Never closed.
        let Ok(place) = Arc::clone(places).acquire_owned().await else { std::future::pending().await };
        match tcp.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => {
                tokio::time::sleep(pause).await;
                pause = longest.min(pause * 2);
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

async fn converse(stream: TcpStream, _place: OwnedSemaphorePermit, site: Arc<Site>) {
    // Events are small, and each is wanted at once. A socket that cannot do that still works.
    let _ = stream.set_nodelay(true);
    let line = Line::new(stream);
    let mut socket = Socket::new(Arc::clone(&line), site.shared.options.write_stall);
    let version = tokio::select! {
        version = socket.version() => version,
        () = site.shared.ending.cancelled() => return,
        () = line.quiet(site.settings.idle) => return,
    };
    let service = service_fn(|request| {
        // Boxed, so that a stream that has begun holds nothing of how it came to be.
        let answering = Box::pin(Arc::clone(&site).answer(request, Arc::clone(&line)));
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let io = TokioIo::new(socket);
    match version {
        Version::Http1 => {
            let connection = http1().serve_connection(io, service);
            talk(pin!(connection), version, &site, &line).await;
        }
        // Boxed, since it is the larger one and the rarer.
        Version::Http2 => {
            let mut connection = Box::pin(http2().serve_connection(io, service));
            talk(connection.as_mut(), version, &site, &line).await;
        }
    }
}

/// Until the connection has ended, was idle for too long, or the server ends.
async fn talk(mut connection: Pin<&mut impl GracefulConnection>, version: Version, site: &Site, line: &Line) {
    let mut asked = false;
    loop {
        let quiet = if asked { LAST_WORDS } else { site.settings.idle };
        tokio::select! {
            // First, so that it says its farewell before it is left.
            biased;
            // What went wrong on the wire concerns nobody but the peer, and it knows.
            _ = connection.as_mut() => return,
            // In HTTP/1.1 the socket sees that by itself.
            () = line.stalled(site.shared.options.write_stall), if version == Version::Http2 => return,
            () = site.shared.ending.cancelled(), if !asked => {}
            // Dropped with the connection, a modern call is cancelled and a legacy one is not (CAN-05, LEG-26).
            () = line.left() => return,
            () = line.quiet(quiet) => if asked { return },
        }
        asked = true;
        connection.as_mut().graceful_shutdown();
    }
}

fn http1() -> http1::Builder {
    let mut server = http1::Builder::new();
    server.max_buf_size(MAX_HEADER_BYTES).max_headers(MAX_HEADERS).half_close(TELLS_WHO_LEFT);
    server
}

fn http2() -> http2::Builder<TokioExecutor> {
    let mut server = http2::Builder::new(TokioExecutor::new());
    server
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS)
        .max_send_buf_size(PIECE_BYTES);
    server
}
