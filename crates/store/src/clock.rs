//! Where a store's time comes from.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use steadfast_core::ledger::Stamp;
use steadfast_core::time::{Instant, Wall};

/// Tells the time for leases and for stored dates.
pub trait Clock: Send + Sync {
    /// All three clocks, read together.
    fn stamp(&self) -> Stamp;
}

/// The machine's clocks: its boot id, the time since it booted (asleep included), and the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    boot: u128,
}

impl SystemClock {
    /// Reads the boot id once. Where the system has none, every process is a boot of its own, so that a lease never
    /// outlives the process that cannot prove it.
    pub fn new() -> Self {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let boot = id.and_then(|id| u128::from_str_radix(&id.trim().replace('-', ""), 16).ok());
        Self { boot: boot.unwrap_or_else(crate::sqlite::random_u128) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn stamp(&self) -> Stamp {
        let up = clock_gettime(ClockId::Boottime);
        let nanos =
            u64::try_from(up.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(up.tv_nsec).unwrap_or(0);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Stamp {
            boot: self.boot,
            up: Instant::from_nanos(nanos),
            wall: Wall::from_unix_millis(u64::try_from(wall).unwrap_or(u64::MAX)),
        }
    }
}

/// A clock that stands where the test put it.
#[cfg(test)]
#[derive(Clone, Default)]
pub(crate) struct HandClock(pub(crate) std::sync::Arc<std::sync::Mutex<std::time::Duration>>);

#[cfg(test)]
impl Clock for HandClock {
    fn stamp(&self) -> Stamp {
        let up = Instant::ZERO.saturating_add(*self.0.lock().unwrap());
        Stamp { boot: 1, up, wall: Wall::default() }
    }
}

/// A wall time as RFC 3339 in UTC, to the millisecond.
pub fn rfc_3339(wall: Wall) -> String {
    let millis = wall.as_unix_millis();
    let (days, in_day) = (millis / 86_400_000, millis % 86_400_000);
    // Howard Hinnant's days_from_civil, turned around: eras of 400 years that begin on the first of March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", in_day % 1_000)
}

/// The wall time that is written as RFC 3339 with whatever offset and fraction, cut to the millisecond; nothing if it is
/// none, or lies before 1970.
pub fn of_rfc_3339(text: &str) -> Option<Wall> {
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let at = |place: usize, any: &[u8]| text.as_bytes().get(place).is_some_and(|byte| any.contains(byte));
    let parted = [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")];
    if !parted.into_iter().all(|(place, any)| at(place, any.as_bytes())) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60;
    if !in_range || second > 60 {
        return None;
    }
    let rest = text.get(19..)?;
    let fraction = rest
        .strip_prefix('.')
        .map_or("", |rest| &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()]);
    let offset = if fraction.is_empty() { rest } else { &rest[1 + fraction.len()..] };
    let millis: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let east = match offset.as_bytes() {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let from = text.len() - 5;
            let minutes = i64::try_from(number(from, from + 2)? * 60 + number(from + 3, from + 5)?).ok()?;
            if *sign == b'+' { minutes } else { -minutes }
        }
        _ => return None,
    };
    // Howard Hinnant's days_from_civil.
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    let in_day = (hour * 3_600 + minute * 60 + second) * 1_000 + millis;
    let millis = i64::try_from(days * 86_400_000 + in_day).ok()? - east * 60_000;
    u64::try_from(millis).ok().map(Wall::from_unix_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsk_11_dates_of_any_offset_and_fraction_are_read() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T00:00:00.000Z", Some(951_782_400_000)),
            ("2000-02-29t02:30:00.5+02:30", Some(951_782_400_500)),
            ("2000-02-28T22:00:00.123456789-02:00", Some(951_782_400_123)),
            ("2024-03-01 00:00:00Z", Some(1_709_251_200_000)),
            ("1969-12-31T23:59:59Z", None),
            ("2024-03-01T00:00:00", None),
            ("2024-13-01T00:00:00Z", None),
            ("2024-03-01T00:00:00.Z", None),
            ("2024-03-01T00:00:00+0200", None),
            ("+024-03-01T00:00:00Z", None),
            ("2024-03-01T00:00:0éZ", None),
            ("", None),
        ] {
            assert_eq!(of_rfc_3339(text).map(Wall::as_unix_millis), millis, "{text}");
        }
        for millis in [0, 951_782_399_999, 1_709_251_200_000, 4_107_542_399_000] {
            let wall = Wall::from_unix_millis(millis);
            assert_eq!(of_rfc_3339(&rfc_3339(wall)), Some(wall));
        }
    }

    #[test]
    fn dates_are_written_as_rfc_3339() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
        ] {
            assert_eq!(rfc_3339(Wall::from_unix_millis(millis)), text);
        }
    }
}
