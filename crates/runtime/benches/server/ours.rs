//! The server half with a service of its own: what it costs is the hop, not the work.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast::core::exchange::{Progress, Reply};
use steadfast::core::subscription::Filter;
use steadfast::server::http::Listener;
use steadfast::server::{Answer, Answering, Caller, Changes, Context, Listening, Options, Request, Service};

use super::{BURST, process};

/// A call whose arguments come back as they are.
pub(crate) const ECHO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","#,
    r#""arguments":{"account":"a-17","cents":500,"note":"for the coffee of the week"},"#,
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#
);
/// What comes back of it.
pub(crate) const ARGUMENTS: &str = r#"{"account":"a-17","cents":500,"note":"for the coffee of the week"}"#;
/// Its answer.
pub(crate) const ECHOED: &str = concat!(
    r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[],"structuredContent":"#,
    r#"{"account":"a-17","cents":500,"note":"for the coffee of the week"}}}"#
);
/// A listen.
pub(crate) const LISTEN: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"listen-1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"#,
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#
);
/// What a call that tells something sends each time, the number aside.
pub(crate) const NOTICE: [&str; 2] = [r#"{"level":"info","data":{"step":"#, "}}"];

/// A call that emits so many events.
pub(crate) fn emit(tool: &str, events: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"events":{events}}},"_meta":{{"progressToken":"token-1","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
}

pub(crate) async fn serve() -> io::Result<()> {
    let listener = Listener::bind("127.0.0.1:0").await?;
    process::announce(listener.address());
    let options = Options {
        max_in_flight: super::STREAMS + 100,
        // What is measured is the way of an event, not that there are few of them.
        progress_interval: Duration::ZERO,
        ..Options::default()
    };
    listener.serve("/mcp", Arc::new(Bench::default()), options, std::future::pending()).await
}

#[derive(Default)]
struct Bench {
    changes: Changes,
}

impl Service for Bench {
    fn knows(&self, method: &str, _caller: &Caller) -> bool {
        matches!(method, "tools/call" | "subscriptions/listen")
    }

    fn answer(&self, request: Request, context: Context) -> Answering {
        Box::pin(async move {
            #[derive(serde::Deserialize)]
            struct Params<'a> {
                name: &'a str,
                #[serde(borrow)]
                arguments: &'a serde_json::value::RawValue,
            }
            let params: Params<'_> = serde_json::from_str(&request.params).expect("the load's own params");
            let arguments = params.arguments.get();
            match params.name {
                "echo" => answer(arguments),
                tool => {
                    let burst = if tool == "burst" { BURST } else { 1 };
                    for event in 0..super::EVENTS {
                        if tool == "burst" {
                            let [before, after] = NOTICE;
                            context.notify("notifications/message", &format!("{before}{event}{after}"));
                        } else {
                            context.progress(Progress::of(event as f64).expect("a finite number"));
                        }
                        if event % burst == burst - 1 {
                            tokio::task::yield_now().await;
                        }
                    }
                    answer(arguments)
                }
            }
        })
    }

    fn listen(
        &self,
        _caller: &Caller,
        wanted: Filter,
    ) -> Pin<Box<dyn Future<Output = Option<Listening>> + Send>> {
        Box::pin(std::future::ready(Some(self.changes.listen(wanted))))
    }
}

fn answer(structured: &str) -> Answer {
    Reply::Result(Bytes::from(format!(
        r#"{{"resultType":"complete","content":[],"structuredContent":{structured}}}"#
    )))
}
