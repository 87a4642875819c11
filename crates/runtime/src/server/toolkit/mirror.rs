//! Headers that mirror arguments, as a server marks them and compares them with the body (HDR-18, HDR-29..31).

use serde_json::{Number, Value};

use crate::schema::mirror::{ANNOTATION, Mirror};
use crate::server::{Mirrored, MirroredParams};

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

/// Whether each header says what the body says; the sentence that says which does not.
pub(super) fn check(
    mirrors: &[Mirror],
    arguments: &Value,
    headers: &dyn MirroredParams,
) -> Result<(), String> {
    for mirror in mirrors {
        let same = match (headers.get(mirror.header()), mirror.value_in(arguments)) {
            (Mirrored::NotHere, _) | (Mirrored::Absent, None) => true,
            (Mirrored::Value(given), Some(Value::String(text))) => given == *text,
            (Mirrored::Value(given), Some(Value::Bool(flag))) => given == flag.to_string(),
            (Mirrored::Value(given), Some(Value::Number(number))) => is_number(&given, number),
            (Mirrored::Absent | Mirrored::Invalid, _) | (Mirrored::Value(_), _) => false,
        };
        if !same {
            return Err(format!(
                "the header Mcp-Param-{} does not say what the argument /{} says; make them equal",
                mirror.header(),
                mirror.path().join("/")
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;
    use crate::schema::mirror;

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

    // shows: HDR-30, HDR-31, HDR-13, HDR-17
    #[test]
    fn hdr_29_each_header_says_what_the_body_says() {
        let schema = json!({ "type": "object", "properties": {
            "s": { "type": "string", ANNOTATION: "S" },
            "n": { "type": "integer", ANNOTATION: "N" },
            "b": { "type": "boolean", ANNOTATION: "B" },
        } });
        let mirrors = mirror::of(&schema).unwrap();
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
