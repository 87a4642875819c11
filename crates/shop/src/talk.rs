//! What involves a person: a question to the user, and prompts.

use serde_json::json;
use steadfast::server::toolkit::{Builder, Call, Content, Message, Prompt, Question, Tool, ToolResult};

pub(crate) fn add(builder: Builder) -> Builder {
    builder
        .tool(Tool::raw(
            "ask_name",
            "Asks the user for a name, and greets.",
            json!({ "type": "object", "properties": {} }),
            |call: Call| async move {
                let schema = json!({
                    "type": "object",
                    "properties": { "name": { "type": "string", "title": "Your name" } },
                    "required": ["name"],
                });
                let answer = call.ask("name", Question::form("What is your name?", schema)).await?;
                Ok(match (answer["action"].as_str(), answer["content"]["name"].as_str()) {
                    (Some("accept"), Some(name)) => ToolResult::text(format!("Hello, {name}!")),
                    _ => ToolResult::text("Hello, whoever you are."),
                })
            },
        ))
        .prompt(Prompt::new("stock_report", "Asks a model to report on the stock.", |_, _| async {
            let text = "Call get_inventory for anvil, rope and widget, and report what is low.";
            Ok(vec![Message::user(&Content::text(text))])
        }))
        .prompt(
            Prompt::new("charge_receipt", "Asks a model to write a receipt.", |_, arguments| async move {
                let account = arguments.get("account").cloned().unwrap_or_default();
                let text = format!("Write a short receipt for the last charge to the account {account}.");
                Ok(vec![Message::user(&Content::text(text))])
            })
            .required("account", "Whose receipt.")
            .completes(|_, typed| {
                let known = ["alice", "bob", "carol"].into_iter().filter(|name| name.starts_with(typed));
                known.map(str::to_owned).collect()
            }),
        )
}
