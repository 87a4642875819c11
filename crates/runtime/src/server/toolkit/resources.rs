//! Resources and their templates.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use super::dialogue::{Dialogue, Failure};
use super::tool::DefinitionError;

type Reading = Pin<Box<dyn Future<Output = Result<Vec<Contents>, Failure>> + Send>>;

/// What a resource holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    uri: String,
    mime_type: String,
    body: (&'static str, String),
}

impl Contents {
    /// Text.
    pub fn text(uri: &str, mime_type: &str, text: impl Into<String>) -> Self {
        Self { uri: uri.to_owned(), mime_type: mime_type.to_owned(), body: ("text", text.into()) }
    }

    /// Bytes, in Base64.
    pub fn blob(uri: &str, mime_type: &str, base64: impl Into<String>) -> Self {
        Self { uri: uri.to_owned(), mime_type: mime_type.to_owned(), body: ("blob", base64.into()) }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "uri": self.uri, "mimeType": self.mime_type, self.body.0: self.body.1 })
    }
}

/// One resource.
#[derive(Clone)]
pub struct Resource {
    pub(super) uri: String,
    name: String,
    description: String,
    mime_type: String,
    pub(super) read: Arc<dyn Fn(Dialogue) -> Reading + Send + Sync>,
}

impl Resource {
    /// A resource whose contents `read` gives.
    pub fn new<F, R>(uri: &str, name: &str, description: &str, mime_type: &str, read: F) -> Self
    where
        F: Fn(Dialogue) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Contents>, Failure>> + Send + 'static,
    {
        Self {
            uri: uri.to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
            mime_type: mime_type.to_owned(),
            read: Arc::new(move |dialogue| Box::pin(read(dialogue))),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "uri": self.uri, "name": self.name, "description": self.description, "mimeType": self.mime_type,
        })
    }
}

/// What the variables of a template stand for, by name.
pub type Variables = BTreeMap<String, String>;

type ReadTemplate = dyn Fn(Dialogue, String, Variables) -> Reading + Send + Sync;

/// Resources whose URIs have one shape, such as `orders://{id}/lines`.
#[derive(Clone)]
pub struct Template {
    pub(super) pattern: String,
    name: String,
    description: String,
    mime_type: String,
    parts: Vec<Part>,
    pub(super) read: Arc<ReadTemplate>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// Stands for at least one character, and for none of `/`.
    Variable(String),
}

impl Template {
    /// Resources that `read` gives, told the URI and what the variables stand for.
    ///
    /// # Errors
    /// The pattern is not made of text and simple variables with text between them (RFC 6570, level 1): anything else
    /// could match in more than one way.
    pub fn new<F, R>(
        pattern: &str,
        name: &str,
        description: &str,
        mime_type: &str,
        read: F,
    ) -> Result<Self, DefinitionError>
    where
        F: Fn(Dialogue, String, Variables) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Contents>, Failure>> + Send + 'static,
    {
        let parts = parts_of(pattern).ok_or_else(|| DefinitionError {
            what: "template",
            name: pattern.to_owned(),
            why: "only simple variables such as {id} with text between them are served".into(),
        })?;
        Ok(Self {
            pattern: pattern.to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
            mime_type: mime_type.to_owned(),
            parts,
            read: Arc::new(move |dialogue, uri, variables| Box::pin(read(dialogue, uri, variables))),
        })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "uriTemplate": self.pattern, "name": self.name, "description": self.description, "mimeType": self.mime_type,
        })
    }

    /// What the variables stand for if the URI has this shape; in linear time, since a variable ends at the first
    /// character that may follow it (F097).
    pub(super) fn matches(&self, uri: &str) -> Option<Variables> {
        let mut variables = Variables::new();
        let mut rest = uri;
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Literal(text) => rest = rest.strip_prefix(text.as_str())?,
                Part::Variable(name) => {
                    let next = match self.parts.get(at + 1) {
                        Some(Part::Literal(text)) => text.chars().next(),
                        _ => None,
                    };
                    let end = rest.find(|char| char == '/' || Some(char) == next).unwrap_or(rest.len());
                    let (value, after) = rest.split_at(end);
                    if value.is_empty() {
                        return None;
                    }
                    variables.insert(name.clone(), value.to_owned());
                    rest = after;
                }
            }
        }
        rest.is_empty().then_some(variables)
    }
}

fn parts_of(pattern: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let open = rest.find('{').unwrap_or(rest.len());
        if open > 0 {
            if rest[..open].contains('}') {
                return None;
            }
            parts.push(Part::Literal(rest[..open].to_owned()));
            rest = &rest[open..];
            continue;
        }
        let (name, after) = rest[1..].split_once('}')?;
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || matches!(parts.last(), Some(Part::Variable(_))) {
            return None;
        }
        parts.push(Part::Variable(name.to_owned()));
        rest = after;
    }
    (!parts.is_empty()).then_some(parts)
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("pattern", &self.pattern).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(pattern: &str) -> Result<Template, DefinitionError> {
        Template::new(pattern, "t", "", "text/plain", |_, _, _| async { Ok(Vec::new()) })
    }

    #[test]
    fn f097_a_template_matches_in_one_way_or_not_at_all() {
        let lines = template("orders://{id}/lines/{line}").unwrap();
        let found = lines.matches("orders://7/lines/b-2").unwrap();
        assert_eq!((found["id"].as_str(), found["line"].as_str()), ("7", "b-2"));
        for other in
            ["orders:///lines/1", "orders://7/lines/", "orders://7/8/lines/1", "orders://7/lines/1/2", "x"]
        {
            assert_eq!(lines.matches(other), None, "{other}");
        }
        for bad in ["a{b", "{a}{b}", "{+a}/x", "x/{a*}", "x{}"] {
            assert!(template(bad).is_err(), "{bad}");
        }
    }
}
