//! One JSON object, read one level deep: members keep their order and their own bytes.
//!
//! A gateway must change a few members (`name`, `_meta`, `progressToken`) and may not touch the others: numbers,
//! unknown members and unknown `_meta` keys leave as they came (MSG-25, MSG-26).

use alloc::borrow::{Cow, ToOwned};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The most members that are read. A list of them takes some fifty bytes for a member of five, so that a message of
/// many small ones would take ten times its size (I-27); no object of the protocol comes near it.
pub const MAX_MEMBERS: usize = 4_096;

/// The members of one object, in the order in which they were sent.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Members<'a>(Vec<(String, Cow<'a, str>)>);

/// The text is not one JSON object, or one of too many members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one JSON object of at most {MAX_MEMBERS} members; send `{{…}}`")]
pub struct NotAnObject;

impl<'a> Members<'a> {
    /// Reads the members of an object; the values stay unparsed. Of a name that occurs twice both are kept, and
    /// [`Self::get`] finds the first.
    ///
    /// # Errors
    /// The text is anything but one JSON object of up to [`MAX_MEMBERS`]. Depth is the caller's to check first.
    pub fn parse(json: &'a str) -> Result<Self, NotAnObject> {
        struct Shallow;
        impl<'de> Visitor<'de> for Shallow {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if members.len() == MAX_MEMBERS {
                        return Err(A::Error::custom("too many members"));
                    }
                    members.push((name, Cow::Borrowed(value.get())));
                }
                Ok(Members(members))
            }
        }
        let mut reader = serde_json::Deserializer::from_str(json);
        let members = reader.deserialize_map(Shallow).map_err(|_| NotAnObject)?;
        reader.end().map_err(|_| NotAnObject)?;
        Ok(members)
    }

    /// The JSON text of a member.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// All members: name and JSON text, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// A member that is a string.
    pub fn get_str(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Replaces a member where it stands, or appends it; then it stands once, since of two the next reader may take
    /// the other. `json` must be one JSON value.
    pub fn set(&mut self, name: &str, json: impl Into<Cow<'a, str>>) {
        let place = self.0.iter().position(|(known, _)| known == name).unwrap_or(self.0.len());
        self.remove(name);
        self.0.insert(place, (String::from(name), json.into()));
    }

    /// Removes every member of this name.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// Changes a member that is an object, or makes it one if there is none; its other members keep their bytes.
    ///
    /// # Errors
    /// The member is there and no object; nothing is changed then.
    pub fn edit(&mut self, name: &str, change: impl FnOnce(&mut Members<'_>)) -> Result<(), NotAnObject> {
        let inner = self.get(name).unwrap_or("{}").to_owned();
        let mut inner = Members::parse(&inner)?;
        change(&mut inner);
        let inner = inner.to_json();
        self.set(name, inner);
        Ok(())
    }

    /// The object as JSON text.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            json.push_str(&string(name));
            json.push(':');
            json.push_str(value);
        }
        json.push('}');
        json
    }
}

/// `text` as a JSON string.
pub fn string(text: &str) -> String {
    // Writing a `str` into a `String` has no way to fail; the fallback is for the type only.
    serde_json::to_string(text).unwrap_or_else(|_| String::from("\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_26_untouched_members_keep_their_bytes_and_order() {
        let text =
            r#"{"z":1.0,"name":"a","n":9007199254740993,"x":{"b":[1.50, null],"a":2},"_meta":{"k":1e2}}"#;
        let mut members = Members::parse(text).unwrap();
        assert_eq!(members.to_json(), text);
        members.set("name", r#""shop__a""#);
        members.set("new", "null");
        members.remove("z");
        assert_eq!(
            members.to_json(),
            r#"{"name":"shop__a","n":9007199254740993,"x":{"b":[1.50, null],"a":2},"_meta":{"k":1e2},"new":null}"#
        );
    }

    #[test]
    fn msg_25_a_member_that_was_set_stands_once() {
        let mut members = Members::parse(r#"{"a":1,"b":2,"b":3,"c":4,"\u0062":5}"#).unwrap();
        members.set("b", "6");
        assert_eq!(members.to_json(), r#"{"a":1,"b":6,"c":4}"#);
    }

    #[test]
    fn i_27_an_object_of_too_many_members_is_refused() {
        let object = |members: usize| alloc::format!("{{{}\"\":1}}", "\"\":1,".repeat(members - 1));
        assert!(Members::parse(&object(MAX_MEMBERS)).is_ok());
        assert_eq!(Members::parse(&object(MAX_MEMBERS + 1)), Err(NotAnObject));
    }

    #[test]
    fn msg_25_an_inner_object_is_edited_in_place_or_made() {
        let mut members = Members::parse(r#"{"_meta":{"k":1.0},"n":1}"#).unwrap();
        members.edit("_meta", |meta| meta.set("l", "2")).unwrap();
        members.edit("new", |_| {}).unwrap();
        assert_eq!(members.edit("n", |_| {}), Err(NotAnObject));
        assert_eq!(members.to_json(), r#"{"_meta":{"k":1.0,"l":2},"n":1,"new":{}}"#);
    }

    #[test]
    fn anything_but_an_object_is_refused() {
        for text in ["", "[]", "1", "{", "{}{}", "{\"a\":}", "null"] {
            assert_eq!(Members::parse(text), Err(NotAnObject), "{text}");
        }
    }
}
