//! Resources and their templates.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use super::catalog::{Audience, Definition};
use super::dialogue::Dialogue;
use super::failure::Failure;
use super::tool::DefinitionError;
use crate::percent;
use crate::server::Caller;

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
    audience: Audience,
    pub(super) read: Arc<dyn Fn(Dialogue) -> Reading + Send + Sync>,
}

impl Resource {
    /// A resource whose contents `read` gives. None mean that it is not there any more (ERR-12).
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
            audience: Audience::default(),
            read: Arc::new(move |dialogue| Box::pin(read(dialogue))),
        }
    }

    /// Only these callers may see and read it; by default all may. For every other there is no such resource.
    #[must_use]
    pub fn only_for(mut self, rule: impl Fn(&Caller) -> bool + Send + Sync + 'static) -> Self {
        self.audience = Audience::only(rule);
        self
    }
}

impl Definition for Resource {
    fn id(&self) -> &str {
        &self.uri
    }

    fn audience(&self) -> &Audience {
        &self.audience
    }

    fn to_json(&self, _: &Caller) -> Value {
        json!({
            "uri": self.uri, "name": self.name, "description": self.description, "mimeType": self.mime_type,
        })
    }
}

/// What the variables of a template stand for, by name.
pub type Variables = BTreeMap<String, String>;

type ReadTemplate = dyn Fn(Dialogue, String, Variables) -> Reading + Send + Sync;

/// Completes an argument or a variable: told its name and what was typed so far.
pub(super) type Complete = dyn Fn(&str, &str) -> Vec<String> + Send + Sync;

/// Resources whose URIs have one shape, such as `orders://{id}/lines`.
#[derive(Clone)]
pub struct Template {
    pub(super) pattern: String,
    name: String,
    description: String,
    mime_type: String,
    audience: Audience,
    complete: Option<Arc<Complete>>,
    read: Arc<ReadTemplate>,
}

/// A template whose pattern is understood.
pub(super) struct Shape {
    template: Template,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// Stands for at least one character, and for none of `/`.
    Variable(String),
}

impl Template {
    /// Resources that `read` gives, told the URI and what the variables stand for. No contents mean that there is no such
    /// resource (ERR-12).
    ///
    /// The pattern is made of text and simple variables with text between them (RFC 6570, level 1): anything else could
    /// match in more than one way. A value is decoded, so it may hold any character, `/` included.
    pub fn new<F, R>(pattern: &str, name: &str, description: &str, mime_type: &str, read: F) -> Self
    where
        F: Fn(Dialogue, String, Variables) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Contents>, Failure>> + Send + 'static,
    {
        Self {
            pattern: pattern.to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
            mime_type: mime_type.to_owned(),
            audience: Audience::default(),
            complete: None,
            read: Arc::new(move |dialogue, uri, variables| Box::pin(read(dialogue, uri, variables))),
        }
    }

    /// Completes a variable: told its name and what was typed so far.
    #[must_use]
    pub fn completes(mut self, complete: impl Fn(&str, &str) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.complete = Some(Arc::new(complete));
        self
    }

    /// Only these callers may see and read what has this shape; by default all may.
    #[must_use]
    pub fn only_for(mut self, rule: impl Fn(&Caller) -> bool + Send + Sync + 'static) -> Self {
        self.audience = Audience::only(rule);
        self
    }

    /// Reads the pattern.
    pub(super) fn publish(self) -> Result<Shape, DefinitionError> {
        match parts_of(&self.pattern) {
            Some(parts) => Ok(Shape { template: self, parts }),
            None => Err(DefinitionError {
                what: "template",
                name: self.pattern,
                why: "only simple variables such as {id} with text between them are served".into(),
            }),
        }
    }
}

impl Shape {
    pub(super) fn complete(&self) -> Option<&Arc<Complete>> {
        self.template.complete.as_ref()
    }

    pub(super) fn read(&self, dialogue: Dialogue, uri: &str, variables: Variables) -> Reading {
        (self.template.read)(dialogue, uri.to_owned(), variables)
    }

    pub(super) fn has_variable(&self, name: &str) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Variable(variable) if variable == name))
    }

    /// What the variables stand for if the URI has this shape, decoded (RFC 6570, section 3.2.2); in linear time, since
    /// a variable ends at the first character that may follow it (F097).
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
                    variables.insert(name.clone(), percent::decode(value)?);
                    rest = after;
                }
            }
        }
        rest.is_empty().then_some(variables)
    }
}

impl Definition for Shape {
    fn id(&self) -> &str {
        &self.template.pattern
    }

    fn audience(&self) -> &Audience {
        &self.template.audience
    }

    fn to_json(&self, _: &Caller) -> Value {
        let Template { pattern, name, description, mime_type, .. } = &self.template;
        json!({ "uriTemplate": pattern, "name": name, "description": description, "mimeType": mime_type })
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
        let is_known = parts.contains(&Part::Variable(name.to_owned()));
        if !is_name || is_known || matches!(parts.last(), Some(Part::Variable(_))) {
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

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.template.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(pattern: &str) -> Result<Shape, DefinitionError> {
        Template::new(pattern, "t", "", "text/plain", |_, _, _| async { Ok(Vec::new()) }).publish()
    }

    #[test]
    fn f097_a_template_matches_in_one_way_or_not_at_all() {
        let lines = template("orders://{id}/lines/{line}").unwrap();
        let found = lines.matches("orders://7/lines/b-2").unwrap();
        assert_eq!((found["id"].as_str(), found["line"].as_str()), ("7", "b-2"));
        let decoded = lines.matches("orders://a%20b%2Fc/lines/%C3%BC").unwrap();
        assert_eq!((decoded["id"].as_str(), decoded["line"].as_str()), ("a b/c", "\u{fc}"));
        for broken in ["orders://%2/lines/1", "orders://%zz/lines/1", "orders://%ff/lines/1"] {
            assert_eq!(lines.matches(broken), None, "{broken}");
        }
        for other in
            ["orders:///lines/1", "orders://7/lines/", "orders://7/8/lines/1", "orders://7/lines/1/2", "x"]
        {
            assert_eq!(lines.matches(other), None, "{other}");
        }
        for bad in ["a{b", "a}b", "{a}{b}", "{+a}/x", "x/{a*}", "x{}", "x/{a,,,,b}", "x/{a}/{a}"] {
            assert!(template(bad).is_err(), "{bad}");
        }
    }
}
