//! Pages of a list. A cursor is the name after which the next page begins, so it stays good while the list changes,
//! and in every replica (PAG-05, PAG-07).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;

/// What a cursor begins with; one of another list, or of nobody, does not.
const MARK: &str = "after:";

/// A cursor that this list never gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadCursor;

/// The cursor for what follows `name`.
pub(super) fn after(name: &str) -> String {
    BASE64.encode(format!("{MARK}{name}"))
}

/// The name after which a page begins.
pub(super) fn start(cursor: &str) -> Result<String, BadCursor> {
    let text = BASE64.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.and_then(|text| text.strip_prefix(MARK).map(str::to_owned)).ok_or(BadCursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pag_05_a_cursor_is_read_back_or_refused() {
        for name in ["", "a", "Ü/x", "after:"] {
            assert_eq!(start(&after(name)).as_deref(), Ok(name));
        }
        for broken in ["", "a", "YWZ0ZXI", "!!", "after:a"] {
            assert_eq!(start(broken), Err(BadCursor), "{broken}");
        }
    }
}
