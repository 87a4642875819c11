//! I-18: a fetch begun before an invalidation cannot become fresh.

use steadfast_core::time::Now;

use super::Verdict;
use super::catalogs::Fetches;
use crate::event::Catalog;

#[derive(Clone, Debug, Default)]
pub(super) struct Fence(Fetches);

impl Fence {
    pub(super) fn see(&mut self, now: Now, event: &Catalog) -> Verdict {
        match (self.0.see(now.mono.as_millis(), event), *event) {
            (Some(of), Catalog::Served { fresh: true, .. }) if of.began_after < self.0.changes => {
                Err("a list was called fresh whose fetch began before a change")
            }
            _ => Ok(()),
        }
    }
}
