//! The end that asks: a [`Requester`] and the ids it has in flight, driven as a client drives them.

use std::time::Duration;

use steadfast_core::exchange::requester::{Input, Output};
use steadfast_core::exchange::{CancelSignal, InFlight, Limits, Progress, Requester, Spec};
use steadfast_core::hop::Transport;
use steadfast_core::ids::RequestId;
use steadfast_core::time::{Instant, Now};

use super::setup::Setup;
use super::wire::Wire;
use crate::event::{Body, Event, Exchange, Id, Message, Side, Started};
use crate::planted::exchange as planted;
use crate::run::Run;

#[derive(Clone, Debug, Hash)]
pub(super) struct Client {
    requester: Requester<Body>,
    in_flight: InFlight<()>,
    id: RequestId,
    /// What a planted bug remembers: how far the clock that it shows to the machine stands behind.
    held_back: Duration,
}

impl Client {
    pub(super) fn start(now: Now, setup: &Setup, run: &mut Run<'_>) -> Self {
        let id = RequestId::from(setup.id);
        let mut in_flight = InFlight::new(setup.hop);
        // The table is empty, so the id is free.
        let _ = in_flight.open(id.clone(), setup.operation, ());
        run.see(now, Event::Exchange(Exchange::Started(started(Side::Client, setup))));
        let spec = Spec {
            id: id.clone(),
            operation: setup.operation,
            hop: setup.hop,
            limits: setup.limits,
            token: setup.token.map(Into::into),
            progress_interval: setup.interval,
        };
        let requester = Requester::start(planted::told(run.bug(), now, Duration::ZERO), spec);
        Self { requester, in_flight, id, held_back: Duration::ZERO }
    }

    pub(super) fn can_send(&self) -> bool {
        !self.requester.was_sent() && self.requester.terminal().is_none()
    }

    pub(super) const fn has_sent(&self) -> bool {
        self.requester.was_sent()
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.requester.terminal().is_some()
    }

    pub(super) fn ids(&self) -> u8 {
        u8::try_from(self.in_flight.len()).unwrap_or(u8::MAX)
    }

    /// When the driver lets the machine be woken.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        Some(self.requester.poll_timeout()?.0.saturating_add(self.held_back))
    }

    /// When the machine says that it wants to be woken.
    pub(super) fn timeout(&self, run: &Run<'_>, now: Now) -> Option<Instant> {
        planted::timeout(run.bug(), now, self.wakes_at())
    }

    /// The machine is told before the first byte leaves, and if a limit ended it by then, nothing leaves.
    pub(super) fn send(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        self.handle(now, Input::Sent, wire, run);
        if self.has_ended() {
            return;
        }
        let spec = self.requester.spec();
        let message = Message::Request { id: Id::from(&spec.id), token: spec.token.as_ref().map(Into::into) };
        run.see(now, Event::Exchange(Exchange::Put { by: Side::Client, message }));
        wire.put_request(message);
    }

    pub(super) fn receive(&mut self, now: Now, message: Message, wire: &mut Wire, run: &mut Run<'_>) {
        run.see(now, Event::Exchange(Exchange::Got { by: Side::Client, message }));
        match message {
            Message::Progress { token, value } => {
                let Some(progress) = Progress::of(f64::from(value)) else { return };
                self.held_back = planted::held_back(run.bug(), now, self.held_back);
                self.handle(now, Input::Progress(token.into(), progress), wire, run);
            }
            Message::Response { id, answer } => {
                if self.is_ours(id) {
                    self.handle(now, Input::Response(super::server::as_reply(answer)), wire, run);
                }
            }
            Message::Cancelled { id } => {
                if self.is_ours(id) {
                    self.handle(now, Input::PeerCancelled, wire, run);
                }
            }
            // A modern server asks nothing (MSG-18), and what a legacy one asks is another exchange.
            Message::Request { .. } => {}
        }
    }

    pub(super) fn cancel(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        run.see(now, Event::Exchange(Exchange::GaveUp));
        self.handle(now, Input::Cancel { reason: None }, wire, run);
    }

    pub(super) fn lost(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        self.handle(now, Input::Lost, wire, run);
    }

    /// The pipe ends for good: no late answer can come any more, so ids are free (CAN-22).
    pub(super) fn hang_up(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        if !self.requester.is_settled() {
            self.handle(now, Input::Lost, wire, run);
        }
    }

    pub(super) fn wake(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        self.requester.handle_timeout(planted::told(run.bug(), now, self.held_back));
        self.drain(now, wire, run);
    }

    /// Which exchange a message belongs to: a pipe carries all of them, a response stream only its own.
    fn is_ours(&self, id: Id) -> bool {
        match self.requester.spec().hop.transport {
            Transport::Stdio => self.in_flight.get(&id.into()).is_some(),
            Transport::Http => Id::from(&self.id) == id,
        }
    }

    fn handle(&mut self, now: Now, input: Input<Body>, wire: &mut Wire, run: &mut Run<'_>) {
        self.requester.handle(planted::told(run.bug(), now, self.held_back), input);
        self.drain(now, wire, run);
    }

    fn drain(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        let mut drained = 0;
        match run.bug() {
            None => {
                while let Some(output) = self.requester.poll_output() {
                    drained += 1;
                    self.obey(now, output, wire, run);
                }
            }
            Some(bug) => {
                let outputs = std::iter::from_fn(|| self.requester.poll_output()).collect();
                for output in planted::client_outputs(bug, self.requester.spec(), outputs) {
                    drained += 1;
                    self.obey(now, output, wire, run);
                }
            }
        }
        run.drained(now, drained, self.timeout(run, now));
        if self.requester.is_settled() && planted::releases_ids(run.bug()) {
            self.in_flight.release(&self.id);
        }
    }

    fn obey(&mut self, now: Now, output: Output<Body>, wire: &mut Wire, run: &mut Run<'_>) {
        match output {
            Output::Progress(progress) => {
                run.see(
                    now,
                    Event::Exchange(Exchange::CallerProgress { value: super::server::value(&progress) }),
                );
            }
            Output::Signal(signal) => {
                if let CancelSignal::Notification { id, .. } | CancelSignal::PostNotification { id, .. } =
                    &signal
                {
                    let message = Message::Cancelled { id: id.into() };
                    run.see(now, Event::Exchange(Exchange::Put { by: Side::Client, message }));
                    wire.put_notification(message);
                }
                if let CancelSignal::CloseStream | CancelSignal::PostNotification { .. } = &signal {
                    run.see(now, Event::Exchange(Exchange::Closed));
                    wire.close();
                }
            }
            Output::Ended(end) => {
                run.see(now, Event::Exchange(Exchange::CallerEnd { end }));
                // Nobody reads a response stream any more whose request is over.
                if self.requester.spec().hop.transport == Transport::Http {
                    wire.finish();
                }
            }
            Output::Ignored(what) => {
                run.see(now, Event::Exchange(Exchange::Ignored { by: Side::Client, what }));
            }
        }
    }
}

pub(super) fn started(by: Side, setup: &Setup) -> Started {
    let limits = match by {
        Side::Client => setup.limits,
        Side::Server => setup.server_limits.unwrap_or(Limits::DEFAULT),
    };
    let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    Started {
        by,
        id: setup.id,
        token: setup.token,
        hop: setup.hop,
        operation: setup.operation,
        idle_ms: ms(limits.idle()),
        maximum_ms: ms(limits.maximum()),
        interval_ms: ms(setup.interval),
    }
}
