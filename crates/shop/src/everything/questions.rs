//! Tools that ask the user, the model behind the client, or the client itself.

use serde::Deserialize;
use serde_json::{Value, json};
use steadfast::server::toolkit::{Builder, Call, Dialogue, Failure, Question, Tool, ToolResult};

use super::Handled;
use super::content::nothing;

const PREFIX: &str = "test_input_required_result_";

/// A form of one required field.
pub(super) fn form(message: &str, field: &str, kind: &str) -> Question {
    Question::form(
        message,
        json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] }),
    )
}

/// Text from the model behind the client.
fn sampling(text: &str, max_tokens: u32) -> Question {
    Question::sampling(json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": text } }],
        "maxTokens": max_tokens,
    }))
}

/// The words of a model's answer.
fn words(answer: &Value) -> &str {
    answer["content"]["text"].as_str().unwrap_or("nothing")
}

/// One field of an accepted form.
pub(super) fn field<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer["content"][name].as_str().unwrap_or("nobody")
}

pub(super) fn add(builder: Builder) -> Builder {
    let ask = |name: &str, description: &str, handler: fn(Dialogue) -> Asking| {
        Tool::raw(&format!("{PREFIX}{name}"), description, nothing(), move |call: Call| {
            handler(call.dialogue().clone())
        })
    };
    let builder = builder
        .tool(Tool::new("test_sampling", "Asks the model behind the client.", sample))
        .tool(Tool::new("test_elicitation", "Asks the user for a name and an address.", elicit))
        .tool(Tool::raw(
            "test_elicitation_sep1034_defaults",
            "Asks with a default in every field.",
            nothing(),
            |call: Call| completed(call, defaults()),
        ))
        .tool(Tool::raw(
            "test_elicitation_sep1330_enums",
            "Asks for choices of every kind.",
            nothing(),
            |call: Call| completed(call, choices()),
        ))
        .tool(Tool::raw(
            "test_streaming_elicitation",
            "Asks the user for a name.",
            nothing(),
            |call: Call| name(call.dialogue().clone()),
        ))
        .tool(
            Tool::raw("test_missing_capability", "Needs a client that can sample.", nothing(), |_| async {
                Ok(ToolResult::text("You can sample."))
            })
            .needs(&["sampling"]),
        );
    builder
        .tool(ask("elicitation", "Asks for a name.", |dialogue| Box::pin(name(dialogue))))
        .tool(ask("sampling", "Asks the model for a capital.", |dialogue| {
            Box::pin(async move {
                let question = sampling("What is the capital of France?", 100);
                let answer = dialogue.ask("capital_question", question).await?;
                Ok(ToolResult::text(format!("The model says: {}", words(&answer))))
            })
        }))
        .tool(ask("list_roots", "Asks the client for its roots.", |dialogue| {
            Box::pin(async move {
                let answer = dialogue.ask("client_roots", Question::roots()).await?;
                Ok(ToolResult::text(format!("The roots are: {}", answer["roots"])))
            })
        }))
        .tool(ask("request_state", "Keeps a state between two rounds.", |dialogue| {
            Box::pin(confirm(dialogue))
        }))
        .tool(ask("tampered_state", "Keeps a state that nobody may change.", |dialogue| {
            Box::pin(confirm(dialogue))
        }))
        .tool(ask("multiple_inputs", "Asks three things at once.", |dialogue| {
            Box::pin(async move {
                dialogue.remember(json!("asked"));
                let answers = dialogue
                    .ask_all([
                        ("user_name", form("What is your name?", "name", "string")),
                        ("greeting", sampling("Generate a greeting", 50)),
                        ("client_roots", Question::roots()),
                    ])
                    .await?;
                Ok(ToolResult::text(format!(
                    "{} {}, {} roots",
                    words(&answers["greeting"]),
                    field(&answers["user_name"], "name"),
                    answers["client_roots"]["roots"].as_array().map_or(0, Vec::len),
                )))
            })
        }))
        .tool(ask("multi_round", "Asks one thing after the other.", |dialogue| {
            Box::pin(async move {
                dialogue.remember(json!(1));
                let first =
                    dialogue.ask("step1", form("Step 1: What is your name?", "name", "string")).await?;
                dialogue.remember(json!(2));
                let question = form("Step 2: What is your favorite color?", "color", "string");
                let second = dialogue.ask("step2", question).await?;
                let (name, color) = (field(&first, "name"), field(&second, "color"));
                Ok(ToolResult::text(format!("{name} likes {color}")))
            })
        }))
        .tool(ask("capabilities", "Asks only what the client can answer.", |dialogue| {
            Box::pin(async move {
                let all = [
                    ("answer", sampling("What is the capital of France?", 100)),
                    ("user_name", form("What is your name?", "name", "string")),
                ];
                let may: Vec<_> =
                    all.into_iter().filter(|(_, question)| dialogue.may_ask(question)).collect();
                if may.is_empty() {
                    return Ok(ToolResult::error("This client can be asked nothing."));
                }
                let answers = dialogue.ask_all(may).await?;
                Ok(ToolResult::text(format!("{} answers", answers.len())))
            })
        }))
}

type Asking = std::pin::Pin<Box<dyn Future<Output = Handled> + Send>>;

async fn name(dialogue: Dialogue) -> Handled {
    let answer = dialogue.ask("user_name", form("What is your name?", "name", "string")).await?;
    Ok(ToolResult::text(format!("Hello, {}!", field(&answer, "name"))))
}

async fn confirm(dialogue: Dialogue) -> Handled {
    dialogue.remember(json!("confirming"));
    let answer = dialogue.ask("confirm", form("Please confirm", "ok", "boolean")).await?;
    let state = if dialogue.remembered() == Some(&json!("confirming")) { "state-ok" } else { "state-lost" };
    Ok(ToolResult::text(format!("{state}, {}", answer["action"])))
}

/// What to ask a model.
#[derive(Deserialize, schemars::JsonSchema)]
struct Sample {
    /// The text of the question.
    prompt: String,
}

async fn sample(call: Call, Sample { prompt }: Sample) -> Handled {
    let answer = call.ask("prompt", sampling(&prompt, 100)).await?;
    Ok(ToolResult::text(format!("LLM response: {}", words(&answer))))
}

/// What to ask a user.
#[derive(Deserialize, schemars::JsonSchema)]
struct Elicit {
    /// The text of the question.
    message: String,
}

async fn elicit(call: Call, Elicit { message }: Elicit) -> Result<ToolResult, Failure> {
    let schema = json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "description": "User's response" },
            "email": { "type": "string", "description": "User's email address" },
        },
        "required": ["username", "email"],
    });
    let answer = call.ask("user", Question::form(message, schema)).await?;
    let (action, content) = (said(&answer), &answer["content"]);
    Ok(ToolResult::text(format!("User response: <action: {action}, content: {content}>")))
}

async fn completed(call: Call, schema: Value) -> Handled {
    let answer = call.ask("form", Question::form("Please fill in this form", schema)).await?;
    let (action, content) = (said(&answer), &answer["content"]);
    Ok(ToolResult::text(format!("Elicitation completed: action={action}, content={content}")))
}

fn said(answer: &Value) -> &str {
    answer["action"].as_str().unwrap_or("none")
}

fn defaults() -> Value {
    json!({ "type": "object", "required": [], "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    } })
}

fn choices() -> Value {
    let titled = |titles: [&str; 3]| {
        ["value1", "value2", "value3"]
            .into_iter()
            .zip(titles)
            .map(|(value, title)| json!({ "const": value, "title": title }))
            .collect::<Vec<_>>()
    };
    json!({ "type": "object", "required": [], "properties": {
        "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
        "titledSingle": { "type": "string", "oneOf": titled(["First Option", "Second Option", "Third Option"]) },
        "legacyEnum": {
            "type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array", "items": { "type": "string", "enum": ["option1", "option2", "option3"] },
        },
        "titledMulti": {
            "type": "array", "items": { "anyOf": titled(["First Choice", "Second Choice", "Third Choice"]) },
        },
    } })
}
