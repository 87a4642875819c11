//! The end of an exchange that asked.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::pace::Pace;
use super::progress::Offered;
use super::{CancelSignal, Clock, Ignored, Operation, Progress, Reply, Spec, Terminal, TimerKind};
use crate::hop::Transport;
use crate::ids::ProgressToken;
use crate::time::{Instant, Now};

/// What happens to the requester.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input<P> {
    /// The first byte of the request leaves this process next.
    Sent,
    /// The peer reported progress under this token.
    Progress(ProgressToken, Progress),
    /// The peer answered.
    Response(Reply<P>),
    /// Whoever waits here gave up.
    Cancel {
        /// For people and logs.
        reason: Option<Arc<str>>,
    },
    /// The peer sent `notifications/cancelled` naming this request.
    PeerCancelled,
    /// The peer asks a person something before it answers: neither clock runs meanwhile (ruling 18).
    Held,
    /// It has its answer.
    Released,
    /// The stream ended without an answer, the connection broke, or the process exited.
    Lost,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Output<P> {
    /// Hand progress to whoever waits.
    Progress(Progress),
    /// Tell the peer that we gave up.
    Signal(CancelSignal),
    /// The exchange ended: tell whoever waits. Comes exactly once; only [`Output::Ignored`] may follow.
    Ended(End<P>),
    /// Record an event that changed nothing.
    Ignored(Ignored),
}

/// The end, with the answer where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End<P> {
    /// The peer's answer.
    Answered(Reply<P>),
    /// Given up here.
    Cancelled,
    /// A listen that the server ended by `notifications/cancelled`.
    CancelledByPeer,
    /// A limit was reached.
    TimedOut(Clock),
    /// The way to the peer broke.
    Lost,
}

impl<P> End<P> {
    /// The terminal state that belongs to this end.
    pub const fn terminal(&self) -> Terminal {
        match self {
            Self::Answered(reply) => reply.terminal(),
            Self::Cancelled | Self::CancelledByPeer => Terminal::Cancelled,
            Self::TimedOut(clock) => Terminal::TimedOut(*clock),
            Self::Lost => Terminal::Lost,
        }
    }
}

/// The requester's state machine.
///
/// | state | Sent | Progress | Response | Cancel | PeerCancelled | Lost | limit reached |
/// |---|---|---|---|---|---|---|---|
/// | Unsent | → Open | ignored | ignored | → Ended(Cancelled), no signal | ignored | → Ended(Lost) | → Ended(TimedOut), no signal |
/// | Open | ignored | rising: handed on, idle runs anew; else ignored | → Ended(Completed or Failed) | signal, → Ended(Cancelled) | listen on stdio: → Ended(Cancelled); else ignored | → Ended(Lost) | signal, → Ended(TimedOut) |
/// | Ended | ignored | ignored | ignored | ignored | ignored | ignored | – |
///
/// `Held` and `Released` stop both clocks and let them run on; they change nothing else.
///
/// Whoever is first wins, and an input that comes at or after a limit finds the limit reached: no order of events
/// moves the end beyond the maximum (I-04).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requester<P> {
    spec: Spec,
    pace: Pace,
    state: State,
    outputs: VecDeque<Output<P>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Unsent,
    Open,
    Ended {
        terminal: Terminal,
        /// Bytes may have left, so the effect is not excluded.
        sent: bool,
        /// On stdio the peer may still answer what was given up; until then the id is not forgotten (CAN-22).
        lingering: bool,
    },
}

impl<P> Requester<P> {
    /// Starts the exchange and both clocks. When the driver is ready to send it says [`Input::Sent`], and then lets the
    /// first byte leave, unless that ended the exchange.
    pub fn start(now: Now, spec: Spec) -> Self {
        let pace = Pace::start(now.mono, &spec);
        Self { spec, pace, state: State::Unsent, outputs: VecDeque::new() }
    }

    /// What the request is.
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The end, once there is one.
    pub const fn terminal(&self) -> Option<Terminal> {
        match self.state {
            State::Unsent | State::Open => None,
            State::Ended { terminal, .. } => Some(terminal),
        }
    }

    /// Whether bytes may have left: if not, the request was certainly not executed.
    pub const fn was_sent(&self) -> bool {
        match self.state {
            State::Unsent => false,
            State::Open => true,
            State::Ended { sent, .. } => sent,
        }
    }

    /// Whether the exchange ended and no message of the peer can concern it any more: its id may be forgotten.
    pub const fn is_settled(&self) -> bool {
        match self.state {
            State::Unsent | State::Open => false,
            State::Ended { lingering, .. } => !lingering,
        }
    }

    /// Takes one event.
    pub fn handle(&mut self, now: Now, input: Input<P>) {
        self.reach_limit(now);
        match (self.state, input) {
            (State::Unsent, Input::Sent) => self.state = State::Open,
            (State::Open, Input::Sent) | (State::Ended { .. }, Input::Sent) => self.ignore(Ignored::LateSend),

            (State::Open, Input::Progress(token, progress)) => self.progress(now.mono, &token, progress),
            (State::Unsent | State::Ended { .. }, Input::Progress(..)) => self.ignore(Ignored::LateProgress),

            (State::Open, Input::Response(reply)) => {
                if let Some(latest) = self.pace.flush() {
                    self.outputs.push_back(Output::Progress(latest));
                }
                self.end(End::Answered(reply));
            }
            // An answer to a request that never left cannot be its answer.
            (State::Unsent, Input::Response(_)) => self.ignore(Ignored::LateResponse),
            (State::Ended { terminal, sent, .. }, Input::Response(_)) => {
                self.state = State::Ended { terminal, sent, lingering: false };
                self.ignore(match terminal {
                    Terminal::Completed | Terminal::Failed => Ignored::DuplicateResponse,
                    // Over HTTP too: it may have been read before the stream was closed.
                    Terminal::Cancelled | Terminal::TimedOut(_) | Terminal::Lost => Ignored::LateResponse,
                });
            }

            (State::Unsent, Input::Cancel { .. }) => self.end(End::Cancelled),
            (State::Open, Input::Cancel { reason }) => self.give_up(reason, End::Cancelled),
            (State::Ended { terminal: Terminal::Cancelled, .. }, Input::Cancel { .. }) => {
                self.ignore(Ignored::DuplicateCancel);
            }
            (State::Ended { .. }, Input::Cancel { .. }) => self.ignore(Ignored::LateCancel),

            (State::Open, Input::PeerCancelled) if self.may_be_ended_by_peer() => {
                self.end(End::CancelledByPeer)
            }
            (State::Unsent | State::Open, Input::PeerCancelled) => self.ignore(Ignored::ForbiddenCancel),
            (State::Ended { .. }, Input::PeerCancelled) => self.ignore(Ignored::LateCancel),

            (State::Unsent | State::Open, Input::Held) => self.pace.hold(now.mono),
            (State::Unsent | State::Open, Input::Released) => self.pace.release(now.mono),
            (State::Ended { .. }, Input::Held | Input::Released) => {}

            (State::Unsent | State::Open, Input::Lost) => self.end(End::Lost),
            (State::Ended { terminal, sent, .. }, Input::Lost) => {
                self.state = State::Ended { terminal, sent, lingering: false };
                self.ignore(Ignored::LateLoss);
            }
        }
        self.release_due(now.mono);
    }

    /// Ends the exchange at a limit, or hands on progress that the rate held back; early it does nothing.
    pub fn handle_timeout(&mut self, now: Now) {
        self.reach_limit(now);
        self.release_due(now.mono);
    }

    /// When to call [`Self::handle_timeout`], and why. `None` once the exchange ended.
    pub fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
        match self.state {
            State::Ended { .. } => None,
            State::Unsent | State::Open => self.pace.next(),
        }
    }

    /// The next thing to do; drain it until `None` before the next input.
    pub fn poll_output(&mut self) -> Option<Output<P>> {
        self.outputs.pop_front()
    }

    fn reach_limit(&mut self, now: Now) {
        match self.state {
            State::Ended { .. } => return,
            State::Unsent | State::Open => {}
        }
        if let Some(clock) = self.pace.reached(now.mono) {
            let reason = match clock {
                Clock::Idle => "idle limit reached",
                Clock::Maximum => "maximum limit reached",
            };
            self.give_up(Some(reason.into()), End::TimedOut(clock));
        }
    }

    /// After the input and not before it: an end that came together with held-back progress leaves nothing to hand on.
    fn release_due(&mut self, now: Instant) {
        if let Some(latest) = self.pace.due(now) {
            self.outputs.push_back(Output::Progress(latest));
        }
    }

    fn progress(&mut self, now: Instant, token: &ProgressToken, progress: Progress) {
        if self.spec.token.as_ref() != Some(token) {
            return self.ignore(Ignored::ForeignProgress);
        }
        match self.pace.progress(now, progress) {
            Offered::Stale => self.ignore(Ignored::StaleProgress),
            Offered::Held => {}
            Offered::Pass(progress) => self.outputs.push_back(Output::Progress(progress)),
        }
    }

    fn may_be_ended_by_peer(&self) -> bool {
        self.spec.operation == Operation::Listen && self.spec.hop.transport == Transport::Stdio
    }

    /// Ends it from our side; a request that left is signalled, one that did not is unknown to the peer (CAN-04).
    fn give_up(&mut self, reason: Option<Arc<str>>, end: End<P>) {
        if self.was_sent()
            && let Some(signal) =
                CancelSignal::for_request(self.spec.operation, self.spec.hop, &self.spec.id, reason)
        {
            self.outputs.push_back(Output::Signal(signal));
        }
        self.end(end);
    }

    fn end(&mut self, end: End<P>) {
        let sent = self.was_sent();
        let given_up = match end {
            End::Cancelled | End::TimedOut(_) => true,
            End::Answered(_) | End::CancelledByPeer | End::Lost => false,
        };
        let lingering = given_up && sent && self.spec.hop.transport == Transport::Stdio;
        self.state = State::Ended { terminal: end.terminal(), sent, lingering };
        self.pace.flush();
        self.outputs.push_back(Output::Ended(end));
    }

    fn ignore(&mut self, what: Ignored) {
        self.outputs.push_back(Output::Ignored(what));
    }
}
