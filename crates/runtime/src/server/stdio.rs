//! A server over newline-framed messages: this process's stdin and stdout, or any pair of byte streams.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use steadfast_core::error::{Kind, Outcome};
use steadfast_core::exchange::{InFlight, Reply};
use steadfast_core::hop::{Era, Hop, Transport};
use steadfast_core::ids::RequestId;
use steadfast_core::stdio::Line;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::admit::{Incoming, Refusal, admit, read};
use super::drive::{self, PeerEvent};
use super::outlet::{Next, Outlets};
use super::{Options, Service};
use crate::clock::Clock;
use crate::lines;
use crate::message::{self, OwnError};

/// A request hears of at most one cancel and one disconnect.
const PEER_EVENTS: usize = 2;

type Table = Mutex<InFlight<mpsc::Sender<PeerEvent>>>;

/// Serves until the peer closes its end. Requests that are still running then are told to stop, and nobody waits
/// for their answers (STD-21).
///
/// # Errors
/// The reader or the writer fails.
pub async fn serve<R, W>(reader: R, writer: W, service: Arc<dyn Service>, options: Options) -> io::Result<()>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let hop = Hop { transport: Transport::Stdio, era: Era::Modern };
    let clock = Clock::start();
    let table = Arc::new(Table::new(InFlight::new(hop)));
    let outlets = Outlets::new(options.buffer);
    let writing = tokio::spawn(write(writer, outlets.clone()));
    let refusals = outlets.open();
    let mut running = JoinSet::new();
    let mut lines = lines::Reader::new(reader, options.max_message_bytes);

    while let Some(line) = lines.next().await? {
        while running.try_join_next().is_some() {}
        let line = match line {
            Line::Message(line) => line,
            // Counted once there are counters; the stream stays in step whatever the line was (STD-20).
            Line::Noise(_) | Line::Blank | Line::Unfinished { .. } => continue,
            Line::TooLong { bytes } => {
                let text = format!(
                    "the message has {bytes} bytes and {} are taken; send less",
                    options.max_message_bytes
                );
                refusals.say(Refusal::new(None, -32600, &text).to_message());
                continue;
            }
        };
        let (id, request) = match read(&line, options.max_message_bytes) {
            Ok(Incoming::Request { id, request }) => (id, request),
            Ok(Incoming::Cancelled(notice)) => {
                if let Ok(peer) = lock(&table).route_cancel(&notice) {
                    // A full channel already holds a cancel.
                    let _ = peer.try_send(PeerEvent::Cancelled);
                }
                continue;
            }
            // Other notifications have no meaning here, and nobody here waits for a response.
            Ok(Incoming::Notification | Incoming::Response) => continue,
            Err(None) => continue,
            Err(Some(refusal)) => {
                refusals.say(refusal.to_message());
                continue;
            }
        };
        let spec = match admit(hop, id.clone(), &request, &*service, &options) {
            Ok(spec) => spec,
            Err(refusal) => {
                refusals.say(refusal.to_message());
                continue;
            }
        };
        if lock(&table).len() >= options.max_in_flight {
            refusals.say(too_many(&id, options.max_in_flight));
            continue;
        }
        let (to_exchange, peer) = mpsc::channel(PEER_EVENTS);
        let opened = lock(&table).open(id.clone(), spec.operation, to_exchange);
        if let Err(in_use) = opened {
            refusals.say(Refusal::new(Some(id), -32600, &in_use.to_string()).to_message());
            continue;
        }
        let exchange = drive::respond(clock, spec, Arc::clone(&service), request, peer, outlets.open(), None);
        let table = Arc::clone(&table);
        running.spawn(async move {
            exchange.await;
            lock(&table).release(&id);
        });
    }
    for (_, peer) in lock(&table).drain() {
        let _ = peer.try_send(PeerEvent::Disconnected);
    }
    drop(refusals);
    outlets.close();
    // A handler that does not stop in time ends with the process or the runtime.
    let _ = tokio::time::timeout(options.drain, async { while running.join_next().await.is_some() {} }).await;
    running.detach_all();
    // What was answered before the end is still written, if the peer still reads.
    let _ = tokio::time::timeout(options.drain, writing).await;
    Ok(())
}

/// Refused before anything was done for it.
fn too_many(id: &RequestId, limit: usize) -> Bytes {
    let text =
        format!("{limit} requests are running on this connection, the most that may; wait for one to end");
    let error = OwnError {
        kind: Kind::Local,
        category: "queue_full",
        outcome: Outcome::NotExecuted,
        clock: None,
        server: None,
        text: &text,
    };
    message::response(Some(id), &Reply::Error(Bytes::from(error.as_json_rpc_error())))
}

/// Writes each message whole, one after another (STD-25).
async fn write<W: AsyncWrite + Unpin>(mut writer: W, outlets: Outlets) -> io::Result<()> {
    while let Some(next) = outlets.next().await {
        match next {
            Next::Message(bytes) | Next::Final(bytes) => {
                writer.write_all(&bytes).await?;
                writer.write_all(b"\n").await?;
                writer.flush().await?;
            }
            Next::KeepAlive => {}
        }
    }
    Ok(())
}

fn lock(table: &Table) -> MutexGuard<'_, InFlight<mpsc::Sender<PeerEvent>>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
