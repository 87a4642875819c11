//! The end that answers: a [`Responder`], the ids it has in flight, and a handler, driven as a server drives
//! them.

use steadfast_core::exchange::responder::{Answer, Input, Output};
use steadfast_core::exchange::{CancelNotice, Ignored, InFlight, Limits, Progress, Reply, Responder, Spec};
use steadfast_core::ids::RequestId;
use steadfast_core::time::{Instant, Now};

use super::client::started;
use super::setup::Setup;
use super::wire::Wire;
use crate::event::{Body, Event, Exchange, Id, Message, Side};
use crate::planted::exchange as planted;
use crate::run::Run;

#[derive(Clone, Debug, Hash)]
pub(super) struct Server {
    setup: Setup,
    in_flight: InFlight<()>,
    responder: Option<Responder<Body>>,
    handler: Handler,
    reported: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handler {
    Absent,
    Runs,
    MustStop,
    Gone,
}

/// What every simulated handler answers.
pub(super) const ANSWER: Reply<Body> = Reply::Result(42);

impl Server {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            setup: *setup,
            in_flight: InFlight::new(setup.hop),
            responder: None,
            handler: Handler::Absent,
            reported: 0,
        }
    }

    pub(super) const fn has_started(&self) -> bool {
        self.responder.is_some()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.responder.as_ref().is_some_and(|responder| responder.terminal().is_some())
    }

    pub(super) const fn handler_runs(&self) -> bool {
        match self.handler {
            Handler::Runs | Handler::MustStop => true,
            Handler::Absent | Handler::Gone => false,
        }
    }

    pub(super) const fn handler_must_stop(&self) -> bool {
        match self.handler {
            Handler::MustStop => true,
            Handler::Runs | Handler::Absent | Handler::Gone => false,
        }
    }

    pub(super) fn ids(&self) -> u8 {
        u8::try_from(self.in_flight.len()).unwrap_or(u8::MAX)
    }

    /// When the driver lets the machine be woken; limits far away are not waited for.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        match self.setup.server_limits {
            Some(_) => self.timeout(),
            None => None,
        }
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        Some(self.responder.as_ref()?.poll_timeout()?.0)
    }

    pub(super) fn receive(&mut self, now: Now, message: Message, wire: &mut Wire, run: &mut Run<'_>) {
        run.see(now, Event::Exchange(Exchange::Got { by: Side::Server, message }));
        match message {
            Message::Request { id, token } => self.accept(now, id, token, run),
            Message::Cancelled { id } => {
                let notice = CancelNotice::Names { id: id.into(), reason: None };
                match self.in_flight.route_cancel(&notice) {
                    Ok(()) => self.handle(now, Input::Cancelled, wire, run),
                    Err(why) => run.see(now, Event::Exchange(Exchange::Unroutable { why })),
                }
            }
            // Our client sends none of these.
            Message::Progress { .. } | Message::Response { .. } => {}
        }
    }

    pub(super) fn handler_progress(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        self.reported += 1;
        run.see(now, Event::Exchange(Exchange::HandlerProgress { value: self.reported }));
        if let Some(progress) = Progress::of(f64::from(self.reported)) {
            self.handle(now, Input::Progress(progress), wire, run);
        }
    }

    pub(super) fn handler_answer(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        run.see(now, Event::Exchange(Exchange::HandlerAnswer { answer: ANSWER }));
        self.handle(now, Input::Finished(ANSWER), wire, run);
        self.handler_gone(now, wire, run);
    }

    pub(super) fn handler_gone(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        self.handler = Handler::Gone;
        run.see(now, Event::Exchange(Exchange::HandlerGone));
        self.handle(now, Input::HandlerEnded, wire, run);
    }

    pub(super) fn revoke_listen(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        run.see(now, Event::Exchange(Exchange::ListenRevoked));
        if let Some(responder) = &mut self.responder {
            // A refusal changes nothing, and that it changes nothing is what is looked at.
            let _ = responder.cancel_listen(now, None);
            self.drain(now, wire, run);
        }
    }

    pub(super) fn disconnected(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        self.handle(now, Input::Disconnected, wire, run);
    }

    pub(super) fn wake(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        if let Some(responder) = &mut self.responder {
            responder.handle_timeout(now);
            self.drain(now, wire, run);
        }
    }

    fn accept(&mut self, now: Now, id: Id, token: Option<Id>, run: &mut Run<'_>) {
        // One exchange is what this world is about; an id that is in use is refused anyway (F010).
        if self.responder.is_some() || self.in_flight.open(id.into(), self.setup.operation, ()).is_err() {
            return;
        }
        run.see(now, Event::Exchange(Exchange::Started(started(Side::Server, &self.setup))));
        let spec = Spec {
            id: id.into(),
            operation: self.setup.operation,
            hop: self.setup.hop,
            limits: self.setup.server_limits.unwrap_or(Limits::DEFAULT),
            token: token.map(Into::into),
            progress_interval: self.setup.interval,
        };
        self.responder = Some(Responder::start(now, spec));
        self.handler = Handler::Runs;
    }

    fn handle(&mut self, now: Now, input: Input<Body>, wire: &mut Wire, run: &mut Run<'_>) {
        if let Some(responder) = &mut self.responder {
            responder.handle(now, input);
            self.drain(now, wire, run);
        }
    }

    fn drain(&mut self, now: Now, wire: &mut Wire, run: &mut Run<'_>) {
        let mut drained = 0;
        while let Some(output) = self.responder.as_mut().and_then(Responder::poll_output) {
            drained += 1;
            self.obey(now, output, wire, run);
        }
        run.drained(now, drained, self.timeout());
        if let Some(responder) = &self.responder
            && responder.is_settled()
        {
            self.in_flight.release(&responder.spec().id);
        }
    }

    fn obey(&mut self, now: Now, output: Output<Body>, wire: &mut Wire, run: &mut Run<'_>) {
        let Some(spec) = self.responder.as_ref().map(Responder::spec) else { return };
        let message = match output {
            Output::Progress(progress) => match &spec.token {
                Some(token) => Message::Progress { token: token.into(), value: value(&progress) },
                None => return,
            },
            Output::Respond(answer) => Message::Response { id: answered_id(&spec.id, run), answer },
            Output::CancelListen { .. } => Message::Cancelled { id: Id::from(&spec.id) },
            Output::StopHandler => {
                if self.handler == Handler::Runs {
                    self.handler = Handler::MustStop;
                }
                return run.see(now, Event::Exchange(Exchange::HandlerStop));
            }
            Output::Ended(terminal) => {
                return run.see(now, Event::Exchange(Exchange::ServerEnd { terminal }));
            }
            Output::Ignored(Ignored::LateResponse) if planted::answers_late(run.bug()) => {
                Message::Response { id: Id::from(&spec.id), answer: Answer::Reply(ANSWER) }
            }
            Output::Ignored(what) => {
                return run.see(now, Event::Exchange(Exchange::Ignored { by: Side::Server, what }));
            }
        };
        run.see(now, Event::Exchange(Exchange::Put { by: Side::Server, message }));
        wire.put_down(message);
    }
}

fn answered_id(id: &RequestId, run: &Run<'_>) -> Id {
    planted::answered_id(run.bug(), Id::from(id))
}

/// What a client makes of an answer: our own error looks like any other.
pub(super) const fn as_reply(answer: Answer<Body>) -> Reply<Body> {
    match answer {
        Answer::Reply(reply) => reply,
        Answer::TimedOut(_) | Answer::NoAnswer => Reply::Error(0),
    }
}

/// Simulated progress counts in whole steps.
pub(super) fn value(progress: &Progress) -> u32 {
    progress.value.get() as u32
}
