//! The breakers of a client, and the permits that they give out.

use std::sync::{Mutex, PoisonError};

use steadfast_core::policy::breaker::{Breaker, Class, Observed};

use super::config::Config;
use crate::clock::Clock;

/// The breakers of one server and tenant: where writes fail, reads may still be served. Clients of one tenant may share
/// them; tenants never do (D-46).
#[derive(Debug)]
pub struct Breakers([Mutex<Breaker>; 3]);

impl Breakers {
    /// All closed.
    pub fn new(config: &Config) -> Self {
        Self(std::array::from_fn(|_| Mutex::new(Breaker::new(config.breaker))))
    }

    pub(super) fn of(&self, class: Class) -> std::sync::MutexGuard<'_, Breaker> {
        let at = match class {
            Class::Read => 0,
            Class::Write => 1,
            Class::List => 2,
        };
        self.0[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all are closed.
    pub fn are_closed(&self) -> bool {
        self.0.iter().all(|one| one.lock().unwrap_or_else(PoisonError::into_inner).as_str() == "closed")
    }
}

/// A breaker's permit; one that is dropped, because its caller was, told nothing of the server.
pub(super) struct Permitted<'a> {
    breakers: &'a Breakers,
    clock: Clock,
    class: Class,
    probe: bool,
    observed: Observed,
}

impl<'a> Permitted<'a> {
    pub(super) const fn new(breakers: &'a Breakers, clock: Clock, class: Class, probe: bool) -> Self {
        Self { breakers, clock, class, probe, observed: Observed::Neutral }
    }

    pub(super) fn report(mut self, observed: Observed) {
        self.observed = observed;
    }
}

impl Drop for Permitted<'_> {
    fn drop(&mut self) {
        let now = self.clock.now();
        self.breakers.of(self.class).record(now, self.observed, self.probe);
    }
}
