//! A call that asks to be a task, until it is one. It is never taken back: who gives it up is let go, and the task that it
//! becomes is cancelled by its id (LEG-112).

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::exchange::requester::End;
use steadfast_core::exchange::{Ignored, Progress, Reply, Spec};
use steadfast_core::hop::Transport;
use steadfast_core::ids::RequestId;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::outcome;
use crate::client::Client;
use crate::client::drive::{self, Ears, Exchanged};
use crate::client::inbound::Holding;
use crate::client::leg::{Detail, Leg};
use crate::client::link::Link;

/// The request, and what goes on with it when nobody waits for it any more.
pub(in crate::client) struct Beginning {
    pub(in crate::client) client: Client,
    pub(in crate::client) call_id: String,
    pub(in crate::client) tool: Option<String>,
    pub(in crate::client) spec: Spec,
    pub(in crate::client) leg: Leg,
    pub(in crate::client) link: Link,
    pub(in crate::client) holding: Option<Holding>,
}

/// What it says before its end.
enum Said {
    Sent,
    Progress(Progress),
    Note(String, Bytes),
    Ignored(Ignored),
}

/// How much of that may wait to be handed on; what finds no place is dropped.
const SAID: usize = 64;

struct Passing(mpsc::Sender<Said>);

impl Ears for Passing {
    fn sent(&mut self, _id: &RequestId) {
        let _ = self.0.try_send(Said::Sent);
    }

    fn progress(&mut self, progress: Progress) {
        let _ = self.0.try_send(Said::Progress(progress));
    }

    fn note(&mut self, method: &str, params: &Bytes) {
        let _ = self.0.try_send(Said::Note(method.to_owned(), params.clone()));
    }

    fn ignored(&mut self, what: Ignored) {
        let _ = self.0.try_send(Said::Ignored(what));
    }
}

impl Beginning {
    /// Runs the request to its end, or until it is given up.
    pub(in crate::client) async fn run(
        self,
        given_up: impl Future<Output = ()> + Send,
        ears: &mut dyn Ears,
    ) -> Exchanged {
        let clock = self.client.pipeline.clock;
        let (id, stdio) = (self.spec.id.clone(), self.spec.hop.transport == Transport::Stdio);
        let (say, mut said) = mpsc::channel(SAID);
        let (end, mut ended) = oneshot::channel();
        let stop = CancellationToken::new();
        tokio::spawn(self.beside(stop.clone(), say, end));
        let mut given_up = pin!(given_up);
        let (mut launched, mut stopping) = (None, false);
        loop {
            tokio::select! {
                biased;
                Some(said) = said.recv() => match said {
                    Said::Sent => {
                        launched = Some(clock.now().mono);
                        ears.sent(&id);
                    }
                    Said::Progress(progress) => ears.progress(progress),
                    Said::Note(method, params) => ears.note(&method, &params),
                    Said::Ignored(what) => ears.ignored(what),
                },
                exchanged = &mut ended => {
                    let network = Duration::ZERO;
                    let lost =
                        Exchanged { end: End::Lost, sent: true, detail: Detail::default(), stdio, network };
                    return exchanged.unwrap_or(lost);
                }
                () = &mut given_up, if !stopping => match launched {
                    Some(launched) => {
                        drive::note_given_up(&id, &End::Cancelled, None);
                        let network = clock.now().mono.saturating_since(launched);
                        let detail = Detail::default();
                        return Exchanged { end: End::Cancelled, sent: true, detail, stdio, network };
                    }
                    // Nothing left, so nothing can come of it.
                    None => {
                        stopping = true;
                        stop.cancel();
                    }
                },
            }
        }
    }

    async fn beside(self, stop: CancellationToken, say: mpsc::Sender<Said>, end: oneshot::Sender<Exchanged>) {
        let Self { client, call_id, tool, spec, leg, link, holding } = self;
        let pipeline = &client.pipeline;
        let switches = [(&pipeline.closing, Some("the client is closing")), (&stop, None)];
        let id = spec.id.clone();
        let exchanged =
            drive::request(pipeline.clock, spec, leg, &switches, holding, &mut Passing(say)).await;
        link.forget(&id);
        let Err(exchanged) = end.send(exchanged) else { return };
        // Nobody waits for it.
        if let End::Answered(Reply::Result(result)) = exchanged.end
            && let Ok((task, _)) = outcome::created(&result)
        {
            let handle = client.handle(&task, tool.as_deref(), &call_id);
            handle.note(|journal, entry| journal.begun(entry)).await;
            handle.give_up();
        }
    }
}
