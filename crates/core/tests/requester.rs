//! What a requester promises, one test a promise.

use std::time::Duration;

use steadfast_core::exchange::requester::{End, Input, Output};
use steadfast_core::exchange::{
    CancelSignal, Clock, Ignored, Limits, LimitsError, Operation, Progress, Reply, Requester, Spec, Terminal,
    TimerKind,
};
use steadfast_core::hop::{Era, Hop, Transport};
use steadfast_core::time::{Instant, Now};

const STDIO: Hop = Hop::ALL[0];

fn spec(hop: Hop) -> Spec {
    Spec {
        id: 7.into(),
        operation: Operation::Ordinary,
        hop,
        limits: Limits::new(Duration::from_millis(500), Duration::from_millis(2000)).unwrap(),
        token: Some("t".into()),
        progress_interval: Duration::ZERO,
    }
}

fn sent(spec: Spec) -> Requester<&'static str> {
    let mut exchange = Requester::start(Now::at_millis(0), spec);
    exchange.handle(Now::at_millis(0), Input::Sent);
    assert_eq!(exchange.poll_output(), None);
    exchange
}

fn at(
    exchange: &mut Requester<&'static str>,
    millis: u64,
    input: Input<&'static str>,
) -> Vec<Output<&'static str>> {
    exchange.handle(Now::at_millis(millis), input);
    std::iter::from_fn(|| exchange.poll_output()).collect()
}

fn tick(exchange: &mut Requester<&'static str>, millis: u64) -> Vec<Output<&'static str>> {
    exchange.handle_timeout(Now::at_millis(millis));
    std::iter::from_fn(|| exchange.poll_output()).collect()
}

fn progress(value: f64) -> Input<&'static str> {
    Input::Progress("t".into(), Progress::of(value).unwrap())
}

fn answer() -> Input<&'static str> {
    Input::Response(Reply::Result("done"))
}

fn cancel() -> Input<&'static str> {
    Input::Cancel { reason: Some("user".into()) }
}

#[test]
fn d_05_completion_first_stays_and_the_cancel_is_ignored() {
    for hop in Hop::ALL {
        let mut exchange = sent(spec(hop));
        assert_eq!(
            at(&mut exchange, 1, answer()),
            [Output::Ended(End::Answered(Reply::Result("done")))],
            "{hop:?}"
        );
        assert_eq!(at(&mut exchange, 2, cancel()), [Output::Ignored(Ignored::LateCancel)]);
        assert_eq!(exchange.terminal(), Some(Terminal::Completed));
    }
}

#[test]
fn d_05_cancel_first_signals_by_transport_and_era_and_the_response_is_late() {
    for hop in Hop::ALL {
        let mut exchange = sent(spec(hop));
        let reason = Some("user".into());
        let signal = match (hop.transport, hop.era) {
            (Transport::Stdio, _) => CancelSignal::Notification { id: 7.into(), reason },
            (Transport::Http, Era::Modern) => CancelSignal::CloseStream,
            (Transport::Http, Era::Legacy) => CancelSignal::PostNotification { id: 7.into(), reason },
        };
        assert_eq!(at(&mut exchange, 1, cancel()), [Output::Signal(signal), Output::Ended(End::Cancelled)]);
        // A stream that we closed carries no late answer; a pipe may.
        assert_eq!(exchange.is_settled(), hop.transport == Transport::Http);
        assert_eq!(at(&mut exchange, 2, cancel()), [Output::Ignored(Ignored::DuplicateCancel)]);
        assert_eq!(at(&mut exchange, 3, answer()), [Output::Ignored(Ignored::LateResponse)]);
        assert!(exchange.is_settled());
        assert_eq!(exchange.terminal(), Some(Terminal::Cancelled));
        assert_eq!(exchange.poll_timeout(), None);
    }
}

#[test]
fn can_04_a_request_that_never_left_is_not_signalled() {
    let mut exchange = Requester::start(Now::at_millis(0), spec(STDIO));
    assert_eq!(at(&mut exchange, 1, cancel()), [Output::Ended(End::Cancelled)]);
    assert!(!exchange.was_sent());
    assert!(exchange.is_settled());

    let mut exchange = Requester::<&str>::start(Now::at_millis(0), spec(STDIO));
    assert_eq!(tick(&mut exchange, 500), [Output::Ended(End::TimedOut(Clock::Idle))]);
}

#[test]
fn leg_10_an_initialize_and_amb_42_a_probe_are_given_up_without_a_signal() {
    for operation in [Operation::Initialize, Operation::Probe] {
        let mut exchange = sent(Spec { operation, ..spec(STDIO) });
        assert_eq!(tick(&mut exchange, 500), [Output::Ended(End::TimedOut(Clock::Idle))]);
        assert_eq!(at(&mut exchange, 501, answer()), [Output::Ignored(Ignored::LateResponse)]);
    }
}

#[test]
fn d_07_idle_ends_500_after_the_last_progress() {
    let mut exchange = sent(spec(STDIO));
    for (millis, value) in [(400, 1.0), (800, 2.0), (1200, 3.0)] {
        assert_eq!(at(&mut exchange, millis, progress(value)).len(), 1);
    }
    assert_eq!(exchange.poll_timeout(), Some((Instant::from_millis(1700), TimerKind::Limit(Clock::Idle))));
    assert_eq!(tick(&mut exchange, 1699), []);
    assert!(matches!(tick(&mut exchange, 1700)[..], [_, Output::Ended(End::TimedOut(Clock::Idle))]));
}

#[test]
fn d_07_progress_until_1999_does_not_move_the_maximum_at_2000() {
    let mut exchange = sent(spec(STDIO));
    for (millis, value) in [(400, 1.0), (800, 2.0), (1200, 3.0), (1600, 4.0), (1999, 5.0)] {
        assert_eq!(at(&mut exchange, millis, progress(value)).len(), 1);
        assert_eq!(exchange.terminal(), None, "alive at {millis}");
    }
    assert!(matches!(tick(&mut exchange, 2000)[..], [_, Output::Ended(End::TimedOut(Clock::Maximum))]));
}

#[test]
fn at_equal_times_the_maximum_wins() {
    let mut exchange = sent(spec(STDIO));
    for millis in [400, 800, 1200, 1500] {
        at(&mut exchange, millis, progress(millis as f64));
    }
    assert_eq!(exchange.poll_timeout(), Some((Instant::from_millis(2000), TimerKind::Limit(Clock::Maximum))));
}

#[test]
fn a_late_look_names_the_limit_that_came_first() {
    let mut exchange = sent(spec(STDIO));
    assert!(matches!(tick(&mut exchange, 9999)[..], [_, Output::Ended(End::TimedOut(Clock::Idle))]));
}

#[test]
fn i_04_an_answer_at_the_limit_is_late() {
    let mut exchange = sent(spec(STDIO));
    let outputs = at(&mut exchange, 500, answer());
    assert!(matches!(
        outputs[..],
        [
            Output::Signal(_),
            Output::Ended(End::TimedOut(Clock::Idle)),
            Output::Ignored(Ignored::LateResponse)
        ]
    ));
}

#[test]
fn f050_a_wall_clock_jump_changes_nothing() {
    let mut exchange = sent(spec(STDIO));
    let jumped = Now { mono: Instant::from_millis(499), ..Now::at_millis(12 * 3600 * 1000) };
    exchange.handle_timeout(jumped);
    assert_eq!(exchange.poll_output(), None);
    assert_eq!(exchange.terminal(), None);
}

#[test]
fn f037_progress_that_does_not_rise_is_no_sign_of_life() {
    let mut exchange = sent(spec(STDIO));
    assert_eq!(at(&mut exchange, 100, progress(1.0)).len(), 1);
    for (millis, value) in [(200, 1.0), (300, 0.5), (400, 1.0)] {
        assert_eq!(at(&mut exchange, millis, progress(value)), [Output::Ignored(Ignored::StaleProgress)]);
    }
    assert!(matches!(tick(&mut exchange, 600)[..], [_, Output::Ended(End::TimedOut(Clock::Idle))]));
}

#[test]
fn f038_progress_under_a_foreign_token_or_after_the_end_is_counted_and_ignored() {
    let mut exchange = sent(spec(STDIO));
    let foreign = Input::Progress("tool-call-4".into(), Progress::of(1.0).unwrap());
    assert_eq!(at(&mut exchange, 1, foreign), [Output::Ignored(Ignored::ForeignProgress)]);
    at(&mut exchange, 2, answer());
    for _ in 0..200 {
        assert_eq!(at(&mut exchange, 3, progress(2.0)), [Output::Ignored(Ignored::LateProgress)]);
    }
    let mut silent = sent(Spec { token: None, ..spec(STDIO) });
    assert_eq!(at(&mut silent, 1, progress(1.0)), [Output::Ignored(Ignored::ForeignProgress)]);
}

#[test]
fn i_05_the_rate_holds_back_and_never_loses_the_latest() {
    let mut exchange = sent(Spec { progress_interval: Duration::from_millis(100), ..spec(STDIO) });
    let value = |value| Output::Progress(Progress::of(value).unwrap());
    assert_eq!(at(&mut exchange, 10, progress(1.0)), [value(1.0)]);
    assert_eq!(at(&mut exchange, 20, progress(2.0)), []);
    assert_eq!(at(&mut exchange, 30, progress(3.0)), []);
    assert_eq!(exchange.poll_timeout(), Some((Instant::from_millis(110), TimerKind::Progress)));
    assert_eq!(tick(&mut exchange, 110), [value(3.0)]);
    assert_eq!(at(&mut exchange, 120, progress(4.0)), []);
    assert_eq!(
        at(&mut exchange, 130, answer()),
        [value(4.0), Output::Ended(End::Answered(Reply::Result("done")))]
    );
}

#[test]
fn i_02_held_progress_dies_with_a_cancel() {
    let mut exchange = sent(Spec { progress_interval: Duration::from_millis(100), ..spec(STDIO) });
    at(&mut exchange, 10, progress(1.0));
    at(&mut exchange, 20, progress(2.0));
    assert!(matches!(
        at(&mut exchange, 30, cancel())[..],
        [Output::Signal(_), Output::Ended(End::Cancelled)]
    ));
    assert_eq!(tick(&mut exchange, 110), []);
}

#[test]
fn f031_a_stream_that_ends_without_an_answer_ends_the_request() {
    let mut exchange = sent(spec(Hop::ALL[2]));
    at(&mut exchange, 1, progress(1.0));
    assert_eq!(at(&mut exchange, 2, Input::Lost), [Output::Ended(End::Lost)]);
    assert_eq!(at(&mut exchange, 3, Input::Lost), [Output::Ignored(Ignored::LateLoss)]);
    assert_eq!(at(&mut exchange, 3, cancel()), [Output::Ignored(Ignored::LateCancel)]);
}

#[test]
fn can_14_a_server_cancel_ends_a_listen_on_stdio_and_nothing_else() {
    for hop in Hop::ALL {
        for operation in [Operation::Ordinary, Operation::Listen, Operation::Initialize] {
            let mut exchange = sent(Spec { operation, ..spec(hop) });
            let outputs = at(&mut exchange, 1, Input::PeerCancelled);
            if operation == Operation::Listen && hop.transport == Transport::Stdio {
                assert_eq!(outputs, [Output::Ended(End::CancelledByPeer)]);
                assert_eq!(
                    at(&mut exchange, 2, Input::PeerCancelled),
                    [Output::Ignored(Ignored::LateCancel)]
                );
            } else {
                assert_eq!(outputs, [Output::Ignored(Ignored::ForbiddenCancel)]);
                assert_eq!(exchange.terminal(), None);
            }
        }
    }
}

#[test]
fn tmo_08_a_listen_has_no_clocks() {
    let mut exchange = sent(Spec { operation: Operation::Listen, ..spec(STDIO) });
    assert_eq!(exchange.poll_timeout(), None);
    assert_eq!(tick(&mut exchange, u64::MAX / 2_000_000), []);
    assert_eq!(exchange.terminal(), None);
}

#[test]
fn limits_are_positive_and_the_maximum_is_not_below_idle() {
    let ms = Duration::from_millis;
    assert_eq!(Limits::new(ms(0), ms(5)), Err(LimitsError::Zero(Clock::Idle)));
    assert_eq!(Limits::new(ms(5), ms(0)), Err(LimitsError::Zero(Clock::Maximum)));
    assert_eq!(
        Limits::new(ms(6), ms(5)),
        Err(LimitsError::IdleBeyondMaximum { idle: ms(6), maximum: ms(5) })
    );
    assert!(Limits::new(ms(5), ms(5)).is_ok());
    assert_eq!(Progress::of(f64::NAN), None);
    assert_eq!(Progress::of(f64::INFINITY), None);
}

#[test]
fn cch_32_absurd_limits_do_not_overflow() {
    let limits = Limits::new(Duration::MAX, Duration::MAX).unwrap();
    let mut exchange = sent(Spec { limits, ..spec(STDIO) });
    assert_eq!(tick(&mut exchange, 1_000_000), []);
}

#[test]
fn g5_held_back_progress_that_is_due_is_not_handed_on_after_the_cancel() {
    let mut exchange = sent(Spec { progress_interval: Duration::from_millis(100), ..spec(STDIO) });
    assert_eq!(at(&mut exchange, 1, progress(1.0)).len(), 1);
    assert_eq!(at(&mut exchange, 2, progress(2.0)), []);
    let outputs = at(&mut exchange, 105, cancel());
    assert!(!outputs.iter().any(|output| matches!(output, Output::Progress(_))), "{outputs:?}");
}

// shows: TMO-09
#[test]
fn ruling_18_the_time_of_a_person_is_in_neither_clock() {
    let mut exchange = sent(spec(STDIO));
    assert_eq!(at(&mut exchange, 400, Input::Held), []);
    assert_eq!(exchange.poll_timeout(), None);
    assert_eq!(tick(&mut exchange, 60_000), []);
    // Progress meanwhile is a sign of life, and lengthens nothing but the idle clock.
    assert!(matches!(at(&mut exchange, 60_000, progress(1.0))[..], [Output::Progress(_)]));
    assert_eq!(at(&mut exchange, 100_000, Input::Released), []);
    let idle = (Instant::from_millis(100_500), TimerKind::Limit(Clock::Idle));
    assert_eq!(exchange.poll_timeout(), Some(idle));
    for (millis, value) in [(100_400, 2.0), (100_800, 3.0), (101_200, 4.0), (101_500, 5.0)] {
        assert!(matches!(at(&mut exchange, millis, progress(value))[..], [Output::Progress(_)]));
    }
    // 400 ms before the question, 1,600 ms after it.
    assert_eq!(tick(&mut exchange, 101_599), []);
    assert_eq!(tick(&mut exchange, 101_600).len(), 2);
    assert_eq!(exchange.terminal(), Some(Terminal::TimedOut(Clock::Maximum)));
    // An answer to a question of an ended request moves nothing.
    assert_eq!(at(&mut exchange, 101_700, Input::Released), []);
}
