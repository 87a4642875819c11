//! Batches of JSON-RPC, which only the revision 2025-03-26 has (LEG-23).

use serde::Deserializer as _;
use serde::de::{SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The most messages of one batch.
const MAX_BATCH: usize = 100;

/// The messages of a batch, each as it came; `None` if there are too many, or it is no array.
pub(super) fn elements(body: &[u8]) -> Option<Vec<&RawValue>> {
    struct Elements;

    impl<'de> Visitor<'de> for Elements {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an array of messages")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
            let mut elements = Vec::new();
            while let Some(element) = sequence.next_element()? {
                if elements.len() == MAX_BATCH {
                    return Err(serde::de::Error::custom("too many"));
                }
                elements.push(element);
            }
            Ok(elements)
        }
    }

    let mut reader = serde_json::Deserializer::from_slice(body);
    let elements = reader.deserialize_seq(Elements).ok()?;
    reader.end().ok()?;
    Some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leg_23_a_batch_is_an_array_of_bounded_length() {
        let texts = |body: &'static str| {
            Some(elements(body.as_bytes())?.iter().map(|element| element.get()).collect::<Vec<_>>())
        };
        assert_eq!(texts(r#" [{"a":1.0} , [2]] "#), Some(vec![r#"{"a":1.0}"#, "[2]"]));
        assert_eq!(texts("[]"), Some(vec![]));
        for broken in ["[", "[1,]", "[1]2", "{}", ""] {
            assert_eq!(texts(broken), None, "{broken}");
        }
        let many = |count| format!("[{}]", vec!["1"; count].join(","));
        assert!(elements(many(MAX_BATCH).as_bytes()).is_some());
        assert!(elements(many(MAX_BATCH + 1).as_bytes()).is_none());
    }
}
