//! Durations and sizes as people write them in the configuration and on the command line.

use core::time::Duration;

/// Why a text is no duration or size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a whole number followed by a unit of time.
    #[error("{0:?} is not a duration; write a whole number and ms, s, m, h or d, such as 500ms or 5m")]
    Duration(alloc::string::String),
    /// Not a whole number followed by a unit of size.
    #[error("{0:?} is not a size; write a whole number and B, KiB, MiB or GiB, such as 64KiB")]
    Size(alloc::string::String),
}

/// Reads `500ms`, `30s`, `5m`, `12h` or `30d`.
///
/// # Errors
/// Anything else, signs, fractions and overflow included.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let unit_millis = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    scaled(text, &unit_millis).map(Duration::from_millis).ok_or_else(|| UnitError::Duration(text.into()))
}

/// Reads `128B`, `64KiB`, `8MiB` or `1GiB`, in bytes.
///
/// # Errors
/// Anything else, signs, fractions and overflow included.
pub fn size(text: &str) -> Result<u64, UnitError> {
    let unit_bytes = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];
    scaled(text, &unit_bytes).ok_or_else(|| UnitError::Size(text.into()))
}

/// The first unit whose name ends the text and leaves nothing but digits decides.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    units.iter().find_map(|(unit, factor)| {
        let digits = text.strip_suffix(unit)?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse::<u64>().ok()?.checked_mul(*factor)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, millis) in [
            ("0ms", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("30d", 2_592_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "5", "ms", "-5s", "+5s", "1.5s", "5 s", "5S", "99999999999999999999s", "99999999999999999d"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_a_number_and_a_binary_unit() {
        for (text, bytes) in [("7B", 7), ("64KiB", 65_536), ("8MiB", 8_388_608), ("1GiB", 1 << 30)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "8", "8MB", "KiB", "-1B", "99999999999999GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
