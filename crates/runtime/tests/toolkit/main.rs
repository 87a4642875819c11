//! Servers of the toolkit, asked as an endpoint asks them.

mod calls;
mod example;
mod harness;
mod legacy;
mod lists;
mod rounds;
