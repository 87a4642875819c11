//! Identifiers that cross the wire, kept with their JSON type.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// A JSON string or integer, compared by type and value: `1` is not `"1"` (MSG-07).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag {
    /// An integer in `i64::MIN ..= u64::MAX`; 64-bit values stay exact (AMB-34).
    Integer(i128),
    /// A string, the empty one included.
    String(Arc<str>),
}

/// Why a JSON value cannot serve as an id or a progress token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("an id or progress token must be a JSON string or a 64-bit integer, not {found}; send one of these")]
pub struct TagError {
    /// What stood there instead.
    pub found: &'static str,
}

impl Tag {
    /// Reads a tag from the bytes of one JSON value.
    ///
    /// # Errors
    /// Booleans, fractions, exponents, `null`, arrays, objects, integers beyond 64 bits and text that is not
    /// JSON are refused (MSG-02, MSG-03, AMB-34).
    pub fn from_json(raw: &str) -> Result<Self, TagError> {
        let raw = raw.trim_matches([' ', '\t', '\n', '\r']);
        let refuse = |found| Err(TagError { found });
        match raw.as_bytes().first() {
            Some(b'"') => match serde_json::from_str::<String>(raw) {
                Ok(text) => Ok(Self::String(text.into())),
                Err(_) => refuse("a malformed string"),
            },
            Some(b'-' | b'0'..=b'9') => {
                if raw.contains(['.', 'e', 'E']) {
                    return refuse("a number with a fraction or exponent");
                }
                // serde_json, not `str::parse`, so that `01` and `+1` stay the errors they are in JSON.
                match serde_json::from_str::<i128>(raw) {
                    Ok(n) if n >= i128::from(i64::MIN) && n <= i128::from(u64::MAX) => Ok(Self::Integer(n)),
                    _ => refuse("a number beyond 64 bits"),
                }
            }
            Some(b't' | b'f') => refuse("a boolean"),
            Some(b'n') => refuse("null"),
            Some(b'[') => refuse("an array"),
            Some(b'{') => refuse("an object"),
            _ => refuse("no JSON value"),
        }
    }

    /// The tag as JSON text, exactly one value.
    pub fn to_json(&self) -> String {
        match self {
            Self::Integer(n) => alloc::format!("{n}"),
            Self::String(text) => serde_json::to_string(&**text).unwrap_or_else(|_| "\"\"".to_owned()),
        }
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl From<i64> for Tag {
    fn from(n: i64) -> Self {
        Self::Integer(n.into())
    }
}

impl From<&str> for Tag {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

macro_rules! tag_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Tag);

        impl $name {
            /// Reads it from the bytes of one JSON value.
            ///
            /// # Errors
            /// Everything but a string or a 64-bit integer is refused, see [`Tag::from_json`].
            pub fn from_json(raw: &str) -> Result<Self, TagError> {
                Tag::from_json(raw).map(Self)
            }

            /// The value as JSON text.
            pub fn to_json(&self) -> String {
                self.0.to_json()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<i64> for $name {
            fn from(n: i64) -> Self {
                Self(n.into())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
    };
}

tag_newtype! {
    /// A JSON-RPC request id. It correlates messages of one hop; it never identifies a business operation.
    RequestId
}
tag_newtype! {
    /// A progress token, unique among the active requests of one requester (PRG-02).
    ProgressToken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_02_ids_are_strings_or_integers_and_nothing_else() {
        for refused in [
            "true",
            "false",
            "null",
            "1.5",
            "1.0",
            "1e3",
            "[]",
            "{}",
            "",
            "01",
            "+1",
            "-",
            "\"a",
            "18446744073709551616",
        ] {
            assert!(Tag::from_json(refused).is_err(), "{refused} was accepted");
        }
        assert_eq!(Tag::from_json("\"\"").unwrap(), Tag::from(""));
        assert_eq!(Tag::from_json(" 0 ").unwrap(), Tag::from(0));
        assert_eq!(Tag::from_json("18446744073709551615").unwrap(), Tag::Integer(u64::MAX.into()));
        assert_eq!(Tag::from_json("-9223372036854775808").unwrap(), Tag::from(i64::MIN));
    }

    #[test]
    fn f016_ids_are_echoed_with_value_and_type() {
        for raw in ["1", "\"1\"", "\"req-abc\"", "42", "0", "\"\"", "\"\\u2028\\\"\""] {
            let id = RequestId::from_json(raw).unwrap();
            assert_eq!(RequestId::from_json(&id.to_json()).unwrap(), id);
        }
        assert_ne!(RequestId::from(1), RequestId::from("1"));
    }
}
