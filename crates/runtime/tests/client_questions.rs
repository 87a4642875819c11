//! A server asks before it answers: rounds of the modern era, nested requests of the legacy ones.

#[path = "client/child.rs"]
mod child;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use child::{
    Child, Process, Records, Time, call, cancelled_by, config, gathering, progress, reads, settle, text,
    token_of, words,
};
use serde_json::{Value, json};
use steadfast::client::{
    Answering, CallOptions, Category, Client, Config, Error, Handler, NoAnswer, Question,
};
use steadfast::core::error::Outcome;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// A host that declares `capabilities`, remembers what it was asked, and answers as it is told to.
struct Host {
    capabilities: &'static str,
    asked: Mutex<Vec<Question>>,
    answer: Answer,
    /// Questions that were taken back before their answer.
    dropped: AtomicUsize,
}

enum Answer {
    Says(&'static str),
    Refuses,
    /// Waits until it is released, and tells when it began.
    Waits {
        begun: mpsc::UnboundedSender<()>,
        released: Notify,
    },
}

const ACCEPT: &str = r#"{"action":"accept","content":{"sure":true}}"#;

impl Host {
    fn new(capabilities: &'static str, answer: Answer) -> Arc<Self> {
        Arc::new(Self { capabilities, asked: Mutex::default(), answer, dropped: AtomicUsize::new(0) })
    }

    fn agrees() -> Arc<Self> {
        Self::new(r#"{"elicitation":{}}"#, Answer::Says(ACCEPT))
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// Counts a question that is taken back.
struct Open<'a>(&'a Host, bool);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Handler for Host {
    fn capabilities(&self) -> String {
        self.capabilities.to_owned()
    }

    fn answer<'a>(&'a self, question: Question) -> Answering<'a> {
        self.asked.lock().unwrap().push(question);
        Box::pin(async {
            match &self.answer {
                Answer::Says(answer) => Ok((*answer).to_owned()),
                Answer::Refuses => Err(NoAnswer::Refused),
                Answer::Waits { begun, released } => {
                    let mut open = Open(self, false);
                    begun.send(()).unwrap();
                    released.notified().await;
                    open.1 = true;
                    Ok(ACCEPT.to_owned())
                }
            }
        })
    }
}

fn client(child: &Child, host: &Arc<Host>, config: Config) -> Client {
    child.builder(config).handler(Arc::clone(host) as Arc<_>).build()
}

fn question() -> Value {
    json!({ "method": "elicitation/create", "params": { "message": "sure?", "requestedSchema": {} } })
}

/// A result that asks `question` under the key `q`, with this state.
fn asks(question: &Value, state: Option<&str>) -> Value {
    let mut result = json!({ "resultType": "input_required", "inputRequests": { "q": question } });
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    result
}

fn category(error: &Error) -> (Category, Outcome) {
    match error {
        Error::Local { category, outcome, .. } | Error::Transport { category, outcome, .. } => {
            (*category, *outcome)
        }
        Error::Protocol { .. } => panic!("{error:?}"),
    }
}

/// Only three methods may be answered with a question; of any other it is an invalid response, and not asked again.
// shows: MSG-15, MRT-03
#[tokio::test]
async fn mrt_04_a_question_in_return_for_anything_else_is_an_invalid_response() {
    let _time = Time::stands_still();
    let child = Child::new();
    let host = Host::agrees();
    let client = client(&child, &host, reads());
    let ask = |method: &'static str, params: &'static str| {
        let client = client.clone();
        tokio::spawn(async move { client.request(method, params, CallOptions::default()).await })
    };
    let mut process = None;
    for (method, params) in [
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}"#,
        ),
        ("resources/templates/list", "{}"),
    ] {
        let called = ask(method, params);
        if process.is_none() {
            process = Some(child.modern().await);
        }
        let process = process.as_mut().unwrap();
        let request = process.hear(method).await;
        process.answer(&request, asks(&question(), Some("s"))).await;
        let error = called.await.unwrap().unwrap_err();
        assert_eq!(category(&error).0, Category::InvalidResponse, "{method}");
        process.heard_all(&client).await;
    }
    assert_eq!(host.asked(), 0);
    let process = process.as_mut().unwrap();
    for (method, params) in [("prompts/get", r#"{"name":"p"}"#), ("resources/read", r#"{"uri":"u:v"}"#)] {
        let called = ask(method, params);
        let request = process.hear(method).await;
        process.answer(&request, asks(&question(), Some("s"))).await;
        let request = process.hear(method).await;
        process.answer(&request, json!({ "resultType": "complete" })).await;
        called.await.unwrap().unwrap();
    }
    assert_eq!(host.asked(), 2);
}

/// Without questions it is the server that sheds load: the same again after a pause that doubles, so many times and no
/// more; and a server that never stops asking is stopped as well.
// shows: MRT-11, RTY-09
#[tokio::test]
async fn mrt_20_rounds_are_bounded_and_those_without_questions_paced() {
    let time = Time::stands_still();
    for questions in [false, true] {
        let child = Child::new();
        let host = Host::agrees();
        let (recorder, mut records) = Records::new();
        let config = Config { max_rounds: 3, ..config() };
        let client = child.builder(config).handler(Arc::clone(&host) as Arc<_>).recorder(recorder).build();
        let called = call(&client, "busy", CallOptions::default());
        let mut process = child.modern().await;
        let mut pause = Duration::from_millis(250);
        for round in 0..4 {
            let request = process.hear_call("busy").await;
            if questions {
                process.answer(&request, asks(&question(), None)).await;
                continue;
            }
            assert_eq!(request["params"].get("inputResponses"), None);
            let state = format!("s{round}");
            process.answer(&request, json!({ "resultType": "input_required", "requestState": state })).await;
            if round < 3 {
                // The answer has come once the records say so; nothing is sent before the pause is over.
                records.recv().await.unwrap();
                time.pass(pause - Duration::from_millis(2)).await;
                process.heard_all(&client).await;
                records.recv().await.unwrap();
                time.pass(Duration::from_millis(2)).await;
                pause *= 2;
            }
        }
        let error = called.await.unwrap().unwrap_err();
        assert_eq!(category(&error), (Category::Questions, Outcome::Unknown));
        assert!(error.to_string().contains("more than 3 rounds"), "{error}");
        process.heard_all(&client).await;
    }
}

/// A state is never kept for a later round, and neither are answers: what an earlier one wanted to keep is in its state.
// shows: MRT-19
#[tokio::test]
async fn mrt_14_each_round_carries_what_the_last_answer_asked_for_and_nothing_older() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = client(&child, &Host::agrees(), config());
    let called = call(&client, "ask", CallOptions::default());
    let mut process = child.modern().await;
    let first = process.hear_call("ask").await;
    assert_eq!((first["params"].get("requestState"), first["params"].get("inputResponses")), (None, None));
    process.answer(&first, asks(&question(), Some("one"))).await;
    let second = process.hear_call("ask").await;
    assert_eq!(second["params"]["requestState"], "one");
    let other = json!({ "resultType": "input_required", "inputRequests": { "other": question() } });
    process.answer(&second, other).await;
    let third = process.hear_call("ask").await;
    assert_eq!(third["params"].get("requestState"), None);
    let answers = third["params"]["inputResponses"].as_object().unwrap();
    assert_eq!(answers.keys().collect::<Vec<_>>(), ["other"]);
    process.answer(&third, text("done")).await;
    assert_eq!(words(&called.await.unwrap().unwrap()), "done");
}

/// To the byte, with its escapes as the server wrote them, though it looks like JSON, and however odd.
// shows: MRT-13, I-23
#[tokio::test]
async fn mrt_15_a_state_is_echoed_as_it_was_written() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = client(&child, &Host::agrees(), config());
    let odd = r#""\u00e9\/\uD83D\uDE00{\"n\": 1.0, \"n\":1e2}\u0000 é""#;
    let called = call(&client, "ask", CallOptions::default());
    let mut process = child.modern().await;
    let first = process.hear_call("ask").await;
    let required = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required","requestState":{odd},"inputRequests":{{"q":{}}}}}}}"#,
        first["id"],
        question()
    );
    process.say_line(&required).await;
    let line = process.line().await;
    assert!(line.contains(&format!(r#""requestState":{odd}"#)), "{line}");
    process.answer(&serde_json::from_str(&line).unwrap(), text("done")).await;
    called.await.unwrap().unwrap();
}

/// Two calls of one tool at once, asked crosswise, and a third that is asked nothing.
#[tokio::test]
async fn mrt_16_answers_and_state_stay_with_their_own_call() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = client(&child, &Host::agrees(), config());
    let start = |arguments: &'static str| {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool("ask", arguments, CallOptions::default()).await })
    };
    let calls = [start(r#"{"n":0}"#), start(r#"{"n":1}"#)];
    let mut process = child.modern().await;
    let mut requests = [process.hear_call("ask").await, process.hear_call("ask").await];
    requests.sort_by_key(|request| request["params"]["arguments"]["n"].as_i64());
    for at in [1, 0] {
        process.answer(&requests[at], asks(&question(), Some(&format!("state {at}")))).await;
    }
    let plain = start(r#"{"n":2}"#);
    for _ in 0..3 {
        let request = process.hear_call("ask").await;
        let n = request["params"]["arguments"]["n"].as_i64().unwrap();
        match n {
            2 => {
                let params = &request["params"];
                assert_eq!((params.get("requestState"), params.get("inputResponses")), (None, None));
            }
            n => assert_eq!(request["params"]["requestState"], format!("state {n}")),
        }
        process.answer(&request, text(&n.to_string())).await;
    }
    for (n, called) in calls.into_iter().chain([plain]).enumerate() {
        assert_eq!(words(&called.await.unwrap().unwrap()), n.to_string());
    }
}

/// Name and arguments to the byte; id, token and span anew; and the old token is dead.
// shows: PRG-14, MRT-17, TRC-06
#[tokio::test]
async fn mrt_19_a_further_round_repeats_the_call_under_an_id_and_a_token_of_its_own() {
    let _time = Time::stands_still();
    let child = Child::new();
    let client = client(&child, &Host::agrees(), config());
    let arguments = r#"{"b":1.0,"a":[ 1,2 ],"c":"\u00e9"}"#;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let called = {
        let (client, options) = (client.clone(), gathering(&heard));
        tokio::spawn(async move { client.call_tool("ask", arguments, options).await })
    };
    let mut process = child.modern().await;
    let mut rounds = Vec::new();
    for round in 0..3 {
        let line = process.line().await;
        assert!(line.contains(&format!(r#""arguments":{arguments}"#)), "{line}");
        let request: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(request["params"]["name"], "ask");
        rounds.push(request.clone());
        // Progress under the token of the first round is heard in that one only.
        process.say(&progress(&token_of(&rounds[0]), f64::from(round + 1))).await;
        match round {
            2 => process.answer(&request, text("done")).await,
            _ => process.answer(&request, asks(&question(), Some("s"))).await,
        }
    }
    called.await.unwrap().unwrap();
    assert_eq!(*heard.lock().unwrap(), [1.0]);
    let meta = |request: &Value, key: &str| request["params"]["_meta"][key].clone();
    for (one, other) in [(0, 1), (1, 2), (0, 2)] {
        let (one, other) = (&rounds[one], &rounds[other]);
        assert_ne!(one["id"], other["id"]);
        assert_ne!(token_of(one), token_of(other));
        let parents = [one, other].map(|it| meta(it, "traceparent").as_str().unwrap().to_owned());
        assert_eq!(parents[0][..36], parents[1][..36], "one trace");
        assert_ne!(parents[0], parents[1], "a span each");
        assert_eq!(
            meta(one, "io.modelcontextprotocol/protocolVersion"),
            meta(other, "io.modelcontextprotocol/protocolVersion")
        );
    }
}

/// A host that refuses, that cannot, or that fails sends nothing; one that declines has answered.
#[tokio::test]
async fn mrt_21_a_refusal_sends_nothing_and_a_decline_is_an_answer() {
    let _time = Time::stands_still();
    let sampling =
        json!({ "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } });
    let roots = json!({ "method": "roots/list", "params": {} });
    let all = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;
    for (host, question) in [
        (Host::new(all, Answer::Refuses), sampling),
        (Host::new(all, Answer::Says("no JSON")), roots.clone()),
        (Host::new("{}", Answer::Says(ACCEPT)), roots),
    ] {
        let child = Child::new();
        let client = client(&child, &host, config());
        let called = call(&client, "ask", CallOptions::default());
        let mut process = child.modern().await;
        let request = process.hear_call("ask").await;
        process.answer(&request, asks(&question, Some("s"))).await;
        let error = called.await.unwrap().unwrap_err();
        assert_eq!(category(&error), (Category::Questions, Outcome::Unknown), "{error}");
        process.heard_all(&client).await;
    }
    let child = Child::new();
    let client = client(&child, &Host::new(all, Answer::Says(r#"{"action":"decline"}"#)), config());
    let called = call(&client, "ask", CallOptions::default());
    let mut process = child.modern().await;
    let request = process.hear_call("ask").await;
    process.answer(&request, asks(&question(), None)).await;
    let request = process.hear_call("ask").await;
    assert_eq!(request["params"]["inputResponses"], json!({ "q": { "action": "decline" } }));
    process.answer(&request, text("as you wish")).await;
    called.await.unwrap().unwrap();
}

/// A question without `mode` is a form, which `"elicitation": {}` declares; a URL reaches only a host that declared that it
/// can ask for consent, and nobody here opens it.
// shows: MRT-35, CAP-17, CAP-19
#[tokio::test]
async fn mrt_34_a_question_without_mode_is_a_form_and_a_url_is_never_opened() {
    let _time = Time::stands_still();
    let site = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/pay", site.local_addr().unwrap());
    let by_url = json!({
        "method": "elicitation/create",
        "params": { "mode": "url", "message": "pay", "url": url, "elicitationId": "e" },
    });
    let mut by_form = question();
    by_form["params"]["mode"] = json!("form");
    for (declared, asked, reaches) in [
        (r#"{"elicitation":{}}"#, &question(), true),
        (r#"{"elicitation":{}}"#, &by_form, true),
        (r#"{"elicitation":{"form":{}}}"#, &question(), true),
        (r#"{"elicitation":{}}"#, &by_url, false),
        (r#"{"elicitation":{"form":{}}}"#, &by_url, false),
        (r#"{"elicitation":{"url":{}}}"#, &by_url, true),
        (r#"{"elicitation":{"url":{}}}"#, &question(), false),
    ] {
        let child = Child::new();
        let host = Host::new(declared, Answer::Says(r#"{"action":"accept"}"#));
        let client = client(&child, &host, config());
        let called = call(&client, "ask", CallOptions::default());
        let mut process = child.modern().await;
        let request = process.hear_call("ask").await;
        process.answer(&request, asks(asked, Some("s"))).await;
        if reaches {
            let request = process.hear_call("ask").await;
            process.answer(&request, text("done")).await;
            called.await.unwrap().unwrap();
        } else {
            let error = called.await.unwrap().unwrap_err();
            assert_eq!(category(&error).0, Category::Questions, "{declared} {asked}");
            process.heard_all(&client).await;
        }
        assert_eq!(host.asked(), usize::from(reaches), "{declared} {asked}");
    }
    let opened = tokio::select! {
        biased;
        _ = site.accept() => true,
        () = settle() => false,
    };
    assert!(!opened, "consent is the host's to ask for");
}

/// Half an hour of thinking is in no limit; a cancel meanwhile takes the question back, and nothing is sent.
// shows: TMO-09, MRT-18
#[tokio::test]
async fn tmo_09_the_time_of_a_person_is_in_no_rounds_limit_and_a_cancel_takes_the_question_back() {
    let time = Time::stands_still();
    let (begun, mut begins) = mpsc::unbounded_channel();
    let host = Host::new(r#"{"elicitation":{}}"#, Answer::Waits { begun, released: Notify::new() });
    let child = Child::new();
    let hour = Duration::from_secs(3_600);
    let client = client(&child, &host, Config { question_limit: hour, ..config() });
    let called = call(&client, "ask", CallOptions::default());
    let mut process = child.modern().await;
    let request = process.hear_call("ask").await;
    process.answer(&request, asks(&question(), None)).await;
    begins.recv().await.unwrap();
    time.pass(hour / 2).await;
    let Answer::Waits { released, .. } = &host.answer else { unreachable!() };
    released.notify_one();
    let request = process.hear_call("ask").await;
    process.answer(&request, text("done")).await;
    called.await.unwrap().unwrap();

    let cancel = CancellationToken::new();
    let called = call(&client, "ask", cancelled_by(&cancel));
    let request = process.hear_call("ask").await;
    process.answer(&request, asks(&question(), None)).await;
    begins.recv().await.unwrap();
    cancel.cancel();
    let error = called.await.unwrap().unwrap_err();
    assert_eq!(category(&error), (Category::ClientCancelled, Outcome::Unknown));
    assert_eq!(host.dropped.load(Ordering::Relaxed), 1);
    process.heard_all(&client).await;
}

async fn ask_nested(process: &mut Process, id: &str, question: &Value) {
    let request =
        json!({ "jsonrpc": "2.0", "id": id, "method": question["method"], "params": question["params"] });
    process.say(&request).await;
}

/// A legacy server asks during a call: who can be asked is, who cannot says so at once, each in the code that is due.
// shows: LEG-78, LEG-79
#[tokio::test]
async fn f107_a_nested_question_is_answered_or_refused_at_once() {
    let _time = Time::stands_still();
    let sampling =
        json!({ "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } });
    let url = json!({ "method": "elicitation/create", "params": { "mode": "url", "message": "m", "url": "http://127.0.0.1:1/", "elicitationId": "e" } });
    let all = r#"{"elicitation":{},"sampling":{}}"#;
    for (host, asked, result, code) in [
        (Host::agrees(), question(), Some(ACCEPT), None),
        (Host::new("{}", Answer::Says(ACCEPT)), question(), None, Some(-32_601)),
        (Host::agrees(), json!({ "method": "roots/list", "params": {} }), None, Some(-32_601)),
        (Host::agrees(), url, None, Some(-32_602)),
        (Host::new(all, Answer::Refuses), sampling, None, Some(-1)),
        (Host::agrees(), json!({ "method": "no/such", "params": {} }), None, Some(-32_601)),
    ] {
        let child = Child::new();
        let client = client(&child, &host, config());
        let called = call(&client, "ask", CallOptions::default());
        let mut process = child.legacy().await;
        let request = process.hear_call("ask").await;
        ask_nested(&mut process, "q", &asked).await;
        let answer = process.next().await.unwrap();
        assert_eq!(answer["id"], "q");
        assert_eq!(answer["error"]["code"].as_i64(), code, "{asked}");
        let expected = result.map(|result| serde_json::from_str::<Value>(result).unwrap());
        assert_eq!(answer.get("result"), expected.as_ref());
        process.answer(&request, text("done")).await;
        called.await.unwrap().unwrap();
    }
}

/// While a person is asked, the limits of the call that asks stand still; a question that the server takes back is
/// answered no more, and the limits run on.
// shows: TMO-09, LEG-81
#[tokio::test]
async fn ruling_18_a_nested_question_stops_the_clocks_of_its_call() {
    let time = Time::stands_still();
    let (begun, mut begins) = mpsc::unbounded_channel();
    let host = Host::new(r#"{"elicitation":{}}"#, Answer::Waits { begun, released: Notify::new() });
    let child = Child::new();
    let minute = Duration::from_secs(60);
    let client = client(&child, &host, Config { question_limit: 600 * minute, ..config() });
    let called = call(&client, "ask", CallOptions::default());
    let mut process = child.legacy().await;
    let request = process.hear_call("ask").await;
    ask_nested(&mut process, "q1", &question()).await;
    begins.recv().await.unwrap();
    time.pass(120 * minute).await;
    assert!(!called.is_finished());
    let Answer::Waits { released, .. } = &host.answer else { unreachable!() };
    released.notify_one();
    assert_eq!(process.next().await.unwrap()["id"], "q1");
    ask_nested(&mut process, "q2", &question()).await;
    begins.recv().await.unwrap();
    let back =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "q2" } });
    process.say(&back).await;
    process.hears_nothing().await;
    while host.dropped.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    time.pass(5 * minute).await;
    let error = called.await.unwrap().unwrap_err();
    assert_eq!(category(&error), (Category::Deadline, Outcome::Unknown));
    let told = process.hear("notifications/cancelled").await;
    assert_eq!(told["params"]["requestId"], request["id"]);
}
