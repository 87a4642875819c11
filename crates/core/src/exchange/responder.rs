//! The end of an exchange that answers.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::pace::Pace;
use super::progress::Offered;
use super::{Clock, Ignored, Operation, Progress, Reply, Spec, Terminal, TimerKind};
use crate::hop::{Era, Transport};
use crate::time::{Instant, Now};

/// What happens to the responder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input<P> {
    /// The handler reports progress.
    Progress(Progress),
    /// The handler has its answer.
    Finished(Reply<P>),
    /// The handler is gone and holds nothing any more; it may have ended without an answer.
    HandlerEnded,
    /// The peer's `notifications/cancelled`, which [`InFlight`](super::InFlight) found to name this request.
    Cancelled,
    /// The response stream or the connection is gone.
    Disconnected,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Output<P> {
    /// Send progress to the peer, under the peer's token.
    Progress(Progress),
    /// Send the answer to the peer, under the peer's id. Comes at most once, and nothing is sent after it.
    Respond(Answer<P>),
    /// Send `notifications/cancelled` naming this listen: the only one a server may send (CAN-12, CAN-13).
    CancelListen {
        /// For people and logs.
        reason: Option<Arc<str>>,
    },
    /// Tell the handler to stop; nothing that it still produces will be sent (G5).
    StopHandler,
    /// The exchange ended; only [`Output::StopHandler`] and [`Output::Ignored`] follow.
    Ended(Terminal),
    /// Record an event that changed nothing.
    Ignored(Ignored),
}

/// What to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer<P> {
    /// The handler's answer.
    Reply(Reply<P>),
    /// Our own error: the handler reached a limit. The peer still waits, so it is told (TMO-12).
    TimedOut(Clock),
    /// Our own error: the handler ended without an answer, as after a panic.
    NoAnswer,
}

/// Why a listen cannot be ended by `notifications/cancelled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CancelListenError {
    /// CAN-13.
    #[error(
        "a server may send notifications/cancelled for a subscriptions/listen only; answer this request instead"
    )]
    NotAListen,
    /// AMB-01.
    #[error(
        "over HTTP a listen ends by its result and the end of its stream; answer it instead of cancelling it"
    )]
    NotOnStdio,
    /// D-04.
    #[error("this listen has already ended; there is nothing left to cancel")]
    Ended,
}

/// The responder's state machine.
///
/// | state | Progress | Finished | HandlerEnded | Cancelled | Disconnected | limit reached |
/// |---|---|---|---|---|---|---|
/// | Open | with a token and rising: sent, idle runs anew; else ignored | answer, → Ended | answer "no answer", → Ended | stop, → Ended(Cancelled) | legacy HTTP: ignored; else stop, → Ended(Cancelled) | answer, stop, → Ended(TimedOut) |
/// | Ended, handler runs | ignored | ignored | the id is free | ignored | ignored | – |
/// | Ended, handler gone | ignored | ignored | nothing | ignored | ignored | – |
///
/// An `initialize` cannot be cancelled (LEG-10). A graceful end of a listen on stdio is its result followed by
/// `notifications/cancelled` (AMB-01).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Responder<P> {
    spec: Spec,
    pace: Pace,
    state: State,
    outputs: VecDeque<Output<P>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Open,
    Ended { terminal: Terminal, handler_runs: bool },
}

impl<P> Responder<P> {
    /// Starts the exchange and both clocks, when the request has been read and accepted.
    pub fn start(now: Now, spec: Spec) -> Self {
        let pace = Pace::start(now.mono, &spec);
        Self { spec, pace, state: State::Open, outputs: VecDeque::new() }
    }

    /// What the request is.
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The end, once there is one.
    pub const fn terminal(&self) -> Option<Terminal> {
        match self.state {
            State::Open => None,
            State::Ended { terminal, .. } => Some(terminal),
        }
    }

    /// Whether the exchange ended and its handler did too: only now is its id free again.
    pub const fn is_settled(&self) -> bool {
        match self.state {
            State::Open => false,
            State::Ended { handler_runs, .. } => !handler_runs,
        }
    }

    /// Takes one event.
    pub fn handle(&mut self, now: Now, input: Input<P>) {
        self.reach_limit(now);
        match (self.state, input) {
            (State::Open, Input::Progress(progress)) => self.progress(now.mono, progress),
            (State::Ended { .. }, Input::Progress(_)) => self.ignore(Ignored::LateProgress),

            (State::Open, Input::Finished(reply)) => self.finish(reply),
            (State::Ended { terminal: Terminal::Completed | Terminal::Failed, .. }, Input::Finished(_)) => {
                self.ignore(Ignored::DuplicateResponse);
            }
            (State::Ended { .. }, Input::Finished(_)) => self.ignore(Ignored::LateResponse),

            (State::Open, Input::HandlerEnded) => {
                self.outputs.push_back(Output::Respond(Answer::NoAnswer));
                self.end(Terminal::Failed);
                self.handler_ended(Terminal::Failed);
            }
            (State::Ended { terminal, .. }, Input::HandlerEnded) => self.handler_ended(terminal),

            (State::Open, Input::Cancelled) => match self.spec.operation {
                Operation::Initialize => self.ignore(Ignored::ForbiddenCancel),
                Operation::Ordinary | Operation::Listen | Operation::Probe | Operation::Augmented => {
                    self.stop(Terminal::Cancelled);
                }
            },
            (State::Ended { terminal: Terminal::Cancelled, .. }, Input::Cancelled) => {
                self.ignore(Ignored::DuplicateCancel);
            }
            (State::Ended { .. }, Input::Cancelled) => self.ignore(Ignored::LateCancel),

            (State::Open, Input::Disconnected) => match (self.spec.hop.transport, self.spec.hop.era) {
                (Transport::Http, Era::Legacy) => self.ignore(Ignored::DisconnectWithoutMeaning),
                (Transport::Http, Era::Modern) | (Transport::Stdio, Era::Modern | Era::Legacy) => {
                    self.stop(Terminal::Cancelled);
                }
            },
            (State::Ended { .. }, Input::Disconnected) => self.ignore(Ignored::LateLoss),
        }
        self.release_due(now.mono);
    }

    /// Ends a listen from the server's side, abruptly: without a result.
    ///
    /// # Errors
    /// Anything but a listen that is in progress on stdio; nothing is changed then.
    pub fn cancel_listen(&mut self, now: Now, reason: Option<Arc<str>>) -> Result<(), CancelListenError> {
        self.reach_limit(now);
        match (self.spec.operation, self.spec.hop.transport, self.state) {
            (Operation::Ordinary | Operation::Initialize | Operation::Probe | Operation::Augmented, _, _) => {
                Err(CancelListenError::NotAListen)
            }
            (Operation::Listen, Transport::Http, _) => Err(CancelListenError::NotOnStdio),
            (Operation::Listen, Transport::Stdio, State::Ended { .. }) => Err(CancelListenError::Ended),
            (Operation::Listen, Transport::Stdio, State::Open) => {
                self.outputs.push_back(Output::CancelListen { reason });
                self.stop(Terminal::Cancelled);
                Ok(())
            }
        }
    }

    /// Ends the exchange at a limit, or sends progress that the rate held back; early it does nothing.
    pub fn handle_timeout(&mut self, now: Now) {
        self.reach_limit(now);
        self.release_due(now.mono);
    }

    /// When to call [`Self::handle_timeout`], and why. `None` once the exchange ended.
    pub fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
        match self.state {
            State::Ended { .. } => None,
            State::Open => self.pace.next(),
        }
    }

    /// The next thing to do; drain it until `None` before the next input.
    pub fn poll_output(&mut self) -> Option<Output<P>> {
        self.outputs.pop_front()
    }

    fn reach_limit(&mut self, now: Now) {
        match self.state {
            State::Ended { .. } => return,
            State::Open => {}
        }
        if let Some(clock) = self.pace.reached(now.mono) {
            self.outputs.push_back(Output::Respond(Answer::TimedOut(clock)));
            self.stop(Terminal::TimedOut(clock));
        }
    }

    /// After the input and not before it: once a cancel has come, held-back progress must not leave (CAN-07).
    fn release_due(&mut self, now: Instant) {
        if let Some(latest) = self.pace.due(now) {
            self.outputs.push_back(Output::Progress(latest));
        }
    }

    fn progress(&mut self, now: Instant, progress: Progress) {
        if self.spec.token.is_none() {
            return self.ignore(Ignored::ForeignProgress);
        }
        match self.pace.progress(now, progress) {
            Offered::Stale => self.ignore(Ignored::StaleProgress),
            Offered::Held => {}
            Offered::Pass(progress) => self.outputs.push_back(Output::Progress(progress)),
        }
    }

    fn finish(&mut self, reply: Reply<P>) {
        if let Some(latest) = self.pace.flush() {
            self.outputs.push_back(Output::Progress(latest));
        }
        let terminal = reply.terminal();
        self.outputs.push_back(Output::Respond(Answer::Reply(reply)));
        if (self.spec.operation, self.spec.hop.transport) == (Operation::Listen, Transport::Stdio) {
            self.outputs.push_back(Output::CancelListen { reason: None });
        }
        self.end(terminal);
    }

    fn stop(&mut self, terminal: Terminal) {
        self.end(terminal);
        self.outputs.push_back(Output::StopHandler);
    }

    fn end(&mut self, terminal: Terminal) {
        self.pace.flush();
        self.state = State::Ended { terminal, handler_runs: true };
        self.outputs.push_back(Output::Ended(terminal));
    }

    fn handler_ended(&mut self, terminal: Terminal) {
        self.state = State::Ended { terminal, handler_runs: false };
    }

    fn ignore(&mut self, what: Ignored) {
        self.outputs.push_back(Output::Ignored(what));
    }
}
