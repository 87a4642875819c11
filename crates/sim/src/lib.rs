//! The deterministic simulator: the very machines that ship, under an order of events that is chosen.
//!
//! A [`world`] holds both ends of a hop, a wire and a clock moved by hand; [`choices`] say what happens next;
//! [`check`]ers judge what is seen, and only that; the [`transcript`] keeps it. No clock is read, no thread
//! decides, and nothing is random that a seed did not draw, so every run can be repeated from its choices.
#![forbid(unsafe_code)]

pub mod check;
pub mod choices;
pub mod event;
pub mod explore;
pub mod fixtures;
pub mod fuzz;
pub mod lab;
pub mod planted;
pub mod replay;
pub mod run;
pub mod scopes;
pub mod store;
pub mod transcript;
pub mod world;
