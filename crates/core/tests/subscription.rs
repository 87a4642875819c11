//! What the holder of a subscription promises.

use std::time::Duration;

use steadfast_core::subscription::{
    Change, End, Filter, Ignored, InFlight, Input, Output, Refetch, Subscription, reconnect_plan,
};
use steadfast_core::time::{Instant, Now};

fn filter() -> Filter {
    Filter {
        tools: true,
        prompts: false,
        resources: true,
        uris: ["b://2".to_owned(), "a://1".to_owned()].into(),
        tasks: ["tk".to_owned()].into(),
    }
}

fn refetch() -> Vec<Refetch> {
    vec![
        Refetch::Tools,
        Refetch::Resources,
        Refetch::ResourceTemplates,
        Refetch::Resource("a://1".into()),
        Refetch::Resource("b://2".into()),
        Refetch::Task("tk".into()),
    ]
}

fn drain(it: &mut Subscription) -> Vec<Output> {
    std::iter::from_fn(|| it.poll_output()).collect()
}

fn at(it: &mut Subscription, millis: u64, input: Input) -> Vec<Output> {
    it.handle(Now::at_millis(millis), input);
    drain(it)
}

fn active() -> Subscription {
    let mut it = Subscription::start(filter(), 7);
    assert_eq!(drain(&mut it), [Output::Listen { listen: 1, filter: filter() }]);
    let acknowledged = at(&mut it, 0, Input::Acknowledged { listen: 1, granted: filter() });
    assert_eq!(acknowledged, [Output::Active { missing: Filter::default() }]);
    it
}

fn ended(listen: u64, end: End) -> Input {
    Input::Ended { listen, end }
}

fn wait(it: &Subscription) -> Duration {
    it.poll_timeout().unwrap().saturating_since(Instant::ZERO)
}

#[test]
fn i_20_nothing_before_the_acknowledgement_and_nothing_outside_it() {
    let mut it = Subscription::start(filter(), 7);
    drain(&mut it);
    let notified = |change| Input::Notified { listen: 1, change };
    assert_eq!(at(&mut it, 0, notified(Change::Tools)), [Output::Ignored(Ignored::BeforeAcknowledgement)]);
    // The server grants less on one side and more on the other.
    let granted = Filter { resources: false, prompts: true, tasks: [].into(), ..filter() };
    let missing = Filter { resources: true, tasks: filter().tasks, ..Filter::default() };
    assert_eq!(at(&mut it, 0, Input::Acknowledged { listen: 1, granted }), [Output::Active { missing }]);
    assert_eq!(at(&mut it, 0, notified(Change::Tools)), [Output::Deliver(Change::Tools)]);
    for change in
        [Change::Prompts, Change::Resources, Change::Task("tk".into()), Change::Resource("c://".into())]
    {
        assert_eq!(at(&mut it, 0, notified(change)), [Output::Ignored(Ignored::OutsideFilter)]);
    }
    let again = Input::Acknowledged { listen: 1, granted: filter() };
    assert_eq!(at(&mut it, 0, again), [Output::Ignored(Ignored::AcknowledgedTwice)]);
}

#[test]
fn sub_16_a_sub_resource_is_covered_and_a_neighbour_is_not() {
    let uris = |uri: &str| Filter { uris: [uri.to_owned()].into(), ..Filter::default() };
    for (subscribed, uri, covered) in [
        ("l://2026/Q2", "l://2026/Q2", true),
        ("l://2026/Q2", "l://2026/Q2#row-17", true),
        ("l://2026/Q2", "l://2026/Q2/x", true),
        ("l://2026/Q2", "l://2026/Q23", false),
        ("l://2026/", "l://2026/Q2", true),
        ("l://2026/Q2", "l://2026", false),
    ] {
        assert_eq!(uris(subscribed).covers(&Change::Resource(uri.into())), covered, "{subscribed} {uri}");
    }
}

#[test]
fn d_19_after_a_loss_a_new_listen_the_same_filter_and_what_was_missed() {
    let mut it = active();
    assert_eq!(at(&mut it, 0, ended(1, End::Lost)), [Output::Stale(refetch())]);
    let delay = wait(&it);
    assert!(delay >= Duration::from_millis(125) && delay <= Duration::from_millis(250), "{delay:?}");
    it.handle_timeout(Now::at_millis(100));
    assert_eq!(drain(&mut it), []);
    it.handle_timeout(Now::at_millis(250));
    assert_eq!(drain(&mut it), [Output::Listen { listen: 2, filter: filter() }]);
    // The old listen's words are nobody's business any more.
    let old = Input::Notified { listen: 1, change: Change::Tools };
    assert_eq!(at(&mut it, 251, old), [Output::Ignored(Ignored::OldListen)]);
    assert_eq!(
        at(&mut it, 252, Input::Acknowledged { listen: 2, granted: filter() }),
        [Output::Active { missing: Filter::default() }, Output::Refetch(refetch())]
    );
}

#[test]
fn i_21_a_graceful_end_waits_for_the_next_use_or_a_long_spread() {
    let mut it = active();
    assert_eq!(at(&mut it, 0, ended(1, End::Result)), [Output::Stale(refetch())]);
    assert!(wait(&it) >= Duration::from_secs(8) && wait(&it) <= Duration::from_secs(300));
    assert_eq!(at(&mut it, 1, Input::Used), [Output::Listen { listen: 2, filter: filter() }]);

    // An abrupt end does not return sooner because someone asks.
    let mut it = active();
    at(&mut it, 0, ended(1, End::Lost));
    assert_eq!(at(&mut it, 1, Input::Used), []);

    let spread: std::collections::BTreeSet<u64> = (0..1_000)
        .map(|client| {
            let mut it = Subscription::start(filter(), client);
            it.handle(Now::at_millis(0), Input::Acknowledged { listen: 1, granted: filter() });
            it.handle(Now::at_millis(0), ended(1, End::Result));
            wait(&it).as_secs()
        })
        .collect();
    assert!(spread.len() > 200, "{} different seconds", spread.len());
}

#[test]
fn amb_01_a_late_result_makes_the_end_graceful() {
    let mut it = active();
    at(&mut it, 0, ended(1, End::Cancelled));
    assert!(wait(&it) <= Duration::from_millis(250));
    assert_eq!(at(&mut it, 1, ended(1, End::Result)), []);
    assert!(wait(&it) >= Duration::from_secs(8));
    assert_eq!(at(&mut it, 2, ended(1, End::Lost)), [Output::Ignored(Ignored::OldListen)]);
}

#[test]
fn g13_repeated_losses_back_off_and_an_acknowledgement_starts_anew() {
    let mut it = active();
    let mut millis = 0;
    let mut steps = Vec::new();
    for listen in 1..=8 {
        at(&mut it, millis, ended(listen, End::Lost));
        let until = it.poll_timeout().unwrap();
        steps.push(until.saturating_since(Instant::from_millis(millis)));
        millis = until.as_millis() + 1;
        it.handle_timeout(Now::at_millis(millis));
        drain(&mut it);
    }
    for (attempt, step) in steps.iter().enumerate() {
        let whole = Duration::from_millis(250 << attempt.min(5));
        assert!(*step >= whole / 2 && *step <= whole, "{step:?} after loss {attempt}");
    }
    at(&mut it, millis, Input::Acknowledged { listen: 9, granted: filter() });
    at(&mut it, millis, ended(9, End::Lost));
    let step = it.poll_timeout().unwrap().saturating_since(Instant::from_millis(millis));
    assert!(step <= Duration::from_millis(250));
}

#[test]
fn a_refusal_or_a_close_ends_it_for_good() {
    let mut it = Subscription::start(filter(), 7);
    drain(&mut it);
    assert_eq!(at(&mut it, 0, ended(1, End::Refused)), [Output::Refused]);
    assert_eq!((it.poll_timeout(), at(&mut it, 1, Input::Used)), (None, vec![]));

    let mut it = active();
    assert_eq!(at(&mut it, 0, Input::Close), [Output::Cancel { listen: 1 }]);
    assert_eq!(at(&mut it, 1, ended(1, End::Lost)), [Output::Ignored(Ignored::OldListen)]);
    assert_eq!(it.poll_timeout(), None);
}

#[test]
fn d_19_a_plan_lists_methods_sorted_and_mutations_to_reconcile_and_repeats_none() {
    let in_flight = |operation: &str, key: Option<&str>| InFlight {
        operation: operation.into(),
        key: key.map(str::to_owned),
    };
    let lost = [in_flight("reserve", Some("k")), in_flight("charge", None), in_flight("reserve", Some("k"))];
    let plan = reconnect_plan(&filter(), &lost);
    assert_eq!(plan.listen, filter());
    assert_eq!(plan.refetch, refetch());
    assert_eq!(plan.reconcile, [in_flight("charge", None), in_flight("reserve", Some("k"))]);
    let methods: Vec<_> = plan.refetch.iter().map(|fetch| (fetch.method(), fetch.subject())).collect();
    assert_eq!(methods[3], ("resources/read", Some("a://1")));
}

#[test]
fn tmo_08_a_listen_that_is_not_acknowledged_within_ten_seconds_is_given_up() {
    let mut it = Subscription::start(filter(), 7);
    drain(&mut it);
    assert_eq!(it.poll_timeout(), None, "a request that has not left is not late");
    assert_eq!(at(&mut it, 1_000, Input::Sent { listen: 1 }), []);
    assert_eq!(at(&mut it, 5_000, Input::Sent { listen: 1 }), []);
    assert_eq!(it.poll_timeout(), Some(Instant::from_millis(11_000)));
    it.handle_timeout(Now::at_millis(10_999));
    assert_eq!(drain(&mut it), []);
    // At the very moment the limit wins, and the acknowledgement is late.
    let late = at(&mut it, 11_000, Input::Acknowledged { listen: 1, granted: filter() });
    assert_eq!(late, [Output::Cancel { listen: 1 }, Output::Ignored(Ignored::OldListen)]);
    it.handle_timeout(Now::at_millis(11_250));
    assert_eq!(drain(&mut it), [Output::Listen { listen: 2, filter: filter() }]);

    // One that is acknowledged is never timed (AMB-06), whichever word comes first.
    for sent_first in [true, false] {
        let mut it = Subscription::start(filter(), 7);
        let (sent, acknowledged) =
            (Input::Sent { listen: 1 }, Input::Acknowledged { listen: 1, granted: filter() });
        let words = if sent_first { [sent, acknowledged] } else { [acknowledged, sent] };
        for word in words {
            at(&mut it, 0, word);
        }
        assert_eq!(it.poll_timeout(), None);
    }
}

#[test]
fn amb_47_an_error_after_the_acknowledgement_is_a_loss() {
    let mut it = active();
    assert_eq!(at(&mut it, 0, ended(1, End::Refused)), [Output::Stale(refetch())]);
    assert!(wait(&it) <= Duration::from_millis(250));
}

/// Every way through three listens: acknowledged in full, in part and with more than was asked, or not at all; ended
/// gracefully, abruptly, by both words, or given up; and returned to by a use or by time.
#[test]
fn i_21_every_way_through_three_drops_returns_once_in_its_window_and_fetches_what_was_missed() {
    let mut it = Subscription::start(filter(), 7);
    let opened = drain(&mut it);
    let walked =
        drop_in_every_way(&it, &opened, Before { listen: 1, now: Instant::ZERO, ..Before::default() });
    assert_eq!(walked, WAYS.pow(3));
}

/// What the listens before have left behind.
#[derive(Clone, Copy, Default)]
struct Before {
    listen: u64,
    now: Instant,
    was_active: bool,
    /// Abrupt ends since the last acknowledgement.
    losses: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropped {
    Result,
    Cancelled,
    CancelledThenResult,
    Lost,
    /// No word at all, the acknowledgement included.
    Silence,
}

/// Two kinds of acknowledgement with four ends each and none with five; each of them with two kinds of return.
const WAYS: usize = (2 * 4 + 5) * 2;

fn drop_in_every_way(it: &Subscription, opened: &[Output], before: Before) -> usize {
    let listen = before.listen;
    assert_eq!(opened, [Output::Listen { listen, filter: filter() }], "one listen, new, for the same");
    if listen > 3 {
        return 1;
    }
    let in_part = Filter { resources: false, prompts: true, ..filter() };
    let mut walked = 0;
    for granted in [None, Some(filter()), Some(in_part)] {
        for how in [
            Dropped::Result,
            Dropped::Cancelled,
            Dropped::CancelledThenResult,
            Dropped::Lost,
            Dropped::Silence,
        ] {
            if granted.is_some() && how == Dropped::Silence {
                continue;
            }
            for used in [false, true] {
                let mut it = it.clone();
                let (opened, after) = one_drop(&mut it, before, granted.as_ref(), how, used);
                walked += drop_in_every_way(&it, &opened, after);
            }
        }
    }
    walked
}

/// One listen from the moment it is sent to the moment the next one begins.
fn one_drop(
    it: &mut Subscription,
    before: Before,
    granted: Option<&Filter>,
    how: Dropped,
    used: bool,
) -> (Vec<Output>, Before) {
    let Before { listen, mut now, mut was_active, mut losses } = before;
    let mut tell = |now: Instant, input| {
        it.handle(Now { mono: now, ..Now::default() }, input);
        drain(it)
    };
    let notified = |change| Input::Notified { listen, change };
    assert_eq!(tell(now, Input::Sent { listen }), []);
    let early = tell(now, notified(Change::Tools));
    assert_eq!(early, [Output::Ignored(Ignored::BeforeAcknowledgement)]);

    let mut stale = Vec::new();
    if let Some(granted) = granted {
        let both = filter().intersect(granted);
        let mut due = vec![Output::Active { missing: filter().without(&both) }];
        due.extend(was_active.then(|| Output::Refetch(refetch())));
        assert_eq!(tell(now, Input::Acknowledged { listen, granted: granted.clone() }), due);
        assert_eq!(tell(now, notified(Change::Tools)), [Output::Deliver(Change::Tools)]);
        assert_eq!(tell(now, notified(Change::Prompts)), [Output::Ignored(Ignored::OutsideFilter)]);
        stale.push(Output::Stale(both.refetch()));
        (was_active, losses) = (true, 0);
    }

    match how {
        Dropped::Result => assert_eq!(tell(now, ended(listen, End::Result)), stale),
        Dropped::Cancelled => assert_eq!(tell(now, ended(listen, End::Cancelled)), stale),
        Dropped::Lost => assert_eq!(tell(now, ended(listen, End::Lost)), stale),
        Dropped::CancelledThenResult => {
            assert_eq!(tell(now, ended(listen, End::Cancelled)), stale);
            assert_eq!(tell(now, ended(listen, End::Result)), []);
        }
        Dropped::Silence => {
            now = now.saturating_add(Duration::from_secs(10));
            let words = tell(now, notified(Change::Tools));
            assert_eq!(words, [Output::Cancel { listen }, Output::Ignored(Ignored::OldListen)]);
        }
    }
    let late = [notified(Change::Tools), Input::Acknowledged { listen, granted: filter() }];
    for word in late {
        assert_eq!(tell(now, word), [Output::Ignored(Ignored::OldListen)]);
    }

    let graceful = matches!(how, Dropped::Result | Dropped::CancelledThenResult);
    let after = |now, losses| Before { listen: listen + 1, now, was_active, losses };
    if used && graceful {
        return (tell(now, Input::Used), after(now, losses));
    }
    if used {
        assert_eq!(tell(now, Input::Used), [], "a use does not hurry a return after a loss");
    }
    let until = it.poll_timeout().unwrap();
    let whole = Duration::from_millis(250 << losses.min(5));
    let (least, most) =
        if graceful { (Duration::from_secs(8), Duration::from_secs(300)) } else { (whole / 2, whole) };
    let delay = until.saturating_since(now);
    assert!(delay >= least && delay <= most, "{delay:?} after {how:?} and {losses} losses");
    it.handle_timeout(Now { mono: Instant::from_nanos(until.as_nanos() - 1), ..Now::default() });
    assert_eq!(drain(it), [], "early is a no-op");
    it.handle_timeout(Now { mono: until, ..Now::default() });
    (drain(it), after(until, if graceful { losses } else { losses + 1 }))
}
