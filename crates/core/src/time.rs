//! Time as the core sees it: always passed in, never read.

use core::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an origin that the driver chose and keeps.
///
/// Only limits and intervals are measured with it; a jump of the wall clock cannot reach them (F050).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The point `millis` milliseconds after the origin; saturates.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since the origin, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// `self + delta`, or the end of time where that would overflow (CCH-32).
    pub fn saturating_add(self, delta: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(delta.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this point lies; zero if it does not.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A point on the wall clock, in milliseconds since 1970-01-01T00:00:00Z.
///
/// Used only for what is shown to people or kept on disk across restarts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Wall(u64);

impl Wall {
    /// The point `millis` milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_unix_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_unix_millis(self) -> u64 {
        self.0
    }

    /// `self + delta`, saturating.
    pub fn saturating_add(self, delta: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(delta.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// What a driver tells a machine with every input: both clocks, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Now {
    /// For limits and intervals.
    pub mono: Instant,
    /// For stored and shown times.
    pub wall: Wall,
}

impl Now {
    /// Both clocks `millis` milliseconds after their origins: for tests and the simulator.
    pub const fn at_millis(millis: u64) -> Self {
        Self { mono: Instant::from_millis(millis), wall: Wall::from_unix_millis(millis) }
    }
}
