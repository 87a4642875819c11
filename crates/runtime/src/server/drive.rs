//! The loop that obeys a [`Responder`]: handle, drain, sleep until the timeout.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::envelope;
use steadfast_core::error::Outcome;
use steadfast_core::exchange::responder::{Answer, Input, Output};
use steadfast_core::exchange::{CancelNotice, Clock, InFlight, Operation, Progress, Reply, Responder};
use steadfast_core::hop::Transport;
use steadfast_core::time::Now;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Answering;
use super::admit::Admitted;
use super::context::{Context, Gate};
use super::endpoint::Endpoint;
use super::listen;
use super::outlet::Outlet;
use super::peer::{Peer, PeerEvent};
use super::session::Session;
use crate::clock::Alarm;
use crate::message::{self, OwnError};

/// Leads a cancel to the request that it names, and records its reason (CAN-15). Where it leads nowhere it is recorded
/// and never answered (CAN-11).
pub(super) fn route(table: &InFlight<Peer>, notice: &CancelNotice) {
    // Quoted by `Debug`: a peer's words cannot forge a line of the log. They are bounded by the message's size.
    let (id, reason) = match notice {
        CancelNotice::Names { id, reason } => (Some(id), reason.as_deref()),
        CancelNotice::Malformed => (None, None),
    };
    match table.route_cancel(notice) {
        Ok(peer) => {
            tracing::debug!(request = ?id, ?reason, "cancelled by the peer");
            peer.tell(PeerEvent::Cancelled);
        }
        Err(why) => tracing::debug!(request = ?id, ?reason, ?why, "a cancel leads nowhere"),
    }
}

/// The way of one request's messages.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) outlet: Outlet,
    /// The longest silence before a sign of life, where the transport has one.
    pub(super) keep_alive: Option<Duration>,
    /// How long the peer may take nothing at all once the answer waits; `None` where it may come back for it.
    pub(super) stall: Option<Duration>,
}

type Reports = watch::Receiver<Option<Progress>>;

/// What became of a handler.
enum Handled {
    Answer(super::Answer),
    /// A listener fell behind: no graceful end (SUB-20).
    Overflow,
}

/// An answer that waits for its peer.
pub(super) struct Untaken {
    outlet: Outlet,
    stall: Duration,
}

impl Untaken {
    /// Waits until it is taken, or the peer is given up.
    pub(super) async fn taken(self) {
        // Undelivered, the answer is kept where its key keeps it; there is nobody left to tell.
        let _ = self.outlet.taken(self.stall).await;
    }
}

/// Runs one request to its end, and on until its answer was taken.
pub(super) async fn respond(answering: impl Future<Output = Option<Untaken>>) {
    if let Some(untaken) = answering.await {
        // Boxed, since it is not yet there while the request runs.
        Box::pin(untaken.taken()).await;
    }
}

/// As [`respond`], as far as it goes at once; the rest in a task of its own. An answer that was there at once is left
/// to the caller, who is likely to take it next.
pub(super) async fn begin(
    answering: impl Future<Output = Option<Untaken>> + Send + 'static,
) -> Option<Untaken> {
    let mut answering = Box::pin(answering);
    match poll_fn(|context| Poll::Ready(answering.as_mut().poll(context))).await {
        Poll::Ready(untaken) => untaken,
        Poll::Pending => {
            tokio::spawn(respond(answering));
            None
        }
    }
}

/// Runs one request to its end, and on until its handler has ended. `free` is called once its id may be used again: the
/// handler has ended, and if there is an answer it has not left yet.
pub(super) async fn answer(
    endpoint: Endpoint,
    admitted: Admitted,
    session: Option<Arc<Session>>,
    peer: Peer,
    way: Way,
    free: impl FnOnce() + Send,
) -> Option<Untaken> {
    let Way { outlet, keep_alive, stall } = way;
    let Admitted { spec, request, caller, trace } = admitted;
    let clock = endpoint.clock;
    let gate = Gate::open(outlet);
    let cancelled = CancellationToken::new();
    // Who asked for no progress pays for none.
    let (progress, mut reports) = match spec.token {
        Some(_) => {
            let (reported, reports) = watch::channel(None);
            (Some(Arc::new(reported)), Some(reports))
        }
        None => (None, None),
    };
    let questions = session.as_ref().map(|session| Arc::clone(&session.questions));
    let context = Context::new(caller, trace, progress, cancelled.clone(), gate.clone(), questions);
    let mut handler = pin!({
        let (service, gate, id) = (Arc::clone(&endpoint.service), gate.clone(), spec.id.clone());
        let (operation, ending) = (spec.operation, endpoint.ending.clone());
        async move {
            match operation {
                Operation::Listen => {
                    let ended = listen::run(&*service, request, &context, &gate, &id, ending).await;
                    Some(ended.map_or(Handled::Overflow, Handled::Answer))
                }
                Operation::Ordinary | Operation::Initialize | Operation::Probe | Operation::Augmented => {
                    if let Some(session) = session
                        && let Some(answer) = session.answer(&request, &*service).await
                    {
                        return Some(Handled::Answer(answer));
                    }
                    answered(service.answer(request, context)).await.map(Handled::Answer)
                }
            }
        }
    });
    let mut handled = caught(handler.as_mut());
    let mut free = Some(free);
    let mut cut = false;
    // Kept after the answer was given to it, until the peer took it.
    let mut finished: Option<Outlet> = None;

    let mut alarm = Alarm::new(clock);
    let mut exchange = Responder::start(clock.now(), spec);
    // Counted from what was sent, not from what happened: a handler that reports without rising sends nothing.
    let quiet_until = |now: Now| keep_alive.map(|interval| now.mono.saturating_add(interval));
    let mut keep_alive_at = quiet_until(clock.now());
    loop {
        while let Some(output) = exchange.poll_output() {
            match output {
                Output::Progress(progress) => {
                    if let Some(token) = &exchange.spec().token {
                        gate.with(|outlet| outlet.progress(token, &progress));
                        keep_alive_at = quiet_until(clock.now());
                    }
                }
                Output::Respond(answer) => {
                    let reply = match answer {
                        Answer::Reply(reply) => reply,
                        Answer::TimedOut(clock) => timed_out(clock),
                        Answer::NoAnswer => no_answer(),
                    };
                    let spec = exchange.spec();
                    if let Some(outlet) = gate.close() {
                        if (spec.operation, spec.hop.transport) == (Operation::Listen, Transport::Stdio) {
                            // The result, then the notification, and nothing in between or after (AMB-01).
                            let mut lines = message::response(Some(&spec.id), &reply).to_vec();
                            lines.push(b'\n');
                            lines.extend_from_slice(envelope::cancelled(&spec.id, None).as_bytes());
                            outlet.end_with(Bytes::from(lines));
                        } else {
                            outlet.finish(&spec.id, &reply);
                        }
                        finished = Some(outlet);
                    }
                    keep_alive_at = None;
                }
                Output::CancelListen { reason } => {
                    // After a graceful end it has gone with the result.
                    if let Some(outlet) = gate.close() {
                        let notice = envelope::cancelled(&exchange.spec().id, reason.as_deref());
                        outlet.end_with(Bytes::from(notice));
                        finished = Some(outlet);
                    }
                }
                Output::StopHandler => {
                    drop(gate.close());
                    keep_alive_at = None;
                    cancelled.cancel();
                }
                // Counting has no home yet.
                Output::Ended(_) | Output::Ignored(_) => {}
            }
        }
        if exchange.is_settled() {
            break;
        }
        let due = exchange.poll_timeout().map(|(at, _)| at).into_iter().chain(keep_alive_at).min();
        let input = tokio::select! {
            // The handler first: where its answer is there at once no timer is set. Reports last: where they never
            // cease, all else is still heard.
            biased;
            handled = &mut handled, if free.is_some() => {
                if let Some(free) = free.take() {
                    free();
                }
                if let Some(latest) = reports.as_mut().and_then(|reports| reports.borrow_and_update().clone()) {
                    exchange.handle(clock.now(), Input::Progress(latest));
                }
                match handled {
                    Some(Handled::Answer(reply)) => exchange.handle(clock.now(), Input::Finished(reply)),
                    Some(Handled::Overflow) => fall_behind(&mut exchange, clock.now(), &gate),
                    None => {}
                }
                Input::HandlerEnded
            }
            event = peer.event() => match event {
                PeerEvent::Cancelled => Input::Cancelled,
                PeerEvent::Disconnected => Input::Disconnected,
            },
            () = endpoint.cut.cancelled(), if !cut => { cut = true; Input::Cancelled }
            () = alarm.ring(due) => {
                let now = clock.now();
                if keep_alive_at.is_some_and(|at| at <= now.mono) {
                    gate.with(Outlet::keep_alive);
                    keep_alive_at = quiet_until(now);
                } else {
                    exchange.handle_timeout(now);
                }
                continue
            }
            reported = next(&mut reports), if reports.is_some() => match reported {
                Some(progress) => Input::Progress(progress),
                // Nobody is left to report.
                None => { reports = None; continue }
            },
        };
        exchange.handle(clock.now(), input);
    }
    Some(Untaken { outlet: finished?, stall: stall? })
}

/// The handler's answer: at once if it has it at once, else from a task of its own, which is not stopped by what happens
/// to its request. `None` after a panic in that task.
async fn answered(mut answering: Answering) -> Option<super::Answer> {
    match poll_fn(|context| Poll::Ready(answering.as_mut().poll(context))).await {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => tokio::spawn(answering).await.ok(),
    }
}

/// `None` after a panic, which ends this call only.
fn caught(
    mut handler: Pin<&mut impl Future<Output = Option<Handled>>>,
) -> impl Future<Output = Option<Handled>> + Unpin {
    poll_fn(move |context| {
        catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(context))).unwrap_or(Poll::Ready(None))
    })
}

/// Waits for a report; `None` when there will be none.
async fn next(reports: &mut Option<Reports>) -> Option<Progress> {
    let reports = reports.as_mut()?;
    reports.changed().await.ok()?;
    reports.borrow_and_update().clone()
}

/// A listen whose backlog overflowed ends so that its holder fetches again what it covered (SUB-20, ruling 17).
fn fall_behind(exchange: &mut Responder<Bytes>, now: Now, gate: &Gate) {
    match exchange.spec().hop.transport {
        Transport::Stdio => {
            // It is a listen that is in progress; a cancel that came first has ended it, and that is as well.
            let _ = exchange
                .cancel_listen(now, Some("the listener fell behind; fetch again what it covered".into()));
        }
        Transport::Http => {
            if let Some(outlet) = gate.close() {
                outlet.break_off();
            }
            exchange.handle(now, Input::Disconnected);
        }
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
    let error = OwnError { clock, ..OwnError::local(category, Outcome::Unknown, text) };
    Reply::Error(Bytes::from(error.as_json_rpc_error()))
}
