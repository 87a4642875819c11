//! A server of notes, on stdin and stdout: `cargo run --example notes -- notes.db`

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steadfast::server::toolkit::{
    BuildError, Call, Content, Contents, Failure, Message, Prompt, Question, Resource, Server, TaskPolicy,
    TaskSupport, Template, Tool, ToolResult,
};
use steadfast::server::{Options, stdio};
use steadfast_store::Ledger;

/// A tool's arguments are a type: its schema is derived, and checked before the tool is called.
#[derive(Deserialize, JsonSchema)]
struct NewNote {
    /// What to write down.
    #[schemars(length(min = 1, max = 2000))]
    text: String,
}

/// A change: under an idempotency key it happens once, in one transaction with the record of the key.
async fn add_note(call: Call, NewNote { text }: NewNote) -> Result<ToolResult, Failure> {
    let added = call.execute("add_note", move |effect| {
        let id: Option<i64> =
            effect.query("INSERT INTO note (text) VALUES (?1) RETURNING id", [text.as_str()])?;
        Ok(json!({ "id": id, "text": text }))
    });
    let added = added.await;
    call.server().resource_updated("notes://all");
    Ok(added)
}

#[derive(Deserialize, JsonSchema)]
struct Which {
    /// The note's number.
    id: i64,
}

/// A question to the user. A modern client answers it with its next request, for which this runs again from its first
/// line: so ask first, and then act.
async fn delete_note(call: Call, Which { id }: Which) -> Result<ToolResult, Failure> {
    let form =
        json!({ "type": "object", "properties": { "sure": { "type": "boolean" } }, "required": ["sure"] });
    let answer = call.ask("sure", Question::form(format!("Delete note {id}?"), form)).await?;
    if answer["content"]["sure"] != true {
        return Ok(ToolResult::text(format!("Note {id} is kept.")));
    }
    let deleted = call.execute("delete_note", move |effect| {
        let rows = effect.execute("DELETE FROM note WHERE id = ?1", [id])?;
        Ok(json!({ "deleted": rows }))
    });
    Ok(deleted.await)
}

/// A structured result has a type too, which is published and checked.
#[derive(Serialize, JsonSchema)]
struct Words {
    words: usize,
}

/// Long work: it reports, it stops when it is cancelled, and after five seconds it is a task for who knows tasks.
async fn count_words(call: Call, ledger: Arc<Ledger>) -> Result<ToolResult, Failure> {
    let notes = all(&ledger)?;
    let mut words = 0;
    for (done, (_, text)) in notes.iter().enumerate() {
        tokio::select! {
            () = call.cancelled() => return Err(Failure::stopped()),
            () = tokio::time::sleep(Duration::from_millis(10)) => words += text.split_whitespace().count(),
        }
        call.progress((done + 1) as f64, notes.len() as f64);
    }
    Ok(ToolResult::structured(json!(Words { words })))
}

fn all(ledger: &Ledger) -> Result<Vec<(i64, String)>, Failure> {
    Ok(ledger.look(|file| {
        let mut notes = file.prepare("SELECT id, text FROM note ORDER BY id")?;
        notes.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    })?)
}

/// The server, on a ledger that keeps the notes beside the records of their keys.
pub(crate) fn server(ledger: Arc<Ledger>) -> Result<Server, BuildError> {
    ledger.prepare("CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")?;
    let (counted, listed, read) = (Arc::clone(&ledger), Arc::clone(&ledger), Arc::clone(&ledger));
    let slow = TaskPolicy {
        support: TaskSupport::Optional { after: Duration::from_secs(5) },
        writes: false,
        ..TaskPolicy::default()
    };
    Server::builder("notes", "1.0.0")
        .instructions("Keeps short notes. Give each note a key of its own.")
        .store(ledger)
        .tool(Tool::new("add_note", "Writes a note down.", add_note))
        .tool(Tool::new("delete_note", "Deletes a note, if the user agrees.", delete_note))
        .tool(
            Tool::raw("count_words", "Counts all words.", json!({ "type": "object" }), move |call| {
                count_words(call, Arc::clone(&counted))
            })
            .output::<Words>()
            .task(slow),
        )
        .resource(Resource::new("notes://all", "All notes", "One a line.", "text/plain", move |_| {
            let notes = all(&listed);
            async move {
                let lines: Vec<String> =
                    notes?.into_iter().map(|(id, text)| format!("{id}: {text}")).collect();
                Ok(vec![Contents::text("notes://all", "text/plain", lines.join("\n"))])
            }
        }))
        .template(Template::new(
            "notes://{id}",
            "One note",
            "By its number.",
            "text/plain",
            move |_, uri, named| {
                let notes = all(&read);
                async move {
                    let found = notes?.into_iter().find(|(id, _)| id.to_string() == named["id"]);
                    Ok(found.map(|(_, text)| Contents::text(&uri, "text/plain", text)).into_iter().collect())
                }
            },
        ))
        .prompt(Prompt::new("tidy", "Asks a model to tidy the notes up.", |_, _| async {
            Ok(vec![Message::user(&Content::text("Read notes://all and merge what belongs together."))])
        }))
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "notes.db".into());
    let ledger = Ledger::open(path, steadfast_store::Options::default())?;
    let server = server(Arc::new(ledger))?;
    let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
    let asked_to_end = async { drop(tokio::signal::ctrl_c().await) };
    stdio::serve(stdin, stdout, Arc::new(server.clone()), Options::default(), asked_to_end).await?;
    server.leave().await;
    Ok(())
}
