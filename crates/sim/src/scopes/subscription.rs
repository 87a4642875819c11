//! A subscription over up to three ends of its listen, with acknowledgements, notifications within and
//! outside the filter, words of listens that are over, and a use or a close at any time.

use steadfast_core::subscription::{Change, End, Filter, Input, Output, Refetch, Subscription as Machine};
use steadfast_core::time::{Instant, Now, Wall};

use super::Scope;
use crate::event::{Ending, Event, Subscription};
use crate::planted::subscription as planted;
use crate::run::Run;

pub(super) fn scopes() -> Vec<Scope> {
    let returns = Limits { ends: 3, notifications: 1, late: 1, uses: 0, closes: 0 };
    let uses = Limits { ends: 3, notifications: 1, late: 0, uses: 1, closes: 1 };
    vec![
        Scope::new("subscription-returns", move |run| World::new(returns, run).play(run)),
        Scope::new("subscription-used-and-closed", move |run| World::new(uses, run).play(run)),
    ]
}

const TOOLS: u8 = 1;
const PROMPTS: u8 = 2;
const RESOURCE: u8 = 4;

/// How often each of these may happen.
#[derive(Clone, Copy, Hash)]
struct Limits {
    /// A listen ends.
    ends: u8,
    /// The server notifies.
    notifications: u8,
    /// The server still says something of a listen that has ended.
    late: u8,
    /// The holder uses the server.
    uses: u8,
    /// The holder closes the subscription.
    closes: u8,
}

#[derive(Clone, Hash)]
struct World {
    machine: Machine,
    now: Instant,
    /// The listen that was sent last, and whether the server still serves it.
    listen: u64,
    serves: bool,
    /// The listen that ended last.
    ended: u64,
    acknowledged: bool,
    /// The server will neither acknowledge the listen nor end it.
    silent: bool,
    left: Limits,
}

#[derive(Clone, Copy)]
enum Action {
    Acknowledge(u8),
    Notify(u8),
    End(Ending),
    FallSilent,
    /// The server still says something of the listen that ended last.
    LateNotification,
    LateResult,
    Use,
    Close,
    Wake,
}

impl World {
    fn new(left: Limits, run: &mut Run<'_>) -> Self {
        let filter = Filter { tools: true, uris: ["a://1".to_owned()].into(), ..Filter::default() };
        let mut world = Self {
            machine: Machine::start(filter, 7),
            now: Instant::ZERO,
            listen: 0,
            serves: false,
            ended: 0,
            acknowledged: false,
            silent: false,
            left,
        };
        world.drain(run);
        world
    }

    fn play(mut self, run: &mut Run<'_>) {
        while !run.is_over() {
            run.visit(&self);
            let enabled = self.enabled();
            if enabled.is_empty() {
                break;
            }
            self.apply(enabled[run.choose(enabled.len())], run);
        }
        let waits = self.machine.poll_timeout().is_some();
        self.see(run, Subscription::AtRest { waits });
    }

    fn enabled(&self) -> Vec<Action> {
        let mut enabled = Vec::with_capacity(12);
        if self.serves && !self.silent {
            if !self.acknowledged {
                enabled.extend([Action::Acknowledge(TOOLS | RESOURCE), Action::Acknowledge(TOOLS | PROMPTS)]);
            }
            if self.left.notifications > 0 {
                enabled.extend([Action::Notify(TOOLS), Action::Notify(RESOURCE)]);
            }
            if self.left.ends > 0 {
                enabled.extend([Ending::Graceful, Ending::CancelledByServer, Ending::Lost].map(Action::End));
                if !self.acknowledged {
                    enabled.extend([Action::End(Ending::Refused), Action::FallSilent]);
                }
            }
        }
        if self.ended > 0 && self.left.late > 0 {
            enabled.extend([Action::LateNotification, Action::LateResult]);
        }
        if self.left.uses > 0 {
            enabled.push(Action::Use);
        }
        if self.left.closes > 0 {
            enabled.push(Action::Close);
        }
        // A server that is not silent acknowledges in time.
        let opening = self.serves && !self.acknowledged;
        if self.machine.poll_timeout().is_some() && (!opening || self.silent) {
            enabled.push(Action::Wake);
        }
        enabled
    }

    fn apply(&mut self, action: Action, run: &mut Run<'_>) {
        let listen = self.listen;
        match action {
            Action::Acknowledge(granted) => {
                self.acknowledged = true;
                self.see(run, Subscription::Acknowledged { listen, granted });
                self.handle(Input::Acknowledged { listen, granted: filter(granted) }, run);
            }
            Action::Notify(change) => {
                self.left.notifications -= 1;
                self.notify(listen, change, run);
            }
            Action::LateNotification => {
                self.left.late -= 1;
                self.notify(self.ended, TOOLS, run);
            }
            Action::End(how) => {
                self.left.ends -= 1;
                (self.serves, self.ended) = (false, listen);
                self.end(listen, how, run);
            }
            Action::FallSilent => {
                self.left.ends -= 1;
                self.silent = true;
            }
            Action::LateResult => {
                self.left.late -= 1;
                self.end(self.ended, Ending::Graceful, run);
            }
            Action::Use => {
                self.left.uses -= 1;
                self.see(run, Subscription::Used);
                self.handle(Input::Used, run);
            }
            Action::Close => {
                self.left.closes -= 1;
                self.see(run, Subscription::Closed);
                self.handle(Input::Close, run);
            }
            Action::Wake => {
                if let Some(at) = self.machine.poll_timeout() {
                    self.now = at;
                    self.machine.handle_timeout(self.now());
                    self.drain(run);
                }
            }
        }
    }

    fn notify(&mut self, listen: u64, change: u8, run: &mut Run<'_>) {
        self.see(run, Subscription::Arrived { listen, change });
        let named = if change == TOOLS { Change::Tools } else { Change::Resource("a://1#row".to_owned()) };
        self.handle(Input::Notified { listen, change: named }, run);
        if planted::delivers_everything(run.bug()) {
            self.see(run, Subscription::Delivered { change });
        }
    }

    fn end(&mut self, listen: u64, how: Ending, run: &mut Run<'_>) {
        self.see(run, Subscription::Ended { listen, how });
        let end = match how {
            Ending::Graceful => End::Result,
            Ending::CancelledByServer => End::Cancelled,
            Ending::Lost => End::Lost,
            Ending::Refused => End::Refused,
        };
        self.handle(Input::Ended { listen, end }, run);
        if planted::returns_at_once(run.bug()) {
            self.machine.handle_timeout(Now { mono: Instant::from_nanos(u64::MAX), wall: Wall::default() });
            self.drain(run);
        }
    }

    fn handle(&mut self, input: Input, run: &mut Run<'_>) {
        self.machine.handle(self.now(), input);
        self.drain(run);
    }

    fn drain(&mut self, run: &mut Run<'_>) {
        let mut drained = 0;
        while let Some(output) = self.machine.poll_output() {
            drained += 1;
            self.obey(output, run);
        }
        run.drained(self.now(), drained, self.machine.poll_timeout());
    }

    fn obey(&mut self, output: Output, run: &mut Run<'_>) {
        let event = match output {
            Output::Listen { listen, filter } => {
                (self.listen, self.serves) = (listen, true);
                (self.acknowledged, self.silent) = (false, false);
                let last_event_id = listen > 1 && planted::sends_last_event_id(run.bug());
                let filter = bits(&filter.refetch());
                self.see(run, Subscription::Listened { listen, filter, last_event_id });
                if planted::says_sent(run.bug()) {
                    self.machine.handle(self.now(), Input::Sent { listen });
                }
                return;
            }
            Output::Deliver(Change::Resource(_)) => Subscription::Delivered { change: RESOURCE },
            Output::Deliver(Change::Prompts) => Subscription::Delivered { change: PROMPTS },
            Output::Deliver(_) => Subscription::Delivered { change: TOOLS },
            Output::Stale(of) => Subscription::Stale { of: bits(&of) },
            Output::Refetch(_) if planted::forgets_to_fetch(run.bug()) => return,
            Output::Refetch(of) => Subscription::Fetched { of: bits(&of) },
            Output::Cancel { listen } => {
                (self.serves, self.ended) = (false, listen);
                Subscription::Cancelled { listen }
            }
            Output::Refused => Subscription::Refused,
            Output::Active { .. } | Output::Ignored(_) => return,
        };
        self.see(run, event);
    }

    const fn now(&self) -> Now {
        Now { mono: self.now, wall: Wall::from_unix_millis(0) }
    }

    fn see(&self, run: &mut Run<'_>, event: Subscription) {
        run.see(self.now(), Event::Subscription(event));
    }
}

fn filter(bits: u8) -> Filter {
    Filter {
        tools: bits & TOOLS != 0,
        prompts: bits & PROMPTS != 0,
        uris: (bits & RESOURCE != 0).then(|| "a://1".to_owned()).into_iter().collect(),
        ..Filter::default()
    }
}

fn bits(fetches: &[Refetch]) -> u8 {
    fetches.iter().fold(0, |bits, fetch| {
        bits | match fetch {
            Refetch::Tools => TOOLS,
            Refetch::Prompts => PROMPTS,
            Refetch::Resource(_) => RESOURCE,
            Refetch::Resources | Refetch::ResourceTemplates | Refetch::Task(_) => 0,
        }
    })
}
