//! Bugs between a kept list and those who fetch and share it.

use steadfast_core::catalog::{Sharing, Whole};
use steadfast_core::time::Instant;

use super::Bug;

/// Whether a list is put where everybody finds it.
pub(crate) fn is_shared(bug: Option<Bug>, sharing: Sharing) -> bool {
    sharing == Sharing::Public || bug == Some(Bug::PrivateListShared)
}

/// What is made of all pages together; `first` is what the first of them said.
pub(crate) fn whole(bug: Option<Bug>, whole: Whole, first: Sharing, policy: Instant) -> Whole {
    match bug {
        Some(Bug::FirstPageDecides) => Whole { sharing: first, ..whole },
        Some(Bug::TtlIgnored) => Whole { expires: policy, ..whole },
        _ => whole,
    }
}

/// Whether a question in place of a page is taken for the end of the list.
pub(crate) fn keeps_questions(bug: Option<Bug>) -> bool {
    bug == Some(Bug::QuestionKept)
}

/// Whether a notice reaches an entry that is being fetched.
pub(crate) fn hears_while_fetching(bug: Option<Bug>) -> bool {
    bug != Some(Bug::FetchNotFenced)
}

/// Whether the pages before a bad cursor are kept.
pub(crate) fn keeps_pages(bug: Option<Bug>) -> bool {
    bug == Some(Bug::PagesKept)
}
