//! Tools that return one kind of content each, and tools whose definition is what matters.

use serde_json::{Value, json};
use steadfast::server::toolkit::{Builder, Call, Content, Contents, Failure, Tool, ToolResult};

use super::Handled;

/// A picture of one point.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A sound of no length.
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

/// What a tool without arguments takes.
pub(super) fn nothing() -> Value {
    json!({ "type": "object", "properties": {} })
}

pub(super) fn add(builder: Builder) -> Builder {
    let fixed = |name: &str, description: &str, result: fn() -> ToolResult| {
        Tool::raw(name, description, nothing(), move |_| async move { Ok(result()) })
    };
    builder
        // The first of the list is called without knowing it.
        .tool(fixed("test_simple_text", "Returns a text.", || {
            ToolResult::text("This is a simple text response for testing.")
        }))
        .tool(fixed("test_image_content", "Returns an image.", || {
            ToolResult::of([Content::image(PNG, "image/png")])
        }))
        .tool(fixed("test_audio_content", "Returns a sound.", || {
            ToolResult::of([Content::audio(WAV, "audio/wav")])
        }))
        .tool(fixed("test_embedded_resource", "Returns a resource with its text.", || {
            ToolResult::of([Content::embedded(&Contents::text(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            ))])
        }))
        .tool(fixed("test_multiple_content_types", "Returns text, an image and a resource.", || {
            ToolResult::of([
                Content::text("Multiple content types test:"),
                Content::image(PNG, "image/png"),
                Content::embedded(&Contents::text(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                )),
            ])
        }))
        .tool(fixed("test_error_handling", "Fails as a tool fails.", || {
            ToolResult::error("This tool intentionally returns an error for testing")
        }))
        .tool(Tool::raw(
            "json_schema_2020_12_tool",
            "Has a schema that uses what 2020-12 offers.",
            schema(),
            |_| async { Ok(ToolResult::text("ok")) },
        ))
        .tool(Tool::raw(
            "test_x_mcp_header",
            "Has an argument that HTTP clients mirror into a header.",
            json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } }),
            region,
        ))
        .tool(Tool::new("greet", "Greets by name.", greet))
}

async fn region(call: Call) -> Handled {
    let region = call.arguments().get("region").and_then(Value::as_str).unwrap_or("none");
    Ok(ToolResult::text(format!("region={region}")))
}

/// Whom to greet.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    /// The name.
    name: String,
}

async fn greet(_call: Call, Greet { name }: Greet) -> Result<ToolResult, Failure> {
    Ok(ToolResult::text(format!("Hello, {name}!")))
}

fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
