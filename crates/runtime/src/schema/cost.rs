//! What checking a value against a schema can cost at most, known before it is tried (VAL-08).
//!
//! A checker has no limit of its own: `allOf` of two references to the next definition, thirty times over, is a small
//! text and a billion checks, and a recursive schema with two ways down doubles with each level of the value. So the
//! schema is read as a graph, and counted is how many of its nodes a value may meet that nests so deep.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use crate::percent;

/// The most nodes of a schema.
const MAX_NODES: usize = 2_000;
/// How many levels a value may nest.
pub(super) const MAX_LEVELS: usize = 64;

/// The bounds of one schema, by the depth of a value.
#[derive(Debug)]
pub(super) struct Cost {
    /// How many checks there may be on one way down a value of this depth.
    checks: Vec<u64>,
    /// How many checks may be under way inside one another for a value of this depth.
    nested: Vec<u64>,
}

/// Why a schema has no bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unbounded {
    TooLarge,
    /// A reference back to itself without going deeper into the value.
    Loop,
    /// What `$ref` names is not in the schema (VAL-07), or is not found without the rules of `$id`.
    Elsewhere(String),
}

/// How a node of a schema leads to others.
#[derive(Debug, Default)]
struct Node {
    /// What is checked at this node alone.
    weight: u64,
    /// To the same value.
    here: Vec<usize>,
    /// To values one level deeper, each of which may meet all of them.
    below: Vec<usize>,
    /// To values one level deeper, each of which meets one of them.
    one_below: Vec<usize>,
}

impl Cost {
    pub(super) fn of(schema: &Value) -> Result<Self, Unbounded> {
        let nodes = nodes_of(schema)?;
        let order = order_of(&nodes)?;
        let (mut checks, mut nested) = (Vec::new(), Vec::new());
        let (mut checks_below, mut nested_below) = (vec![0_u64; nodes.len()], vec![0_u64; nodes.len()]);
        for _ in 0..=MAX_LEVELS {
            let (mut checks_here, mut nested_here) = (vec![0_u64; nodes.len()], vec![0_u64; nodes.len()]);
            for at in &order {
                let node = &nodes[*at];
                let sum =
                    |of: &[u64], to: &[usize]| to.iter().fold(0, |sum: u64, to| sum.saturating_add(of[*to]));
                let most = |of: &[u64], to: &[usize]| to.iter().map(|to| of[*to]).max().unwrap_or(0);
                checks_here[*at] = node
                    .weight
                    .saturating_add(sum(&checks_here, &node.here))
                    .saturating_add(sum(&checks_below, &node.below))
                    .saturating_add(most(&checks_below, &node.one_below));
                nested_here[*at] = 1 + most(&nested_here, &node.here)
                    .max(most(&nested_below, &node.below))
                    .max(most(&nested_below, &node.one_below));
            }
            checks.push(checks_here[0]);
            nested.push(nested_here[0]);
            (checks_below, nested_below) = (checks_here, nested_here);
        }
        Ok(Self { checks, nested })
    }

    /// The most checks on one way down a value that nests so deep, so that no single value meets more; `None` if it nests
    /// too deep to be checked at all.
    pub(super) fn checks(&self, levels: usize) -> Option<u64> {
        self.checks.get(levels).copied()
    }

    /// The most checks inside one another, for a value that nests so deep.
    pub(super) fn nested(&self, levels: usize) -> Option<u64> {
        self.nested.get(levels).copied()
    }
}

/// The nodes of a schema; the root is the first.
fn nodes_of(root: &Value) -> Result<Vec<Node>, Unbounded> {
    let anchors = anchors_of(root)?;
    let mut found = Found { places: vec![root], numbers: HashMap::from([(std::ptr::from_ref(root), 0)]) };
    let mut nodes = Vec::new();
    while let Some(schema) = found.places.get(nodes.len()).copied() {
        let mut node = Node { weight: 1, ..Node::default() };
        // `true` and `false` lead nowhere.
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef", Value::String(to)) => {
                    node.here.push(found.number(resolve(root, &anchors, to)?)?);
                }
                ("not" | "if" | "then" | "else", value) => node.here.push(found.number(value)?),
                ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => found.numbers(all, &mut node.here)?,
                ("dependentSchemas", Value::Object(all)) => found.numbers(all.values(), &mut node.here)?,
                // Names are flat values.
                ("propertyNames", value) => node.here.push(found.number(value)?),
                ("properties", Value::Object(all)) => found.numbers(all.values(), &mut node.one_below)?,
                ("prefixItems", Value::Array(all)) => found.numbers(all, &mut node.one_below)?,
                ("patternProperties", Value::Object(all)) => found.numbers(all.values(), &mut node.below)?,
                (
                    "items"
                    | "contains"
                    | "additionalProperties"
                    | "unevaluatedItems"
                    | "unevaluatedProperties",
                    value,
                ) => node.below.push(found.number(value)?),
                ("enum" | "required", Value::Array(all)) => node.weight += all.len() as u64,
                // Other keywords apply no schema.
                _ => {}
            }
        }
        nodes.push(node);
    }
    Ok(nodes)
}

/// Subschemas by number, in the order in which they were met.
struct Found<'a> {
    places: Vec<&'a Value>,
    numbers: HashMap<*const Value, usize>,
}

impl<'a> Found<'a> {
    fn number(&mut self, schema: &'a Value) -> Result<usize, Unbounded> {
        let next = self.places.len();
        let number = *self.numbers.entry(std::ptr::from_ref(schema)).or_insert(next);
        if number == next {
            if next == MAX_NODES {
                return Err(Unbounded::TooLarge);
            }
            self.places.push(schema);
        }
        Ok(number)
    }

    fn numbers(
        &mut self,
        schemas: impl IntoIterator<Item = &'a Value>,
        to: &mut Vec<usize>,
    ) -> Result<(), Unbounded> {
        for schema in schemas {
            to.push(self.number(schema)?);
        }
        Ok(())
    }
}

type Anchors<'a> = BTreeMap<&'a str, &'a Value>;

/// All anchors. A schema inside a schema that has an `$id` has names of its own, which nobody here needs.
fn anchors_of(root: &Value) -> Result<Anchors<'_>, Unbounded> {
    let mut anchors = Anchors::new();
    let mut rest: Vec<&Value> = vec![root];
    while let Some(at) = rest.pop() {
        match at {
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => {
                if !std::ptr::eq(at, root)
                    && let Some(Value::String(id)) = members.get("$id")
                {
                    return Err(Unbounded::Elsewhere(id.clone()));
                }
                for name in ["$anchor", "$dynamicAnchor"] {
                    if let Some(Value::String(name)) = members.get(name) {
                        anchors.insert(name, at);
                    }
                }
                rest.extend(schemas_in(members));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(anchors)
}

/// The members that are no plain values.
fn schemas_in(members: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let is_data = |keyword: &str| matches!(keyword, "const" | "enum" | "default" | "examples");
    members.iter().filter(move |(keyword, _)| !is_data(keyword)).map(|(_, value)| value)
}

fn resolve<'a>(root: &'a Value, anchors: &Anchors<'a>, to: &str) -> Result<&'a Value, Unbounded> {
    let fragment = to.strip_prefix('#').and_then(percent::decode);
    let found = fragment.and_then(|fragment| match fragment.as_str() {
        pointer if pointer.is_empty() || pointer.starts_with('/') => root.pointer(pointer),
        anchor => anchors.get(anchor).copied(),
    });
    found.ok_or_else(|| Unbounded::Elsewhere(to.to_owned()))
}

/// The nodes in an order in which each stands behind all that it leads to for the same value.
fn order_of(nodes: &[Node]) -> Result<Vec<usize>, Unbounded> {
    let mut waits: Vec<usize> = nodes.iter().map(|node| node.here.len()).collect();
    let mut awaited_by: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        for to in &node.here {
            awaited_by[*to].push(at);
        }
    }
    let mut order: Vec<usize> = (0..nodes.len()).filter(|at| waits[*at] == 0).collect();
    let mut next = 0;
    while let Some(at) = order.get(next).copied() {
        next += 1;
        for waiting in &awaited_by[at] {
            waits[*waiting] -= 1;
            if waits[*waiting] == 0 {
                order.push(*waiting);
            }
        }
    }
    if order.len() == nodes.len() { Ok(order) } else { Err(Unbounded::Loop) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checks(schema: &Value, levels: usize) -> u64 {
        Cost::of(schema).unwrap().checks(levels).unwrap()
    }

    #[test]
    fn val_08_a_value_meets_what_applies_to_it_and_no_more() {
        let wide =
            json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": {}, "c": true } });
        assert_eq!((checks(&wide, 0), checks(&wide, 1), checks(&wide, 9)), (1, 2, 2));
        let both = json!({ "allOf": [{}, { "anyOf": [{}, {}] }], "not": {} });
        assert_eq!(checks(&both, 0), 6);
        let list = json!({ "items": { "$ref": "#" } });
        assert_eq!(
            (checks(&list, 0), checks(&list, 5)),
            (1, 11),
            "each level twice: the reference and what it names"
        );
        let words = json!({ "enum": [1, 2, 3] });
        assert_eq!(checks(&words, 0), 4);
    }

    #[test]
    fn val_08_two_ways_down_double_with_each_level() {
        let tree = json!({
            "$defs": { "node": { "anyOf": [
                { "properties": { "next": { "$ref": "#/$defs/node" }, "kind": { "const": "a" } } },
                { "properties": { "next": { "$ref": "#node" }, "kind": { "const": "b" } } },
            ], "$anchor": "node" } },
            "$ref": "#/$defs/node",
        });
        assert!(checks(&tree, 20) > 1 << 20);
        assert!(checks(&tree, 4) < 300);
        assert_eq!(Cost::of(&tree).unwrap().checks(MAX_LEVELS + 1), None);
    }

    #[test]
    fn val_07_what_is_not_in_the_schema_has_no_bounds() {
        for elsewhere in ["http://127.0.0.1/x", "other.json", "#/$defs/none", "#none"] {
            assert!(
                matches!(Cost::of(&json!({ "$ref": elsewhere })), Err(Unbounded::Elsewhere(_))),
                "{elsewhere}"
            );
        }
        let inner = json!({ "$defs": { "x": { "$id": "urn:x" } } });
        assert!(matches!(Cost::of(&inner), Err(Unbounded::Elsewhere(_))));
        let encoded = json!({ "$defs": { "a b": true }, "$ref": "#/$defs/a%20b" });
        assert!(Cost::of(&encoded).is_ok());
        // Data may look like a schema.
        assert!(Cost::of(&json!({ "const": { "$ref": "x", "$id": "y" } })).is_ok());
    }

    #[test]
    fn val_08_a_loop_that_never_goes_deeper_is_refused() {
        for turning in [json!({ "$ref": "#" }), json!({ "allOf": [{ "not": { "$ref": "#" } }] })] {
            assert_eq!(Cost::of(&turning).unwrap_err(), Unbounded::Loop);
        }
        let many: Map<String, Value> = (0..=MAX_NODES).map(|at| (at.to_string(), json!({}))).collect();
        assert_eq!(Cost::of(&json!({ "properties": many })).unwrap_err(), Unbounded::TooLarge);
    }
}
