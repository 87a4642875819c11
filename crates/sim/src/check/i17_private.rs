//! I-17: nothing private crosses an authorization context; nothing from `input_required` is cached; fresh exactly while
//! `now < received + ttl`.

use steadfast_core::time::Now;

use super::Verdict;
use super::catalogs::Fetches;
use crate::event::Catalog;

#[derive(Clone, Debug, Default)]
pub(super) struct Private(Fetches);

impl Private {
    pub(super) fn see(&mut self, now: Now, event: &Catalog) -> Verdict {
        let now = now.mono.as_millis();
        let (Some(of), Catalog::Served { owner, fresh, .. }) = (self.0.see(now, event), *event) else {
            return Ok(());
        };
        if of.owner != owner && !of.all_public {
            return Err("a private list reached another authorization context");
        }
        if of.asked {
            return Err("an answer that asked a question was kept");
        }
        if fresh && now >= of.expires_ms {
            return Err("a list was called fresh after its time");
        }
        if !fresh && now < of.expires_ms && of.began_after == self.0.changes {
            return Err("a list was called stale within its time");
        }
        Ok(())
    }
}
