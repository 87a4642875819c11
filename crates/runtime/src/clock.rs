//! The one place that reads the clocks.

use std::time::{SystemTime, UNIX_EPOCH};

use steadfast_core::time::{Instant, Now, Wall};
use tokio::time::Instant as TokioInstant;

/// Tells machines the time. All machines of one process share an origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: TokioInstant,
}

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        Self { origin: TokioInstant::now() }
    }

    /// Both clocks, read together.
    pub fn now(&self) -> Now {
        let mono = Instant::ZERO.saturating_add(self.origin.elapsed());
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono, wall: Wall::from_unix_millis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)) }
    }

    /// Sleeps until a machine's timeout; for ever where it has none.
    pub async fn sleep_until(&self, at: Option<Instant>) {
        match at.and_then(|at| self.origin.checked_add(at.saturating_since(Instant::ZERO))) {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}
