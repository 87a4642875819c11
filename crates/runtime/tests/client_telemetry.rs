//! What a call leaves behind: its spans under OpenTelemetry's names, its records, its trace on the wire; and that nothing
//! of what it carried is in any log. Real children, whose files tell what they were asked.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{
    CallOptions, Client, Command, Config, Credentials, Headers, Recent, Record, Run, ToolContract,
};
use steadfast::core::call::Policy;
use steadfast::core::policy::{Backoff, Effect, Idempotency};
use steadfast::core::trace::Trace;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};

/// What must be in no log: it stands in every argument, key, token, URI and answer of this test.
const SECRET: &str = "swordfish";
const TRACE: &str = "7b1f0c6be2a94c0d8f3c5a1de40972ab";

type Fields = BTreeMap<String, String>;

/// Everything that is traced: the fields of each span, and of each event.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(Vec<Fields>, Vec<Fields>)>>);

struct Into<'a>(&'a mut Fields);

impl Visit for Into<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Seen {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::new();
        span.record(&mut Into(&mut fields));
        let mut seen = self.0.lock().unwrap();
        seen.0.push(fields);
        Id::from_u64(seen.0.len() as u64)
    }

    fn record(&self, span: &Id, values: &tracing::span::Record<'_>) {
        values.record(&mut Into(&mut self.0.lock().unwrap().0[span.into_u64() as usize - 1]));
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::from([("name".to_owned(), event.metadata().name().to_owned())]);
        event.record(&mut Into(&mut fields));
        self.0.lock().unwrap().1.push(fields);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Token;

impl Credentials for Token {
    fn headers(&self) -> Headers<'_> {
        let token = ("authorization".to_owned(), format!("Bearer {SECRET}"));
        Box::pin(std::future::ready(Ok(vec![token])))
    }
}

/// Killed when the test ends, however it ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client of the server, and what must outlive it.
async fn client(transport: &str, folder: &Path, records: &Arc<Recent>) -> (Client, Option<Server>) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/secretive.py");
    let (builder, server) = if transport == "http" {
        let child =
            std::process::Command::new("python3").args([script, transport]).arg(folder).spawn().unwrap();
        let server = Server(child);
        // Real time: a real process has to start. It says its address once it listens.
        let url = async {
            loop {
                match std::fs::read_to_string(folder.join("url")) {
                    Ok(url) if url.ends_with('\n') => return url,
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let url = tokio::time::timeout(Duration::from_secs(60), url).await.unwrap();
        (Client::of_url(url.trim()).unwrap().credentials(Arc::new(Token)), Some(server))
    } else {
        let command = Command {
            program: "python3".into(),
            args: vec![script.into(), transport.into(), folder.into()],
            env: vec![("TOKEN".into(), SECRET.into())],
            cwd: None,
        };
        (Client::of_command(command), None)
    };
    let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(2)).unwrap();
    let config = Config {
        name: "shop".to_owned(),
        retry: Policy { max_attempts: 2, backoff },
        contracts: vec![ToolContract::new("*", Effect::Write, Idempotency::Upstream)],
        ..Config::default()
    };
    (builder.config(config).recorder(Arc::clone(records) as Arc<_>).build(), server)
}

fn options() -> CallOptions {
    let parent = format!("00-{TRACE}-51c2a7d09e6f3b18-01");
    CallOptions {
        key: Some(format!("{SECRET}-key")),
        run: Some(Run::new("run-7", None, 100)),
        trace: Trace::of(Some(&parent), Some("relay=51c2"), Some(&format!("user={SECRET}"))),
        on_progress: Some(Box::new(|_| {})),
        ..CallOptions::default()
    }
}

// shows: G15, TRC-01, TRC-02, TRC-03, TRC-06, TRC-09
#[tokio::test(flavor = "multi_thread")]
async fn d_47_spans_and_records_tell_all_of_a_call_but_what_it_carried() {
    let seen = Seen::default();
    tracing::subscriber::set_global_default(seen.clone()).unwrap();
    for (transport, network) in [("stdio", "pipe"), ("http", "tcp")] {
        let folder = tempfile::tempdir().unwrap();
        let records = Arc::new(Recent::default());
        let (client, _server) = client(transport, folder.path(), &records).await;
        seen.0.lock().unwrap().0.clear();
        let arguments = format!(r#"{{"card":"{SECRET}"}}"#);
        for tool in ["echo", "fails", "refuses", "strange", "noisy", "dies"] {
            let ended = client.call_tool(tool, &arguments, options()).await;
            assert_eq!(ended.is_ok(), !matches!(tool, "refuses" | "strange"), "{tool}: {ended:?}");
        }
        client.read_resource(&format!("file:///{SECRET}"), options()).await.unwrap();
        client.get_prompt("greet", &arguments, options()).await.unwrap();
        let strings = format!(r#"{{"name":"{SECRET}"}}"#);
        client.request("completion/complete", &strings, options()).await.unwrap();
        client.close(Duration::from_secs(5)).await;

        let spans = seen.0.lock().unwrap().0.clone();
        let field = |at: usize, name: &str| spans[at].get(name).map(String::as_str);
        let expected: [(&str, Option<&str>); 10] = [
            ("tools/call echo", None),
            ("tools/call fails", Some("tool_error")),
            ("tools/call refuses", Some("-32602")),
            ("tools/call strange", Some("invalid_response")),
            ("tools/call noisy", None),
            ("tools/call dies", Some("transport_lost")),
            ("tools/call dies", None),
            ("resources/read", None),
            ("prompts/get greet", None),
            ("completion/complete", None),
        ];
        assert_eq!(spans.len(), expected.len(), "{spans:#?}");
        let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap();
        let asked: Vec<Value> = asked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let asked: Vec<&Value> = asked.iter().filter(|one| one["method"] != "server/discover").collect();
        let records = records.all();
        for (at, (title, error)) in expected.into_iter().enumerate() {
            let (method, name) = title.split_once(' ').unwrap_or((title, ""));
            assert_eq!((field(at, "otel.name"), field(at, "otel.kind")), (Some(title), Some("client")));
            assert_eq!(field(at, "mcp.method.name"), Some(method));
            assert_eq!(field(at, "error.type"), error, "{title}");
            assert_eq!(field(at, "otel.status_code"), error.map(|_| "ERROR"));
            let (tool, prompt) = match method {
                "tools/call" => (Some(name), None),
                "prompts/get" => (None, Some(name)),
                _ => (None, None),
            };
            assert_eq!((field(at, "gen_ai.tool.name"), field(at, "gen_ai.prompt.name")), (tool, prompt));
            assert_eq!(field(at, "gen_ai.operation.name"), tool.map(|_| "execute_tool"));
            assert_eq!(field(at, "rpc.response.status_code"), error.filter(|error| error.starts_with('-')));
            assert_eq!(field(at, "mcp.protocol.version"), Some("2026-07-28"));
            assert_eq!(field(at, "network.transport"), Some(network));
            // The server's span has this one as its parent, within the caller's trace.
            let meta = &asked[at]["_meta"];
            let parent = format!("00-{TRACE}-{}-01", field(at, "span_id").unwrap());
            assert_eq!((&meta["traceparent"], &meta["tracestate"]), (&json!(parent), &json!("relay=51c2")));
            assert_eq!(meta["baggage"], Value::Null, "it was not meant for this server");
            is_told(&records[at], transport, title, error);
        }
        let ids: std::collections::BTreeSet<_> = (0..spans.len()).map(|at| field(at, "span_id")).collect();
        assert_eq!(ids.len(), spans.len(), "each attempt is a span of its own");
        if transport == "http" {
            assert!(asked.iter().all(|one| one["authorization"] == format!("Bearer {SECRET}")));
        }
        assert!(!serde_json::to_string(&records).unwrap().contains(SECRET));
    }
    let all = seen.0.lock().unwrap();
    let (spans, events) = (format!("{:?}", all.0), format!("{:?}", all.1));
    assert!(events.contains("attempt failed"), "what is logged is heard here");
    assert!(!spans.contains(SECRET), "{spans}");
    for event in &all.1 {
        assert!(!format!("{event:?}").contains(SECRET), "{event:?}");
    }
}

/// The sixteen fields of a record, but for those of the catalog, which these calls do not use.
fn is_told(record: &Record, transport: &str, title: &str, error: Option<&str>) {
    let name = title.split_once(' ').map(|(_, name)| name.to_owned());
    let method = title.split(' ').next().unwrap();
    assert_eq!((record.trace_id.as_str(), record.agent_run_id.as_deref()), (TRACE, Some("run-7")));
    assert_eq!((record.server_key.as_str(), record.transport.as_deref()), ("shop", Some(transport)));
    assert_eq!((record.protocol_version.as_deref(), record.method.as_str()), (Some("2026-07-28"), method));
    assert_eq!((&record.tool_name, record.cancelled), (&name, false));
    assert!(record.request_id.is_some() && record.attempt >= 1 && record.network_time_ms.is_some());
    assert_eq!(record.retryable, error == Some("transport_lost"));
    let told = match error {
        Some("tool_error") => Some("tool"),
        Some("-32602") => Some("protocol"),
        Some(_) => Some("transport"),
        None => None,
    };
    assert_eq!(record.error_kind.as_deref(), told, "{title}");
    assert_eq!(record.error_code.as_deref(), error.filter(|error| *error != "tool_error"));
}
