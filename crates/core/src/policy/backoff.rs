//! How long to wait before the next attempt (G13, D-20, RTY-09).

use core::time::Duration;

use crate::rng::Rng;

/// Exponential steps with a cap, each spread over its upper half.
///
/// The spread depends on client and attempt alone: a test repeats it, and ten thousand clients that lose the same
/// server do not come back together. In production the client number is drawn at random once a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
}

/// Why two durations make no backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BackoffError {
    /// Without a first step all attempts come at once.
    #[error("the backoff's base is zero, so all attempts would come at once; set a positive one")]
    ZeroBase,
    /// The first step would already be cut.
    #[error("the backoff's cap of {cap:?} is below its base of {base:?}; raise the cap or lower the base")]
    CapBelowBase {
        /// The first step.
        base: Duration,
        /// The longest step.
        cap: Duration,
    },
}

impl Backoff {
    /// 250 ms, 500 ms, 1 s … 8 s: reconnecting.
    pub const RECONNECT: Self = Self { base: Duration::from_millis(250), cap: Duration::from_secs(8) };

    /// Steps from `base`, doubling, up to `cap`.
    ///
    /// # Errors
    /// A zero base, or a cap below it.
    pub const fn new(base: Duration, cap: Duration) -> Result<Self, BackoffError> {
        if base.is_zero() {
            return Err(BackoffError::ZeroBase);
        }
        if cap.as_nanos() < base.as_nanos() {
            return Err(BackoffError::CapBelowBase { base, cap });
        }
        Ok(Self { base, cap })
    }

    /// The whole step after this attempt; the first attempt is 0.
    pub fn step(&self, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }

    /// The delay of one client after this attempt: between half the step and the whole of it.
    pub fn delay(&self, client: u64, attempt: u32) -> Duration {
        let step = u64::try_from(self.step(attempt).as_nanos()).unwrap_or(u64::MAX);
        let half = step / 2;
        // Two draws apart from each other: neighbours in either number have nothing in common.
        let seed = Rng::new(client).next_u64() ^ Rng::new(!u64::from(attempt)).next_u64();
        Duration::from_nanos(half + Rng::new(seed).up_to(step - half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_20_steps_double_from_250_ms_to_8_s() {
        let steps: [u128; 8] =
            core::array::from_fn(|attempt| Backoff::RECONNECT.step(attempt as u32).as_millis());
        assert_eq!(steps, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert_eq!(Backoff::RECONNECT.step(u32::MAX).as_millis(), 8000);
    }

    #[test]
    fn i_14_delays_lie_between_half_and_the_whole_step_and_repeat() {
        for attempt in 0..40 {
            let step = Backoff::RECONNECT.step(attempt);
            for client in 0..500 {
                let delay = Backoff::RECONNECT.delay(client, attempt);
                assert!(delay >= step / 2 && delay <= step, "{delay:?} of {step:?}");
                assert_eq!(delay, Backoff::RECONNECT.delay(client, attempt));
            }
        }
    }

    #[test]
    fn d_20_ten_thousand_clients_do_not_return_together() {
        for attempt in 0..8 {
            let step = Backoff::RECONNECT.step(attempt);
            // Twenty windows over the half step: evenly spread, each holds 5 %.
            let window = (step / 2).as_nanos() / 20;
            let mut windows = [0_u32; 21];
            for client in 0..10_000 {
                let delay = Backoff::RECONNECT.delay(client, attempt) - step / 2;
                windows[(delay.as_nanos() / window) as usize] += 1;
            }
            let fullest = *windows.iter().max().unwrap();
            assert!(fullest <= 600, "{fullest} of 10,000 in a twentieth of step {attempt}");
        }
        // At the cap: of evenly spread clients any 100 ms hold 2.5 %, and no window anywhere holds above 4 %.
        let mut delays: [u64; 10_000] =
            core::array::from_fn(|client| Backoff::RECONNECT.delay(client as u64, 5).as_nanos() as u64);
        delays.sort_unstable();
        for from in delays {
            let window = delays.partition_point(|at| *at < from)
                ..delays.partition_point(|at| *at < from + 100_000_000);
            assert!(window.len() <= 400, "{} of 10,000 within 100 ms", window.len());
        }
    }

    #[test]
    fn a_backoff_without_steps_is_refused() {
        let ms = Duration::from_millis;
        assert_eq!(Backoff::new(ms(0), ms(1)), Err(BackoffError::ZeroBase));
        assert_eq!(Backoff::new(ms(2), ms(1)), Err(BackoffError::CapBelowBase { base: ms(2), cap: ms(1) }));
        assert!(Backoff::new(ms(2), ms(2)).is_ok());
    }
}
