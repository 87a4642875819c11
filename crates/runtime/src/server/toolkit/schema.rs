//! JSON Schema 2020-12: what a value must be, checked within bounds (VAL).
//!
//! Supported is the dialect 2020-12, which an absent `$schema` means (VAL-01..03). Nothing is fetched (VAL-04): a
//! `$ref` out of the document makes the schema unusable, not permissive (VAL-07). Patterns run in linear time (F097).

use std::collections::HashMap;
use std::fmt;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

/// How deep a schema nests at most.
const MAX_DEPTH: usize = 64;
/// How many subschemas one value may be checked against at most, references followed: `allOf` of two references to
/// the next definition, thirty times over, is a small text and a billion checks (VAL-08).
const MAX_CHECKS: u64 = 20_000;
/// The largest value that is checked on the thread that reads.
pub(super) const INLINE_BYTES: usize = 64 << 10;
/// How many faults are told at most.
const MAX_FAULTS: usize = 10;

/// A compiled schema.
pub struct Schema {
    json: Value,
    validator: Validator,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// VAL-02.
    #[error(
        "the JSON Schema dialect {0:?} is not supported; use https://json-schema.org/draft/2020-12/schema"
    )]
    Dialect(String),
    /// VAL-08.
    #[error("the schema nests deeper than {MAX_DEPTH} levels; make it flatter")]
    TooDeep,
    /// VAL-08.
    #[error(
        "checking one value against the schema can take more than {MAX_CHECKS} checks; use fewer combinations"
    )]
    TooCostly,
    /// VAL-07, VAL-10.
    #[error("the schema is not usable: {0}")]
    Invalid(String),
    /// VAL-10.
    #[error("the root of an input schema must have type \"object\"; wrap the value into an object")]
    NotAnObject,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// The dialect is not 2020-12, the schema is invalid or refers to something outside itself, or checking a value
    /// against it could cost too much.
    pub fn new(json: Value) -> Result<Self, SchemaError> {
        if let Some(dialect) = json.get("$schema").and_then(Value::as_str)
            && dialect.trim_end_matches('#') != "https://json-schema.org/draft/2020-12/schema"
        {
            return Err(SchemaError::Dialect(dialect.to_owned()));
        }
        if depth(&json) > MAX_DEPTH {
            return Err(SchemaError::TooDeep);
        }
        if (Costs { root: &json, known: HashMap::new() }).of(&json) > MAX_CHECKS {
            return Err(SchemaError::TooCostly);
        }
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex());
        let validator = options.build(&json).map_err(|error| SchemaError::Invalid(error.to_string()))?;
        Ok(Self { json, validator })
    }

    /// A schema of arguments: its root is an object (VAL-10).
    ///
    /// # Errors
    /// As [`Self::new`], or the root has another type.
    pub fn of_input(json: Value) -> Result<Self, SchemaError> {
        if json.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::NotAnObject);
        }
        Self::new(json)
    }

    /// The schema as it is published.
    pub const fn as_json(&self) -> &Value {
        &self.json
    }

    /// Checks a value; says in one text where it is wrong: a JSON Pointer and a reason for each fault, without the
    /// value itself (G15).
    ///
    /// # Errors
    /// The value is not what the schema says.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let mut faults = self.validator.iter_errors(value);
        let mut said: Vec<String> = Vec::new();
        for fault in faults.by_ref().take(MAX_FAULTS) {
            let at = fault.instance_path().to_string();
            let at = if at.is_empty() { "the root".to_owned() } else { at };
            said.push(format!("{at}: {}", fault.masked()));
        }
        if faults.next().is_some() {
            said.push("and more".to_owned());
        }
        Err(said.join("; "))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.json).finish()
    }
}

fn depth(json: &Value) -> usize {
    // Nesting is bounded by the parser that made the value, or by its author's code.
    match json {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// How many subschemas one value meets, with local references followed. A reference back into itself counts once: how
/// often it is followed is up to the depth of the value.
struct Costs<'a> {
    root: &'a Value,
    known: HashMap<*const Value, u64>,
}

impl<'a> Costs<'a> {
    fn of(&mut self, schema: &'a Value) -> u64 {
        let place: *const Value = schema;
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        // Until it is known: what a cycle finds.
        self.known.insert(place, 1);
        let cost = match schema {
            Value::Object(members) => members.iter().fold(1_u64, |cost, (keyword, value)| {
                let inner = match (keyword.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(to)) => {
                        to.strip_prefix('#').and_then(|at| self.root.pointer(at)).map_or(1, |to| self.of(to))
                    }
                    // Values, not schemas; and definitions cost where they are used.
                    ("const" | "enum" | "default" | "examples" | "$defs" | "definitions", _) => 0,
                    (_, Value::Object(_)) => self.of(value),
                    (_, Value::Array(items)) => {
                        items.iter().fold(0_u64, |sum, item| sum.saturating_add(self.of(item)))
                    }
                    _ => 0,
                };
                cost.saturating_add(inner)
            }),
            _ => 0,
        };
        self.known.insert(place, cost);
        cost
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amb_44_each_fault_is_named_by_its_pointer_and_never_by_its_value() {
        let schema = Schema::new(json!({
            "type": "object",
            "properties": { "a": { "type": "object", "properties": { "b/c": { "type": "integer" } } }, "n": { "minimum": 1 } },
            "required": ["x"],
        }))
        .unwrap();
        assert_eq!(schema.check(&json!({ "x": 1 })), Ok(()));
        let said = schema.check(&json!({ "a": { "b/c": "secret" }, "n": 0 })).unwrap_err();
        assert!(said.contains("/a/b~1c: ") && said.contains("/n: ") && said.contains("\"x\""), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }

    #[test]
    fn val_08_a_small_schema_that_costs_without_bound_is_refused() {
        let mut defs = serde_json::Map::new();
        for level in 0..30 {
            let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
            defs.insert(format!("d{level}"), json!({ "allOf": [next, next] }));
        }
        defs.insert("d30".into(), json!({ "type": "integer" }));
        let bomb = json!({ "$ref": "#/$defs/d0", "$defs": defs });
        assert_eq!(Schema::new(bomb).unwrap_err(), SchemaError::TooCostly);
        let mut deep = json!({ "type": "integer" });
        for _ in 0..70 {
            deep = json!({ "not": deep });
        }
        assert_eq!(Schema::new(deep).unwrap_err(), SchemaError::TooDeep);
        let recursive = json!({ "type": "object", "properties": { "next": { "$ref": "#" } } });
        assert!(Schema::new(recursive).is_ok());
    }

    #[test]
    fn val_04_nothing_is_fetched_and_what_lies_elsewhere_is_refused() {
        let elsewhere = Schema::new(json!({ "$ref": "http://127.0.0.1:9/schema" }));
        assert!(matches!(elsewhere, Err(SchemaError::Invalid(_))), "VAL-07");
        let old = Schema::new(json!({ "$schema": "http://json-schema.org/draft-07/schema#" }));
        assert!(matches!(old, Err(SchemaError::Dialect(_))), "VAL-02");
        assert_eq!(Schema::of_input(json!({ "type": "string" })).unwrap_err(), SchemaError::NotAnObject);
    }

    /// Backtracking would take 2^40 steps here.
    #[test]
    fn f097_a_pattern_runs_in_linear_time() {
        let schema = Schema::new(json!({ "type": "string", "pattern": "^(a+)+$" })).unwrap();
        assert!(schema.check(&json!(format!("{}x", "a".repeat(40)))).is_err());
        assert!(schema.check(&json!("a".repeat(40))).is_ok());
        assert!(Schema::new(json!({ "pattern": r"(a)\1" })).is_err(), "what has no linear form is refused");
    }
}
