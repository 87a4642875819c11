//! Resources: text, bytes, one that is watched, and a template.

use serde_json::json;
use steadfast::server::toolkit::{Builder, Contents, Resource, Template};

use super::content::PNG;

pub(super) fn add(builder: Builder) -> Builder {
    let text = |uri: &'static str, name: &str, description: &str, text: &'static str| {
        Resource::new(uri, name, description, "text/plain", move |_| async move {
            Ok(vec![Contents::text(uri, "text/plain", text)])
        })
    };
    builder
        .resource(text(
            "test://static-text",
            "Static text",
            "A text that stays as it is.",
            "This is the content of the static text resource.",
        ))
        .resource(Resource::new(
            "test://static-binary",
            "Static bytes",
            "A picture that stays as it is.",
            "image/png",
            |_| async { Ok(vec![Contents::blob("test://static-binary", "image/png", PNG)]) },
        ))
        .resource(text(
            "test://watched-resource",
            "Watched text",
            "A text that can be subscribed to.",
            "Watched resource content",
        ))
        .template(Template::new(
            "test://template/{id}/data",
            "Data by id",
            "Data for an id.",
            "application/json",
            |_, uri, variables| async move {
                let id = variables.get("id").cloned().unwrap_or_default();
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                Ok(vec![Contents::text(&uri, "application/json", data.to_string())])
            },
        ))
}
