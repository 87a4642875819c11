//! The event-stream binding: how bytes become events, and how messages become bytes.

pub mod decode;
pub mod encode;

pub use decode::{Decoder, Event, Item, TooLarge};
