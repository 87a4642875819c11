//! The loop that obeys a [`Responder`]: handle, drain, sleep until the timeout.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::error::{Kind, Outcome};
use steadfast_core::exchange::responder::{Answer, Input, Output};
use steadfast_core::exchange::{Clock, Reply, Responder, Spec};
use steadfast_core::time::Now;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::outlet::Outlet;
use super::{Context, Request, Service};
use crate::clock;
use crate::message::OwnError;

/// What the peer does to a request while it runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum PeerEvent {
    /// Its `notifications/cancelled` named this request.
    Cancelled,
    /// Its connection or response stream is gone.
    Disconnected,
}

/// Runs one request to its end, and on until its handler has ended: only then is its id free.
pub(super) async fn respond(
    clock: clock::Clock,
    spec: Spec,
    service: Arc<dyn Service>,
    request: Request,
    mut peer: mpsc::Receiver<PeerEvent>,
    outlet: Outlet,
    keep_alive: Option<Duration>,
) {
    let (progress_in, mut progress_out) = watch::channel(None);
    let progress = spec.token.as_ref().map(|_| Arc::new(progress_in));
    let cancelled = CancellationToken::new();
    let context = Context { progress, cancelled: cancelled.clone() };
    let mut handler = tokio::spawn(service.answer(request, context));
    let mut handler_runs = true;
    let mut progress_open = true;
    let mut peer_open = true;
    // `None` once nothing more may be sent: the answer is on its way, or a cancel has won.
    let mut outlet = Some(outlet);

    let mut exchange = Responder::start(clock.now(), spec);
    // Counted from what was sent, not from what happened: a handler that reports without rising sends nothing.
    let quiet_until = |now: Now| keep_alive.map(|interval| now.mono.saturating_add(interval));
    let mut keep_alive_at = quiet_until(clock.now());
    loop {
        while let Some(output) = exchange.poll_output() {
            match output {
                Output::Progress(progress) => {
                    if let (Some(outlet), Some(token)) = (&outlet, &exchange.spec().token) {
                        outlet.progress(token, &progress);
                        keep_alive_at = quiet_until(clock.now());
                    }
                }
                Output::Respond(answer) => {
                    let reply = match answer {
                        Answer::Reply(reply) => reply,
                        Answer::TimedOut(clock) => timed_out(clock),
                        Answer::NoAnswer => no_answer(),
                    };
                    if let Some(outlet) = outlet.take() {
                        outlet.finish(&exchange.spec().id, &reply);
                    }
                }
                Output::StopHandler => {
                    outlet = None;
                    cancelled.cancel();
                }
                // Listening is not served yet, so no listen can be ended; counting has no home yet.
                Output::CancelListen { .. } | Output::Ended(_) | Output::Ignored(_) => {}
            }
        }
        if exchange.is_settled() {
            return;
        }
        let timeout = exchange.poll_timeout().map(|(at, _)| at);
        let input = tokio::select! {
            ended = &mut handler, if handler_runs => {
                handler_runs = false;
                if let Some(latest) = progress_out.borrow_and_update().clone().filter(|_| progress_open) {
                    exchange.handle(clock.now(), Input::Progress(latest));
                }
                if let Ok(reply) = ended {
                    exchange.handle(clock.now(), Input::Finished(reply));
                }
                Input::HandlerEnded
            }
            changed = progress_out.changed(), if progress_open => match changed {
                Ok(()) => match progress_out.borrow_and_update().clone() {
                    Some(progress) => Input::Progress(progress),
                    None => continue,
                },
                Err(_) => { progress_open = false; continue }
            },
            event = peer.recv(), if peer_open => match event {
                Some(PeerEvent::Cancelled) => Input::Cancelled,
                Some(PeerEvent::Disconnected) => Input::Disconnected,
                None => { peer_open = false; continue }
            },
            () = clock.sleep_until(timeout) => { exchange.handle_timeout(clock.now()); continue }
            () = clock.sleep_until(keep_alive_at) => {
                if let Some(outlet) = &outlet {
                    outlet.keep_alive();
                }
                // Nothing is kept alive once the answer is on its way.
                keep_alive_at = outlet.as_ref().and_then(|_| quiet_until(clock.now()));
                continue
            }
        };
        exchange.handle(clock.now(), input);
    }
}

/// Our own error for a peer that still waits (TMO-12).
fn timed_out(clock: Clock) -> Reply<Bytes> {
    own_error("deadline", Some(clock), &format!("the {} limit was reached", clock.as_str()))
}

/// Our own error for a handler that ended without an answer, as after a panic.
fn no_answer() -> Reply<Bytes> {
    own_error("handler", None, "the handler ended without an answer")
}

fn own_error(category: &str, clock: Option<Clock>, text: &str) -> Reply<Bytes> {
    let error =
        OwnError { kind: Kind::Local, category, outcome: Outcome::Unknown, clock, server: None, text };
    Reply::Error(Bytes::from(error.as_json_rpc_error()))
}
