//! The stdio binding: how bytes become messages.

pub mod frame;

pub use frame::{Framer, Line};
