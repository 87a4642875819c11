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
