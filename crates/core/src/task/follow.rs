//! A Task as its requestor sees it: when to ask, which questions are new, and when it is over for whoever waits.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use core::time::Duration;

use super::Status;
use crate::policy::Backoff;
use crate::time::{Instant, Now, Wall};

/// What is asked where the server does not say how often.
const UNTOLD: Duration = Duration::from_secs(1);

/// One state of a Task as a server tells it: the answer that created it, an answer to `tasks/get`, or a notification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen<P> {
    /// Where it stands.
    pub status: Status<P>,
    /// `statusMessage`: of an untrusted party.
    pub message: Option<String>,
    /// By the server's clock.
    pub created_at: Wall,
    /// By the server's clock; orders the states of one Task (TSK-58).
    pub updated_at: Wall,
    /// Counted from the creation; `None` for ever.
    pub ttl: Option<Duration>,
    /// How often to ask; it may change from answer to answer (TSK-18).
    pub poll_interval: Option<Duration>,
}

/// How often a server is asked at most and at least, whatever it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    /// The least time between two questions.
    pub floor: Duration,
    /// The most.
    pub ceiling: Duration,
}

impl Pace {
    /// Four times a second at most, once a minute at least.
    pub const DEFAULT: Self = Self { floor: Duration::from_millis(250), ceiling: Duration::from_secs(60) };

    fn of(self, told: Option<Duration>) -> Duration {
        told.unwrap_or(UNTOLD).min(self.ceiling).max(self.floor)
    }
}

/// What happens to whoever follows a Task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input<P> {
    /// A state that was not asked for: a notification.
    Told(Seen<P>),
    /// The answer to a [`Output::Poll`].
    Polled(Seen<P>),
    /// A poll had no answer, or one that says nothing of the Task. The Task does not fail by it, nor is its call ever
    /// sent again.
    Unanswered {
        /// What the server asks to wait: a floor.
        retry_after: Option<Duration>,
    },
    /// The server knows no such Task.
    Unknown,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output<P> {
    /// Ask by `tasks/get`.
    Poll,
    /// These are open and were never seen before: answer each (TSK-29, TSK-32).
    Ask(BTreeMap<String, P>),
    /// Only these are open now; whoever still answers another one may stop, and must not send it (TSK-35).
    Open(BTreeSet<String>),
    /// It is over.
    Ended(End<P>),
    /// A state that changed nothing.
    Ignored(Ignored),
}

/// How it is over for whoever follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End<P> {
    /// With a result.
    Completed(P),
    /// With a JSON-RPC error.
    Failed(P),
    /// A worker observed a cancel.
    Cancelled,
    /// Its retention passed without an end or a change (TSK-22): what came of it is unknown.
    Expired,
    /// The server does not know it, or no longer (F104): what came of it is unknown.
    Unknown,
}

/// Why a state changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ignored {
    /// A later one was seen before.
    Overtaken,
    /// It is over.
    Over,
}

/// The requestor's state machine.
///
/// | state | Told, Polled | Unanswered | Unknown | timeout |
/// |---|---|---|---|---|
/// | Waiting | older: ignored; final → Over; else new keys are asked, and after the server's interval → Polling | – | → Over | poll, → Polling |
/// | Polling | Told: likewise, and the answer is still awaited; Polled: likewise, → Waiting, or → Over if its retention passed | → Waiting, longer each time | → Over | – |
/// | Over | ignored | – | – | – |
///
/// A key that was seen once is never asked again, in whatever state it is seen later: an answer may be acknowledged
/// before it is visible (TSK-40).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Follower<P> {
    pace: Pace,
    /// Spreads the pauses after losses.
    client: u64,
    seen: Option<Seen<P>>,
    asked: BTreeSet<String>,
    /// When its retention will have passed, by our clock.
    expires: Option<Instant>,
    /// Polls without an answer since the last one with.
    unanswered: u32,
    state: State,
    outputs: VecDeque<Output<P>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Waiting { until: Instant },
    Polling,
    Over,
}

impl<P: Clone + PartialEq> Follower<P> {
    /// Follows a Task whose questions under these keys were answered before, as a process that is gone noted; asks at
    /// once where it stands, unless it is told first.
    pub const fn start(now: Now, pace: Pace, client: u64, answered: BTreeSet<String>) -> Self {
        Self {
            pace,
            client,
            seen: None,
            asked: answered,
            expires: None,
            unanswered: 0,
            state: State::Waiting { until: now.mono },
            outputs: VecDeque::new(),
        }
    }

    /// Takes one event.
    pub fn handle(&mut self, now: Now, input: Input<P>) {
        match (self.state, input) {
            (State::Over, Input::Told(_) | Input::Polled(_)) => {
                self.outputs.push_back(Output::Ignored(Ignored::Over));
            }
            (State::Over, Input::Unanswered { .. } | Input::Unknown) => {}
            (State::Waiting { .. } | State::Polling, Input::Unknown) => self.end(End::Unknown),
            (State::Waiting { .. }, Input::Told(seen) | Input::Polled(seen)) => {
                if self.see(now, seen) {
                    self.wait(now);
                }
            }
            (State::Polling, Input::Told(seen)) => {
                self.see(now, seen);
            }
            (State::Polling, Input::Polled(seen)) => {
                self.unanswered = 0;
                self.see(now, seen);
                match self.state {
                    State::Over => {}
                    State::Waiting { .. } | State::Polling
                        if self.expires.is_some_and(|expires| now.mono >= expires) =>
                    {
                        self.end(End::Expired);
                    }
                    State::Waiting { .. } | State::Polling => self.wait(now),
                }
            }
            // Nobody asked.
            (State::Waiting { .. }, Input::Unanswered { .. }) => {}
            (State::Polling, Input::Unanswered { retry_after }) => {
                let pause = Backoff::RECONNECT.delay(self.client, self.unanswered);
                self.unanswered = self.unanswered.saturating_add(1);
                let pause = pause.max(retry_after.unwrap_or_default()).max(self.interval());
                self.state = State::Waiting { until: now.mono.saturating_add(pause) };
            }
        }
    }

    /// Polls once it is time; early it does nothing.
    pub fn handle_timeout(&mut self, now: Now) {
        match self.state {
            State::Waiting { until } if now.mono >= until => {
                self.state = State::Polling;
                self.outputs.push_back(Output::Poll);
            }
            State::Waiting { .. } | State::Polling | State::Over => {}
        }
    }

    /// When to call [`Self::handle_timeout`].
    pub const fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Polling | State::Over => None,
        }
    }

    /// The next thing to do; drain it until `None` before the next input.
    pub fn poll_output(&mut self) -> Option<Output<P>> {
        self.outputs.pop_front()
    }

    /// The newest state that was seen.
    pub const fn seen(&self) -> Option<&Seen<P>> {
        self.seen.as_ref()
    }

    /// Takes a state, and tells whether it was taken and leaves something to wait for.
    fn see(&mut self, now: Now, seen: Seen<P>) -> bool {
        let before = self.seen.as_ref().map(|before| before.updated_at);
        if before.is_some_and(|before| seen.updated_at < before) {
            self.outputs.push_back(Output::Ignored(Ignored::Overtaken));
            return false;
        }
        if before.is_none_or(|before| seen.updated_at > before)
            || self.seen.as_ref().is_some_and(|before| before.ttl != seen.ttl)
        {
            // Both times are of the server's clock, so only its age crosses over to ours.
            let age = seen.updated_at.as_unix_millis().saturating_sub(seen.created_at.as_unix_millis());
            let left = seen.ttl.map(|ttl| ttl.saturating_sub(Duration::from_millis(age)));
            self.expires = left.map(|left| now.mono.saturating_add(left));
        }
        let status = seen.status.clone();
        self.seen = Some(seen);
        match status {
            Status::Working => self.outputs.push_back(Output::Open(BTreeSet::new())),
            Status::InputRequired { open } => {
                self.outputs.push_back(Output::Open(open.keys().cloned().collect()));
                let new: BTreeMap<String, P> =
                    open.into_iter().filter(|(key, _)| self.asked.insert(key.clone())).collect();
                if !new.is_empty() {
                    self.outputs.push_back(Output::Ask(new));
                }
            }
            Status::Completed { result } => self.end(End::Completed(result)),
            Status::Failed { error } => self.end(End::Failed(error)),
            Status::Cancelled => self.end(End::Cancelled),
        }
        self.state != State::Over
    }

    fn interval(&self) -> Duration {
        self.pace.of(self.seen.as_ref().and_then(|seen| seen.poll_interval))
    }

    fn wait(&mut self, now: Now) {
        self.state = State::Waiting { until: now.mono.saturating_add(self.interval()) };
    }

    fn end(&mut self, end: End<P>) {
        self.state = State::Over;
        self.outputs.push_back(Output::Ended(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    const PACE: Pace = Pace { floor: Duration::from_millis(100), ceiling: Duration::from_secs(10) };

    fn seen(updated: u64, status: Status<&'static str>) -> Seen<&'static str> {
        Seen {
            status,
            message: None,
            created_at: Wall::from_unix_millis(1_000),
            updated_at: Wall::from_unix_millis(updated),
            ttl: Some(Duration::from_secs(60)),
            poll_interval: Some(Duration::from_millis(500)),
        }
    }

    fn every(interval: Option<u64>) -> Seen<&'static str> {
        Seen { poll_interval: interval.map(Duration::from_millis), ..seen(1_000, Status::Working) }
    }

    fn asks(keys: &[&str]) -> Status<&'static str> {
        Status::InputRequired { open: keys.iter().map(|key| ((*key).to_string(), "?")).collect() }
    }

    fn follower() -> Follower<&'static str> {
        Follower::start(Now::at_millis(0), PACE, 7, BTreeSet::new())
    }

    fn drain(follower: &mut Follower<&'static str>) -> Vec<Output<&'static str>> {
        let mut outputs = Vec::new();
        while let Some(output) = follower.poll_output() {
            if !matches!(output, Output::Open(_)) {
                outputs.push(output);
            }
        }
        outputs
    }

    /// Polls at its timeout, which is at `at`.
    fn polls(follower: &mut Follower<&'static str>, at: u64) {
        assert_eq!(follower.poll_timeout(), Some(Instant::from_millis(at)));
        follower.handle_timeout(Now::at_millis(at - 1));
        assert_eq!(drain(follower), vec![]);
        follower.handle_timeout(Now::at_millis(at));
        assert_eq!(drain(follower), vec![Output::Poll]);
        assert_eq!(follower.poll_timeout(), None, "one at a time");
    }

    #[test]
    fn tsk_18_it_is_asked_as_often_as_the_server_says_now_and_neither_without_end_nor_never() {
        let mut follower = follower();
        let mut at = 0;
        for (told, interval) in
            [(Some(500), 500), (Some(2_000), 2_000), (Some(0), 100), (Some(3_600_000), 10_000), (None, 1_000)]
        {
            follower.handle(Now::at_millis(at), Input::Polled(every(told)));
            at += interval;
            polls(&mut follower, at);
        }
    }

    #[test]
    fn tsk_18_a_poll_without_an_answer_is_asked_again_later_and_later_and_ends_nothing() {
        let mut follower = follower();
        polls_at_once(&mut follower);
        let (mut now, mut last) = (0, 0);
        for _ in 0..12 {
            follower.handle(Now::at_millis(now), Input::Unanswered { retry_after: None });
            let at = follower.poll_timeout().unwrap().as_millis();
            last = at - now;
            now = at + 1;
            follower.handle_timeout(Now::at_millis(now));
            assert_eq!(drain(&mut follower), vec![Output::Poll]);
        }
        assert!((1_000..=16_000).contains(&last), "{last}");
        follower
            .handle(Now::at_millis(now), Input::Unanswered { retry_after: Some(Duration::from_secs(20)) });
        assert!(follower.poll_timeout().unwrap().as_millis() >= now + 20_000, "a floor");
    }

    fn polls_at_once(follower: &mut Follower<&'static str>) {
        follower.handle_timeout(Now::at_millis(0));
        assert_eq!(drain(follower), vec![Output::Poll]);
    }

    // shows: TSK-19
    #[test]
    fn tsk_58_what_was_overtaken_turns_nothing_back_and_the_end_is_the_end() {
        let mut follower = follower();
        polls_at_once(&mut follower);
        // While the poll is under way a notification overtakes its answer.
        follower.handle(Now::at_millis(1), Input::Told(seen(3_000, asks(&["k"]))));
        assert!(matches!(drain(&mut follower)[..], [Output::Ask(_)]));
        follower.handle(Now::at_millis(2), Input::Polled(seen(2_000, Status::Working)));
        assert_eq!(drain(&mut follower), vec![Output::Ignored(Ignored::Overtaken)]);
        assert_eq!(follower.seen().unwrap().updated_at, Wall::from_unix_millis(3_000));
        polls(&mut follower, 502);
        follower.handle(Now::at_millis(503), Input::Told(seen(4_000, Status::Completed { result: "r" })));
        assert_eq!(drain(&mut follower), vec![Output::Ended(End::Completed("r"))]);
        for late in [seen(3_000, Status::Working), seen(5_000, Status::Failed { error: "e" })] {
            follower.handle(Now::at_millis(504), Input::Polled(late));
            assert_eq!(drain(&mut follower), vec![Output::Ignored(Ignored::Over)]);
        }
        follower.handle(Now::at_millis(505), Input::Unknown);
        assert_eq!((drain(&mut follower), follower.poll_timeout()), (vec![], None));
    }

    // shows: TSK-30, TSK-40
    #[test]
    fn tsk_32_a_key_is_asked_once_however_often_it_is_seen_and_never_if_it_was_answered_before() {
        let answered: BTreeSet<_> = ["old".to_string()].into();
        let mut follower = Follower::start(Now::at_millis(0), PACE, 7, answered);
        let mut asked = Vec::new();
        let states: [(u64, &[&str]); 5] =
            [(1_000, &["a", "old"]), (1_000, &["a"]), (2_000, &["a", "b"]), (3_000, &["b"]), (4_000, &["a"])];
        for (updated, keys) in states {
            follower.handle(Now::at_millis(0), Input::Told(seen(updated, asks(keys))));
            for output in drain(&mut follower) {
                match output {
                    Output::Ask(new) => asked.extend(new.into_keys()),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(asked, ["a", "b"]);
    }

    #[test]
    fn tsk_35_what_is_open_is_said_with_every_state() {
        let mut follower = follower();
        let open = |follower: &mut Follower<_>| match follower.poll_output() {
            Some(Output::Open(open)) => open.into_iter().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        follower.handle(Now::at_millis(0), Input::Told(seen(1_000, asks(&["a", "b"]))));
        assert_eq!(open(&mut follower), ["a", "b"]);
        drain(&mut follower);
        follower.handle(Now::at_millis(0), Input::Told(seen(2_000, asks(&["b"]))));
        assert_eq!(open(&mut follower), ["b"]);
        follower.handle(Now::at_millis(0), Input::Told(seen(3_000, Status::Working)));
        assert!(open(&mut follower).is_empty());
    }

    // shows: F104
    #[test]
    fn tsk_22_it_is_given_up_once_its_retention_passed_without_a_change_and_not_by_our_wall_clock() {
        let mut follower = follower();
        // 20 s old by the server's clock when it is seen first, so 40 s are left.
        follower.handle(Now::at_millis(0), Input::Told(seen(21_000, Status::Working)));
        follower.handle_timeout(Now::at_millis(39_999));
        follower.handle(Now::at_millis(39_999), Input::Polled(seen(21_000, Status::Working)));
        assert_eq!(drain(&mut follower), vec![Output::Poll]);
        follower.handle_timeout(Now { wall: Wall::default(), ..Now::at_millis(41_000) });
        // It says that it will be kept longer, and goes on.
        let longer = Seen { ttl: Some(Duration::from_secs(80)), ..seen(21_000, Status::Working) };
        follower.handle(Now::at_millis(41_000), Input::Polled(longer.clone()));
        assert_eq!(drain(&mut follower), vec![Output::Poll]);
        follower.handle_timeout(Now::at_millis(200_000));
        follower.handle(Now::at_millis(200_000), Input::Polled(longer));
        assert_eq!(drain(&mut follower), vec![Output::Poll, Output::Ended(End::Expired)]);
    }

    #[test]
    fn f104_a_task_that_is_not_known_any_more_is_unknown_and_not_failed() {
        let mut follower = follower();
        follower.handle(Now::at_millis(0), Input::Told(seen(1_000, Status::Working)));
        polls(&mut follower, 500);
        follower.handle(Now::at_millis(501), Input::Unknown);
        assert_eq!(drain(&mut follower), vec![Output::Ended(End::Unknown)]);
    }
}
