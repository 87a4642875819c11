//! What a responder promises, one test a promise.

use std::time::Duration;

use steadfast_core::exchange::responder::{Answer, CancelListenError, Input, Output};
use steadfast_core::exchange::{
    Clock, Ignored, Limits, Operation, Progress, Reply, Responder, Spec, Terminal,
};
use steadfast_core::hop::{Era, Hop, Transport};
use steadfast_core::time::Now;

const STDIO: Hop = Hop::ALL[0];

fn spec(hop: Hop) -> Spec {
    Spec {
        id: "req-1".into(),
        operation: Operation::Ordinary,
        hop,
        limits: Limits::new(Duration::from_millis(500), Duration::from_millis(2000)).unwrap(),
        token: Some(1.into()),
        progress_interval: Duration::ZERO,
    }
}

fn started(spec: Spec) -> Responder<&'static str> {
    Responder::start(Now::at_millis(0), spec)
}

fn at(
    exchange: &mut Responder<&'static str>,
    millis: u64,
    input: Input<&'static str>,
) -> Vec<Output<&'static str>> {
    exchange.handle(Now::at_millis(millis), input);
    drain(exchange)
}

fn drain(exchange: &mut Responder<&'static str>) -> Vec<Output<&'static str>> {
    std::iter::from_fn(|| exchange.poll_output()).collect()
}

fn finished() -> Input<&'static str> {
    Input::Finished(Reply::Result("done"))
}

fn progress(value: f64) -> Input<&'static str> {
    Input::Progress(Progress::of(value).unwrap())
}

#[test]
fn can_07_after_a_cancel_nothing_more_is_sent() {
    let mut exchange = started(spec(STDIO));
    assert_eq!(
        at(&mut exchange, 1, Input::Cancelled),
        [Output::Ended(Terminal::Cancelled), Output::StopHandler]
    );
    assert_eq!(at(&mut exchange, 2, progress(1.0)), [Output::Ignored(Ignored::LateProgress)]);
    assert_eq!(at(&mut exchange, 3, finished()), [Output::Ignored(Ignored::LateResponse)]);
    assert_eq!(at(&mut exchange, 4, Input::Cancelled), [Output::Ignored(Ignored::DuplicateCancel)]);
}

#[test]
fn a_cancelled_id_stays_occupied_until_its_handler_ended() {
    let mut exchange = started(spec(STDIO));
    at(&mut exchange, 1, Input::Cancelled);
    assert!(!exchange.is_settled());
    assert_eq!(at(&mut exchange, 2, Input::HandlerEnded), []);
    assert!(exchange.is_settled());
}

#[test]
fn d_05_completion_first_keeps_the_response() {
    let mut exchange = started(spec(STDIO));
    assert_eq!(
        at(&mut exchange, 1, finished()),
        [Output::Respond(Answer::Reply(Reply::Result("done"))), Output::Ended(Terminal::Completed)]
    );
    assert_eq!(at(&mut exchange, 2, Input::Cancelled), [Output::Ignored(Ignored::LateCancel)]);
    assert_eq!(exchange.terminal(), Some(Terminal::Completed));
}

#[test]
fn can_05_a_disconnect_is_a_cancel_except_on_legacy_http() {
    for hop in Hop::ALL {
        let mut exchange = started(spec(hop));
        let outputs = at(&mut exchange, 1, Input::Disconnected);
        if (hop.transport, hop.era) == (Transport::Http, Era::Legacy) {
            assert_eq!(outputs, [Output::Ignored(Ignored::DisconnectWithoutMeaning)]);
            // The work goes on, and its answer may be fetched by resuming.
            assert_eq!(at(&mut exchange, 2, finished()).len(), 2);
        } else {
            assert_eq!(outputs, [Output::Ended(Terminal::Cancelled), Output::StopHandler]);
        }
    }
}

#[test]
fn leg_10_an_initialize_is_not_cancelled() {
    let mut exchange = started(Spec { operation: Operation::Initialize, ..spec(STDIO) });
    assert_eq!(at(&mut exchange, 1, Input::Cancelled), [Output::Ignored(Ignored::ForbiddenCancel)]);
    assert_eq!(at(&mut exchange, 2, finished()).len(), 2);
}

#[test]
fn tmo_12_a_limit_answers_the_peer_that_still_waits_and_stops_the_handler() {
    let mut exchange = started(spec(STDIO));
    exchange.handle_timeout(Now::at_millis(499));
    assert_eq!(drain(&mut exchange), []);
    exchange.handle_timeout(Now::at_millis(500));
    assert_eq!(
        drain(&mut exchange),
        [
            Output::Respond(Answer::TimedOut(Clock::Idle)),
            Output::Ended(Terminal::TimedOut(Clock::Idle)),
            Output::StopHandler
        ]
    );
    assert_eq!(at(&mut exchange, 501, finished()), [Output::Ignored(Ignored::LateResponse)]);
}

#[test]
fn prg_07_without_a_token_there_is_no_progress() {
    let mut exchange = started(Spec { token: None, ..spec(STDIO) });
    assert_eq!(at(&mut exchange, 1, progress(1.0)), [Output::Ignored(Ignored::ForeignProgress)]);
}

#[test]
fn a_handler_that_ends_without_an_answer_is_answered_for() {
    let mut exchange = started(spec(STDIO));
    assert_eq!(
        at(&mut exchange, 1, Input::HandlerEnded),
        [Output::Respond(Answer::NoAnswer), Output::Ended(Terminal::Failed)]
    );
    assert!(exchange.is_settled());
}

#[test]
fn d_04_only_a_listen_in_progress_on_stdio_is_ended_by_the_server() {
    for hop in Hop::ALL {
        let mut ordinary = started(spec(hop));
        assert_eq!(ordinary.cancel_listen(Now::at_millis(1), None), Err(CancelListenError::NotAListen));
        assert_eq!(ordinary.terminal(), None);

        let mut listen = started(Spec { operation: Operation::Listen, ..spec(hop) });
        let outcome = listen.cancel_listen(Now::at_millis(1), None);
        match hop.transport {
            Transport::Http => assert_eq!(outcome, Err(CancelListenError::NotOnStdio)),
            Transport::Stdio => {
                assert_eq!(outcome, Ok(()));
                assert_eq!(
                    drain(&mut listen),
                    [
                        Output::CancelListen { reason: None },
                        Output::Ended(Terminal::Cancelled),
                        Output::StopHandler
                    ]
                );
                let again = listen.cancel_listen(Now::at_millis(2), None);
                assert_eq!(again, Err(CancelListenError::Ended));
                assert_eq!(drain(&mut listen), []);
            }
        }
    }
}

#[test]
fn amb_01_a_graceful_end_of_a_listen_on_stdio_is_the_result_and_then_the_notification() {
    for hop in Hop::ALL {
        let mut listen = started(Spec { operation: Operation::Listen, ..spec(hop) });
        let outputs = at(&mut listen, 1, finished());
        let result = Output::Respond(Answer::Reply(Reply::Result("done")));
        let ended = Output::Ended(Terminal::Completed);
        match hop.transport {
            Transport::Stdio => assert_eq!(outputs, [result, Output::CancelListen { reason: None }, ended]),
            Transport::Http => assert_eq!(outputs, [result, ended]),
        }
    }
}

#[test]
fn i_24_at_rest_no_timer_remains() {
    for input in [finished(), Input::Cancelled, Input::HandlerEnded, Input::Disconnected] {
        let mut exchange = started(spec(STDIO));
        assert!(exchange.poll_timeout().is_some());
        at(&mut exchange, 1, input);
        assert_eq!(exchange.poll_timeout(), None);
    }
}

#[test]
fn can_07_held_back_progress_that_is_due_does_not_leave_after_the_cancel() {
    let mut exchange = started(Spec { progress_interval: Duration::from_millis(100), ..spec(STDIO) });
    assert_eq!(at(&mut exchange, 1, progress(1.0)).len(), 1);
    assert_eq!(at(&mut exchange, 2, progress(2.0)), []);
    // It has been due since 101, and the driver had not come to it yet.
    assert_eq!(
        at(&mut exchange, 105, Input::Cancelled),
        [Output::Ended(Terminal::Cancelled), Output::StopHandler]
    );
}
