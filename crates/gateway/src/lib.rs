//! The gateway: it stands between a host that was not written for reliability and servers that were not either.

pub mod config;
pub mod route;
