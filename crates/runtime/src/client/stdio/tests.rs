//! One connection to real children, seen from the seam. Children and their ends take real time, so limits are generous
//! where they are not the subject.

use std::time::{Duration, Instant};

use steadfast_core::exchange::requester::Input;
use steadfast_core::exchange::{CancelSignal, Limits, Operation, Reply, Spec};
use steadfast_core::hop::Hop;
use steadfast_core::ids::RequestId;
use steadfast_core::policy::Failure;
use tokio::time::timeout;

use super::*;
use crate::client::leg::Inbound;

/// What every script begins with: `say` writes a line, `hear` reads one.
const PRELUDE: &str = "
import json, os, signal, sys, time
def say(line, end='\\n'):
    sys.stdout.write((line if isinstance(line, str) else json.dumps(line)) + end); sys.stdout.flush()
def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)
def answer(id, result):
    say({'jsonrpc': '2.0', 'id': id, 'result': result})
def note(method, **params):
    say({'jsonrpc': '2.0', 'method': method, 'params': params})
def of(id, **params):
    note('notifications/tools/list_changed', _meta={'io.modelcontextprotocol/subscriptionId': id}, **params)
";

const LONG: Duration = Duration::from_secs(20);

fn command(script: &str) -> Command {
    let args = ["-I", "-S", "-c", &format!("{PRELUDE}{script}")].map(Into::into).to_vec();
    Command { program: "python3".into(), args, env: Vec::new(), cwd: None }
}

async fn start_with(script: &str, write_stall: Duration) -> (Connection, mpsc::Receiver<Inbound>) {
    let (inbox, inbound) = Inbox::new();
    let command = command(script);
    let program = check(&command).unwrap();
    (Connection::start(&command, program, write_stall, inbox).await.unwrap(), inbound)
}

async fn start(script: &str) -> (Connection, mpsc::Receiver<Inbound>) {
    start_with(script, LONG).await
}

fn leg(connection: &Connection, id: i64, operation: Operation, params: &str) -> Leg {
    let id = RequestId::from(id);
    let hop = Hop::ALL[0];
    let spec =
        Spec { id, operation, hop, limits: Limits::NONE, token: None, progress_interval: Duration::ZERO };
    connection.leg(Outgoing { spec: &spec, method: "tools/call", params, headers: Vec::new() })
}

/// Sends a request, and gives what hears of it.
async fn send(connection: &Connection, id: i64, operation: Operation, params: &str) -> mpsc::Receiver<Heard> {
    let leg = leg(connection, id, operation, params);
    leg.prepare.await.unwrap()();
    leg.heard
}

async fn call(connection: &Connection, id: i64) -> mpsc::Receiver<Heard> {
    send(connection, id, Operation::Ordinary, "{}").await
}

async fn next<T>(from: &mut mpsc::Receiver<T>) -> Option<T> {
    timeout(LONG, from.recv()).await.expect("something is said in time")
}

/// A result, as text.
async fn result(heard: &mut mpsc::Receiver<Heard>) -> String {
    match next(heard).await {
        Some(Heard::Input(Input::Response(Reply::Result(result)), _)) => {
            String::from_utf8(result.to_vec()).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// The sentence of a loss, which is the last thing that is heard.
async fn loss(heard: &mut mpsc::Receiver<Heard>) -> String {
    let Some(Heard::Input(Input::Lost, detail)) = next(heard).await else { panic!("it was not lost") };
    assert_eq!(detail.failure, Some(Failure::ConnectionLost));
    assert!(next(heard).await.is_none(), "an end is the last that is heard");
    detail.remark.unwrap()
}

fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

// shows: STD-20, F061, F064
#[tokio::test]
async fn std_20_what_is_no_message_is_counted_told_and_read_over() {
    let (connection, mut inbound) = start(
        "
say('Server v1 listening'); say('\\x1b[32mready\\x1b[0m'); say(''); say('{\"level\":\"info\"}'); say('{]')
say('x' * ((16 << 20) + 1)); say('[]')
id = hear()['id']
for line in range(30): say('noise')
say('{\"id\":', end=''); say('1,\"jsonrpc\":\"2.0\",\"result\":{\"in\":\"two\"}}\\r'); say('half a li', end='')
",
    )
    .await;
    let mut heard = call(&connection, 1).await;
    assert_eq!(result(&mut heard).await, r#"{"in":"two"}"#);
    assert!(connection.gone().await.why.contains("exited with code 0"));
    connection.close(Duration::from_secs(2)).await;
    drop(connection);
    let mut told = Vec::new();
    while let Some(Inbound::Noise { what }) = next(&mut inbound).await {
        told.push(what);
    }
    for (told, part) in told.iter().zip([
        "no message (number 1)",
        "no message (number 2)",
        "cannot be read",
        "cannot be read",
        "16777217 bytes",
        "cannot be read",
        "no message (number 7)",
        "no message (number 8)",
        "no message (number 16)",
        "no message (number 32)",
    ]) {
        assert!(told.contains(part), "{told:?} lacks {part:?}");
    }
    assert_eq!(told.len(), 10, "the rest is only counted: {told:?}");
}

#[tokio::test]
async fn f061_a_child_that_only_makes_noise_is_given_up_at_a_limit() {
    let (connection, _inbound) = start("hear()\nwhile True: say('noise')").await;
    let mut heard = call(&connection, 1).await;
    assert!(loss(&mut heard).await.contains("no messages"));
    connection.close(Duration::from_secs(2)).await;
}

// shows: F014, MSG-07, MSG-10
#[tokio::test]
async fn f013_an_answer_is_matched_by_its_id_alone_and_others_are_told_as_strays() {
    let (connection, mut inbound) = start(
        "
first, second = hear()['id'], hear()['id']
answer('1', {'of': 'another type'}); answer(99, {}); answer(second, {'n': 2})
say({'jsonrpc': '2.0', 'id': None, 'error': {'code': -32603, 'message': 'x'}})
say({'jsonrpc': '2.0', 'error': {'code': -32700, 'message': 'x'}})
answer(second, {'again': True}); answer(first, {'n': 1}); answer(3, {'late': True})
hear()
",
    )
    .await;
    let (mut first, mut second) = (call(&connection, 1).await, call(&connection, 2).await);
    assert_eq!(result(&mut second).await, r#"{"n": 2}"#);
    assert_eq!(result(&mut first).await, r#"{"n": 1}"#);
    for stray in [Some("1".into()), Some(99.into()), None, None, Some(2.into()), Some(3.into())] {
        let Some(Inbound::Stray { id }) = next(&mut inbound).await else { panic!("no stray") };
        assert_eq!(id, stray);
    }
    assert!(next(&mut first).await.is_none() && next(&mut second).await.is_none());
    connection.close(Duration::from_secs(5)).await;
}

// shows: SUB-09, CAN-14
#[tokio::test]
async fn std_10_what_a_subscription_is_told_goes_to_the_one_it_names() {
    let (connection, mut inbound) = start(
        "
ids = [hear()['id'] for _ in range(3)]
of(2, n=1); of(1, n=2); of('1', n=3); of(3, n=4); of(77, n=5); note('notifications/tools/list_changed', n=6)
note('notifications/cancelled', requestId=3); note('notifications/cancelled', requestId=77)
note('notifications/cancelled', requestId=1); of(2, n=7)
hear()
",
    )
    .await;
    let mut one = send(&connection, 1, Operation::Listen, "{}").await;
    let mut two = send(&connection, 2, Operation::Listen, "{}").await;
    let mut ordinary = call(&connection, 3).await;
    let numbered =
        |params: &Bytes| serde_json::from_slice::<serde_json::Value>(params).unwrap()["n"].as_u64();
    for (heard, numbers) in [(&mut one, vec![2]), (&mut two, vec![1, 7])] {
        for number in numbers {
            let Some(Heard::Note { method, params }) = next(heard).await else { panic!("no note") };
            assert_eq!(
                (method.as_str(), numbered(&params)),
                ("notifications/tools/list_changed", Some(number))
            );
        }
    }
    assert!(matches!(next(&mut one).await, Some(Heard::Input(Input::PeerCancelled, _))));
    let Some(Inbound::Notification { params, .. }) = next(&mut inbound).await else {
        panic!("no notification")
    };
    assert_eq!(numbered(&params), Some(6));
    for taken_back in [3, 77] {
        let Some(Inbound::Withdrawn { id }) = next(&mut inbound).await else {
            panic!("nothing was taken back")
        };
        assert_eq!(id, RequestId::from(taken_back));
    }
    connection.close(Duration::from_secs(5)).await;
    // An ordinary request is told nothing of all this but the loss.
    assert!(matches!(next(&mut ordinary).await, Some(Heard::Input(Input::Lost, _))));
}

#[tokio::test]
async fn std_10_a_listener_that_is_too_slow_loses_its_subscription_and_not_a_notice() {
    let (connection, mut inbound) = start(
        "
id = hear()['id']
for n in range(100): of(id, n=n)
note('heard', cancelled=hear())
hear()
",
    )
    .await;
    let mut slow = send(&connection, 1, Operation::Listen, "{}").await;
    let Some(Inbound::Notification { params, .. }) = next(&mut inbound).await else {
        panic!("no cancel was heard")
    };
    let params = String::from_utf8(params.to_vec()).unwrap();
    assert!(params.contains("notifications/cancelled") && params.contains(r#""requestId": 1"#), "{params}");
    let mut notes = 0;
    while let Some(Heard::Note { params, .. }) = next(&mut slow).await {
        let text = String::from_utf8(params.to_vec()).unwrap();
        assert!(text.contains(&format!(r#""n": {notes}}}"#)), "{text}: none is skipped");
        notes += 1;
    }
    assert_eq!(notes, EVENT_QUEUE);
    connection.close(Duration::from_secs(5)).await;
}

// shows: PRG-09
#[tokio::test]
async fn f014_progress_goes_to_the_request_of_its_token() {
    let (connection, _inbound) = start(
        "
ids = [hear()['id'] for _ in range(2)]
for token in ['p-2', 'p-1', 1, 'p-9', 'x']: note('notifications/progress', progressToken=token, progress=1)
for _ in range(200): note('notifications/progress', progressToken='p-2', progress=2)
answer(1, {}); answer(2, {})
hear()
",
    )
    .await;
    let (mut one, mut two) = (call(&connection, 1).await, call(&connection, 2).await);
    assert!(matches!(next(&mut one).await, Some(Heard::Input(Input::Progress(..), _))));
    assert_eq!(result(&mut one).await, "{}");
    // The other is slow: of its progress some is lost, its answer is not.
    let mut progress = 0;
    while let Some(Heard::Input(Input::Progress(..), _)) = two.recv().await {
        progress += 1;
    }
    assert_eq!(progress, EVENT_QUEUE);
    connection.close(Duration::from_secs(5)).await;
}

// shows: STD-18, STD-05, STD-06, I-26, G12
#[tokio::test]
async fn std_18_the_end_of_the_process_is_the_end_of_every_request_and_told_with_its_last_words() {
    for (end, words) in [
        ("sys.exit(3)", "exited with code 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by signal: 9 (SIGKILL)"),
        ("os.close(1); time.sleep(600)", "closed its stdout"),
        ("os.close(0); time.sleep(600)", "closed its stdin"),
    ] {
        let script = format!(
            "
print('warning: all is well', file=sys.stderr, flush=True)
hear(); hear(); answer(1, {{}}); print('boom', file=sys.stderr, flush=True)
{end}
"
        );
        let (connection, _inbound) = start(&script).await;
        let (mut one, mut two) = (call(&connection, 1).await, call(&connection, 2).await);
        let mut waiting = leg(&connection, 3, Operation::Ordinary, "{}");
        assert_eq!(result(&mut one).await, "{}", "what stderr says is no failure");
        if words.contains("stdin") {
            // Only a write shows it.
            for _ in 0..50 {
                connection.notify("notifications/nothing", "{}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let sentence = loss(&mut two).await;
        assert!(sentence.contains(words) && sentence.ends_with("boom"), "{sentence}");
        assert!(loss(&mut waiting.heard).await.contains(words), "one that was not sent yet is told too");
        let gone = connection.gone().await;
        assert_eq!((gone.why.as_str(), gone.by_us), (sentence.as_str(), false));
        // What comes now is told at once, and nothing of it leaves.
        let late = leg(&connection, 4, Operation::Ordinary, "{}").prepare.await.err().unwrap();
        assert_eq!(late.failure, Some(Failure::NothingLeft));
        assert_eq!(late.remark, Some(sentence));
        connection.close(Duration::from_secs(2)).await;
        assert!(connection.end().unwrap().0 < LONG);
    }
}

#[tokio::test]
async fn f076_a_child_that_exits_before_the_first_write_loses_that_connection_and_no_more() {
    let (connection, _inbound) = start("sys.exit(7)").await;
    assert!(connection.gone().await.why.contains("exited with code 7"));
    for id in 0..100 {
        let leg = leg(&connection, id, Operation::Ordinary, "{}");
        assert!(leg.prepare.await.is_err());
    }
    connection.notify("notifications/nothing", "{}");
    connection.close(Duration::from_secs(2)).await;
    assert!(connection.shared.table().len() <= 100);
}

#[tokio::test]
async fn std_07_stderr_is_drained_whatever_comes() {
    let (connection, _inbound) = start(
        "
id = hear()['id']
for _ in range(64): sys.stderr.write('x' * 65536)
sys.stderr.flush(); answer(id, {})
hear()
",
    )
    .await;
    assert_eq!(result(&mut call(&connection, 1).await).await, "{}");
    connection.close(Duration::from_secs(5)).await;
}

// shows: STD-01, STD-03, STD-11, F025, CAN-03
#[tokio::test]
async fn std_25_writers_do_not_mix_and_a_caller_who_gives_up_leaves_no_half_line() {
    const CALLS: i64 = 40;
    let (connection, _inbound) = start(
        "
lengths, cancelled, last = {}, set(), None
while len(lengths) < 40 or len(cancelled) < 20:
    message = hear()
    if message.get('method') == 'notifications/cancelled': cancelled.add(message['params']['requestId'])
    else: lengths[message['id']] = len(message['params']['text'])
for id in sorted(set(lengths) - cancelled): answer(id, {'length': lengths[id]})
hear()
",
    )
    .await;
    let connection = Arc::new(connection);
    let mut calls = Vec::new();
    for id in 0..CALLS {
        let connection = Arc::clone(&connection);
        calls.push(tokio::spawn(async move {
            let params = serde_json::json!({ "text": "x".repeat(200_000 + id as usize) }).to_string();
            let mut leg = leg(&connection, id, Operation::Ordinary, &params);
            (&mut leg.prepare).await.unwrap()();
            if id % 2 == 0 {
                // In the middle of its line, for all it knows.
                (leg.signal)(&CancelSignal::Notification { id: id.into(), reason: None });
                return;
            }
            assert_eq!(result(&mut leg.heard).await, format!(r#"{{"length": {}}}"#, 200_000 + id));
        }));
    }
    for call in calls {
        call.await.unwrap();
    }
    connection.close(Duration::from_secs(5)).await;
}

// shows: F025, CAN-03
#[tokio::test]
async fn i_26_a_child_that_takes_nothing_is_declared_lost_and_nobody_waits_to_tell_it_so() {
    let (connection, mut inbound) =
        start_with("note('ready', pid=os.getpid()); time.sleep(600)", Duration::from_millis(300)).await;
    let Some(Inbound::Notification { params, .. }) = next(&mut inbound).await else {
        panic!("it is not ready")
    };
    let pid = serde_json::from_slice::<serde_json::Value>(&params).unwrap()["pid"].as_u64().unwrap() as u32;
    let mut pending = call(&connection, 1).await;
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 20));
    let mut large = send(&connection, 2, Operation::Ordinary, &large).await;
    let begun = Instant::now();
    for id in 3..500 {
        let mut leg = leg(&connection, id, Operation::Ordinary, "{}");
        (leg.signal)(&CancelSignal::Notification { id: id.into(), reason: None });
    }
    assert!(begun.elapsed() < Duration::from_millis(300), "to cancel is to wait for nothing");
    for heard in [&mut pending, &mut large] {
        let sentence = loss(heard).await;
        assert!(sentence.contains("took no byte of what was written to it for 300ms"), "{sentence}");
    }
    connection.close(Duration::from_millis(800)).await;
    assert!(connection.ended.is_cancelled() && !runs(pid));
}

// shows: LEG-13
#[tokio::test]
async fn std_12_stdin_closes_first_then_it_is_terminated_then_killed_each_in_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    let trace = format!("trace = open({file:?}, 'wb', buffering=0)\nnote('ready', pid=os.getpid())\n");
    let obeys = "sys.stdin.read(); trace.write(b'end')";
    let terminated = "
def term(*_): trace.write(b'term '); sys.exit(0)
signal.signal(signal.SIGTERM, term)
sys.stdin.read(); trace.write(b'end '); time.sleep(600)";
    let stubborn = "
signal.signal(signal.SIGTERM, lambda *_: trace.write(b'term '))
sys.stdin.read(); trace.write(b'end ')
while True: time.sleep(600)";
    let wedged = "
signal.signal(signal.SIGTERM, lambda *_: trace.write(b'term '))
while True: time.sleep(600)";
    for (end, expected, from_ms, to_ms) in [
        (obeys, "end", 0, 500),
        (terminated, "end term ", 500, 750),
        (stubborn, "end term ", 750, 1_000),
        (wedged, "term ", 750, 1_000),
    ] {
        let (connection, mut inbound) = start(&format!("{trace}{end}")).await;
        let Some(Inbound::Notification { params, .. }) = next(&mut inbound).await else {
            panic!("it is not ready")
        };
        let pid =
            serde_json::from_slice::<serde_json::Value>(&params).unwrap()["pid"].as_u64().unwrap() as u32;
        let wedge = expected == "term ";
        let mut pending = wedge.then(|| {
            leg(&connection, 1, Operation::Ordinary, &format!(r#"{{"t":"{}"}}"#, "x".repeat(1 << 20)))
        });
        if let Some(leg) = &mut pending {
            (&mut leg.prepare).await.unwrap()();
        }
        let begun = Instant::now();
        connection.close(Duration::from_secs(1)).await;
        let took = begun.elapsed();
        assert!(!runs(pid), "{expected:?}: it is gone");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
        // A busy machine may take longer, and nothing happens before its time.
        let (from, to) = (Duration::from_millis(from_ms), Duration::from_millis(to_ms + 450));
        assert!(from <= took && took < to, "{expected:?} took {took:?}");
        assert!(connection.gone().await.by_us);
        assert_eq!(connection.end(), None, "that was no end by itself");
    }
}

#[tokio::test]
async fn std_12_the_most_hurried_close_counts_and_dropping_the_connection_ends_the_child_too() {
    let script =
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); note('ready', pid=os.getpid()); time.sleep(600)";
    let (connection, mut inbound) = start(script).await;
    next(&mut inbound).await.unwrap();
    let begun = Instant::now();
    tokio::join!(connection.close(LONG), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        connection.close(Duration::from_millis(100)).await;
    });
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());

    let (connection, mut inbound) = start(script).await;
    let Some(Inbound::Notification { params, .. }) = next(&mut inbound).await else {
        panic!("it is not ready")
    };
    let pid = serde_json::from_slice::<serde_json::Value>(&params).unwrap()["pid"].as_u64().unwrap() as u32;
    let ended = connection.ended.clone();
    drop(connection);
    timeout(LONG, ended.cancelled()).await.unwrap();
    assert!(!runs(pid));
}

#[tokio::test]
async fn g12_a_child_gets_its_arguments_environment_and_directory_and_a_group_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().canonicalize().unwrap();
    let mut command = command(
        "
answer(hear()['id'], {'args': sys.argv[1:], 'env': os.environ['GIVEN'], 'cwd': os.getcwd(),
    'leads': os.getpgid(0) == os.getpid(), 'home': 'PATH' in os.environ})
hear()
",
    );
    command.args.extend(["$HOME", "a b", "*", ""].map(Into::into));
    command.env.push(("GIVEN".into(), "x=1; $(y)".into()));
    command.cwd = Some(here.clone());
    let (inbox, _inbound) = Inbox::new();
    let program = check(&command).unwrap();
    let connection = Connection::start(&command, program, LONG, inbox).await.unwrap();
    let answer: serde_json::Value =
        serde_json::from_str(&result(&mut call(&connection, 1).await).await).unwrap();
    let expected = serde_json::json!({
        "args": ["$HOME", "a b", "*", ""], "env": "x=1; $(y)", "cwd": here.to_str(), "leads": true, "home": true,
    });
    assert_eq!(answer, expected);
    connection.close(Duration::from_secs(5)).await;
}
