//! Prompts: plain, with arguments, with a resource, with an image, and one that asks.

use steadfast::server::toolkit::{Builder, Content, Contents, Message, Prompt};

use super::content::PNG;
use super::questions::{field, form};

pub(super) fn add(builder: Builder) -> Builder {
    let said = |text: &str| Message::user(&Content::text(text));
    builder
        .prompt(Prompt::new("test_simple_prompt", "A prompt without arguments.", move |_, _| async move {
            Ok(vec![said("This is a simple prompt for testing.")])
        }))
        .prompt(
            Prompt::new(
                "test_prompt_with_arguments",
                "A prompt with two arguments.",
                move |_, arguments| async move {
                    let [first, second] =
                        ["arg1", "arg2"].map(|name| arguments.get(name).cloned().unwrap_or_default());
                    Ok(vec![said(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))])
                },
            )
            .required("arg1", "The first.")
            .required("arg2", "The second.")
            .completes(|_, _| Vec::new()),
        )
        .prompt(
            Prompt::new(
                "test_prompt_with_embedded_resource",
                "A prompt that holds a resource.",
                move |_, arguments| async move {
                    let uri = arguments.get("resourceUri").cloned().unwrap_or_default();
                    let resource =
                        Contents::text(&uri, "text/plain", "Embedded resource content for testing.");
                    Ok(vec![
                        Message::user(&Content::embedded(&resource)),
                        said("Please process the embedded resource above."),
                    ])
                },
            )
            .required("resourceUri", "The URI that the resource is given."),
        )
        .prompt(Prompt::new(
            "test_prompt_with_image",
            "A prompt that holds an image.",
            move |_, _| async move {
                Ok(vec![
                    Message::user(&Content::image(PNG, "image/png")),
                    said("Please analyze the image above."),
                ])
            },
        ))
        .prompt(Prompt::new(
            "test_input_required_result_prompt",
            "A prompt that asks for a context first.",
            move |dialogue, _| async move {
                let question = form("What context should the prompt use?", "context", "string");
                let answer = dialogue.ask("user_context", question).await?;
                Ok(vec![said(&format!("Use this context: {}", field(&answer, "context")))])
            },
        ))
}
