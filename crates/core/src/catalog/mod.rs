//! What a server offers, kept for a while: lists of tools, prompts, resources and templates, and resources that were
//! read (G10, CCH).
//!
//! [`Key`] says whose an entry is, [`Entry`] how long it is fresh, who fetches it and what a change notice does to it,
//! [`Walk`] how its pages are put together, [`Changes`] what is new in it, [`Index`] how it is searched. What is known
//! of the server itself stays with its connection and is no entry here.

mod changes;
mod entry;
mod hints;
mod index;
mod key;
mod walk;

pub use changes::{Changes, ContentHash};
pub use entry::{Entry, Failed, Held, Next, Policy, Ticket};
pub use hints::{Hints, Sharing};
pub use index::{Described, Index};
pub use key::{Key, Owner, Subject};
pub use walk::{Bounds, Cut, Step, Walk, Whole};
