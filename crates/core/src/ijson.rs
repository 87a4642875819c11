//! JSON that every reader reads alike, and its one canonical text.
//!
//! Two texts may differ and still look the same after canonicalisation: of duplicate members the last wins, and
//! 9007199254740993 becomes …992 on its way through a double. A fingerprint over such texts would replay another
//! call's result. So the guard comes first (I-JSON, RFC 7493), and only what passes has a canonical form (RFC 8785).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::envelope::MAX_DEPTH;

/// The most values of one text. Each takes some ten times the least text that makes it, so a text of many tiny ones
/// would take far more memory than its own length.
pub const MAX_VALUES: usize = 1 << 17;

/// A guarded JSON value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Document(Value);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value {
    Null,
    Bool(bool),
    /// The number as ECMAScript prints it.
    Number(String),
    String(String),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

/// Why a text has no canonical form, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the JSON value at {:?} {what}", if .pointer.is_empty() { "the root" } else { .pointer.as_str() })]
pub struct Fault {
    /// What is wrong, and the mend.
    pub what: FaultKind,
    /// RFC 6901 pointer to the place.
    pub pointer: String,
}

/// What the guard refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FaultKind {
    /// No JSON from here on.
    #[error("is not JSON in UTF-8; send well-formed JSON")]
    Malformed,
    /// Text after the value.
    #[error("is followed by more text; send one value")]
    Trailing,
    /// Of two members of one name, two readers may take different ones.
    #[error("occurs twice in its object; send it once")]
    DuplicateMember,
    /// Beyond ±2^53, where neighbours become equal.
    #[error("is an integer beyond ±2^53, which readers round; send it as a string")]
    LargeInteger,
    /// More digits than a double holds, or none at all.
    #[error("is a number that a double cannot hold as written; round it, or send it as a string")]
    InexactNumber,
    /// Half of a surrogate pair is no character.
    #[error("holds a lone surrogate, which is no character; send whole characters")]
    LoneSurrogate,
    /// More values than [`MAX_VALUES`].
    #[error("is one value more than the {MAX_VALUES} that are read; send fewer")]
    TooMany,
    /// More levels than [`MAX_DEPTH`].
    #[error("nests deeper than {MAX_DEPTH} levels; flatten it")]
    TooDeep,
}

impl Document {
    /// Reads one value through the guard.
    ///
    /// # Errors
    /// The first fault, with the pointer to its place.
    pub fn parse(json: &[u8]) -> Result<Self, Fault> {
        let text = core::str::from_utf8(json)
            .map_err(|_| Fault { what: FaultKind::Malformed, pointer: String::new() })?;
        Reader { text, at: 0, path: Vec::new(), values: 0, any_number: false }.whole().map(Self)
    }

    /// The value without members, `{}`: what absent arguments are (ruling 4).
    pub const fn empty_object() -> Self {
        Self(Value::Object(Vec::new()))
    }

    /// The string at an RFC 6901 pointer, if there is one.
    pub fn string_at(&self, pointer: &str) -> Option<&str> {
        let mut value = &self.0;
        for token in tokens(pointer)? {
            value = match value {
                Value::Object(members) => &members.iter().find(|(name, _)| *name == token)?.1,
                Value::Array(items) => items.get(index(&token)?)?,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
            };
        }
        match value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Leaves out the object member at an RFC 6901 pointer; `false` if there is none.
    pub fn remove(&mut self, pointer: &str) -> bool {
        let Some(mut path) = tokens(pointer) else { return false };
        let Some(last) = path.pop() else { return false };
        let mut value = &mut self.0;
        for token in path {
            let next = match value {
                Value::Object(members) => {
                    members.iter_mut().find(|(name, _)| *name == token).map(|(_, value)| value)
                }
                Value::Array(items) => index(&token).and_then(|index| items.get_mut(index)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            };
            match next {
                Some(next) => value = next,
                None => return false,
            }
        }
        match value {
            Value::Object(members) => {
                let before = members.len();
                members.retain(|(name, _)| *name != last);
                members.len() < before
            }
            Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    /// Whether the value is an object.
    pub const fn is_object(&self) -> bool {
        matches!(self.0, Value::Object(_))
    }

    /// The one canonical text of this value (RFC 8785).
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        write(&self.0, &mut text);
        text
    }
}

/// Checks a text that no fingerprint is made of: as [`Document::parse`], but for its numbers, which may have any size and
/// any digits, since they travel as they are written.
///
/// # Errors
/// The first fault, with the pointer to its place.
pub fn check(json: &str) -> Result<(), Fault> {
    Reader { text: json, at: 0, path: Vec::new(), values: 0, any_number: true }.whole().map(drop)
}

/// The reference tokens of a pointer; `None` if it is none.
fn tokens(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let tokens = pointer.strip_prefix('/')?.split('/');
    Some(tokens.map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
}

/// The array index that a token names, in the one form that it has: no sign, no leading zero (RFC 6901).
fn index(token: &str) -> Option<usize> {
    let legal = token == "0" || token.starts_with(|first: char| matches!(first, '1'..='9'));
    token.parse().ok().filter(|_| legal)
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(number),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<&(String, Value)> = members.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (index, (name, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(name, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// A recursive reader; its depth is bounded by [`MAX_DEPTH`].
struct Reader<'a> {
    text: &'a str,
    at: usize,
    path: Vec<Step>,
    values: usize,
    /// Numbers that a double cannot hold may pass.
    any_number: bool,
}

enum Step {
    Member(String),
    Item(usize),
}

impl Reader<'_> {
    fn whole(mut self) -> Result<Value, Fault> {
        let value = self.value()?;
        self.space();
        if self.at < self.text.len() { self.fault(FaultKind::Trailing) } else { Ok(value) }
    }

    fn value(&mut self) -> Result<Value, Fault> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return self.fault(FaultKind::TooMany);
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => self.fault(FaultKind::Malformed),
        }
    }

    fn object(&mut self) -> Result<Value, Fault> {
        self.descend()?;
        let mut members: Vec<(String, Value)> = Vec::new();
        let mut names = alloc::collections::BTreeSet::new();
        self.space();
        if self.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.fault(FaultKind::Malformed);
            }
            let name = self.string()?;
            self.path.push(Step::Member(name.clone()));
            if !names.insert(name.clone()) {
                return self.fault(FaultKind::DuplicateMember);
            }
            self.space();
            if !self.take(b':') {
                return self.fault(FaultKind::Malformed);
            }
            let value = self.value()?;
            self.path.pop();
            members.push((name, value));
            self.space();
            if self.take(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.take(b',') {
                return self.fault(FaultKind::Malformed);
            }
        }
    }

    fn array(&mut self) -> Result<Value, Fault> {
        self.descend()?;
        let mut items = Vec::new();
        self.space();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            self.path.push(Step::Item(items.len()));
            items.push(self.value()?);
            self.path.pop();
            self.space();
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return self.fault(FaultKind::Malformed);
            }
        }
    }

    /// Takes the opening bracket. Each level has one step on the path, so the path knows the depth.
    fn descend(&mut self) -> Result<(), Fault> {
        self.at += 1;
        if self.path.len() >= MAX_DEPTH { self.fault(FaultKind::TooDeep) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) else {
                return self.fault(FaultKind::Malformed);
            };
            text.push_str(&rest[..plain]);
            self.at += plain;
            match self.next() {
                Some(b'"') => return Ok(text),
                Some(b'\\') => text.push(self.escape()?),
                _ => return self.fault(FaultKind::Malformed),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        Ok(match self.next() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.unit()?;
                let pair = match first {
                    0xd800..=0xdbff if self.text[self.at..].starts_with("\\u") => {
                        self.at += 2;
                        [first, self.unit()?]
                    }
                    _ => {
                        return char::from_u32(first.into())
                            .map_or_else(|| self.fault(FaultKind::LoneSurrogate), Ok);
                    }
                };
                match char::decode_utf16(pair).next() {
                    Some(Ok(character)) => character,
                    _ => return self.fault(FaultKind::LoneSurrogate),
                }
            }
            _ => return self.fault(FaultKind::Malformed),
        })
    }

    fn unit(&mut self) -> Result<u16, Fault> {
        let digits =
            self.text.get(self.at..self.at + 4).filter(|it| it.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.map(|digits| u16::from_str_radix(digits, 16)) {
            Some(Ok(unit)) => {
                self.at += 4;
                Ok(unit)
            }
            _ => self.fault(FaultKind::Malformed),
        }
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        self.take(b'-');
        // `0` stands alone, other digits follow freely: 01 is no JSON number.
        let legal = self.take(b'0') || self.digits();
        let mut integer = true;
        let mut complete = legal;
        if complete && self.take(b'.') {
            integer = false;
            complete = self.digits();
        }
        if complete && (self.take(b'e') || self.take(b'E')) {
            integer = false;
            let _ = self.take(b'+') || self.take(b'-');
            complete = self.digits();
        }
        if !complete || self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return self.fault(FaultKind::Malformed);
        }
        let written = &self.text[start..self.at];
        if self.any_number {
            return Ok(Value::Number(written.to_owned()));
        }
        let Some(double) = written.parse::<f64>().ok().filter(|double| double.is_finite()) else {
            return self.fault(FaultKind::InexactNumber);
        };
        let printed = ryu_js::Buffer::new().format_finite(double).to_owned();
        // Every double beyond 2^53 is an integer; written as one, its neighbours would have become it.
        if integer && !(-9_007_199_254_740_992.0..=9_007_199_254_740_992.0).contains(&double) {
            return self.fault(FaultKind::LargeInteger);
        }
        if Decimal::of(written) != Decimal::of(&printed) {
            return self.fault(if integer { FaultKind::LargeInteger } else { FaultKind::InexactNumber });
        }
        Ok(Value::Number(printed))
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > start
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Fault> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(value)
        } else {
            self.fault(FaultKind::Malformed)
        }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn fault<T>(&self, what: FaultKind) -> Result<T, Fault> {
        let mut pointer = String::new();
        for step in &self.path {
            pointer.push('/');
            match step {
                Step::Member(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
                Step::Item(index) => pointer.push_str(&format!("{index}")),
            }
        }
        Err(Fault { what, pointer })
    }
}

/// A decimal number as sign, significant digits and power of ten: equal exactly when the numbers are.
#[derive(PartialEq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads a legal JSON number.
    fn of(text: &str) -> Self {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].trim_start_matches('+').parse().unwrap_or(i64::MAX / 2)),
            None => (text, 0),
        };
        let negative = mantissa.starts_with('-');
        let mantissa = mantissa.trim_start_matches('-');
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0').trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Self { negative: false, digits, exponent: 0 };
        }
        let trailing = all.len() - all.trim_end_matches('0').len();
        let exponent = i64::saturating_add(exponent, trailing as i64).saturating_sub(fraction.len() as i64);
        Self { negative, digits, exponent }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;

    fn canonical(json: &str) -> Result<String, (FaultKind, String)> {
        Document::parse(json.as_bytes()).map(|it| it.canonical()).map_err(|fault| (fault.what, fault.pointer))
    }

    #[test]
    fn rfc_8785_canonical_text() {
        for (json, expected) in [
            (
                " { \"b\" : [ 1.0 , 1e2, -0, 0.1, 1E-7 ] , \"a\" : null } ",
                r#"{"a":null,"b":[1,100,0,0.1,1e-7]}"#,
            ),
            (r#""\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/""#, r#""€$\u000f\nA'B\"\\\\\"/""#),
            (
                r#"{"\ufb33":1,"\ud83d\ude02":2,"\u20ac":3,"1":4,"\r":5}"#,
                "{\"\\r\":5,\"1\":4,\"€\":3,\"😂\":2,\"\u{fb33}\":1}",
            ),
            ("1e300", "1e+300"),
            ("1.7027574600808544e17", "170275746008085440"),
            ("9007199254740992", "9007199254740992"),
            ("true", "true"),
        ] {
            assert_eq!(canonical(json).as_deref(), Ok(expected), "{json}");
        }
    }

    #[test]
    fn d_11_what_two_readers_could_read_differently_is_refused_with_its_place() {
        use FaultKind::{
            DuplicateMember, InexactNumber, LargeInteger, LoneSurrogate, Malformed, TooDeep, Trailing,
        };
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(canonical(&deep(MAX_DEPTH)).is_ok());
        assert!(serde_json::from_str::<serde_json::Value>(&deep(MAX_DEPTH)).is_ok(), "and can be parsed");
        for (json, what, pointer) in [
            (r#"{"a":{"b~/c":1,"b~\/c":2}}"#, DuplicateMember, "/a/b~0~1c"),
            (r#"{"a":1,"\u0061":2}"#, DuplicateMember, "/a"),
            ("[0,9007199254740993]", LargeInteger, "/1"),
            ("9007199254740994", LargeInteger, ""),
            ("-9007199254740993", LargeInteger, ""),
            ("100000000000000000000", LargeInteger, ""),
            ("9007199254740993.0", InexactNumber, ""),
            ("0.10000000000000000001", InexactNumber, ""),
            ("1e400", InexactNumber, ""),
            ("1e-400", InexactNumber, ""),
            ("1e99999999999999999999", InexactNumber, ""),
            ("1.5e-9223372036854775808", InexactNumber, ""),
            ("15e9223372036854775807", InexactNumber, ""),
            (r#"["\ud800"]"#, LoneSurrogate, "/0"),
            (r#""\ud800\u0041""#, LoneSurrogate, ""),
            (r#""\udc00""#, LoneSurrogate, ""),
            ("{} {}", Trailing, ""),
            ("", Malformed, ""),
            ("[1,]", Malformed, "/1"),
            ("{\"a\":}", Malformed, "/a"),
            ("{a:1}", Malformed, ""),
            ("01", Malformed, ""),
            ("1.", Malformed, ""),
            ("-", Malformed, ""),
            ("1e", Malformed, ""),
            ("\"\n\"", Malformed, ""),
            ("\"\\x\"", Malformed, ""),
            ("\"\\u12\u{e9}\"", Malformed, ""),
            ("nul", Malformed, ""),
        ] {
            assert_eq!(canonical(json), Err((what, pointer.into())), "{json}");
        }
        assert_eq!(canonical(&deep(MAX_DEPTH + 1)).unwrap_err().0, TooDeep);
        assert_eq!(canonical(&deep(200_000)).unwrap_err().0, TooDeep);
        let many = |count: usize| format!("[{}1]", "1,".repeat(count - 2));
        assert!(canonical(&many(MAX_VALUES)).is_ok());
        assert_eq!(canonical(&many(MAX_VALUES + 1)).unwrap_err().0, FaultKind::TooMany);
        assert!(Document::parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn a_member_is_found_and_left_out_by_its_pointer() {
        let mut document = Document::parse(br#"{"a":{"~x/":"key","b":[{"c":1}]},"d":2}"#).unwrap();
        assert_eq!(document.string_at("/a/~0x~1"), Some("key"));
        assert_eq!(document.string_at("/d"), None);
        assert_eq!(document.string_at("a"), None);
        assert_eq!(Document::parse(br#"["k"]"#).unwrap().string_at("/0"), Some("k"));
        for no_index in ["/00", "/+0", "/-0", "/-", "/1", "/"] {
            assert_eq!(Document::parse(br#"["k"]"#).unwrap().string_at(no_index), None, "{no_index}");
        }
        assert!(document.remove("/a/~0x~1"));
        assert!(document.remove("/a/b/0/c"));
        assert!(!document.remove("/a/b/0"));
        assert!(!document.remove(""));
        assert_eq!(document.canonical(), r#"{"a":{"b":[{}]},"d":2}"#);
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            (-9_007_199_254_740_992_i64..=9_007_199_254_740_992).prop_map(Into::into),
            any::<f64>().prop_filter_map("finite", |n| serde_json::Number::from_f64(n).map(Into::into)),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::Array),
                proptest::collection::btree_map(".*", inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// serde_json prints doubles in their shortest form, so all that it prints passes the guard.
        #[test]
        fn rfc_8785_agrees_with_an_independent_implementation(json in any_json()) {
            let oracle = serde_json_canonicalizer::to_string(&json).unwrap();
            let own = canonical(&json.to_string());
            prop_assert_eq!(own.as_deref(), Ok(&*oracle));
            match canonical(&oracle) {
                Ok(again) => prop_assert_eq!(again, oracle),
                // A double from 2^53 to 10^21 is printed as the integer that the guard would refuse as written.
                Err((fault, _)) => prop_assert_eq!(fault, FaultKind::LargeInteger),
            }
        }

        #[test]
        fn i_27_the_guard_takes_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Document::parse(&bytes);
        }
    }

    #[test]
    fn without_a_fingerprint_numbers_may_be_of_any_size_and_all_else_is_as_strict() {
        for text in ["9007199254740993", r#"{"a":[1e999,-0.1234567890123456789]}"#] {
            assert!(Document::parse(text.as_bytes()).is_err());
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in ["01", "1.", r#"{"a":1,"a":1}"#, r#""\ud800""#, "1 2", "{", ""] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
