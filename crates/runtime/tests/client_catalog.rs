//! What a client keeps of what a server offers: a real child, whose file tells how often it was asked.

use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{
    Answering, CallOptions, Category, Client, Command, Config, Context, Credentials, Error, Handler, Headers,
    Host, Identity, Listed, Question, Run,
};
use steadfast::core::catalog::Changes;
use steadfast::core::error::Outcome;
use tokio::sync::mpsc;

/// A host that hears of changes.
struct Hears {
    notices: mpsc::UnboundedSender<String>,
    changes: Mutex<Vec<Changes>>,
}

impl Handler for Hears {
    fn capabilities(&self) -> String {
        r#"{"elicitation":{}}"#.to_owned()
    }

    fn answer<'a>(&'a self, _question: Question) -> Answering<'a> {
        Box::pin(std::future::ready(Ok(r#"{"action":"accept","content":{}}"#.to_owned())))
    }

    fn list_changed(&self, _server: &str, notice: &str) {
        let _ = self.notices.send(notice.to_owned());
    }

    fn definitions_changed(&self, _server: &str, _list: &str, changes: &Changes) {
        self.changes.lock().unwrap().push(changes.clone());
    }
}

struct Bench {
    folder: tempfile::TempDir,
    client: Client,
    host: Arc<Hears>,
    notices: mpsc::UnboundedReceiver<String>,
}

fn command(folder: &Path) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/catalog.py");
    Command {
        program: "python3".into(),
        args: [script.into(), folder.into()].into(),
        env: Vec::new(),
        cwd: None,
    }
}

impl Bench {
    fn new(state: Value) -> Self {
        Self::with(state, Config::default())
    }

    fn with(state: Value, config: Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (sender, notices) = mpsc::unbounded_channel();
        let host = Arc::new(Hears { notices: sender, changes: Mutex::default() });
        let handler = Arc::clone(&host) as Arc<dyn Handler>;
        let client = Client::of_command(command(folder.path())).config(config).handler(handler).build();
        let bench = Self { folder, client, host, notices };
        bench.state(state);
        bench
    }

    /// What the server offers from now on.
    fn state(&self, state: Value) {
        std::fs::write(self.folder.path().join("state.json"), state.to_string()).unwrap();
    }

    /// What it was asked, without what controls it.
    fn asked(&self) -> Vec<String> {
        asked(self.folder.path())
    }

    async fn tools(&self) -> Listed {
        self.client.list_tools(CallOptions::default()).await.unwrap()
    }

    async fn control(&self, tool: &str, arguments: Value) {
        self.client.call_tool(tool, &arguments.to_string(), CallOptions::default()).await.unwrap();
    }

    /// The server tells of a change, and the client has heard of it.
    async fn say(&mut self, notice: &str) {
        self.control("say", json!({ "notices": [[notice, {}]] })).await;
        self.notices.recv().await.unwrap();
    }

    async fn close(self) {
        self.client.close(Duration::from_secs(5)).await;
    }
}

fn asked(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("asked")).unwrap_or_default();
    let control = ["say", "hold", "release", "die"].map(|tool| format!("tools/call {tool}"));
    text.lines().filter(|line| !control.iter().any(|it| it == line)).map(str::to_owned).collect()
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("Does {name}"), "inputSchema": { "type": "object" } })
}

/// Tools on one page, fresh for so long.
fn offering(names: &[&str], ttl_ms: i64) -> Value {
    let tools: Vec<Value> = names.iter().map(|name| tool(name)).collect();
    json!({ "tools/list": { "pages": [tools], "hints": { "ttlMs": ttl_ms, "cacheScope": "private" } } })
}

fn names(listed: &Listed) -> Vec<&str> {
    listed.definitions.iter().map(|one| one.name.as_str()).collect()
}

const HOUR: i64 = 3_600_000;

// shows: CCH-11, CCH-17, CCH-08, D-47
#[tokio::test]
async fn cch_09_a_list_is_asked_for_again_only_when_it_is_stale() {
    let bench = Bench::new(offering(&["a", "b"], HOUR));
    let first = bench.tools().await;
    assert_eq!((names(&first), first.hit, first.stale), (vec!["a", "b"], false, false));
    let second = bench.tools().await;
    assert_eq!((names(&second), second.hit, second.stale), (vec!["a", "b"], true, false));
    assert!(second.age >= first.age);
    assert_eq!(bench.asked(), ["tools/list"]);
    let records = bench.client.records(&second.call_id);
    assert!(records[0].cache_hit && records[0].cache_age_ms.is_some() && !records[0].sent);
    assert!(!bench.client.records(&first.call_id)[0].cache_hit);
    let other = bench.client.list_prompts(CallOptions::default()).await.unwrap_err();
    assert!(matches!(other, Error::Protocol { code: -32_601, .. }), "another method is another entry");
    bench.close().await;
}

// shows: CCH-10, CCH-32, LEG-16
#[tokio::test]
async fn cch_10_without_a_time_or_by_the_operators_word_nothing_is_fresh() {
    for (ttl, policy, lists) in
        [(json!(0), 300, 2), (json!(-1), 300, 2), (json!(HOUR), 0, 2), (json!(1e300), 300, 1)]
    {
        let mut config = Config::default();
        config.catalog.ttl = Duration::from_secs(policy);
        let mut state = offering(&["a"], 0);
        state["tools/list"]["hints"]["ttlMs"] = ttl.clone();
        let bench = Bench::with(state, config);
        assert!(!bench.tools().await.stale, "it is as new as can be");
        bench.tools().await;
        assert_eq!(bench.asked().len(), lists, "{ttl}");
        bench.close().await;
    }
}

#[tokio::test]
async fn g10_one_fetch_serves_all_who_wait_and_who_stops_waiting_stops_nothing() {
    let bench = Bench::new(offering(&["a"], HOUR));
    bench.control("hold", json!({ "methods": ["tools/list"] })).await;
    let cancel = tokio_util::sync::CancellationToken::new();
    let waiting = |cancel: tokio_util::sync::CancellationToken| {
        let client = bench.client.clone();
        tokio::spawn(async move { client.list_tools(CallOptions { cancel, ..CallOptions::default() }).await })
    };
    let gone = waiting(cancel.clone());
    let others: Vec<_> = (0..20).map(|_| waiting(tokio_util::sync::CancellationToken::new())).collect();
    cancel.cancel();
    let error = gone.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Local { category: Category::ClientCancelled, .. }), "{error:?}");
    let late = CallOptions { deadline: Some(Duration::from_millis(1)), ..CallOptions::default() };
    let error = bench.client.list_tools(late).await.unwrap_err();
    assert!(matches!(error, Error::Local { category: Category::Deadline, .. }), "{error:?}");
    bench.control("release", json!({})).await;
    for one in others {
        assert_eq!(names(&one.await.unwrap().unwrap()), ["a"]);
    }
    assert_eq!(bench.asked(), ["tools/list"]);
    bench.close().await;
}

// shows: CCH-12, CCH-13, CCH-19, F091, SUB-19
#[tokio::test]
async fn cch_19_a_change_makes_stale_and_nothing_is_fetched_before_it_is_needed() {
    let mut bench = Bench::new(offering(&["a", "b"], HOUR));
    bench.tools().await;
    let mut changed = offering(&["b", "c"], HOUR);
    changed["tools/list"]["pages"][0][0]["description"] = "other".into();
    bench.state(changed);
    bench.say("prompts/list_changed").await;
    assert_eq!(names(&bench.tools().await), ["a", "b"], "that was about something else");
    bench.say("tools/list_changed").await;
    assert_eq!(bench.asked(), ["tools/list"], "not yet needed");
    let listed = bench.tools().await;
    assert_eq!((names(&listed), listed.hit, listed.stale), (vec!["b", "c"], false, false));
    let changes = bench.host.changes.lock().unwrap().clone();
    let expected = Changes { added: vec!["c".into()], removed: vec!["a".into()], changed: vec!["b".into()] };
    assert_eq!(changes, [expected], "and only what says something else");
    bench.say("tools/list_changed").await;
    bench.tools().await;
    assert_eq!(bench.host.changes.lock().unwrap().len(), 1, "nothing is new");

    // A burst, and then a server that tells of a change whenever it is asked.
    let burst: Vec<Value> = (0..200).map(|_| json!(["tools/list_changed", {}])).collect();
    bench.control("say", json!({ "notices": burst })).await;
    for _ in 0..200 {
        bench.notices.recv().await.unwrap();
    }
    let before = bench.asked().len();
    bench.tools().await;
    assert_eq!(bench.asked().len(), before + 1, "two hundred notices, one list");
    let mut noisy = offering(&["b", "c"], HOUR);
    noisy["tools/list"]["notices"] = 1.into();
    bench.state(noisy);
    for _ in 0..50 {
        bench.say("tools/list_changed").await;
        bench.tools().await;
    }
    assert!(bench.tools().await.stale, "it is marked, not asked for again");
    let lists = bench.asked().len();
    // A fetch that is overtaken begins again once.
    assert!((before + 1..=before + 13).contains(&lists), "a few a minute: {lists}");
    bench.close().await;
}

// shows: I-18
#[tokio::test]
async fn cch_20_a_list_that_was_under_way_when_it_changed_is_fetched_again() {
    let mut bench = Bench::new(offering(&["a"], HOUR));
    bench.control("hold", json!({ "methods": ["tools/list"] })).await;
    let client = bench.client.clone();
    let waiting = tokio::spawn(async move { client.list_tools(CallOptions::default()).await });
    while bench.asked().is_empty() {
        // The child writes its account on its own time.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bench.say("tools/list_changed").await;
    bench.control("release", json!({})).await;
    let listed = waiting.await.unwrap().unwrap();
    assert!(!listed.stale);
    assert_eq!(bench.asked().len(), 2, "what began before the change was not taken");
    assert!(bench.tools().await.hit);
    bench.close().await;
}

// shows: CCH-22, CCH-24, CCH-25, PAG-02, PAG-03, PAG-04, PAG-06, I-19
#[tokio::test]
async fn f094_pages_are_followed_whatever_their_cursors_and_a_failed_page_takes_nothing_away() {
    let page = |names: &[&str]| -> Value { names.iter().map(|name| tool(name)).collect() };
    let hints = json!({ "ttlMs": 0 });
    let pages = json!([page(&["a"]), page(&["b"]), page(&["c"])]);
    let of = |more: Value| {
        let mut list = json!({ "pages": pages, "hints": hints });
        list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "tools/list": list })
    };
    let bench = Bench::new(of(json!({ "cursors": ["", "ü/%\"\\"] })));
    assert_eq!(names(&bench.tools().await), ["a", "b", "c"]);
    assert_eq!(bench.asked(), ["tools/list", "tools/list ", "tools/list ü/%\"\\"]);

    bench.state(of(json!({ "errors": { "2": { "code": -32000, "message": "not now" } } })));
    let old = bench.tools().await;
    assert_eq!((names(&old), old.stale), (vec!["a", "b", "c"], true), "the old list serves, marked");

    // The second cursor turns invalid: from the start again, once, and then it is an error like another.
    let before = bench.asked().len();
    bench.state(of(json!({ "errors": { "1": { "code": -32602, "message": "no such cursor" } } })));
    assert!(bench.tools().await.stale);
    assert_eq!(bench.asked()[before..], ["tools/list", "tools/list 1", "tools/list", "tools/list 1"]);

    // One that leads back.
    let endless = json!({ "pages": [page(&["a"]), page(&["b"])], "cursors": ["1", "2"], "loop": true });
    bench.state(json!({ "tools/list": endless }));
    let listed = bench.tools().await;
    assert_eq!((names(&listed), listed.cut.is_some()), (vec!["a", "b"], true));
    assert!(bench.asked().len() < before + 10);
    bench.close().await;
}

// shows: HDR-24, D-44
#[tokio::test]
async fn f095_a_bad_tool_is_left_out_by_name_and_the_others_stay() {
    let mut state = offering(&["a", "b", "c", "d", "e", "f", "g", "h", "i"], HOUR);
    state["tools/list"]["pages"][0][4]["inputSchema"] = json!({ "type": "string" });
    state["tools/list"]["pages"][0][5]["outputSchema"] = json!({ "type": 7 });
    let bench = Bench::new(state);
    let listed = bench.tools().await;
    assert_eq!(names(&listed), ["a", "b", "c", "d", "g", "h", "i"]);
    let out: Vec<&str> = listed.left_out.iter().map(|out| out.name.as_str()).collect();
    assert_eq!(out, ["e", "f"]);
    assert!(
        listed.left_out[0].reason.contains("inputSchema")
            && listed.left_out[1].reason.contains("outputSchema")
    );
    bench.close().await;
}

// shows: CCH-28, F089
#[tokio::test]
async fn cch_14_what_is_stale_serves_where_a_refresh_fails_unless_it_is_refused() {
    let bench = Bench::new(json!({}));
    let options = CallOptions::default;
    bench.client.list_tools(options()).await.unwrap_err();
    bench.client.list_tools(options()).await.unwrap_err();
    assert_eq!(bench.asked().len(), 2, "an error is not kept");
    bench.state(offering(&["a"], 0));
    bench.tools().await;
    let failing = |code: i64| json!({ "tools/list": { "pages": [], "errors": { "0": { "code": code, "message": "no" } } } });
    bench.state(failing(-32_603));
    let listed = bench.tools().await;
    assert_eq!((names(&listed), listed.stale), (vec!["a"], true));
    assert!(bench.client.records(&listed.call_id).iter().all(|record| record.error_code.is_some()));
    bench.state(failing(-32_601));
    let error = bench.client.list_tools(options()).await.unwrap_err();
    assert!(matches!(error, Error::Protocol { code: -32_601, .. }));
    bench.state(failing(-32_603));
    bench.client.list_tools(options()).await.unwrap_err();
    bench.close().await;
}

// shows: D-27, SUB-19, G10
#[tokio::test]
async fn g10_after_a_restart_it_is_asked_anew() {
    let mut bench = Bench::new(offering(&["a"], HOUR));
    bench.tools().await;
    let die = |bench: &Bench| {
        let client = bench.client.clone();
        async move { client.call_tool("die", "{}", CallOptions::default()).await.unwrap_err() }
    };
    die(&bench).await;
    // The next use makes the connection anew, and then what was told in between is lost.
    bench.say("prompts/list_changed").await;
    assert!(!bench.tools().await.hit);
    assert_eq!(bench.asked(), ["tools/list", "tools/list"]);
    bench.close().await;
}

#[tokio::test]
async fn g10_what_another_version_of_the_server_said_serves_in_no_need() {
    for (version, serves) in [("1", true), ("2", false)] {
        let mut state = offering(&["a"], 0);
        state["legacy"] = "1".into();
        let bench = Bench::new(state);
        bench.tools().await;
        bench.client.call_tool("die", "{}", CallOptions::default()).await.unwrap_err();
        let error = json!({ "0": { "code": -32603, "message": "no" } });
        bench.state(json!({ "legacy": version, "tools/list": { "pages": [], "errors": error } }));
        let listed = bench.client.list_tools(CallOptions::default()).await;
        assert_eq!(listed.is_ok_and(|listed| listed.stale), serves, "version {version}");
        bench.close().await;
    }
}

// shows: CCH-16, CCH-17, CCH-18, CCH-15, F088, D-26
#[tokio::test]
async fn i_17_what_is_private_or_unmarked_crosses_no_context_and_what_is_public_is_fetched_once() {
    for (scope, lists) in [(json!("private"), 2), (json!("public"), 1), (json!(null), 2), (json!("all"), 2)] {
        let folder = tempfile::tempdir().unwrap();
        let mut state = offering(&["a"], HOUR);
        state["tools/list"]["hints"]["cacheScope"] = scope.clone();
        std::fs::write(folder.path().join("state.json"), state.to_string()).unwrap();
        let host = Host::default();
        let config = Config { name: "shop".to_owned(), ..Config::default() };
        host.add(Client::of_command(command(folder.path())).config(config)).unwrap();
        for principal in ["ann", "bob"] {
            let context = Context { principal: principal.to_owned(), ..Context::default() };
            let client = host.client("shop", &Identity { context, ..Identity::default() }).unwrap();
            let listed = client.list_tools(CallOptions::default()).await.unwrap();
            assert_eq!(names(&listed), ["a"]);
            assert!(
                client.list_tools(CallOptions::default()).await.unwrap().hit,
                "within one context it serves"
            );
        }
        assert_eq!(asked(folder.path()).len(), lists, "{scope}");
        host.close(Duration::from_secs(5)).await;
    }
}

/// A token that is replaced.
struct Token(AtomicU8);

impl Credentials for Token {
    fn headers(&self) -> Headers<'_> {
        let token = format!("Bearer {}", self.0.load(Ordering::Relaxed));
        Box::pin(std::future::ready(Ok(vec![("authorization".to_owned(), token)])))
    }
}

// shows: AUT-05
#[tokio::test]
async fn cch_16_another_token_is_another_context() {
    let folder = tempfile::tempdir().unwrap();
    let state = |scope: &str, names: &[&str]| {
        let mut state = offering(names, HOUR);
        state["tools/list"]["hints"]["cacheScope"] = scope.into();
        std::fs::write(folder.path().join("state.json"), state.to_string()).unwrap();
    };
    state("private", &["a", "secret"]);
    let token = Arc::new(Token(AtomicU8::new(1)));
    let credentials = Arc::clone(&token) as Arc<dyn Credentials>;
    let client = Client::of_command(command(folder.path())).credentials(credentials).build();
    let listed = client.list_tools(CallOptions::default()).await.unwrap();
    assert_eq!(names(&listed), ["a", "secret"]);
    token.0.store(2, Ordering::Relaxed);
    state("public", &["a"]);
    let listed = client.list_tools(CallOptions::default()).await.unwrap();
    assert_eq!((names(&listed), listed.hit), (vec!["a"], false));
    token.0.store(3, Ordering::Relaxed);
    assert!(client.list_tools(CallOptions::default()).await.unwrap().hit, "this one is everybody's");
    client.close(Duration::from_secs(5)).await;
}

// shows: CCH-07, CCH-21, CCH-08, CCH-29, MRT-31
#[tokio::test]
async fn cch_06_a_resource_is_kept_where_its_server_says_for_how_long_and_no_answer_to_questions_is() {
    let contents = |uri: &str, hints: Value| {
        let mut result = json!({ "resultType": "complete", "contents": [{ "uri": uri, "text": "x" }] });
        result.as_object_mut().unwrap().extend(hints.as_object().unwrap().clone());
        result
    };
    let kept = json!({ "ttlMs": HOUR, "cacheScope": "private" });
    let question = json!({
        "resultType": "input_required", "ttlMs": HOUR,
        "inputRequests": { "q": { "method": "elicitation/create", "params": {} } },
    });
    let mut bench = Bench::new(json!({ "read": {
        "file:///kept": contents("file:///kept", kept.clone()),
        "file:///kept/part": contents("file:///kept/part", kept.clone()),
        "file:///other": contents("file:///other", kept.clone()),
        "file:///loose": contents("file:///loose", json!({})),
        "file:///asks": [question, contents("file:///asks", kept)],
    } }));
    let read = |uri: &'static str| {
        let client = bench.client.clone();
        async move { client.read_resource(uri, CallOptions::default()).await.unwrap() }
    };
    let all = ["file:///kept", "file:///kept/part", "file:///other", "file:///loose", "file:///asks"];
    for uri in all {
        read(uri).await;
    }
    let first = bench.asked().len();
    assert_eq!(first, 6, "one of them in two rounds");
    let again = read("file:///kept").await;
    assert_eq!(again.attempts, 0);
    assert!(bench.client.records(&again.call_id)[0].cache_hit);
    for uri in &all[1..] {
        read(uri).await;
    }
    assert_eq!(
        bench.asked()[first..],
        ["resources/read file:///loose", "resources/read file:///asks", "resources/read file:///asks"]
    );

    // Of a part: that and the whole are read again, and nothing else. The second notice says that the first was heard.
    let updated = json!(["resources/updated", { "uri": "file:///kept/part" }]);
    bench.control("say", json!({ "notices": [updated, ["tools/list_changed", {}]] })).await;
    bench.notices.recv().await.unwrap();
    let before = bench.asked().len();
    for uri in &all[..3] {
        read(uri).await;
    }
    assert_eq!(bench.asked()[before..], ["resources/read file:///kept", "resources/read file:///kept/part"]);
    bench.close().await;
}

#[tokio::test]
async fn a_search_returns_light_entries_and_full_definitions_on_demand() {
    let mut state = offering(&["find_order", "charge_account", "refund"], HOUR);
    state["tools/list"]["pages"][0][2]["_meta"] = json!({ "tags": ["charge"] });
    let bench = Bench::new(state);
    let found = bench.client.search_tools("charge", 5, CallOptions::default()).await.unwrap();
    let light: Vec<&str> = found.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((light, found.of), (vec!["charge_account", "refund"], 3));
    assert_eq!(found.tools[0].summary, "Does charge_account");
    let definition = bench.client.definition("refund", CallOptions::default()).await.unwrap().unwrap();
    let json: Value = serde_json::from_str(&definition.json).unwrap();
    assert_eq!(json["inputSchema"]["type"], "object");
    assert_eq!(definition.content, found.tools[1].content);
    assert!(bench.client.definition("none", CallOptions::default()).await.unwrap().is_none());
    assert_eq!(bench.asked(), ["tools/list"]);
    bench.close().await;
}

// shows: D-41
#[tokio::test]
async fn d_41_a_list_is_taken_from_the_budget_of_the_run_that_needs_it() {
    let bench = Bench::new(offering(&["a"], 0));
    let run = Run::new("task", None, 1);
    let options = || CallOptions { run: Some(run.clone()), ..CallOptions::default() };
    bench.client.list_tools(options()).await.unwrap();
    let error = bench.client.list_tools(options()).await.unwrap_err();
    assert!(matches!(error, Error::Local { category: Category::Budget, .. }), "{error:?}");
    bench.tools().await;
    assert_eq!(bench.asked().len(), 2);
    bench.close().await;
}

/// A tool that takes a count and gives a sum.
fn adding(kind: &str) -> Value {
    json!({ "tools/list": { "hints": { "ttlMs": HOUR }, "pages": [[{
        "name": "add",
        "inputSchema": { "type": "object", "properties": { "n": { "type": kind } }, "required": ["n"] },
        "outputSchema": { "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"] },
    }]] } })
}

fn giving(mut state: Value, result: Value) -> Value {
    state["call"] = json!({ "add": result });
    state
}

fn sum(n: Value) -> Value {
    json!({ "resultType": "complete", "content": [], "structuredContent": { "sum": n } })
}

// shows: CCH-14, F089, VAL-01, D-44
#[tokio::test]
async fn d_44_arguments_are_checked_before_anything_is_sent_and_never_by_what_may_be_out_of_date() {
    let mut bench = Bench::new(giving(adding("integer"), sum(json!(3))));
    let client = bench.client.clone();
    let call = |arguments: &'static str| {
        let client = client.clone();
        async move { client.call_tool("add", arguments, CallOptions::default()).await }
    };
    call(r#"{"n":"secret"}"#).await.unwrap();
    assert_eq!(bench.asked(), ["tools/call add"], "nothing is known, so the server decides");
    bench.tools().await;
    let error = call(r#"{"n":"secret"}"#).await.unwrap_err();
    let Error::Local { category, outcome, sentence, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*category, *outcome), (Category::Validation, Outcome::NotExecuted));
    assert!(sentence.contains("/n") && !sentence.contains("secret"), "{sentence}");
    assert_eq!(bench.asked().len(), 2, "nothing was sent");
    let done = call(r#"{"n":1}"#).await.unwrap();
    let record = &bench.client.records(&done.call_id)[0];
    assert!(record.cache_age_ms.is_some() && !record.cache_stale);

    // The tool takes text now: what is known is out of date, is asked for again, and refuses nothing.
    bench.state(giving(adding("string"), sum(json!(3))));
    bench.say("tools/list_changed").await;
    let before = bench.asked().len();
    call(r#"{"n":"text"}"#).await.unwrap();
    assert_eq!(bench.asked()[before..], ["tools/list", "tools/call add"]);
    call(r#"{"n":1}"#).await.unwrap_err();
    bench.close().await;
}

// shows: CCH-16
#[tokio::test]
async fn aut_05_what_was_seen_with_another_token_checks_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let state = giving(adding("integer"), sum(json!(3)));
    std::fs::write(folder.path().join("state.json"), state.to_string()).unwrap();
    let token = Arc::new(Token(AtomicU8::new(1)));
    let credentials = Arc::clone(&token) as Arc<dyn Credentials>;
    let client = Client::of_command(command(folder.path())).credentials(credentials).build();
    client.list_tools(CallOptions::default()).await.unwrap();
    let call = || client.call_tool("add", r#"{"n":"text"}"#, CallOptions::default());
    assert_eq!(call().await.unwrap_err().outcome(), Outcome::NotExecuted);
    token.0.store(2, Ordering::Relaxed);
    call().await.expect("the server decides");
    client.close(Duration::from_secs(5)).await;
}

// shows: TOL-07
#[tokio::test]
async fn d_44_a_result_that_breaks_the_tools_own_schema_is_the_servers_fault_and_not_handed_on() {
    let mut bench = Bench::new(giving(adding("integer"), sum(json!("secret"))));
    bench.tools().await;
    let call = |bench: &Bench| {
        let client = bench.client.clone();
        async move { client.call_tool("add", r#"{"n":1}"#, CallOptions::default()).await }
    };
    for wrong in [sum(json!("secret")), json!({ "resultType": "complete", "content": [] })] {
        bench.state(giving(adding("integer"), wrong));
        let error = call(&bench).await.unwrap_err();
        let Error::Transport { category, outcome, sent, sentence, call_id } = &error else {
            panic!("{error:?}")
        };
        assert_eq!((*category, *outcome, *sent), (Category::InvalidOutput, Outcome::Executed, true));
        assert!(!sentence.contains("secret"), "{sentence}");
        let records = bench.client.records(call_id);
        assert_eq!(records.last().unwrap().error_code.as_deref(), Some("invalid_output"));
    }
    let failed = json!({ "resultType": "complete", "content": [], "isError": true });
    bench.state(giving(adding("integer"), failed));
    call(&bench).await.expect("isError is a result");

    // A call keeps the definition that it began with.
    bench.state(giving(adding("integer"), sum(json!(3))));
    bench.control("hold", json!({ "methods": ["tools/call add"] })).await;
    let running = tokio::spawn(call(&bench));
    // It looks the tool up before anything else can happen.
    tokio::task::yield_now().await;
    let mut other = adding("integer");
    other["tools/list"]["pages"][0][0]["outputSchema"]["properties"]["sum"]["type"] = "string".into();
    bench.state(giving(other, sum(json!(3))));
    bench.say("tools/list_changed").await;
    assert!(!bench.tools().await.hit);
    bench.control("release", json!({})).await;
    running.await.unwrap().expect("by the schema of its own time");
    call(&bench).await.expect_err("by the newer one");
    bench.close().await;
}
