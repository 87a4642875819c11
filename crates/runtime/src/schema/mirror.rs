//! Arguments that travel in `Mcp-Param-*` headers as well: which of them a schema marks, and what the headers say
//! (HDR-18..28).

use serde_json::Value;

use crate::message;

/// The annotation in a property's schema.
pub(crate) const ANNOTATION: &str = "x-mcp-header";

/// One mirrored argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirror {
    header: String,
    /// The names of the members that lead to it.
    path: Vec<String>,
}

impl Mirror {
    /// What follows `Mcp-Param-`.
    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    /// The names of the members that lead to it.
    pub(crate) fn path(&self) -> &[String] {
        &self.path
    }

    /// What the arguments say at its exact path; `null` is as good as absent (HDR-26).
    pub(crate) fn value_in<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        let value = self.path.iter().try_fold(arguments, |at, name| at.get(name))?;
        (!value.is_null()).then_some(value)
    }
}

/// The mirrored arguments of a schema.
///
/// # Errors
/// An annotation breaks a rule: the sentence that says which (HDR-20..22).
pub(crate) fn of(schema: &Value) -> Result<Vec<Mirror>, String> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), true, &mut found)?;
    for (at, mirror) in found.iter().enumerate() {
        if found[..at].iter().any(|other| other.header.eq_ignore_ascii_case(&mirror.header)) {
            return Err(format!("two arguments have the header {:?}; name each once", mirror.header));
        }
    }
    Ok(found)
}

/// The headers of a call with these arguments, by their names (HDR-26..28). What is no scalar has none: the schema
/// forbids it, and the server says so.
pub(crate) fn headers(mirrors: &[Mirror], arguments: &Value) -> Vec<(String, String)> {
    let rendered = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        // A double that is whole is an integer too, and is written as one.
        Value::Number(number) => Some(match number.as_f64() {
            Some(double) if number.is_f64() => double.to_string(),
            _ => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    let header = |mirror: &Mirror| {
        let value = rendered(mirror.value_in(arguments)?)?;
        Some((format!("mcp-param-{}", mirror.header.to_ascii_lowercase()), message::encode_header(&value)))
    };
    mirrors.iter().filter_map(header).collect()
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

fn is_token(text: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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

    // shows: HDR-19, HDR-27, HDR-28, HDR-05, HDR-06
    #[test]
    fn hdr_26_a_header_says_what_stands_at_the_exact_path_and_is_left_out_where_nothing_stands() {
        let mark = |kind: &str, header: &str| json!({ "type": kind, ANNOTATION: header });
        let schema = json!({ "type": "object", "properties": {
            "s": mark("string", "S"), "n": mark("integer", "N"), "b": mark("boolean", "Flag"),
            "in": { "type": "object", "properties": { "s": mark("string", "Inner") } },
        } });
        let mirrors = of(&schema).unwrap();
        let said = |arguments: Value| {
            let mut headers = headers(&mirrors, &arguments);
            headers.sort();
            headers.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(said(json!({})), "");
        assert_eq!(said(json!({ "s": null, "in": null, "b": false })), "mcp-param-flag=false");
        assert_eq!(said(json!({ "in": { "s": "x" }, "S": "no" })), "mcp-param-inner=x");
        assert_eq!(
            said(json!({ "s": "", "n": -7, "b": true })),
            "mcp-param-flag=true mcp-param-n=-7 mcp-param-s="
        );
        assert_eq!(said(json!({ "n": 42.0 })), "mcp-param-n=42");
        assert_eq!(said(json!({ "n": 1e20 })), "mcp-param-n=100000000000000000000");
        assert_eq!(said(json!({ "s": " north" })), "mcp-param-s==?base64?IG5vcnRo?=");
        assert_eq!(said(json!({ "s": ["x"], "n": {} })), "", "what the schema forbids has no header");
    }
}
