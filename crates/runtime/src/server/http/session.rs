//! A legacy session over HTTP: what it remembers, what runs in it, and its streams.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::envelope::{self, Message};
use steadfast_core::exchange::{CancelNotice, InFlight, Reply};
use steadfast_core::hop::{Era, Hop, Transport};
use steadfast_core::ids::RequestId;
use steadfast_core::task::TaskOwner;
use tokio_util::task::AbortOnDropHandle;

use super::lock;
use super::sessions::Use;
use super::streams::{Ends, Reading, Stream};
use crate::message;
use crate::server::drive;
use crate::server::endpoint::Endpoint;
use crate::server::outlet::{Next, Outlets};
use crate::server::peer::{Peer, PeerEvent};
use crate::server::session::Session;
use crate::server::{Service, endpoint::Buffered};

/// How many streams that have their last message are kept for a client that did not see it; past it the oldest goes.
const KEPT_STREAMS: usize = 16;

/// A session as long as it lives.
pub(super) struct Live {
    pub(super) session: Arc<Session>,
    /// The requests of the client that run.
    pub(super) table: Mutex<InFlight<Peer>>,
    /// What no request carries leaves here (LEG-37). A second connection to it replaces the first: a client that lost
    /// the first may come back before that is noticed.
    standalone: Arc<Stream>,
    unsolicited: Outlets,
    telling: AbortOnDropHandle<()>,
    requests: Mutex<Requests>,
    replay: Buffered,
}

/// The streams of requests, by their numbers.
struct Requests {
    next: u64,
    streams: BTreeMap<u64, Arc<Stream>>,
}

impl Live {
    pub(super) fn new(session: Session, endpoint: &Endpoint, replay: &Buffered) -> Self {
        let session = Arc::new(session);
        let unsolicited = Outlets::new(endpoint.options.buffer, endpoint.buffered().clone());
        let revision = session.revision();
        let standalone = Stream::new(0, revision, unsolicited.clone(), Ends::WithSession, replay.clone());
        let telling =
            tokio::spawn(tell(Arc::clone(&session), unsolicited.clone(), endpoint.options.keep_alive));
        Self {
            table: Mutex::new(InFlight::new(Hop { transport: Transport::Http, era: Era::Legacy })),
            standalone: Arc::new(standalone),
            unsolicited,
            telling: AbortOnDropHandle::new(telling),
            requests: Mutex::new(Requests { next: 1, streams: BTreeMap::new() }),
            replay: replay.clone(),
            session,
        }
    }

    /// A stream for so many answers, whose outlets gave `first` already.
    pub(super) fn stream(&self, outlets: Outlets, answers: usize, first: Option<Next>) -> Reading {
        let mut requests = lock(&self.requests);
        let number = requests.next;
        requests.next += 1;
        let ended: Vec<_> = requests
            .streams
            .iter()
            .filter(|(_, stream)| stream.is_over())
            .map(|(number, _)| *number)
            .collect();
        for oldest in ended.iter().take((ended.len() + 1).saturating_sub(KEPT_STREAMS)) {
            requests.streams.remove(oldest);
        }
        let ends = Ends::AfterAnswers(answers);
        let stream =
            Arc::new(Stream::new(number, self.session.revision(), outlets, ends, self.replay.clone()));
        requests.streams.insert(number, Arc::clone(&stream));
        drop(requests);
        stream.begin(first)
    }

    /// The standalone stream from now on.
    pub(super) fn listen(&self) -> Reading {
        self.standalone.follow()
    }

    /// What follows an event of this session; `None` where nothing is kept of it.
    pub(super) fn resume(&self, stream: u64, place: u64) -> Option<Reading> {
        let stream = match stream {
            0 => Arc::clone(&self.standalone),
            number => Arc::clone(lock(&self.requests).streams.get(&number)?),
        };
        stream.resume(place)
    }

    /// A cancel of the client's (LEG-27). What it does not lead to is ignored.
    pub(super) fn cancel(&self, notice: &CancelNotice) {
        drive::route(&lock(&self.table), notice);
    }

    /// Any other notification.
    pub(super) async fn hear(&self, method: &str, service: &Arc<dyn Service>) {
        if method == "notifications/initialized" {
            let (session, service) = (Arc::clone(&self.session), Arc::clone(service));
            // In a task of its own: a client that does not wait for the 202 is told of changes all the same.
            let _ = tokio::spawn(async move { session.initialized(&*service).await }).await;
        }
    }

    /// The answer to a question; an unknown one changes nothing.
    pub(super) fn answer(&self, id: Option<&RequestId>, reply: Reply<Bytes>) {
        if let Some(id) = id {
            self.session.questions.answer(id, reply);
        }
    }

    /// A message that has no way to the client, which takes a single object only: whoever asks is told at once.
    pub(super) fn unheard(&self, message: &[u8]) {
        if let Ok(Message::Request { id, .. }) = envelope::parse(message) {
            let text = "the client takes no event stream for this call, and cannot be asked; accept text/event-stream";
            let error = message::error_body(message::OWN_ERROR_CODE, text);
            self.session.questions.answer(&id, Reply::Error(Bytes::from(error)));
        }
    }

    /// Nothing more is told; what runs goes on.
    pub(super) fn end_listening(&self) {
        self.telling.abort();
        self.unsolicited.close();
    }

    /// The session is over: what runs in it is told to stop, since nobody could fetch its answer.
    pub(super) fn end(&self) {
        self.session.end();
        self.end_listening();
        // Before the cancels: a stream that ends by one looks as if it had an end.
        let streams: Vec<_> = lock(&self.requests).streams.values().cloned().collect();
        streams.iter().for_each(|stream| stream.break_off());
        for (_, peer) in lock(&self.table).drain() {
            peer.tell(PeerEvent::Cancelled);
        }
    }
}

impl Use for Arc<Live> {
    fn owner(&self) -> &TaskOwner {
        self.session.principal()
    }

    fn is_in_use(&self) -> bool {
        self.standalone.is_attached() || !lock(&self.table).is_empty()
    }
}

/// Tells of changes on the standalone stream. What the client has not taken yet is merged with what comes, not queued
/// behind it.
async fn tell(session: Arc<Session>, outlets: Outlets, keep_alive: Duration) {
    let outlet = outlets.open(None);
    loop {
        tokio::select! {
            change = session.unsolicited() => {
                outlet.say(change);
                outlet.emptied().await;
            }
            () = tokio::time::sleep(keep_alive) => outlet.keep_alive(),
        }
    }
}
