//! The small worlds that are explored to their last order, by name.

mod breaker;
mod catalog;
mod exchange;
mod ledger;
mod queue;
mod race;
mod retry;
mod stdio;
mod subscription;
mod task;

use crate::run::Run;

/// A small world: everything that can happen in it happens, in every order.
pub struct Scope {
    /// Its name in reports and on the command line.
    pub name: &'static str,
    play: Box<dyn Fn(&mut Run<'_>) + Send + Sync>,
}

impl Scope {
    fn new(name: &'static str, play: impl Fn(&mut Run<'_>) + Send + Sync + 'static) -> Self {
        Self { name, play: Box::new(play) }
    }

    /// Plays one order of it.
    pub fn play(&self, run: &mut Run<'_>) {
        (self.play)(run);
    }
}

/// All scopes, in the order in which reports print them.
pub fn all() -> Vec<Scope> {
    [
        exchange::scopes(),
        ledger::scopes(),
        race::scopes(),
        queue::scopes(),
        breaker::scopes(),
        retry::scopes(),
        task::scopes(),
        catalog::scopes(),
        subscription::scopes(),
        stdio::scopes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The scope of this name.
pub fn named(name: &str) -> Option<Scope> {
    all().into_iter().find(|scope| scope.name == name)
}
