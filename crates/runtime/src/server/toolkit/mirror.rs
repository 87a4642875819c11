//! Arguments that a client mirrors into `Mcp-Param-*` headers (HDR-18..31).

use serde_json::{Number, Value};

use crate::server::{Mirrored, MirroredParams};

/// The annotation in a property's schema.
const ANNOTATION: &str = "x-mcp-header";

/// One mirrored argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mirror {
    header: String,
    /// The names of the members that lead to it.
    path: Vec<String>,
}

/// The mirrored arguments of a schema.
///
/// # Errors
/// An annotation breaks a rule: the sentence that says which (HDR-20..22).
pub(super) fn of(schema: &Value) -> Result<Vec<Mirror>, String> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), true, &mut found)?;
    for (at, mirror) in found.iter().enumerate() {
        if found[..at].iter().any(|other| other.header.eq_ignore_ascii_case(&mirror.header)) {
            return Err(format!("two arguments have the header {:?}; name each once", mirror.header));
        }
    }
    Ok(found)
}

/// Annotates an argument at the root of a schema.
///
/// # Errors
/// There is no such argument: the sentence that says so.
pub(super) fn annotate(schema: &mut Value, argument: &str, header: &str) -> Result<(), String> {
    let property = schema.get_mut("properties").and_then(|properties| properties.get_mut(argument));
    let property = property.and_then(Value::as_object_mut);
    let property =
        property.ok_or_else(|| format!("there is no argument {argument:?} to mirror; name one"))?;
    // The type of an argument that may be missing is often derived so.
    let or_null = property.get("type").and_then(Value::as_array).and_then(|types| match types.as_slice() {
        [only, null] if null == "null" => Some(only.clone()),
        _ => None,
    });
    if let Some(only) = or_null {
        property.insert("type".to_owned(), only);
    }
    property.insert(ANNOTATION.to_owned(), header.into());
    Ok(())
}

/// `reachable`: nothing but `properties` leads here from the root.
fn collect(
    schema: &Value,
    path: &mut Vec<String>,
    reachable: bool,
    found: &mut Vec<Mirror>,
) -> Result<(), String> {
    let Some(members) = schema.as_object() else {
        if let Some(items) = schema.as_array() {
            for item in items {
                collect(item, path, false, found)?;
            }
        }
        return Ok(());
    };
    if let Some(header) = members.get(ANNOTATION) {
        let header = header.as_str().filter(|header| is_token(header));
        let Some(header) = header else {
            return Err(format!(
                "{ANNOTATION} of {path:?} is no HTTP token; use letters, digits and hyphens"
            ));
        };
        let scalar =
            matches!(members.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean"));
        if !reachable || path.is_empty() || !scalar {
            return Err(format!(
                "{ANNOTATION} {header:?} must sit on a string, integer or boolean that only properties lead to"
            ));
        }
        found.push(Mirror { header: header.to_owned(), path: path.clone() });
    }
    for (keyword, value) in members {
        match (keyword.as_str(), value.as_object()) {
            ("properties", Some(properties)) => {
                for (name, property) in properties {
                    path.push(name.clone());
                    collect(property, path, reachable, found)?;
                    path.pop();
                }
            }
            // Values, not schemas.
            ("const" | "enum" | "default" | "examples", _) => {}
            _ => collect(value, path, false, found)?,
        }
    }
    Ok(())
}

/// Whether each header says what the body says; the sentence that says which does not.
pub(super) fn check(
    mirrors: &[Mirror],
    arguments: &Value,
    headers: &dyn MirroredParams,
) -> Result<(), String> {
    for Mirror { header, path } in mirrors {
        let mut body = Some(arguments);
        for name in path {
            body = body.and_then(|at| at.get(name));
        }
        let body = body.filter(|value| !value.is_null());
        let same = match (headers.get(header), body) {
            (Mirrored::NotHere, _) | (Mirrored::Absent, None) => true,
            (Mirrored::Value(given), Some(Value::String(text))) => given == *text,
            (Mirrored::Value(given), Some(Value::Bool(flag))) => given == flag.to_string(),
            (Mirrored::Value(given), Some(Value::Number(number))) => is_number(&given, number),
            (Mirrored::Absent | Mirrored::Invalid, _) | (Mirrored::Value(_), _) => false,
        };
        if !same {
            return Err(format!(
                "the header Mcp-Param-{header} does not say what the argument /{} says; make them equal",
                path.join("/")
            ));
        }
    }
    Ok(())
}

/// Whether a text says this number. Numerically, so that 42.0 is 42 (HDR-31), as far as a double is exact (HDR-21).
fn is_number(text: &str, number: &Number) -> bool {
    const EXACT: f64 = ((1_u64 << 53) - 1) as f64;
    let same = || text.parse().is_ok_and(|given: f64| given.abs() <= EXACT && number.as_f64() == Some(given));
    text == number.to_string() || same()
}

fn is_token(text: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;

    struct Headers(HashMap<&'static str, &'static str>);

    impl MirroredParams for Headers {
        fn get(&self, name: &str) -> Mirrored {
            match self.0.get(name) {
                None => Mirrored::Absent,
                Some(&"broken") => Mirrored::Invalid,
                Some(value) => Mirrored::Value((*value).to_owned()),
            }
        }
    }

    fn property(schema: Value) -> Value {
        json!({ "type": "object", "properties": { "a": schema } })
    }

    // shows: HDR-18, HDR-21, HDR-22
    #[test]
    fn hdr_20_an_annotation_is_a_token_used_once_on_a_scalar_that_properties_lead_to() {
        let string = |header: Value| json!({ "type": "string", ANNOTATION: header });
        assert_eq!(of(&property(string(json!("Region")))).unwrap().len(), 1);
        let nested = property(property(json!({ "type": "integer", ANNOTATION: "Depth" })));
        assert_eq!(of(&nested).unwrap()[0].path, ["a", "a"]);
        for bad in [
            property(string(json!(""))),
            property(string(json!("My Region"))),
            property(string(json!("Région"))),
            property(string(json!("a:b"))),
            property(string(json!(1))),
            property(json!({ "type": "number", ANNOTATION: "N" })),
            property(json!({ "type": "object", ANNOTATION: "N" })),
            property(json!({ "type": ["string", "null"], ANNOTATION: "N" })),
            property(json!({ "type": "array", "items": string(json!("N")) })),
            property(json!({ "anyOf": [string(json!("N"))] })),
            json!({ "type": "object", "$defs": { "x": string(json!("N")) } }),
            json!({ "type": "object", "properties": { "a": string(json!("Region")), "b": string(json!("REGION")) } }),
        ] {
            assert!(of(&bad).is_err(), "{bad}");
        }
    }

    // shows: HDR-30, HDR-31, HDR-13, HDR-17
    #[test]
    fn hdr_29_each_header_says_what_the_body_says() {
        let schema = json!({ "type": "object", "properties": {
            "s": { "type": "string", ANNOTATION: "S" },
            "n": { "type": "integer", ANNOTATION: "N" },
            "b": { "type": "boolean", ANNOTATION: "B" },
        } });
        let mirrors = of(&schema).unwrap();
        let check = |arguments: Value, headers: &[(&'static str, &'static str)]| {
            check(&mirrors, &arguments, &Headers(headers.iter().copied().collect())).is_ok()
        };
        assert!(check(json!({}), &[]));
        assert!(check(json!({ "s": null }), &[]));
        assert!(check(json!({ "s": "" }), &[("S", "")]));
        assert!(check(json!({ "s": "x", "n": 42, "b": true }), &[("S", "x"), ("N", "42.0"), ("B", "true")]));
        assert!(check(json!({ "n": 42.0 }), &[("N", "42")]));
        assert!(check(json!({ "n": 9_007_199_254_740_993_u64 }), &[("N", "9007199254740993")]));
        assert!(!check(json!({ "n": 9_007_199_254_740_993_u64 }), &[("N", "9007199254740992")]));
        assert!(!check(json!({ "n": 42 }), &[("N", "NaN")]));
        assert!(!check(json!({ "s": "x" }), &[]), "in the body, not in the header");
        assert!(!check(json!({}), &[("S", "x")]), "in the header, not in the body");
        assert!(!check(json!({ "s": "x" }), &[("S", "X")]));
        assert!(!check(json!({ "s": "x" }), &[("S", "broken")]));
        assert!(!check(json!({ "b": true }), &[("B", "TRUE")]));
    }
}
