//! The one place that reads the clocks.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};

use steadfast_core::time::{Instant, Now, Wall};
use tokio::time::{Instant as TokioInstant, Sleep};

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
        match at.and_then(|at| self.on_tokio(at)) {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn on_tokio(&self, at: Instant) -> Option<TokioInstant> {
        self.origin.checked_add(at.saturating_since(Instant::ZERO))
    }
}

/// A timer for a time that moves on with every event. It is set anew only when it has rung, or must ring earlier: so it
/// may ring too early, which machines take, and an event costs no timer.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    sleep: Option<Pin<Box<Sleep>>>,
    rings_at: Option<TokioInstant>,
}

impl Alarm {
    /// Not set.
    pub(crate) const fn new(clock: Clock) -> Self {
        Self { clock, sleep: None, rings_at: None }
    }

    /// Waits until `at` or less; for ever where there is nothing to wait for. Dropping the future loses nothing.
    pub(crate) async fn ring(&mut self, at: Option<Instant>) {
        poll_fn(|context| self.poll_ring(at, context)).await;
    }

    fn poll_ring(&mut self, at: Option<Instant>, context: &mut Context<'_>) -> Poll<()> {
        let Some(at) = at.and_then(|at| self.clock.on_tokio(at)) else { return Poll::Pending };
        if self.rings_at.is_none_or(|rings_at| at < rings_at) {
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(at),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(at))),
            }
            self.rings_at = Some(at);
        }
        if let Some(sleep) = &mut self.sleep {
            ready!(sleep.as_mut().poll(context));
        }
        self.rings_at = None;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tmo_an_alarm_rings_too_early_at_worst_and_never_late() {
        let clock = Clock::start();
        let at = |ms: u64| Some(Instant::ZERO.saturating_add(Duration::from_millis(ms)));
        let mut alarm = Alarm::new(clock);
        let poll = |alarm: &mut Alarm, ms| {
            alarm.poll_ring(at(ms), &mut Context::from_waker(std::task::Waker::noop())).is_ready()
        };
        assert!(!poll(&mut alarm, 100));
        tokio::time::advance(Duration::from_millis(60)).await;
        assert!(!poll(&mut alarm, 500), "moved on, and not set anew");
        tokio::time::advance(Duration::from_millis(60)).await;
        assert!(poll(&mut alarm, 500), "too early: the machine takes that as nothing");
        assert!(!poll(&mut alarm, 500), "set anew");
        assert!(!poll(&mut alarm, 200), "moved back");
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(poll(&mut alarm, 200));
        alarm.ring(at(500)).await;
        assert!(clock.now().mono >= at(500).unwrap());
        assert!(!poll(&mut alarm, 600));
    }
}
