//! Nothing breaks in any order, every planted bug is caught, and what was seen can be seen again.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use steadfast_sim::check::Invariant;
use steadfast_sim::explore::{self, Report};
use steadfast_sim::planted::Bug;
use steadfast_sim::replay::{self, Target};

fn report() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(explore::run)
}

#[test]
fn d_21_no_order_of_any_scope_breaks_an_invariant() {
    for scope in &report().scopes {
        assert_eq!(scope.violations, 0, "{}: {:?}", scope.name, scope.first_violation);
        assert!(scope.orders > 1 && scope.states > 1, "{} explores nothing", scope.name);
    }
    assert!(report().is_good());
}

#[test]
fn every_planted_bug_is_caught_by_the_checker_that_is_meant_for_it() {
    for bug in &report().planted {
        assert!(bug.caught, "{}: {} was not caught", bug.invariant, bug.bug);
        let seen = replay::run(&bug.replay.parse::<Target>().unwrap()).unwrap();
        assert_eq!(seen.violation.unwrap().invariant, bug.invariant);
        assert_eq!(seen.transcript.len() as u64, bug.transcript_len);
    }
    assert_eq!(report().planted.len(), Bug::ALL.len());
}

#[test]
fn every_invariant_that_is_checked_has_a_planted_bug() {
    let planted: BTreeSet<Invariant> = Bug::ALL.iter().map(|bug| bug.breaks()).collect();
    let checked: BTreeSet<Invariant> = steadfast_sim::check::CHECKED.iter().map(|&n| Invariant(n)).collect();
    assert_eq!(planted, checked);
}

#[test]
fn d_21_the_same_order_gives_the_same_transcript_and_digest() {
    for scope in steadfast_sim::scopes::all() {
        for seed in 0..20 {
            let seeded = replay::run(&Target::seeded(scope.name, seed)).unwrap();
            let recorded = replay::run(&seeded.replay.parse::<Target>().unwrap()).unwrap();
            assert_eq!(seeded, recorded, "{}", seeded.replay);
            assert!(!seeded.transcript.is_empty());
        }
    }
}

#[test]
fn a_transcript_is_json_lines_in_a_stable_form() {
    let seen = replay::run(&"exchange-stdio-modern:".parse::<Target>().unwrap()).unwrap();
    assert_eq!(
        seen.transcript[1],
        r#"{"seq":1,"mono_ms":0,"wall_ms":1785196800000,"event":"put","by":"client","message":{"request":{"id":1,"token":"t"}}}"#
    );
}

#[test]
fn what_cannot_be_replayed_says_why() {
    for (text, why) in [
        ("exchange-stdio-modern:1.x", "`x` is no choice; write numbers separated by dots, as in `0.2.1`"),
        (
            "exchange-stdio-modern+haste:0",
            "there is no planted bug `haste`; `steadfast sim explore` lists them",
        ),
    ] {
        assert_eq!(text.parse::<Target>().unwrap_err().to_string(), why);
    }
    let nowhere = replay::run(&"nowhere:0".parse::<Target>().unwrap()).unwrap_err();
    assert_eq!(nowhere.to_string(), "there is no scope `nowhere`; `steadfast sim explore` lists them");
}

#[test]
fn d_21_the_same_scope_explored_again_sees_the_same() {
    for name in
        ["exchange-listen-stdio", "exchange-initialize-http", "ledger-race-three", "task-crash", "retry"]
    {
        let scope = steadfast_sim::scopes::named(name).unwrap();
        assert_eq!(explore::explore(&scope), explore::explore(&scope));
    }
}
