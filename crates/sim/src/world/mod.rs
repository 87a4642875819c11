//! One request on one simulated hop: the core's machines at both ends, a wire between them, a clock moved by
//! hand.
//!
//! [`World::enabled`] lists what could happen next and [`World::apply`] lets one of it happen; whoever drives
//! the world picks. Nothing else moves: no clock is read, no thread runs, nothing is random. Both machines
//! are driven as in production, by the contract of the core: change, then drain, then change.

mod client;
mod server;
mod setup;
mod wire;

pub(crate) use setup::limits_ms;
pub use setup::{Script, Setup};

use steadfast_core::hop::Transport;
use steadfast_core::time::{Instant, Now, Wall};

use crate::event::{Event, Exchange, Side};
use crate::run::Run;
use client::Client;
use server::Server;
use wire::{Item, Wire};

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The client writes the request.
    Send,
    /// The oldest item of a lane arrives.
    Deliver(Lane),
    /// The handler reports the next progress.
    HandlerProgress,
    /// The handler has its answer, and is gone.
    HandlerAnswer,
    /// The handler is gone without an answer: it was told to stop, or it panicked.
    HandlerGone,
    /// The caller gives up.
    Cancel,
    /// The server's application ends a listen.
    RevokeListen,
    /// The connection breaks.
    Break,
    /// A side sees that it broke.
    SeeLoss(Side),
    /// A message arrives that the peer's machine did not send: the one with this number in the setup.
    Stray(u8),
    /// Some time passes, at most until a machine wants to be woken.
    Wait,
    /// Time passes until a machine wants to be woken, and it is.
    Wake(Side),
}

/// A way on which items stay in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Client to server: the pipe, or the request's own connection.
    Up,
    /// Client to server, overtaking and overtaken: another connection (HTTP).
    Aside,
    /// Server to client: the pipe, or the request's response stream.
    Down,
}

/// What can happen next, in a fixed order.
#[derive(Clone, Copy, Debug)]
pub struct Enabled {
    actions: [Action; Self::MOST],
    len: usize,
}

impl Enabled {
    const MOST: usize = 21;

    const fn none() -> Self {
        Self { actions: [Action::Send; Self::MOST], len: 0 }
    }

    fn add_if(&mut self, possible: bool, action: Action) {
        if possible {
            self.actions[self.len] = action;
            self.len += 1;
        }
    }
}

impl std::ops::Deref for Enabled {
    type Target = [Action];

    fn deref(&self) -> &[Action] {
        &self.actions[..self.len]
    }
}

/// Both ends, the wire and the clock.
#[derive(Clone, Debug, Hash)]
pub struct World {
    clock: Clock,
    client: Client,
    server: Server,
    wire: Wire,
    /// What may still happen of itself.
    script: Script,
    /// Which strays have arrived, a bit each.
    strayed: u8,
    setup: Setup,
}

impl World {
    /// The caller has asked, and nothing has left yet.
    pub fn new(setup: Setup, run: &mut Run<'_>) -> Self {
        let clock = Clock::new();
        Self {
            client: Client::start(clock.now, &setup, run),
            server: Server::new(&setup),
            wire: Wire::new(setup.hop),
            script: setup.script,
            strayed: 0,
            clock,
            setup,
        }
    }

    /// Lets things happen, chosen by the run, until nothing can any more; then ends the connection.
    pub fn play(mut self, run: &mut Run<'_>) {
        loop {
            run.visit(&self);
            let enabled = self.enabled();
            if enabled.is_empty() || run.is_over() {
                break;
            }
            let action = enabled[run.choose(enabled.len())];
            self.apply(action, run);
        }
        if !run.is_over() {
            self.hang_up(run);
        }
    }

    /// What could happen next.
    pub fn enabled(&self) -> Enabled {
        let mut enabled = Enabled::none();
        let (client, server) = (&self.client, &self.server);
        enabled.add_if(client.can_send(), Action::Send);
        enabled.add_if(!self.wire.is_empty(Lane::Up), Action::Deliver(Lane::Up));
        enabled.add_if(!self.wire.is_empty(Lane::Aside), Action::Deliver(Lane::Aside));
        enabled.add_if(!self.wire.is_empty(Lane::Down), Action::Deliver(Lane::Down));
        if server.handler_runs() {
            enabled.add_if(self.script.progress > 0, Action::HandlerProgress);
            enabled.add_if(self.script.answers > 0, Action::HandlerAnswer);
            enabled.add_if(server.handler_must_stop() || self.script.panics > 0, Action::HandlerGone);
        }
        enabled.add_if(self.script.cancels > 0, Action::Cancel);
        enabled.add_if(self.script.revokes > 0 && server.has_started(), Action::RevokeListen);
        enabled.add_if(self.script.breaks > 0 && self.can_break(), Action::Break);
        enabled.add_if(self.wire.loss_unseen(Side::Client), Action::SeeLoss(Side::Client));
        enabled.add_if(self.wire.loss_unseen(Side::Server), Action::SeeLoss(Side::Server));
        for (number, (to, _)) in (0..8).zip(self.setup.strays) {
            enabled.add_if(self.strayed & (1 << number) == 0 && self.can_stray(*to), Action::Stray(number));
        }
        let wake = self.next_wake();
        if let Some((side, at)) = wake {
            enabled.add_if(self.script.waits > 0 && at > self.clock.now.mono, Action::Wait);
            enabled.add_if(true, Action::Wake(side));
        }
        enabled
    }

    /// Lets one thing happen.
    pub fn apply(&mut self, action: Action, run: &mut Run<'_>) {
        match action {
            Action::Send => self.client.send(self.clock.now, &mut self.wire, run),
            Action::Deliver(lane) => self.deliver(lane, run),
            Action::HandlerProgress => {
                self.script.progress = self.script.progress.saturating_sub(1);
                self.server.handler_progress(self.clock.now, &mut self.wire, run);
            }
            Action::HandlerAnswer => {
                self.script.answers = self.script.answers.saturating_sub(1);
                self.server.handler_answer(self.clock.now, &mut self.wire, run);
            }
            Action::HandlerGone => self.server.handler_gone(self.clock.now, &mut self.wire, run),
            Action::Cancel => {
                self.script.cancels = self.script.cancels.saturating_sub(1);
                self.client.cancel(self.clock.now, &mut self.wire, run);
            }
            Action::RevokeListen => {
                self.script.revokes = self.script.revokes.saturating_sub(1);
                self.server.revoke_listen(self.clock.now, &mut self.wire, run);
            }
            Action::Break => {
                self.script.breaks = self.script.breaks.saturating_sub(1);
                run.see(self.clock.now, Event::Exchange(Exchange::Broke));
                self.wire.break_down(self.server.has_started());
            }
            Action::SeeLoss(side) => {
                self.wire.see_loss(side);
                run.see(self.clock.now, Event::Exchange(Exchange::LossSeen { by: side }));
                match side {
                    Side::Client => self.client.lost(self.clock.now, &mut self.wire, run),
                    Side::Server => self.server.disconnected(self.clock.now, &mut self.wire, run),
                }
            }
            Action::Stray(number) => {
                self.strayed |= 1 << number;
                if let Some(&(to, message)) = self.setup.strays.get(usize::from(number)) {
                    match to {
                        Side::Client => self.client.receive(self.clock.now, message, &mut self.wire, run),
                        Side::Server => self.server.receive(self.clock.now, message, &mut self.wire, run),
                    }
                }
            }
            Action::Wait => {
                self.script.waits = self.script.waits.saturating_sub(1);
                let wished = self.clock.now.mono.saturating_add(self.setup.step);
                self.clock.move_to(self.next_wake().map_or(wished, |(_, at)| wished.min(at)));
            }
            Action::Wake(side) => {
                if let Some((_, at)) = self.next_wake() {
                    self.clock.move_to(at);
                }
                run.see(self.clock.now, Event::Exchange(Exchange::Woken { by: side }));
                match side {
                    Side::Client => self.client.wake(self.clock.now, &mut self.wire, run),
                    Side::Server => self.server.wake(self.clock.now, &mut self.wire, run),
                }
            }
        }
    }

    /// Moves the clock to `millis` milliseconds after the start, or to the first limit on the way: a driver
    /// that keeps its timers never sees the time after a limit without having been woken at it.
    pub fn wait_until(&mut self, millis: u64) {
        let wished = Instant::from_millis(millis);
        self.clock.move_to(self.next_wake().map_or(wished, |(_, at)| wished.min(at)));
    }

    /// Ends the connection when nothing can happen any more, and looks at what is left.
    pub fn hang_up(&mut self, run: &mut Run<'_>) {
        run.see(self.clock.now, Event::Exchange(Exchange::HungUp));
        if self.setup.hop.transport == Transport::Stdio {
            self.client.hang_up(self.clock.now, &mut self.wire, run);
        }
        let at_rest = Exchange::AtRest {
            timers: u8::from(self.client.timeout(run, self.clock.now).is_some())
                + u8::from(self.server.timeout().is_some()),
            ids: self.client.ids() + self.server.ids(),
            handlers: u8::from(self.server.handler_runs()),
        };
        run.see(self.clock.now, Event::Exchange(at_rest));
    }

    /// A broken connection matters only while somebody may still say something on it.
    fn can_break(&self) -> bool {
        self.wire.is_connected()
            && match self.setup.hop.transport {
                Transport::Stdio => !(self.client.has_ended() && self.server.has_ended()),
                Transport::Http => self.client.has_sent() && !self.client.has_ended(),
            }
    }

    /// A pipe carries anything at any time, a response stream only while it is read, and a POST reaches a
    /// server always.
    fn can_stray(&self, to: Side) -> bool {
        match (self.setup.hop.transport, to) {
            (Transport::Stdio, _) => self.wire.is_connected(),
            (Transport::Http, Side::Client) => self.wire.is_connected() && self.client.has_sent(),
            (Transport::Http, Side::Server) => true,
        }
    }

    /// Who wants to be woken first, and when; at equal times the client, whose wish is the older one.
    fn next_wake(&self) -> Option<(Side, Instant)> {
        let client = self.client.wakes_at().map(|at| (Side::Client, at));
        let server = self.server.wakes_at().map(|at| (Side::Server, at));
        match (client, server) {
            (Some(c), Some(s)) => Some(if s.1 < c.1 { s } else { c }),
            (c, s) => c.or(s),
        }
    }

    fn deliver(&mut self, lane: Lane, run: &mut Run<'_>) {
        let now = self.clock.now;
        match (lane, self.wire.take(lane)) {
            (Lane::Up | Lane::Aside, Some(Item::Message(message))) => {
                self.server.receive(now, message, &mut self.wire, run);
            }
            (Lane::Up | Lane::Aside, Some(Item::Closed)) => {
                run.see(now, Event::Exchange(Exchange::CloseSeen));
                self.server.disconnected(now, &mut self.wire, run);
            }
            (Lane::Down, Some(Item::Message(message))) => {
                self.client.receive(now, message, &mut self.wire, run);
            }
            (Lane::Down, Some(Item::Closed)) | (_, None) => {}
        }
    }
}

/// Both clocks. The wall clock jumps whenever time passes, twelve hours ahead or one hour back (F050).
#[derive(Clone, Debug, Hash)]
struct Clock {
    now: Now,
    moves: u64,
}

impl Clock {
    /// 2026-07-28T00:00:00Z
    const WALL_START_MS: u64 = 1_785_196_800_000;

    const fn new() -> Self {
        let wall = Wall::from_unix_millis(Self::WALL_START_MS);
        Self { now: Now { mono: Instant::ZERO, wall }, moves: 0 }
    }

    fn move_to(&mut self, at: Instant) {
        if at <= self.now.mono {
            return;
        }
        self.moves += 1;
        let hour = 3_600_000;
        let jumped =
            if self.moves % 2 == 1 { Self::WALL_START_MS + 12 * hour } else { Self::WALL_START_MS - hour };
        self.now = Now { mono: at, wall: Wall::from_unix_millis(jumped + at.as_millis()) };
    }
}
