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
