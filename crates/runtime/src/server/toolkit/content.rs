//! What a tool returns.

use serde_json::{Map, Value, json};
use steadfast_core::hop::{Era, Revision};

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

    /// As a revision knows it: 2025-03-26 has no links to resources, so there one is told in words.
    fn into_json(self, revision: Revision) -> Value {
        if revision > Revision::V2025_03_26 || self.0["type"] != "resource_link" {
            return self.0;
        }
        let part = |name: &str| self.0[name].as_str().unwrap_or_default();
        Self::text(format!("{}: {}", part("name"), part("uri"))).0
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

    /// The members of the result that this revision has. In the legacy ones data that is no object is left out, its
    /// text stays (LEG-89).
    pub(super) fn into_json(self, revision: Revision) -> Value {
        let Self { content, structured, is_error, meta } = self;
        let content: Vec<Value> = content.into_iter().map(|content| content.into_json(revision)).collect();
        let mut result = Map::new();
        result.insert("content".into(), content.into());
        let any = revision.era() == Era::Modern;
        if let Some(structured) = structured.filter(|data| any || data.is_object()) {
            result.insert("structuredContent".into(), structured);
        }
        if is_error {
            result.insert("isError".into(), true.into());
        }
        if !meta.is_empty() {
            result.insert("_meta".into(), meta.into());
        }
        result.into()
    }
}
