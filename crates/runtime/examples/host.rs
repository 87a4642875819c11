//! A host of two servers: `cargo run --example host -- http://127.0.0.1:9000/mcp`, where the notes are a child.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use steadfast::client::{
    Answering, CallOptions, Client, Command, Config, Error, Handler, Host, Identity, NoAnswer, Question, Run,
    ToolContract, guard,
};
use steadfast::core::policy::{Effect, Idempotency};

/// Who is asked when a server has a question. This one agrees to whatever it is asked to confirm; a host with people
/// before it shows them the question, which is an untrusted party's text, and waits.
struct Agrees;

impl Handler for Agrees {
    fn capabilities(&self) -> String {
        r#"{"elicitation":{}}"#.to_owned()
    }

    fn answer<'a>(&'a self, question: Question) -> Answering<'a> {
        Box::pin(async move {
            match question.method.as_str() {
                "elicitation/create" => Ok(r#"{"action":"accept","content":{"sure":true}}"#.to_owned()),
                method => Err(NoAnswer::Unsupported(method.to_owned())),
            }
        })
    }
}

/// The operator's word on what the tools do. Nothing that a server says of itself makes a repetition safe.
fn contracts() -> Vec<ToolContract> {
    vec![
        // Counting changes nothing, so a lost answer is simply asked for again.
        ToolContract::new("count_*", Effect::Read, Idempotency::None),
        // Reserving is enforced by the server under a key, which it looks for in `_meta`.
        ToolContract::new("reserve_*", Effect::Write, Idempotency::Upstream),
    ]
}

pub(crate) fn host(notes: Command, shop: &str) -> Result<Host, Box<dyn std::error::Error>> {
    let config = |name: &str| Config { name: name.to_owned(), contracts: contracts(), ..Config::default() };
    let host = Host::default();
    host.add(Client::of_command(notes).config(config("notes")).handler(Arc::new(Agrees)))?;
    host.add(Client::of_url(shop)?.config(config("shop")).handler(Arc::new(Agrees)))?;
    Ok(host)
}

/// One task of an agent: all its calls share a deadline, a budget and an id for the audit, whatever server they go to.
pub(crate) async fn tidy_up(host: &Host) -> Result<String, Box<dyn std::error::Error>> {
    let me = Identity::default();
    let run = Run::new("tidy-up-17", Some(Duration::from_secs(60)), 20);
    let options = || CallOptions { run: Some(run.clone()), ..CallOptions::default() };

    let (notes, shop) = (host.client("notes", &me)?, host.client("shop", &me)?);
    let keyed = CallOptions { key: Some("note-17".to_owned()), ..options() };
    notes.call_tool("add_note", r#"{"text":"buy rope"}"#, keyed).await?;
    let counted = notes.call_tool("count_words", "{}", options()).await?;

    let keyed = CallOptions { key: Some("rope-17".to_owned()), ..options() };
    let order = r#"{"sku":"rope","quantity":1,"tenant":"acme"}"#;
    match shop.call_tool("reserve_inventory", order, keyed).await {
        Ok(done) => println!("reserved after {} attempts", done.attempts),
        // Whose fault it is, and what is known of the effect; never a guess.
        Err(Error::Protocol { code, message, .. }) => println!("the shop refuses ({code}): {message}"),
        Err(error) => println!("{error}; the record of this call is {}", error.call_id()),
    }
    Ok(String::from_utf8(counted.result.to_vec())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before anything else, and before any thread: children end with this process then, even if it is killed.
    guard();
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let shop = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000/mcp".to_owned());
    let notes = Command {
        program: "cargo".into(),
        args: ["run", "--quiet", "--example", "notes"].map(Into::into).to_vec(),
        env: Vec::new(),
        cwd: None,
    };
    let host = host(notes, &shop)?;
    println!("{}", tidy_up(&host).await?);
    // Children and sessions end; nothing that a server did is taken back.
    host.close(Duration::from_secs(5)).await;
    Ok(())
}
