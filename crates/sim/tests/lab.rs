//! The sixteen rows of the lab, each with its reason.

use steadfast_core::hop::Hop;
use steadfast_sim::lab::{Scenario, play, run};

/// The row as one line, in the order of its members.
fn lines() -> Vec<String> {
    run()
        .iter()
        .map(|row| {
            let row = serde_json::to_value(row).unwrap();
            ["scenario", "transport", "era", "terminal", "final_response", "signal", "ignored"]
                .map(|member| row[member].to_string().replace('"', ""))
                .join(" | ")
        })
        .collect()
}

#[test]
fn d_22_the_cancel_wins_and_the_answer_is_late() {
    // D-05, D-06: the answer was under way; the caller is told `cancelled`, and only that. G4: only the
    // signal differs.
    assert_eq!(
        lines()[0..4],
        [
            "A | stdio | modern | cancelled | false | notification | late response",
            "A | stdio | legacy | cancelled | false | notification | late response",
            "A | http | modern | cancelled | false | close_stream | late response",
            "A | http | legacy | cancelled | false | post_notification | late response",
        ]
    );
}

#[test]
fn d_22_the_completion_wins_and_the_cancel_is_ignored() {
    // D-05: the answer stays. CAN-04: what is finished is not cancelled, so nothing is signalled on any hop.
    assert_eq!(
        lines()[4..8],
        [
            "B | stdio | modern | completed | true | none | late cancel",
            "B | stdio | legacy | completed | true | none | late cancel",
            "B | http | modern | completed | true | none | late cancel",
            "B | http | legacy | completed | true | none | late cancel",
        ]
    );
}

#[test]
fn d_22_progress_never_moves_the_absolute_limit() {
    // D-07: alive at every idle deadline, ended at 2000 ms, and what was sent at 1999 ms is late. TMO-02: the
    // server is told, by the means of each hop.
    assert_eq!(
        lines()[8..12],
        [
            "C | stdio | modern | timed_out_max | false | notification | late progress",
            "C | stdio | legacy | timed_out_max | false | notification | late progress",
            "C | http | modern | timed_out_max | false | close_stream | late progress",
            "C | http | legacy | timed_out_max | false | post_notification | late progress",
        ]
    );
}

#[test]
fn d_22_a_request_is_abandoned_everywhere_alike_and_only_the_signal_differs() {
    // D-01, D-02, LEG-27: the handler is stopped and answers nothing, so only progress under way is left to
    // ignore.
    assert_eq!(
        lines()[12..16],
        [
            "D | stdio | modern | cancelled | false | notification | late progress",
            "D | stdio | legacy | cancelled | false | notification | late progress",
            "D | http | modern | cancelled | false | close_stream | late progress",
            "D | http | legacy | cancelled | false | post_notification | late progress",
        ]
    );
}

#[test]
fn d_21_the_same_scenario_gives_the_same_transcript() {
    for scenario in Scenario::ALL {
        for hop in Hop::ALL {
            let (once, again) = (play(scenario, hop).1, play(scenario, hop).1);
            assert_eq!(once.digest(), again.digest());
            assert!(once.lines().eq(again.lines()));
        }
    }
    let digests: std::collections::BTreeSet<_> =
        Scenario::ALL.iter().flat_map(|&s| Hop::ALL.map(|hop| play(s, hop).1.digest())).collect();
    assert_eq!(digests.len(), 16, "no two of them saw the same");
}
