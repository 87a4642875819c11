//! The client that `interop/run-servers` drives against servers of the official SDKs:
//! `interop_client --era auto|legacy [--everything] [--stderr FILE] (URL | COMMAND ARGS…)`. It prints one line a check,
//! `ok NAME` or `failed NAME: WHY`, as `interop/table.py` reads them. `--everything` names a server that has other tools
//! than `shop`; into FILE goes what the server says on stderr, so that the next call waits until the last one's end was
//! seen there.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{
    Builder, CallOptions, Category, Client, Command, Config, Error as Failed, Forgetful, ListenEvent,
    Subscription,
};
use steadfast::core::era::Wish;
use steadfast::core::exchange::{Clock, Limits};
use steadfast::core::hop::Era;
use steadfast::core::subscription::{Change, Filter};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

type Done = Result<(), Box<dyn Error>>;

/// How `interop/judge.py` knows the calls in the record.
const ABORTED_STEPS: u64 = 1001;
const TIMED_OUT_STEPS: u64 = 1002;

const PATIENCE: Duration = Duration::from_secs(10);

/// How the tools of a server are named and called.
struct Tools {
    echo: &'static str,
    said: &'static str,
    count: &'static str,
    counting: fn(steps: u64, step: Duration) -> Value,
    /// What is subscribed to, and the calls that change something.
    widgets: &'static str,
    sell: (&'static str, &'static str),
    open_till: Option<&'static str>,
}

const SHOP: Tools = Tools {
    echo: "echo",
    said: "mark",
    count: "count_slowly",
    counting: |steps, step| json!({ "steps": steps, "step_ms": step.as_millis() as u64 }),
    widgets: "inventory://widget",
    sell: ("reserve_inventory", r#"{"sku":"widget","quantity":1,"tenant":"interop"}"#),
    open_till: Some("open_till"),
};

const EVERYTHING: Tools = Tools {
    echo: "echo",
    said: "message",
    count: "trigger-long-running-operation",
    counting: |steps, step| json!({ "steps": steps, "duration": step.as_secs_f64() * steps as f64 }),
    widgets: "demo://resource/dynamic/text/1",
    sell: ("toggle-subscriber-updates", "{}"),
    // Its list of tools does not change.
    open_till: None,
};

struct Host {
    client: Client,
    tools: Tools,
    stderr: Option<PathBuf>,
}

impl Host {
    async fn list(&self) -> Done {
        let listed = self.client.list_tools(CallOptions::default()).await?;
        ensure(listed.left_out.is_empty(), || format!("{:?}", listed.left_out))?;
        let names: Vec<&str> = listed.definitions.iter().map(|tool| &*tool.name).collect();
        for name in [self.tools.echo, self.tools.count] {
            ensure(names.contains(&name), || format!("no tool {name} among {names:?}"))?;
        }
        Ok(())
    }

    async fn call(&self) -> Done {
        let said = self.echo("grüße").await?;
        ensure(said.contains("grüße"), || said)
    }

    async fn progress(&self) -> Done {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let options = CallOptions {
            on_progress: Some(Box::new(move |event| {
                kept.lock().expect("no holder panics").push(event.value)
            })),
            ..CallOptions::default()
        };
        let arguments = (self.tools.counting)(5, Duration::from_millis(30)).to_string();
        self.client.call_tool(self.tools.count, &arguments, options).await?;
        let seen = seen.lock().expect("no holder panics");
        ensure(seen.len() >= 2 && seen.is_sorted() && seen.first() != seen.last(), || format!("{seen:?}"))
    }

    async fn abort(&self) -> Done {
        let cancel = CancellationToken::new();
        let enough = cancel.clone();
        let options = CallOptions {
            cancel,
            on_progress: Some(Box::new(move |_| enough.cancel())),
            ..CallOptions::default()
        };
        let arguments = (self.tools.counting)(ABORTED_STEPS, Duration::from_millis(50)).to_string();
        let ended = self.client.call_tool(self.tools.count, &arguments, options).await;
        let gave_up = matches!(ended, Err(Failed::Local { category: Category::ClientCancelled, .. }));
        ensure(gave_up, || format!("the call ended with {ended:?}"))?;
        self.seen(ABORTED_STEPS).await?;
        self.echo("after the abort").await.map(drop)
    }

    async fn timeout(&self) -> Done {
        let options = CallOptions {
            limits: Some(Limits::new(Duration::from_millis(300), PATIENCE)?),
            ..CallOptions::default()
        };
        // Its first step takes longer than any patience here.
        let arguments = (self.tools.counting)(TIMED_OUT_STEPS, Duration::from_secs(60)).to_string();
        let began = Instant::now();
        let ended = self.client.call_tool(self.tools.count, &arguments, options).await;
        let timed_out = matches!(
            ended,
            Err(Failed::Local { category: Category::Deadline, clock: Some(Clock::Idle), .. })
        );
        ensure(timed_out, || format!("the call ended with {ended:?}"))?;
        ensure(began.elapsed() < PATIENCE / 2, || format!("only after {:?}", began.elapsed()))?;
        self.seen(TIMED_OUT_STEPS).await?;
        self.echo("after the timeout").await.map(drop)
    }

    async fn subscription(&self) -> Done {
        let (widgets, (sell, sold)) = (self.tools.widgets, self.tools.sell);
        let filter = Filter {
            tools: self.tools.open_till.is_some(),
            uris: [widgets.to_owned()].into(),
            ..Filter::default()
        };
        let mut subscription = self.client.listen(filter);
        heard(&mut subscription, "the acknowledgement of all", |event| {
            matches!(event, ListenEvent::Acknowledged { missing, .. } if *missing == Filter::default())
        })
        .await?;
        self.client.call_tool(sell, sold, CallOptions::default()).await?;
        heard(&mut subscription, "an update of the resource", |event| {
            matches!(event, ListenEvent::Changed { change: Change::Resource(uri), .. } if uri == widgets)
        })
        .await?;
        self.client.read_resource(widgets, CallOptions::default()).await?;
        if let Some(open_till) = self.tools.open_till {
            self.client.call_tool(open_till, "{}", CallOptions::default()).await?;
            heard(&mut subscription, "a change of the tools", |event| {
                matches!(event, ListenEvent::Changed { change: Change::Tools, .. })
            })
            .await?;
        }
        subscription.close().await;
        Ok(())
    }

    /// A call that becomes a task is followed to its end as any other.
    async fn task(&self) -> Done {
        let arguments = (self.tools.counting)(3, Duration::from_millis(30)).to_string();
        let answered = self.client.call_tool("long_job", &arguments, CallOptions::default()).await?;
        let result: Value = serde_json::from_slice(&answered.result)?;
        ensure(result["content"][0]["text"] == "3 steps done", || result.to_string())
    }

    /// A tool of the everything server that runs only as a task of 2025-11-25.
    async fn old_task(&self) -> Done {
        let arguments = r#"{"topic":"tea"}"#;
        let options = CallOptions::default();
        let answered = self.client.call_tool("simulate-research-query", arguments, options).await?;
        let result: Value = serde_json::from_slice(&answered.result)?;
        ensure(result["content"][0]["text"].is_string(), || result.to_string())
    }

    async fn echo(&self, word: &str) -> Result<String, Box<dyn Error>> {
        let arguments = json!({ self.tools.said: word }).to_string();
        let answered = self.client.call_tool(self.tools.echo, &arguments, CallOptions::default()).await?;
        let result: Value = serde_json::from_slice(&answered.result)?;
        Ok(result["content"][0]["text"].as_str().ok_or("the result has no text")?.to_owned())
    }

    /// Waits until the server has said that the handler of so many steps knows that it was given up.
    async fn seen(&self, steps: u64) -> Done {
        let Some(file) = &self.stderr else { return Ok(()) };
        let words = format!(" of {steps} steps");
        until("the server saw the end of the call", || {
            std::fs::read_to_string(file).is_ok_and(|said| said.contains(&words))
        })
        .await
    }
}

/// Waits for an event; those on the way are told where it does not come.
async fn heard(subscription: &mut Subscription, what: &str, is: impl Fn(&ListenEvent) -> bool) -> Done {
    let mut others = Vec::new();
    let search = async {
        while let Some(event) = subscription.next().await {
            if is(&event) {
                return true;
            }
            others.push(event);
        }
        false
    };
    let found = tokio::time::timeout(PATIENCE, search).await.unwrap_or(false);
    ensure(found, || format!("{what} was not heard, but {others:?}"))
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Done {
    if holds { Ok(()) } else { Err(why().into()) }
}

/// Real time: the other side is another process.
async fn until(what: &str, holds: impl Fn() -> bool) -> Done {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        ensure(Instant::now() < end, || format!("not within {PATIENCE:?}: {what}"))?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn say(check: &str, done: Done) {
    match done {
        Ok(()) => println!("ok {check}"),
        Err(why) => println!("failed {check}: {}", why.to_string().replace('\n', " ")),
    }
}

/// The client of a URL or of a command.
fn server(target: &[String]) -> Result<Builder, Box<dyn Error>> {
    match target {
        [url] if url.starts_with("http") => Ok(Client::of_url(url)?),
        [program, args @ ..] => Ok(Client::of_command(Command {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
        })),
        [] => Err("name the server's URL or command".into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let mut config = Config { name: "peer".to_owned(), ..Config::default() };
    let (mut tools, mut stderr) = (SHOP, None);
    let mut arguments = std::env::args().skip(1).peekable();
    while let Some(option) = arguments.next_if(|argument| argument.starts_with("--")) {
        let mut value = || arguments.next().ok_or_else(|| format!("{option} lacks its value"));
        match option.as_str() {
            "--era" => config.era = if value()? == "legacy" { Wish::Legacy } else { Wish::Auto },
            "--stderr" => stderr = Some(value()?.into()),
            "--everything" => tools = EVERYTHING,
            _ => return Err(format!("there is no option {option}").into()),
        }
    }
    let client = server(&arguments.collect::<Vec<_>>())?.config(config).tasks(Arc::new(Forgetful)).build();
    let host = Host { client, tools, stderr };
    say("list", host.list().await);
    say("call", host.call().await);
    say("progress", host.progress().await);
    say("abort", host.abort().await);
    say("timeout", host.timeout().await);
    say("subscription", host.subscription().await);
    if host.tools.open_till.is_none() {
        say("task", host.old_task().await);
    } else if host.client.discover(CallOptions::default()).await?.revision.era() == Era::Modern {
        say("task", host.task().await);
    }
    host.client.close(Duration::from_secs(2)).await;
    Ok(())
}
