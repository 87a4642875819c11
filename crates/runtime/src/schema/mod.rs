//! JSON Schema 2020-12: what a value must be, checked within bounds (VAL).
//!
//! Supported is the dialect 2020-12, which an absent `$schema` means (VAL-01..03). Nothing is fetched (VAL-04): a
//! `$ref` out of the document makes the schema unusable, not permissive (VAL-07). Patterns run in linear time (F097).

mod cost;
pub(crate) mod mirror;

use std::fmt;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use cost::{Cost, MAX_LEVELS, Unbounded};

/// How many checks one flat object may meet (VAL-08).
const MAX_CHECKS: u64 = 20_000;
/// How many checks one value with all that it holds may meet: well below a second.
const MAX_WORK: u64 = 10_000_000;
/// How many checks may be under way inside one another: what a thread's stack holds.
const MAX_NESTED: u64 = 1_000;
/// Up to how many checks are done on the thread that reads: a fraction of a millisecond.
const INLINE_WORK: u64 = 10_000;
/// How many values the arguments of one call may hold.
pub(crate) const MAX_VALUES: usize = 500_000;
/// How many faults are told at most.
const MAX_FAULTS: usize = 10;

/// A compiled schema.
pub struct Schema {
    json: Value,
    validator: Validator,
    cost: Cost,
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
    #[error("checking one value against the schema can take too many checks; use fewer combinations")]
    TooCostly,
    /// VAL-07.
    #[error(
        "the schema refers to {0:?}, which is not found in it; put it under $defs and refer to it by a pointer"
    )]
    Elsewhere(String),
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
        let cost = Cost::of(&json).map_err(|why| match why {
            Unbounded::TooLarge | Unbounded::Loop => SchemaError::TooCostly,
            Unbounded::Elsewhere(to) => SchemaError::Elsewhere(to),
        })?;
        if cost.checks(1).is_none_or(|checks| checks > MAX_CHECKS)
            || cost.nested(1).is_none_or(|nested| nested > MAX_NESTED)
        {
            return Err(SchemaError::TooCostly);
        }
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex());
        let validator = options.build(&json).map_err(|error| SchemaError::Invalid(error.to_string()))?;
        Ok(Self { json, validator, cost })
    }

    /// A schema of arguments: its root is an object (VAL-10).
    ///
    /// # Errors
    /// As [`Self::new`], or the root has another type.
    pub fn of_input(json: Value) -> Result<Self, SchemaError> {
        let schema = Self::new(json)?;
        if schema.is_of_objects() { Ok(schema) } else { Err(SchemaError::NotAnObject) }
    }

    /// The schema as it is published.
    pub const fn as_json(&self) -> &Value {
        &self.json
    }

    /// Whether all that it describes are objects.
    pub(crate) fn is_of_objects(&self) -> bool {
        self.json.get("type").and_then(Value::as_str) == Some("object")
    }

    /// Checks a value; says in one text where it is wrong: a JSON Pointer and a reason for each fault, without the
    /// value itself (G15).
    ///
    /// # Errors
    /// The value is not what the schema says, or finding out would cost too much.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.work(value)?;
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

impl Schema {
    /// How many checks the value may meet at most, unless they are too many.
    fn work(&self, value: &Value) -> Result<u64, String> {
        let (values, levels) = size(value);
        let bounds = self.cost.checks(levels).zip(self.cost.nested(levels));
        let Some((checks, nested)) = bounds else {
            return Err(format!("the value nests deeper than {MAX_LEVELS} levels; send a flatter one"));
        };
        let work = values.saturating_mul(checks);
        if work > MAX_WORK || nested > MAX_NESTED {
            return Err(
                "the value is too large or nests too deep to be checked; send a smaller one".to_owned()
            );
        }
        Ok(work)
    }
}

/// Checks a value and gives it back; a costly one on a thread of its own, so that nobody else waits for it (F097).
pub(crate) async fn checked(schema: &Arc<Schema>, value: Value) -> Result<Value, String> {
    if schema.work(&value)? <= INLINE_WORK {
        return schema.check(&value).map(|()| value);
    }
    let schema = Arc::clone(schema);
    let checked = tokio::task::spawn_blocking(move || schema.check(&value).map(|()| value)).await;
    checked.unwrap_or_else(|_| Err("they could not be checked".into()))
}

/// Whether a JSON text holds no more values than may be read into memory: each takes many times its text.
pub(crate) fn is_bounded(json: &str) -> bool {
    if json.len() <= MAX_VALUES {
        return true;
    }
    let (mut values, mut in_string, mut escaped) = (1_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values <= MAX_VALUES
}

/// How many values there are, and how many levels they nest. Nesting is bounded by the parser that made them.
fn size(value: &Value) -> (u64, usize) {
    let all = |(values, levels): (u64, usize), inner: &Value| {
        let (more, deeper) = size(inner);
        (values + more, levels.max(1 + deeper))
    };
    match value {
        Value::Array(items) => items.iter().fold((1, 0), all),
        Value::Object(members) => members.values().fold((1, 0), all),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (1, 0),
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.json).finish()
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
        let bomb = json!({ "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": defs });
        assert_eq!(Schema::new(bomb).unwrap_err(), SchemaError::TooCostly);
        let mut deep = json!({ "type": "integer" });
        for _ in 0..1_000 {
            deep = json!({ "not": deep });
        }
        assert_eq!(Schema::new(deep).unwrap_err(), SchemaError::TooCostly);
        assert_eq!(Schema::new(json!({ "$ref": "#" })).unwrap_err(), SchemaError::TooCostly);
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!({}), |inner, _| json!({ "next": inner }))
    }

    #[test]
    fn val_08_a_recursive_schema_is_checked_as_deep_as_it_can_be() {
        let list =
            Schema::new(json!({ "type": "object", "properties": { "next": { "$ref": "#" } } })).unwrap();
        assert_eq!(list.check(&nested(MAX_LEVELS)), Ok(()));
        assert!(list.check(&nested(MAX_LEVELS + 1)).unwrap_err().contains("64 levels"));
        let way =
            |kind: &str| json!({ "properties": { "next": { "$ref": "#" }, "kind": { "const": kind } } });
        let tree = Schema::new(json!({ "anyOf": [way("a"), way("b")] })).unwrap();
        assert_eq!(tree.check(&nested(8)), Ok(()));
        assert!(tree.check(&nested(40)).unwrap_err().contains("too deep"), "2^40 checks");
    }

    #[test]
    fn val_08_what_may_nest_fits_into_the_stack_of_a_thread() {
        let deep = (1..MAX_NESTED).fold(json!({ "type": "integer" }), |inner, _| json!({ "not": inner }));
        assert!(Schema::new(deep).unwrap().check(&json!(1)).is_err(), "an odd number of times not");
        let chain = (0..6).fold(
            json!({ "properties": { "next": { "$ref": "#" } } }),
            |inner, _| json!({ "allOf": [inner] }),
        );
        let chain = Schema::new(chain).unwrap();
        assert!(chain.cost.nested(MAX_LEVELS).unwrap() > MAX_NESTED / 2);
        assert_eq!(chain.check(&nested(MAX_LEVELS)), Ok(()));
    }

    #[tokio::test]
    async fn val_08_a_large_value_is_checked_apart_and_a_huge_one_not_at_all() {
        let schema = Arc::new(Schema::new(json!({ "items": { "type": "integer" } })).unwrap());
        let large = json!(vec![1; 100_000]);
        assert_eq!(checked(&schema, large.clone()).await, Ok(large));
        let costly = json!({ "items": { "allOf": vec![json!({ "type": "integer" }); 200] } });
        let costly = Arc::new(Schema::new(costly).unwrap());
        assert!(checked(&costly, json!(vec![1; 100_000])).await.unwrap_err().contains("too large"));
    }

    #[test]
    fn i_27_the_values_of_a_text_are_counted_before_they_are_read() {
        let list = |values: usize| format!("[{}1]", "1,".repeat(values - 1));
        assert!(is_bounded(&list(MAX_VALUES - 1)));
        assert!(!is_bounded(&list(MAX_VALUES)), "the list itself is one");
        assert!(is_bounded(&format!(r#"["{}"]"#, ",\\\"[{".repeat(MAX_VALUES))), "text is no value");
    }

    #[test]
    fn val_04_nothing_is_fetched_and_what_lies_elsewhere_is_refused() {
        let elsewhere = Schema::new(json!({ "$ref": "http://127.0.0.1:9/schema" }));
        assert!(matches!(elsewhere, Err(SchemaError::Elsewhere(_))), "VAL-07");
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
