//! The loop that obeys a [`Requester`]: handle, drain, sleep until the timeout.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::exchange::requester::{End, Input, Output};
use steadfast_core::exchange::{Clock as Limit, Ignored, Progress, Reply, Requester, Spec};
use steadfast_core::hop::Transport;
use steadfast_core::ids::RequestId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::inbound::Holding;
use super::leg::{Detail, Heard, Leg};
use crate::clock::{Alarm, Clock};

/// How far behind the server's cancel of a listen its result may be.
const RESULT_AFTER: Duration = Duration::from_millis(100);

/// What a request hears before its end.
pub(super) trait Ears: Send {
    /// It is about to leave.
    fn sent(&mut self, _id: &RequestId) {}
    /// Progress that rises, in order.
    fn progress(&mut self, progress: Progress);
    /// A notification that belongs to the request.
    fn note(&mut self, method: &str, params: &Bytes);
    /// An event that changed nothing, to be counted.
    fn ignored(&mut self, what: Ignored);
}

/// How an exchange ended, and what the transport adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exchanged {
    pub(super) end: End<Bytes>,
    /// Whether bytes may have left: if not, the request was certainly not executed.
    pub(super) sent: bool,
    pub(super) detail: Detail,
    /// Over stdio the loss of a request is the loss of the process.
    pub(super) stdio: bool,
    /// How long it took from its first byte on; zero if none left.
    pub(super) network: Duration,
}

/// What ends a request from our side, and the reason that the peer is told.
pub(super) type Switch<'a> = (&'a CancellationToken, Option<&'static str>);

/// Runs one request to its end.
pub(super) async fn request(
    clock: Clock,
    spec: Spec,
    mut leg: Leg,
    switches: &[Switch<'_>],
    mut holding: Option<Holding>,
    ears: &mut dyn Ears,
) -> Exchanged {
    let id = spec.id.clone();
    let stdio = spec.hop.transport == Transport::Stdio;
    let mut exchange = Requester::start(clock.now(), spec);
    let mut launched = None;
    let mut held = false;
    let mut preparing = true;
    let mut cancelled = false;
    let mut reason = None;
    let mut detail = Detail::default();
    let mut thrown = pin!(thrown(switches));
    let mut alarm = Alarm::new(clock);
    loop {
        let mut end: Option<End<Bytes>> = None;
        while let Some(output) = exchange.poll_output() {
            match output {
                Output::Progress(progress) => ears.progress(progress),
                Output::Signal(signal) => (leg.signal)(&signal),
                Output::Ended(ended) => end = Some(ended),
                Output::Ignored(what) => ears.ignored(what),
            }
        }
        if let Some(end) = end {
            if exchange.was_sent() {
                note_given_up(&id, &end, reason);
            }
            let now = clock.now().mono;
            let network = launched.map_or(Duration::ZERO, |launched| now.saturating_since(launched));
            return Exchanged { end, sent: exchange.was_sent(), detail, stdio, network };
        }
        let timeout = exchange.poll_timeout().map(|(at, _)| at);
        let input = tokio::select! {
            // What the peer said already counts before a timer that rang meanwhile; the machine looks at the time.
            biased;
            why = &mut thrown, if !cancelled => {
                cancelled = true;
                reason = why;
                Input::Cancel { reason: reason.map(Arc::from) }
            }
            prepared = &mut leg.prepare, if preparing => {
                preparing = false;
                match prepared {
                    Ok(launch) => {
                        let now = clock.now();
                        launched = Some(now.mono);
                        exchange.handle(now, Input::Sent);
                        // A limit may have been reached just now; then nothing may leave any more.
                        if exchange.terminal().is_none() {
                            ears.sent(&id);
                            launch();
                        }
                        continue
                    }
                    Err(why) => { detail = why; Input::Lost }
                }
            }
            heard = leg.heard.recv() => match heard {
                Some(Heard::Input(Input::PeerCancelled, more)) => {
                    detail = more;
                    result_after(&mut leg.heard).await.map_or(Input::PeerCancelled, Input::Response)
                }
                Some(Heard::Input(input, more)) => { detail = more; input }
                Some(Heard::Note { method, params }) => { ears.note(&method, &params); continue }
                None => Input::Lost,
            },
            now_held = changed(&mut holding, &id, held) => {
                held = now_held;
                if held { Input::Held } else { Input::Released }
            }
            () = alarm.ring(timeout) => { exchange.handle_timeout(clock.now()); continue }
        };
        exchange.handle(clock.now(), input);
    }
}

/// CAN-15: the reason stays here too, as over modern HTTP the peer hears none.
pub(super) fn note_given_up(id: &RequestId, end: &End<Bytes>, reason: Option<&'static str>) {
    let request = id.to_json();
    match end {
        End::Cancelled => {
            let reason = reason.unwrap_or("its caller gave up");
            tracing::info!(request, reason, "gave a request up");
        }
        End::TimedOut(clock) => {
            let reason = match clock {
                Limit::Idle => "idle limit reached",
                Limit::Maximum => "maximum limit reached",
            };
            tracing::info!(request, reason, "gave a request up");
        }
        End::Answered(_) | End::CancelledByPeer | End::Lost => {}
    }
}

/// The result of a listen that the server sent after its cancel: in either order it makes the end graceful (AMB-01).
async fn result_after(heard: &mut mpsc::Receiver<Heard>) -> Option<Reply<Bytes>> {
    let result = async {
        loop {
            match heard.recv().await? {
                Heard::Input(Input::Response(reply), _) => return Some(reply),
                Heard::Input(..) | Heard::Note { .. } => {}
            }
        }
    };
    tokio::time::timeout(RESULT_AFTER, result).await.ok().flatten()
}

async fn changed(holding: &mut Option<Holding>, id: &RequestId, held: bool) -> bool {
    match holding {
        Some(holding) => holding.changed(id, held).await,
        None => std::future::pending().await,
    }
}

/// Waits until one of them is thrown.
async fn thrown(switches: &[Switch<'_>]) -> Option<&'static str> {
    let waiting = switches.iter().map(|(switch, _)| switch.cancelled()).map(Box::pin);
    let mut waiting: Vec<_> = waiting.collect();
    std::future::poll_fn(|context| {
        for (at, one) in waiting.iter_mut().enumerate() {
            if one.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(switches[at].1);
            }
        }
        std::task::Poll::Pending
    })
    .await
}
