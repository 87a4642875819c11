//! A subscription as its holder sees it: one wish, over as many `subscriptions/listen` requests as it takes.
//!
//! The protocol remembers nothing (SUB-18): after an end the holder listens again under a new id, without any
//! `Last-Event-ID`, and fetches what it covered by the authoritative methods, since events of the gap are gone
//! (SUB-19). A graceful end is no loss and must cause no storm (SUB-22); an abrupt one is worth a quick return.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::policy::Backoff;
use crate::rng::Rng;
use crate::time::{Instant, Now};

/// A listen has no answer to wait for until its end; its acknowledgement is what has a limit (ruling 18, TMO-08).
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(10);

/// After a graceful end the holder returns at its next use or within this spread (ruling 20).
pub const GRACEFUL: (Duration, Duration) = (Duration::from_secs(8), Duration::from_secs(300));

/// What is listened for (SUB-01).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    /// `toolsListChanged`.
    pub tools: bool,
    /// `promptsListChanged`.
    pub prompts: bool,
    /// `resourcesListChanged`.
    pub resources: bool,
    /// `resourceSubscriptions`.
    pub uris: BTreeSet<String>,
    /// `taskIds`.
    pub tasks: BTreeSet<String>,
}

/// One notification of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// `notifications/tools/list_changed`.
    Tools,
    /// `notifications/prompts/list_changed`.
    Prompts,
    /// `notifications/resources/list_changed`.
    Resources,
    /// `notifications/resources/updated`, which may name a sub-resource of a subscribed URI (SUB-16).
    Resource(String),
    /// `notifications/tasks`.
    Task(String),
}

/// One authoritative fetch, in the order in which a plan lists them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refetch {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`, which a change of the resources makes stale too (CCH-19).
    ResourceTemplates,
    /// `resources/read` of one URI.
    Resource(String),
    /// `tasks/get` of one task.
    Task(String),
}

impl Refetch {
    /// The method to call.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::ResourceTemplates => "resources/templates/list",
            Self::Resource(_) => "resources/read",
            Self::Task(_) => "tasks/get",
        }
    }

    /// The URI or the task id, where the method takes one.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Self::Tools | Self::Prompts | Self::Resources | Self::ResourceTemplates => None,
            Self::Resource(subject) | Self::Task(subject) => Some(subject),
        }
    }
}

impl Filter {
    /// What both want.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        Self {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
            uris: self.uris.intersection(&other.uris).cloned().collect(),
            tasks: self.tasks.intersection(&other.tasks).cloned().collect(),
        }
    }

    /// What this wants and the other does not.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self {
            tools: self.tools && !other.tools,
            prompts: self.prompts && !other.prompts,
            resources: self.resources && !other.resources,
            uris: self.uris.difference(&other.uris).cloned().collect(),
            tasks: self.tasks.difference(&other.tasks).cloned().collect(),
        }
    }

    /// Whether a notification was asked for. A URI below a subscribed one counts as its sub-resource.
    pub fn covers(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::Resource(uri) => self.uris.iter().any(|subscribed| {
                uri.strip_prefix(subscribed.as_str()).is_some_and(|rest| {
                    rest.is_empty() || subscribed.ends_with('/') || rest.starts_with(['/', '#', '?'])
                })
            }),
            Change::Task(id) => self.tasks.contains(id),
        }
    }

    /// What must be fetched again to know what this covers: sorted, each once.
    pub fn refetch(&self) -> Vec<Refetch> {
        let mut fetches = BTreeSet::new();
        fetches.extend(self.tools.then_some(Refetch::Tools));
        fetches.extend(self.prompts.then_some(Refetch::Prompts));
        if self.resources {
            fetches.extend([Refetch::Resources, Refetch::ResourceTemplates]);
        }
        fetches.extend(self.uris.iter().cloned().map(Refetch::Resource));
        fetches.extend(self.tasks.iter().cloned().map(Refetch::Task));
        fetches.into_iter().collect()
    }
}

/// A mutation that was in flight when a connection was lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InFlight {
    /// The operation's name.
    pub operation: String,
    /// Its idempotency key, if it had one; without one it can only be looked for.
    pub key: Option<String>,
}

/// What to do after a subscription was lost (D-19). There is no field for a `Last-Event-ID`, and none for a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Listen again for the same, under a new request id.
    pub listen: Filter,
    /// Fetch these once listening: sorted, each once.
    pub refetch: Vec<Refetch>,
    /// These may have been executed: find out, and repeat none.
    pub reconcile: Vec<InFlight>,
}

/// The plan after a loss.
pub fn reconnect_plan(filter: &Filter, in_flight: &[InFlight]) -> Plan {
    let reconcile: BTreeSet<InFlight> = in_flight.iter().cloned().collect();
    Plan { listen: filter.clone(), refetch: filter.refetch(), reconcile: reconcile.into_iter().collect() }
}

/// How one listen ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Its result: graceful, whatever else came before it (AMB-01).
    Result,
    /// The server's `notifications/cancelled` on stdio, so far without a result.
    Cancelled,
    /// The stream or the process ended, or an error came after the acknowledgement (AMB-47).
    Lost,
    /// An error instead of the acknowledgement: asking again would give it again.
    Refused,
}

/// What happens to a subscription. `listen` is the number of the listen that it is about: what an old one still says
/// is nobody's business (STD-19).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input {
    /// Its request has left: from now on its acknowledgement is awaited.
    Sent {
        /// Which listen.
        listen: u64,
    },
    /// `notifications/subscriptions/acknowledged`.
    Acknowledged {
        /// Which listen.
        listen: u64,
        /// What the server will honour.
        granted: Filter,
    },
    /// A notification.
    Notified {
        /// Which listen.
        listen: u64,
        /// What changed.
        change: Change,
    },
    /// The listen ended.
    Ended {
        /// Which listen.
        listen: u64,
        /// How.
        end: End,
    },
    /// The server is about to be used.
    Used,
    /// Nobody wants the subscription any more.
    Close,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Output {
    /// Send `subscriptions/listen` under a new request id.
    Listen {
        /// The number that inputs about it carry.
        listen: u64,
        /// What to ask for.
        filter: Filter,
    },
    /// It is acknowledged; this much of what was asked is not granted (SUB-07, SUB-33).
    Active {
        /// What is missing.
        missing: Filter,
    },
    /// Fetch these now: they may have changed while nobody listened.
    Refetch(Vec<Refetch>),
    /// What these say is not fresh any more.
    Stale(Vec<Refetch>),
    /// Hand the notification on.
    Deliver(Change),
    /// End the listen that is open, as its transport demands: nobody wants it any more, or it was never acknowledged.
    Cancel {
        /// Which listen.
        listen: u64,
    },
    /// The server refuses to listen; the subscription is over.
    Refused,
    /// Record an event that changed nothing.
    Ignored(Ignored),
}

/// Why an event changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ignored {
    /// It is about a listen that is over.
    OldListen,
    /// A notification before the acknowledgement (SUB-04).
    BeforeAcknowledgement,
    /// A second acknowledgement.
    AcknowledgedTwice,
    /// A notification outside what was granted (SUB-02).
    OutsideFilter,
}

/// The holder's state machine.
///
/// | state | Sent | Acknowledged | Notified | Ended | Used | Close | timeout |
/// |---|---|---|---|---|---|---|---|
/// | Opening | its limit runs | → Active; refetch if it is a return | ignored | refused → Closed; else → Waiting | – | cancel, → Closed | cancel, → Waiting as after a loss |
/// | Active | – | ignored | covered: delivered; else ignored | stale, → Waiting | – | cancel, → Closed | – |
/// | Waiting | – | ignored | ignored | a late result makes the end graceful | graceful: listen, → Opening | → Closed | listen, → Opening |
/// | Closed | – | ignored | ignored | ignored | – | – | – |
///
/// It knows nothing of calls, and so repeats none: what was in flight is listed by [`reconnect_plan`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subscription {
    filter: Filter,
    /// Spreads the returns of many holders; random once a process.
    client: u64,
    /// The number of the last listen.
    listen: u64,
    /// Abrupt ends since the last acknowledgement.
    attempt: u32,
    /// Whether an earlier listen was active: then a new one must fetch what it missed.
    was_active: bool,
    state: State,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// `until` is set once the request has left.
    Opening {
        until: Option<Instant>,
    },
    Active {
        granted: Filter,
    },
    Waiting {
        until: Instant,
        graceful: bool,
    },
    Closed,
}

impl Subscription {
    /// Wishes for notifications, and listens at once.
    pub fn start(filter: Filter, client: u64) -> Self {
        let mut subscription = Self {
            filter,
            client,
            listen: 0,
            attempt: 0,
            was_active: false,
            state: State::Closed,
            outputs: VecDeque::new(),
        };
        subscription.open();
        subscription
    }

    /// Takes one event.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.handle_timeout(now);
        match input {
            Input::Sent { listen } if listen == self.listen => self.sent(now),
            Input::Acknowledged { listen, granted } if listen == self.listen => self.acknowledged(&granted),
            Input::Notified { listen, change } if listen == self.listen => self.notified(change),
            Input::Ended { listen, end } if listen == self.listen => self.ended(now, end),
            Input::Sent { .. }
            | Input::Acknowledged { .. }
            | Input::Notified { .. }
            | Input::Ended { .. } => {
                self.ignore(Ignored::OldListen);
            }
            Input::Used => match self.state {
                State::Waiting { graceful: true, .. } => self.open(),
                State::Opening { .. }
                | State::Active { .. }
                | State::Waiting { graceful: false, .. }
                | State::Closed => {}
            },
            Input::Close => {
                match self.state {
                    State::Opening { .. } | State::Active { .. } => {
                        self.outputs.push_back(Output::Cancel { listen: self.listen });
                    }
                    State::Waiting { .. } | State::Closed => {}
                }
                self.state = State::Closed;
            }
        }
    }

    /// Listens again once the wait is over, and gives up a listen that is not acknowledged; early it does nothing.
    pub fn handle_timeout(&mut self, now: Now) {
        match self.state {
            State::Opening { until: Some(until) } if now.mono >= until => {
                self.outputs.push_back(Output::Cancel { listen: self.listen });
                self.wait(now, End::Lost);
            }
            State::Waiting { until, .. } if now.mono >= until => self.open(),
            State::Opening { .. } | State::Active { .. } | State::Waiting { .. } | State::Closed => {}
        }
    }

    /// When to listen again while waiting for it, or when to give up a listen that is not acknowledged.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Opening { until } => until,
            State::Waiting { until, .. } => Some(until),
            State::Active { .. } | State::Closed => None,
        }
    }

    /// The next thing to do; drain it until `None` before the next input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn open(&mut self) {
        self.listen += 1;
        self.state = State::Opening { until: None };
        self.outputs.push_back(Output::Listen { listen: self.listen, filter: self.filter.clone() });
    }

    fn sent(&mut self, now: Now) {
        match &mut self.state {
            // Told twice, the limit stays where it was.
            State::Opening { until } => {
                until.get_or_insert(now.mono.saturating_add(ACKNOWLEDGED_WITHIN));
            }
            // Its answer was quicker than the word that it had left.
            State::Active { .. } | State::Waiting { .. } | State::Closed => {}
        }
    }

    fn acknowledged(&mut self, granted: &Filter) {
        match self.state {
            State::Opening { .. } => {}
            State::Active { .. } => return self.ignore(Ignored::AcknowledgedTwice),
            State::Waiting { .. } | State::Closed => return self.ignore(Ignored::OldListen),
        }
        // A server that grants more than was asked is not believed (SUB-02).
        let granted = self.filter.intersect(granted);
        self.attempt = 0;
        self.outputs.push_back(Output::Active { missing: self.filter.without(&granted) });
        // Listening first and fetching then, so that no change falls between the two.
        if self.was_active {
            let refetch = self.filter.refetch();
            if !refetch.is_empty() {
                self.outputs.push_back(Output::Refetch(refetch));
            }
        }
        self.was_active = true;
        self.state = State::Active { granted };
    }

    fn notified(&mut self, change: Change) {
        let what = match &self.state {
            State::Active { granted } if granted.covers(&change) => Output::Deliver(change),
            State::Active { .. } => Output::Ignored(Ignored::OutsideFilter),
            State::Opening { .. } => Output::Ignored(Ignored::BeforeAcknowledgement),
            State::Waiting { .. } | State::Closed => Output::Ignored(Ignored::OldListen),
        };
        self.outputs.push_back(what);
    }

    fn ended(&mut self, now: Now, end: End) {
        match (&self.state, end) {
            (State::Opening { .. }, End::Refused) => {
                self.state = State::Closed;
                self.outputs.push_back(Output::Refused);
            }
            (State::Opening { .. }, End::Result | End::Cancelled | End::Lost) => self.wait(now, end),
            (State::Active { granted }, End::Result | End::Cancelled | End::Lost | End::Refused) => {
                let stale = granted.refetch();
                if !stale.is_empty() {
                    self.outputs.push_back(Output::Stale(stale));
                }
                self.wait(now, end);
            }
            (State::Waiting { graceful: false, .. }, End::Result) => {
                self.attempt = self.attempt.saturating_sub(1);
                self.wait(now, end);
            }
            (State::Waiting { graceful: true, .. } | State::Closed, End::Result)
            | (State::Waiting { .. } | State::Closed, End::Cancelled | End::Lost | End::Refused) => {
                self.ignore(Ignored::OldListen);
            }
        }
    }

    fn wait(&mut self, now: Now, end: End) {
        let graceful = end == End::Result;
        let delay = if graceful {
            let (least, most) = GRACEFUL;
            let spread = u64::try_from((most - least).as_nanos()).unwrap_or(u64::MAX);
            let mut rng = Rng::new(self.client ^ self.listen.rotate_left(32));
            least + Duration::from_nanos(rng.up_to(spread))
        } else {
            let delay = Backoff::RECONNECT.delay(self.client, self.attempt);
            self.attempt = self.attempt.saturating_add(1);
            delay
        };
        self.state = State::Waiting { until: now.mono.saturating_add(delay), graceful };
    }

    fn ignore(&mut self, what: Ignored) {
        self.outputs.push_back(Output::Ignored(what));
    }
}
