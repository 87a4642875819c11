//! What a record promises, and that every pair of state and input is decided.

use std::time::Duration;

use steadfast_core::fingerprint::Fingerprint;
use steadfast_core::ledger::{
    Claim, Enforcement, LEASE, NotUnknown, Owner, Record, Resolution, SettleError, Settlement, Stamp, State,
    Verdict,
};
use steadfast_core::time::{Instant, Wall};

type Slot = Option<Record<u8>>;

const A: Fingerprint = Fingerprint([1; 32]);
const B: Fingerprint = Fingerprint([2; 32]);

fn at(seconds: u64) -> Stamp {
    Stamp { boot: 1, up: Instant::from_millis(seconds * 1000), wall: Wall::from_unix_millis(seconds * 1000) }
}

fn claim(slot: &mut Slot, fingerprint: Fingerprint, enforcement: Enforcement, seconds: u64) -> Verdict<u8> {
    Record::claim(slot, Claim { fingerprint, owner: Owner(9), enforcement }, at(seconds))
}

fn gateway(slot: &mut Slot, fingerprint: Fingerprint, seconds: u64) -> Verdict<u8> {
    claim(slot, fingerprint, Enforcement::Gateway, seconds)
}

fn settle(slot: &mut Slot, epoch: u64, settlement: Settlement<u8>) -> Result<(), SettleError> {
    slot.as_mut().unwrap().settle(epoch, settlement, at(1))
}

/// A slot in each state, reached by legal steps; the epoch of its last claim is its last claim's.
fn in_state(state: &str) -> Slot {
    let mut slot = None;
    gateway(&mut slot, A, 0);
    let settlement = match state {
        "claimed" => return slot,
        "awaiting_input" => Settlement::AwaitingInput,
        "held_by_task" => Settlement::HeldByTask(5),
        "committed" => Settlement::Committed(7),
        "rejected" => Settlement::Rejected,
        "unknown" => Settlement::Unknown,
        other => panic!("{other}"),
    };
    settle(&mut slot, 1, settlement).unwrap();
    assert_eq!(slot.as_ref().unwrap().state.as_str(), state);
    slot
}

const STATES: [&str; 6] = ["claimed", "awaiting_input", "held_by_task", "committed", "rejected", "unknown"];
const RUN_2: Verdict<u8> = Verdict::Run { epoch: 2, again: false };

#[test]
fn g7_what_a_second_attempt_meets_in_every_state() {
    for (state, expected) in STATES.into_iter().zip([
        Verdict::Join,
        RUN_2,
        Verdict::JoinTask(5),
        Verdict::Replay(7),
        RUN_2,
        Verdict::Unknown,
    ]) {
        assert_eq!(gateway(&mut in_state(state), A, 1), expected, "{state}");
    }
    let again = claim(&mut in_state("unknown"), A, Enforcement::Upstream, 1);
    assert_eq!(again, Verdict::Run { epoch: 2, again: true });
}

#[test]
fn i_08_a_key_bound_to_something_else_is_refused_unless_it_was_rejected() {
    for state in STATES {
        for enforcement in [Enforcement::Gateway, Enforcement::Upstream] {
            let mut slot = in_state(state);
            let before = slot.clone();
            let verdict = claim(&mut slot, B, enforcement, 1);
            if state == "rejected" {
                assert_eq!(verdict, RUN_2);
                assert_eq!(slot.unwrap().fingerprint, B);
            } else {
                assert_eq!(verdict, Verdict::Mismatch, "{state}");
                assert_eq!(slot, before, "a refusal changes nothing");
            }
        }
    }
}

#[test]
fn i_10_a_stale_epoch_settles_and_renews_nothing_in_any_state() {
    for state in STATES {
        let mut slot = in_state(state);
        let before = slot.clone();
        for epoch in [0, 2] {
            let stale = Err(SettleError::Stale { given: epoch, last: 1 });
            assert_eq!(settle(&mut slot, epoch, Settlement::Committed(1)), stale);
            assert_eq!(slot.as_mut().unwrap().renew(epoch, at(1)), stale);
        }
        assert_eq!(slot, before);
    }
}

#[test]
fn i_09_only_what_is_claimed_held_or_unknown_is_settled() {
    for state in STATES {
        for (settlement, legal) in [
            (Settlement::Committed(1), ["claimed", "held_by_task", "unknown"].as_slice()),
            (Settlement::Rejected, &["claimed", "held_by_task", "unknown"]),
            (Settlement::Unknown, &["claimed", "held_by_task"]),
            (Settlement::AwaitingInput, &["claimed"]),
            (Settlement::HeldByTask(1), &["claimed"]),
        ] {
            let mut slot = in_state(state);
            let before = slot.clone();
            let outcome = settle(&mut slot, 1, settlement.clone());
            assert_eq!(outcome.is_ok(), legal.contains(&state), "{settlement:?} in {state}");
            if outcome.is_err() {
                assert_eq!(slot, before);
            }
        }
    }
}

#[test]
fn g8_only_what_is_unknown_is_reconciled() {
    for state in STATES {
        for resolution in [Resolution::Committed(3), Resolution::Rejected] {
            let mut slot = in_state(state);
            let outcome = slot.as_mut().unwrap().reconcile(resolution.clone(), at(1));
            if state == "unknown" {
                assert_eq!(outcome, Ok(()));
                let next = gateway(&mut slot, A, 2);
                match resolution {
                    Resolution::Committed(answer) => assert_eq!(next, Verdict::Replay(answer)),
                    Resolution::Rejected => assert_eq!(next, RUN_2),
                }
            } else {
                assert_eq!(outcome, Err(NotUnknown { state }));
            }
        }
    }
}

#[test]
fn ruling_10_a_lease_ends_by_time_or_reboot_and_not_by_another_process() {
    let lease = LEASE.as_secs();
    let mut slot = in_state("claimed");
    assert_eq!(gateway(&mut slot, A, lease - 1), Verdict::Join, "another process's start is no expiry");
    slot.as_mut().unwrap().renew(1, at(lease - 1)).unwrap();
    assert_eq!(gateway(&mut slot, A, lease + 5), Verdict::Join);
    assert_eq!(gateway(&mut slot, A, 2 * lease), Verdict::Unknown);
    assert_eq!(
        slot.as_mut().unwrap().renew(1, at(2 * lease)),
        Err(SettleError::NotClaimed { state: "unknown" })
    );
    // The owner was slow and not dead: what it knows counts.
    settle(&mut slot, 1, Settlement::Committed(4)).unwrap();
    assert_eq!(gateway(&mut slot, A, 2 * lease), Verdict::Replay(4));

    let mut slot = in_state("claimed");
    let rebooted = Stamp { boot: 2, up: Instant::ZERO, ..at(1) };
    assert!(slot.as_mut().unwrap().expire(rebooted));
    assert_eq!(slot.unwrap().state, State::Unknown);
}

#[test]
fn ruling_10_the_wall_clock_does_not_move_a_lease() {
    let mut slot = in_state("claimed");
    let jumped = Stamp { wall: Wall::from_unix_millis(u64::MAX), ..at(1) };
    assert!(!slot.as_mut().unwrap().expire(jumped));
}

#[test]
fn ruling_02_rejected_only_if_every_attempt_and_leg_was() {
    // An attempt that nobody knows of, and a leg that asked a question: both may have had effects.
    for before in ["unknown", "awaiting_input"] {
        let mut slot = in_state(before);
        claim(&mut slot, A, Enforcement::Upstream, 1);
        settle(&mut slot, 2, Settlement::Rejected).unwrap();
        assert_eq!(slot.unwrap().state, State::Unknown, "after {before}");
    }
    let mut slot = in_state("rejected");
    gateway(&mut slot, A, 1);
    settle(&mut slot, 2, Settlement::Rejected).unwrap();
    assert_eq!(slot.unwrap().state, State::Rejected);
    // Reconciliation that finds nothing clears all attempts before it.
    let mut slot = in_state("unknown");
    claim(&mut slot, A, Enforcement::Upstream, 1);
    settle(&mut slot, 2, Settlement::Unknown).unwrap();
    slot.as_mut().unwrap().reconcile(Resolution::Rejected, at(1)).unwrap();
    gateway(&mut slot, A, 1);
    settle(&mut slot, 3, Settlement::Rejected).unwrap();
    assert_eq!(slot.unwrap().state, State::Rejected);
}

#[test]
fn ruling_15_retention_counts_from_the_settlement_and_spares_what_is_open() {
    let day = Duration::from_secs(86_400);
    for state in STATES {
        let record = in_state(state).unwrap();
        assert!(!record.may_be_purged(day, Wall::from_unix_millis(86_400_999)));
        let purged = record.may_be_purged(day, Wall::from_unix_millis(86_401_000));
        assert_eq!(purged, ["committed", "rejected"].contains(&state), "{state}");
    }
}

/// What happens to one key's record, by name.
const INPUTS: usize = 15;

fn feed(slot: &mut Slot, input: usize, now: &mut Stamp) -> Option<Verdict<u8>> {
    let epoch = slot.as_ref().map_or(0, |record| record.epoch);
    let as_claim = |fingerprint, enforcement| Claim { fingerprint, owner: Owner(9), enforcement };
    let mut settle = |epoch, settlement| {
        let _ = slot.as_mut().map(|record| record.settle(epoch, settlement, *now));
    };
    match input {
        0 => return Some(Record::claim(slot, as_claim(A, Enforcement::Gateway), *now)),
        1 => return Some(Record::claim(slot, as_claim(A, Enforcement::Upstream), *now)),
        2 => return Some(Record::claim(slot, as_claim(B, Enforcement::Gateway), *now)),
        3 => return Some(Record::claim(slot, as_claim(B, Enforcement::Upstream), *now)),
        4 => settle(epoch, Settlement::Committed(1)),
        5 => settle(epoch, Settlement::Rejected),
        6 => settle(epoch, Settlement::Unknown),
        7 => settle(epoch, Settlement::AwaitingInput),
        8 => settle(epoch, Settlement::HeldByTask(2)),
        9 => settle(epoch.wrapping_sub(1), Settlement::Committed(3)),
        10 => drop(slot.as_mut().map(|record| record.renew(epoch, *now))),
        11 => drop(slot.as_mut().map(|record| record.reconcile(Resolution::Committed(4), *now))),
        12 => drop(slot.as_mut().map(|record| record.reconcile(Resolution::Rejected, *now))),
        13 => now.up = now.up.saturating_add(LEASE),
        _ => now.boot += 1,
    }
    None
}

/// What a judge of the promises needs to know: who may have been executed, of those that were let run.
#[derive(Clone, Copy)]
struct Doubt {
    /// An attempt or leg before the last.
    earlier: bool,
    /// The last.
    last: bool,
}

/// All strings of inputs up to a length on one key, judged by the promises and not by the implementation.
fn explore(slot: &Slot, now: Stamp, doubt: Doubt, depth: u32, strings: &mut u32) {
    *strings += 1;
    if depth == 0 {
        return;
    }
    let open = doubt.earlier || doubt.last;
    for input in 0..INPUTS {
        let (mut after, mut later) = (slot.clone(), now);
        let verdict = feed(&mut after, input, &mut later);
        let was = slot.as_ref().map(|record| record.state.as_str());
        let is = after.as_ref().map(|record| record.state.as_str());
        let bound = slot.as_ref().is_some_and(|it| it.fingerprint == if input < 2 { A } else { B });
        let mut next = doubt;
        match &verdict {
            Some(Verdict::Run { epoch, again }) => {
                let before = slot.as_ref().map_or(0, |record| record.epoch);
                assert_eq!(*epoch, before + 1, "I-10: each claim has an epoch of its own");
                assert!(!open || bound, "I-08");
                let is_leg = was == Some("awaiting_input");
                assert!(!open || is_leg || *again, "I-12: what may have happened is not silently repeated");
                assert!(
                    !again || input % 2 == 1,
                    "ruling 1: only an upstream that enforces the key is asked again"
                );
                let own = if input < 2 { A } else { B };
                assert!(
                    after.as_ref().is_some_and(|it| it.fingerprint == own),
                    "I-08: who runs binds the key"
                );
                next = Doubt { earlier: open, last: true };
            }
            Some(Verdict::Mismatch) => {
                assert_ne!(is, Some("rejected"), "ruling 15: rejected frees the fingerprint");
                assert!(!bound, "I-08");
            }
            Some(Verdict::Replay(answer)) => {
                assert!(bound && is == Some("committed"), "I-08");
                assert_eq!(
                    slot.as_ref().map(|it| it.state.clone()),
                    Some(State::Committed { answer: *answer })
                );
            }
            Some(Verdict::Join | Verdict::JoinTask(_) | Verdict::Unknown) => assert!(open && bound),
            None => {}
        }
        if let (Some(before), Some(after)) = (slot, &after) {
            assert!(was != Some("committed") || before == after, "I-09: committed never changes");
            let rebound = before.fingerprint != after.fingerprint;
            assert!(!rebound || was == Some("rejected"), "I-08: one key, one fingerprint");
        }
        if input == 5 && matches!(was, Some("claimed" | "held_by_task" | "unknown")) {
            next.last = false;
            assert_eq!(
                is == Some("rejected"),
                !next.earlier,
                "ruling 2: every attempt and leg was, or it is not"
            );
        }
        if was != is && is == Some("committed") {
            assert!(open && input != 9, "only what ran is committed, and not under a stale epoch (I-10)");
        }
        if was != is && is == Some("rejected") {
            assert!(
                input == 12 || !next.earlier && !next.last,
                "ruling 2: every attempt and leg was rejected"
            );
        }
        if matches!(is, Some("committed" | "rejected")) {
            next = Doubt { earlier: false, last: false };
        }
        assert!(next.earlier || next.last || !matches!(is, Some("claimed" | "unknown")));
        explore(&after, later, next, depth - 1, strings);
    }
}

#[test]
fn g7_every_string_of_five_inputs_keeps_the_promises() {
    let mut strings = 0;
    explore(&None, at(0), Doubt { earlier: false, last: false }, 5, &mut strings);
    assert_eq!(strings, (0..=5).map(|length| 15_u32.pow(length)).sum::<u32>());
}
