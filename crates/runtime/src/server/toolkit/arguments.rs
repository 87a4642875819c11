//! Arguments as they are read: into JSON, where no name may occur twice, and into a tool's own type.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_path_to_error::Segment;

/// The largest integer up to which a double holds every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads the text of `arguments`.
///
/// # Errors
/// It is no object, a number in it is beyond every double, or a name occurs twice: two readers could take different
/// ones, and what was looked at would not be what is done. The sentence that says so.
pub(super) fn read(raw: &str) -> Result<Map<String, Value>, String> {
    let mut reader = serde_json::Deserializer::from_str(raw);
    let read = Once.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match read {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("params.arguments must be an object".into()),
        Err(error) => Err(format!(
            "params.arguments cannot be read: {error}; name each member once and send numbers that a double can hold"
        )),
    }
}

/// Reads arguments into a type. An integer may be written as `2.0`, as JSON Schema has it.
///
/// # Errors
/// What a schema cannot say of a type: the JSON Pointer and the reason.
pub(super) fn typed<I: DeserializeOwned>(arguments: &Map<String, Value>) -> Result<I, String> {
    let arguments = match arguments.values().any(has_whole_double) {
        true => Cow::Owned(arguments.iter().map(|(name, value)| (name.clone(), whole(value))).collect()),
        false => Cow::Borrowed(arguments),
    };
    serde_path_to_error::deserialize(&*arguments).map_err(|error| {
        let mut pointer = String::new();
        for segment in error.path() {
            match segment {
                Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
                Segment::Map { key } => {
                    pointer.push('/');
                    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                }
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let at = if pointer.is_empty() { "the root" } else { &pointer };
        format!("{at}: {}", error.inner())
    })
}

fn whole_double(number: &Number) -> Option<i64> {
    let double = number.as_f64().filter(|_| number.is_f64())?;
    // Within the bound both conversions are exact.
    (double.fract() == 0.0 && double.abs() <= EXACT).then_some(double as i64)
}

fn has_whole_double(value: &Value) -> bool {
    match value {
        Value::Number(number) => whole_double(number).is_some(),
        Value::Array(items) => items.iter().any(has_whole_double),
        Value::Object(members) => members.values().any(has_whole_double),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

fn whole(value: &Value) -> Value {
    match value {
        Value::Number(number) => whole_double(number).map_or_else(|| value.clone(), Value::from),
        Value::Array(items) => items.iter().map(whole).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), whole(value))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// A JSON value in which no name occurs twice. Depth is bounded by the message's.
struct Once;

impl<'de> DeserializeSeed<'de> for Once {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Once)? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Once)?;
            if object.insert(name, value).is_some() {
                // The name may be anybody's secret.
                return Err(A::Error::custom("a member occurs twice"));
            }
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn i_27_a_name_that_occurs_twice_is_refused_at_every_depth() {
        assert_eq!(
            read(r#"{"a":[1,{"b":null}],"c":1.5}"#).unwrap(),
            *json!({ "a": [1, { "b": null }], "c": 1.5 }).as_object().unwrap()
        );
        for twice in [r#"{"cents":1,"cents":500}"#, r#"{"a":[{"b":1,"b":1}]}"#, r#"{"a":1,"\u0061":1}"#] {
            assert!(read(twice).unwrap_err().contains("occurs twice"), "{twice}");
        }
        for other in ["[]", "1", "{", r#"{"a":1e999}"#, "{} {}"] {
            assert!(read(other).is_err(), "{other}");
        }
    }

    #[test]
    fn val_01_an_integer_may_be_written_as_a_double_and_faults_have_a_pointer() {
        #[derive(Deserialize, Debug, PartialEq)]
        struct Input {
            count: u8,
            #[serde(default)]
            inner: Vec<i64>,
        }
        let read = |value: Value| typed::<Input>(value.as_object().unwrap());
        assert_eq!(read(json!({ "count": 2.0, "inner": [5e0] })), Ok(Input { count: 2, inner: vec![5] }));
        assert!(read(json!({ "count": 300 })).unwrap_err().starts_with("/count: "));
        assert!(read(json!({ "count": 1, "inner": [1, 1.5] })).unwrap_err().starts_with("/inner/1: "));
        assert!(read(json!({ "count": 1, "inner": [1e300] })).unwrap_err().starts_with("/inner/0: "));
    }
}
