//! I-19: pages share a scope; a bad cursor drops all pages.

use steadfast_core::time::Now;

use super::Verdict;
use super::catalogs::Fetches;
use crate::event::Catalog;

#[derive(Clone, Debug, Default)]
pub(super) struct Pages(Fetches);

impl Pages {
    pub(super) fn see(&mut self, now: Now, event: &Catalog) -> Verdict {
        let (Some(of), Catalog::Served { owner, pages, .. }) =
            (self.0.see(now.mono.as_millis(), event), *event)
        else {
            return Ok(());
        };
        if of.bad_cursor {
            return Err("pages from before a bad cursor were kept");
        }
        if of.pages != pages {
            return Err("a list is not the pages of one fetch");
        }
        if of.owner != owner && !of.all_public {
            return Err("a list was shared of which one page is private");
        }
        Ok(())
    }
}
