//! A server that offers one of everything: what the official conformance suite asks of a server under test.

mod content;
mod prompts;
mod questions;
mod resources;
mod tasks;
mod telling;

use std::sync::Arc;

use steadfast::server::toolkit::{BuildError, Failure, Server, ToolResult};
use steadfast_store::Ledger;

/// The server's name.
pub const NAME: &str = "everything";

type Handled = Result<ToolResult, Failure>;

/// The server, with its tasks on this ledger.
///
/// # Errors
/// The ledger cannot be written.
pub fn server(ledger: Arc<Ledger>) -> Result<Server, BuildError> {
    let builder = Server::builder(NAME, env!("CARGO_PKG_VERSION"))
        .instructions("One of everything, for whoever tests a client or this server.")
        .store(ledger)
        .changing()
        .logs();
    let builder = content::add(builder);
    let builder = telling::add(builder);
    let builder = questions::add(builder);
    let builder = tasks::add(builder);
    let builder = resources::add(builder);
    prompts::add(builder).build()
}
