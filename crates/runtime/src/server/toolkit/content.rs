//! What a tool returns.

use serde_json::{Map, Value, json};

use crate::message::OwnError;

/// One piece of content, as the protocol writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Content(Value);

impl Content {
    /// Text for a model to read.
    pub fn text(text: impl Into<String>) -> Self {
        Self(json!({ "type": "text", "text": text.into() }))
    }

    /// An image, in Base64.
    pub fn image(base64: impl Into<String>, mime_type: &str) -> Self {
        Self(json!({ "type": "image", "data": base64.into(), "mimeType": mime_type }))
    }

    /// A sound, in Base64.
    pub fn audio(base64: impl Into<String>, mime_type: &str) -> Self {
        Self(json!({ "type": "audio", "data": base64.into(), "mimeType": mime_type }))
    }

    /// A resource with what it holds.
    pub fn embedded(resource: &super::Contents) -> Self {
        Self(json!({ "type": "resource", "resource": resource.to_json() }))
    }

    /// A resource that may be read.
    pub fn link(uri: &str, name: &str, mime_type: Option<&str>) -> Self {
        let mut link = json!({ "type": "resource_link", "uri": uri, "name": name });
        if let Some(mime_type) = mime_type {
            link["mimeType"] = mime_type.into();
        }
        Self(link)
    }

    /// Content of any other shape, as it stands on the wire.
    pub const fn raw(json: Value) -> Self {
        Self(json)
    }

    pub(super) const fn as_json(&self) -> &Value {
        &self.0
    }
}

/// The result of a tool: content for a model, the same as data where there is any, and whether the tool's own work
/// failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// For a model to read.
    pub content: Vec<Content>,
    /// The same content once more as data, where there is any.
    pub structured: Option<Value>,
    /// The tool's own failure; a completed call all the same (ERR-14).
    pub is_error: bool,
    /// Members for the result's `_meta`, such as `steadfast/replayed`.
    pub meta: Map<String, Value>,
}

impl ToolResult {
    /// A result of several pieces.
    pub fn of(content: impl IntoIterator<Item = Content>) -> Self {
        Self { content: content.into_iter().collect(), structured: None, is_error: false, meta: Map::new() }
    }

    /// A result that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of([Content::text(text)])
    }

    /// A result that is data; its text is the same as JSON.
    pub fn structured(value: Value) -> Self {
        Self { structured: Some(value.clone()), ..Self::text(value.to_string()) }
    }

    /// A failure of the tool's work.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// An error that was made by Steadfast on this side of the tool, and says what is known of the effect.
    pub fn own_error(error: &OwnError<'_>) -> Self {
        let mut result = Self::error(error.sentence());
        result.meta.insert("steadfast/error".into(), error.member());
        result
    }

    /// Marks the result as an earlier execution's.
    #[must_use]
    pub fn replayed(mut self) -> Self {
        self.meta.insert("steadfast/replayed".into(), Value::Bool(true));
        self
    }

    /// The members of the result that every revision has. `objects_only`: data that is no object is left out, its text
    /// stays (LEG-89).
    pub(super) fn to_json(&self, objects_only: bool) -> Value {
        let content: Vec<&Value> = self.content.iter().map(Content::as_json).collect();
        let mut result = json!({ "content": content });
        if let Some(structured) = self.structured.as_ref().filter(|data| data.is_object() || !objects_only) {
            result["structuredContent"] = structured.clone();
        }
        if self.is_error {
            result["isError"] = Value::Bool(true);
        }
        if !self.meta.is_empty() {
            result["_meta"] = Value::Object(self.meta.clone());
        }
        result
    }
}
