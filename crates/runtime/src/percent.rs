//! Percent-encoding, as URIs and their fragments carry text.

/// A path as a URI carries it: its separators stay.
pub(crate) fn encode_path(path: &str) -> String {
    path.bytes().fold(String::with_capacity(path.len()), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
        encoded
    })
}

/// The text that a value of a URI stands for; `None` if it stands for none.
pub(crate) fn decode(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        bytes.push((digit(digits[0])? << 4) | digit(digits[1])?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}
