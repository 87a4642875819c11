//! The fourteen production failures, each run both ways.

use steadfast_sim::fixtures::{self, Behaviour};

#[test]
fn d_24_each_fixture_fails_on_the_wrong_behaviour_and_passes_on_ours() {
    for fixture in fixtures::all() {
        let wrong = fixture.run(Behaviour::Wrong);
        assert!(wrong.is_err(), "{}: the wrong behaviour passed: {wrong:?}", fixture.name);
        let ours =
            fixture.run(Behaviour::Ours).unwrap_or_else(|violation| panic!("{}: {violation}", fixture.name));
        assert!(!ours.seen.is_empty(), "{} has no evidence", fixture.name);
    }
}

#[test]
fn d_24_there_are_fourteen_of_them_in_this_order() {
    let names: Vec<_> = fixtures::all().iter().map(|fixture| fixture.name).collect();
    assert_eq!(
        names,
        [
            "cancel-posted-over-http",
            "response-after-accepted-cancel",
            "progress-resets-every-deadline",
            "new-id-taken-for-deduplication",
            "key-check-and-effect-apart",
            "in-memory-ledger-across-replicas",
            "stored-result-by-reference",
            "key-reused-with-changed-arguments",
            "unbounded-progress-queue",
            "final-response-dropped",
            "buffered-sse",
            "last-event-id-assumed",
            "herd-reconnect",
            "task-acknowledgement-taken-for-the-end",
        ]
    );
    assert!(fixtures::named("herd-reconnect").is_some());
}

#[test]
fn d_25_what_a_fixture_shows_can_be_printed() {
    let shown = fixtures::run();
    let text = serde_json::to_string(&shown).unwrap();
    assert!(text.contains(r#""name":"stored-result-by-reference""#));
    assert!(shown.iter().all(|shown| shown.wrong.is_some() && shown.ours.is_some()));
}
