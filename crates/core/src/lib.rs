//! The decision core of Steadfast: every decision, and nothing that touches the world.
//!
//! # Reading order
//! [`time`], [`ids`] and [`error`] are the words. [`envelope`] and [`ijson`] read what came over the wire.
//! [`exchange`] is the life of one request on one hop; [`policy`] says what may be repeated and when, [`call`] is one
//! call over many exchanges, [`era`] which half of the protocol's history a server speaks;
//! [`ledger`] and [`fingerprint`] say what a key means. [`catalog`] is what a server offers, kept for a while.
//! [`sse`], [`stdio`] are the codecs and the bounded queue; [`subscription`] and [`task`] the long lives; [`review`]
//! judges a description of an operation by the same tables.
//!
//! # The contract of every state machine
//! **Change, then drain, then change.** `handle(now, input)` changes state; `poll_output()` is drained until it
//! returns `None`; `poll_timeout()` says when to come back and why; `handle_timeout(now)` early is a no-op.
//! Machines are told the time and never read it, are `Clone + Hash` so that they can be explored, match every
//! pair of state and input by name, and never panic on any input.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod call;
pub mod catalog;
pub mod envelope;
pub mod era;
pub mod error;
pub mod exchange;
pub mod fingerprint;
pub mod hop;
pub mod ids;
pub mod ijson;
pub mod ledger;
pub mod object;
pub mod policy;
pub mod review;
pub mod rng;
pub mod sse;
pub mod stdio;
pub mod subscription;
pub mod task;
pub mod time;
pub mod trace;
pub mod units;
