//! Steadfast's runtime: an MCP client and an MCP server on tokio.
//!
//! Nothing that decides lives here. Every request is driven by a machine of [`core`]: tell it what happened, do what
//! it says, sleep until its timeout.

pub mod client;
pub mod clock;
mod lines;
mod listening;
pub mod message;
mod percent;
mod schema;
pub mod server;

pub use steadfast_core as core;
