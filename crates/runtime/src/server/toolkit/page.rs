//! Cursors: where in its list the next page begins, so that they stay good while the list changes, after a restart and
//! in every replica that was built alike (PAG-05, PAG-07).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;

/// A cursor that this list never gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadCursor;

/// The cursor for what stands behind `number` in the list of this mark.
pub(super) fn cursor(mark: &str, number: u64) -> String {
    BASE64.encode(format!("{mark}:{number}"))
}

/// The number behind which a page begins.
pub(super) fn number_of(mark: &str, cursor: &str) -> Result<u64, BadCursor> {
    let text = BASE64.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let number = text.as_deref().and_then(|text| text.strip_prefix(mark)?.strip_prefix(':')?.parse().ok());
    // One list gives each place one cursor.
    number.filter(|number| self::cursor(mark, *number) == cursor).ok_or(BadCursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pag_05_a_cursor_is_read_back_or_refused() {
        for number in [0, 7, u64::MAX] {
            assert_eq!(number_of("tools", &cursor("tools", number)), Ok(number));
            assert_eq!(number_of("prompts", &cursor("tools", number)), Err(BadCursor));
        }
        for broken in
            ["", "a", "YWZ0ZXI", "!!", "tools:1", &BASE64.encode("tools:+1"), &BASE64.encode("tools:01")]
        {
            assert_eq!(number_of("tools", broken), Err(BadCursor), "{broken}");
        }
    }
}
