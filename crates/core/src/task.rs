//! Durable tasks.
