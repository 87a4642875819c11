//! A small, typed way to write a server.

pub mod tasks;
