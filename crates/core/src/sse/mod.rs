//! The event-stream binding: how bytes become events, how messages become bytes, and what waits in between.

pub mod decode;
pub mod encode;
pub mod queue;

pub use decode::{Decoder, Event, Item, TooLarge};
pub use queue::BoundedQueue;
