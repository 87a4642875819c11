//! A server over newline-framed messages: this process's stdin and stdout, or any pair of byte streams (STD-22).
//!
//! Set-up is the connection itself, framing is one message a line, and cancelling is `notifications/cancelled`
//! (STD-24): a Unix or TCP socket is served by [`serve`] as a pipe is.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use steadfast_core::error::Outcome;
use steadfast_core::exchange::{InFlight, Operation, Reply};
use steadfast_core::hop::{Era, Hop, Revision, Transport};
use steadfast_core::ids::RequestId;
use steadfast_core::stdio::Line;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::task::{AbortHandle, JoinSet};

use super::admit::{self, Admitted, Incoming, NoHeaders, Refusal};
use super::batch;
use super::drive::{self, Way};
use super::endpoint::Endpoint;
use super::outlet::{Last, Next, Outlet, Outlets};
use super::peer::{Peer, PeerEvent};
use super::session::Session;
use super::{Caller, Mirrored, Options, Request, Service};
use crate::lines;
use crate::message::{self, OwnError};

/// So many refusals may wait before the peer is read no further: with those of one more batch they stay within the
/// limit of a queue.
const CROWD: usize = 64;
/// How long what is written already may take to leave once the server has ended.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// What is gathered for one write.
const WRITE_BYTES: usize = 64 << 10;

type Table = Mutex<InFlight<Peer>>;

/// Serves until the peer closes its end, or until `ended` is ready. After the first, requests that are still running
/// are told to stop and nobody waits for their answers (STD-21). After the second they may finish within
/// `options.drain`, and listens end gracefully.
///
/// Both eras are served at once, unless `options.legacy` is off; what the legacy one negotiates is this connection's.
///
/// # Errors
/// The reader or the writer fails, or the peer takes nothing for `options.write_stall` while its answers wait.
pub async fn serve<R, W, E>(
    reader: R,
    writer: W,
    service: Arc<dyn Service>,
    options: Options,
    ended: E,
) -> io::Result<()>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
    E: Future<Output = ()> + Send,
{
    let endpoint = Endpoint::new(service, options);
    let outlets = Outlets::new(options.buffer, endpoint.buffered().clone());
    let mut writing = tokio::spawn(write(writer, outlets.clone(), options.write_stall));
    let mut connection = Connection {
        endpoint: endpoint.clone(),
        refusals: outlets.open(None),
        outlets,
        // The era of a request makes no difference to an id: the channel is one.
        table: Arc::new(Table::new(InFlight::new(Hop { transport: Transport::Stdio, era: Era::Modern }))),
        is_crowded: false,
        session: None,
        telling: None,
        running: JoinSet::new(),
    };
    let mut lines = lines::Reader::new(reader, options.max_message_bytes);
    let mut ending = std::pin::pin!(async {
        ended.await;
        endpoint.end().await;
    });
    let mut grace = options.drain;
    let outcome = loop {
        tokio::select! {
            // Who does not read what it is refused is not read either: a request without any answer is worse.
            () = connection.refusals.emptied(), if connection.is_crowded => connection.is_crowded = false,
            line = lines.next(), if !connection.is_crowded => match line {
                Ok(Some(line)) => connection.hear(line),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            },
            written = &mut writing => {
                break written.unwrap_or_else(|_| Err(io::Error::other("the writer ended")));
            }
            () = &mut ending => {
                // What may be waited for was waited for.
                grace = LAST_WORDS.min(options.drain);
                break Ok(());
            }
        }
    };
    let mut running = connection.abandon();
    let outlets = connection.outlets.clone();
    drop(connection);
    outlets.close();
    // A handler that does not stop in time ends with the process or the runtime.
    let _ = tokio::time::timeout(grace, async { while running.join_next().await.is_some() {} }).await;
    running.detach_all();
    if !writing.is_finished() {
        // What was answered before the end is still written, if the peer still reads.
        let _ = tokio::time::timeout(grace, writing).await;
    }
    outcome
}

struct Connection {
    endpoint: Endpoint,
    outlets: Outlets,
    /// For what belongs to no request in progress.
    refusals: Outlet,
    /// Refusals wait that must be taken before more is read.
    is_crowded: bool,
    table: Arc<Table>,
    session: Option<Arc<Session>>,
    /// Tells the session of changes.
    telling: Option<AbortHandle>,
    running: JoinSet<()>,
}

impl Connection {
    fn hear(&mut self, line: Line) {
        while self.running.try_join_next().is_some() {}
        let limit = self.endpoint.options.max_message_bytes;
        let line = match line {
            Line::Message(line) => line,
            // The stream stays in step whatever the line was (STD-20). What it says may be anybody's secret.
            Line::Noise(_) | Line::Unfinished { .. } => {
                tracing::warn!("the peer wrote something that is no message; it was skipped");
                return;
            }
            Line::Blank => return,
            Line::TooLong { bytes } => {
                let text = format!("the message has {bytes} bytes and {limit} are taken; send less");
                return self.refuse(&Refusal::new(None, -32600, &text));
            }
        };
        let batches = self.session.as_ref().is_some_and(|it| it.revision() == Revision::V2025_03_26);
        match batches.then(|| batch::elements(&line)).flatten() {
            // Each is answered by a line of its own.
            Some(elements) if !elements.is_empty() => {
                for element in elements {
                    self.read(element.get().as_bytes());
                }
            }
            _ => self.read(&line),
        }
    }

    fn read(&mut self, message: &[u8]) {
        match admit::read(message, self.endpoint.options.max_message_bytes) {
            Ok(Incoming::Request { id, request }) => self.request(id, request),
            Ok(Incoming::Cancelled(notice)) => drive::route(&lock(&self.table), &notice),
            Ok(Incoming::Notification { method }) => self.notification(&method),
            Ok(Incoming::Response { id: Some(id), reply }) => {
                if let Some(session) = &self.session {
                    session.questions.answer(&id, reply);
                }
            }
            // An error without an id answers nothing that can be named.
            Ok(Incoming::Response { id: None, .. }) | Err(None) => {}
            Err(Some(refusal)) => self.refuse(&refusal),
        }
    }

    fn request(&mut self, id: RequestId, request: Request) {
        let legacy =
            self.endpoint.options.legacy && admit::era_of(&request, &Mirrored::NotHere) == Era::Legacy;
        if legacy && self.session.is_none() && request.method == "ping" {
            // It needs no session to be answered; before the handshake nothing else has a meaning (LEG-04).
            return self.tell(message::response(Some(&id), &Reply::Result(Bytes::from_static(b"{}"))));
        }
        match self.admit(id.clone(), request) {
            Ok((admitted, session)) => self.start(id, admitted, session),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    /// Chooses the era by the message (VER-21).
    fn admit(&self, id: RequestId, request: Request) -> Result<(Admitted, Option<Arc<Session>>), Refusal> {
        let (service, options) = (&self.endpoint.service, &self.endpoint.options);
        let local = || Caller::local(Transport::Stdio).principal;
        let era = if options.legacy { admit::era_of(&request, &Mirrored::NotHere) } else { Era::Modern };
        let session = match (era, &self.session, request.method.as_str()) {
            (Era::Legacy, None, "initialize") => {
                let session = Session::open(&request, local(), Transport::Stdio)
                    .map_err(|text| Refusal::new(Some(id.clone()), -32602, text))?;
                Arc::new(session)
            }
            (Era::Legacy, Some(_), "initialize") => {
                let text = "this connection is initialized already; open another one for another session";
                return Err(Refusal::new(Some(id), -32600, text));
            }
            (Era::Legacy, Some(session), _) => Arc::clone(session),
            // Neither era's: told what the modern one misses, since nothing was negotiated (CAP-03).
            (Era::Modern, _, _) | (Era::Legacy, None, _) => {
                let admitted =
                    admit::modern(id, request, local(), Transport::Stdio, &NoHeaders, &**service, options)?;
                return Ok((admitted, None));
            }
        };
        let admitted = admit::legacy(id, request, session.caller(), &**service, options)?;
        Ok((admitted, Some(session)))
    }

    fn start(&mut self, id: RequestId, admitted: Admitted, session: Option<Arc<Session>>) {
        let peer = Peer::default();
        let opened = lock(&self.table).open(id.clone(), admitted.spec.operation, peer.clone());
        if let Err(in_use) = opened {
            return self.refuse(&Refusal::new(Some(id), -32600, &in_use.to_string()));
        }
        let Some(permit) = self.endpoint.admit() else {
            lock(&self.table).release(&id);
            return self.tell(too_many(&id, self.endpoint.under_way()));
        };
        // Only now: what is refused opens no session.
        if admitted.spec.operation == Operation::Initialize {
            self.session.clone_from(&session);
        }
        let way = Way {
            outlet: self.outlets.open(Some(permit)),
            keep_alive: None,
            stall: Some(self.endpoint.options.write_stall),
        };
        let table = Arc::clone(&self.table);
        let free = move || drop(lock(&table).release(&id));
        let answering = drive::answer(self.endpoint.clone(), admitted, session, peer, way, free);
        self.running.spawn(drive::respond(answering));
    }

    fn notification(&mut self, method: &str) {
        // All others mean nothing here.
        if let ("notifications/initialized", Some(session), None) = (method, &self.session, &self.telling) {
            let (session, outlet) = (Arc::clone(session), self.outlets.open(None));
            let service = Arc::clone(&self.endpoint.service);
            let telling = tokio::spawn(async move {
                session.initialized(&*service).await;
                loop {
                    // What the peer has not taken yet is merged with what comes, not queued behind it.
                    outlet.say(session.unsolicited().await);
                    outlet.emptied().await;
                }
            });
            self.telling = Some(telling.abort_handle());
        }
    }

    fn refuse(&mut self, refusal: &Refusal) {
        self.tell(refusal.to_message());
    }

    fn tell(&mut self, message: Bytes) {
        self.is_crowded |= self.refusals.tell(message) >= CROWD;
    }

    /// Nobody is at the other end any more.
    fn abandon(&mut self) -> JoinSet<()> {
        for (_, peer) in lock(&self.table).drain() {
            peer.tell(PeerEvent::Disconnected);
        }
        if let Some(session) = self.session.take() {
            session.end();
        }
        if let Some(telling) = self.telling.take() {
            telling.abort();
        }
        std::mem::take(&mut self.running)
    }
}

/// Refused before anything was done for it.
fn too_many(id: &RequestId, under_way: usize) -> Bytes {
    let text = format!(
        "{under_way} requests are under way on this connection or too much waits for you to read it; read, and \
         wait for one to end"
    );
    let error = OwnError::local("queue_full", Outcome::NotExecuted, &text);
    message::response(Some(id), &Reply::Error(Bytes::from(error.as_json_rpc_error())))
}

/// Writes each message whole, one after another, and what is ready at once in one piece (STD-25).
async fn write<W: AsyncWrite + Unpin>(mut writer: W, outlets: Outlets, stall: Duration) -> io::Result<()> {
    let mut pending = BytesMut::new();
    while let Some(next) = outlets.next().await {
        let mut next = Some(next);
        while let Some(said) = next.take() {
            match said {
                Next::Message(bytes) | Next::Final(Last { message: bytes, .. }) => {
                    pending.extend_from_slice(&bytes);
                    pending.extend_from_slice(b"\n");
                }
                Next::KeepAlive | Next::HangUp(_) => {}
                Next::Broken => return Err(stalled(stall)),
            }
            if pending.len() < WRITE_BYTES {
                next = outlets.try_next();
            }
        }
        while !pending.is_empty() {
            // Per piece that the peer takes, not for all of it: a slow reader is no stalled one.
            let taken = tokio::time::timeout(stall, writer.write(&pending)).await;
            let taken = taken.unwrap_or_else(|_| Err(stalled(stall)));
            match taken {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => drop(pending.split_to(bytes)),
                Err(error) => {
                    outlets.abandon();
                    return Err(error);
                }
            }
        }
        tokio::time::timeout(stall, writer.flush()).await.unwrap_or_else(|_| Err(stalled(stall)))?;
    }
    Ok(())
}

fn stalled(stall: Duration) -> io::Error {
    let text =
        format!("the peer took nothing for {} s while answers waited; it is disconnected", stall.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

fn lock(table: &Table) -> MutexGuard<'_, InFlight<Peer>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
