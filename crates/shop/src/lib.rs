//! The bundled sample servers: `shop`, a fixture that real clients can talk to, with two mutations on the durable
//! ledger, and [`everything`], which offers one of everything.

mod basics;
pub mod charges;
pub mod everything;
mod finder;
pub mod inventory;
pub mod jobs;
mod talk;

use std::sync::Arc;

use steadfast::server::toolkit::{BuildError, Builder, Server};
use steadfast_store::{Ledger, StoreError};

/// The server's name, which is part of every key's scope.
pub const NAME: &str = "shop";

/// The server `shop` with all its tools, on a ledger that it prepares.
///
/// # Errors
/// The ledger cannot be written.
pub fn server(ledger: Arc<Ledger>) -> Result<Server, BuildError> {
    builder(ledger)?.build()
}

/// As [`server`], for who adds something.
///
/// # Errors
/// The ledger cannot be written.
pub fn builder(ledger: Arc<Ledger>) -> Result<Builder, StoreError> {
    prepare(&ledger)?;
    let builder = Server::builder(NAME, env!("CARGO_PKG_VERSION"))
        .instructions(
            "A shop to try things on: charges and stock that keys protect, and tools that misbehave.",
        )
        .store(Arc::clone(&ledger))
        .logs();
    let builder = basics::add(builder);
    let builder = charges::add(builder);
    let builder = inventory::add(builder, &ledger);
    let builder = builder.tool(jobs::tool(jobs::OPERATION, &ledger));
    Ok(talk::add(builder))
}

/// Makes the shop's own tables next to the ledger's: that is what lets an effect commit with its record.
///
/// # Errors
/// The ledger cannot be written.
pub fn prepare(ledger: &Ledger) -> Result<(), StoreError> {
    ledger.prepare(charges::SCHEMA)?;
    ledger.prepare(inventory::SCHEMA)?;
    ledger.prepare(jobs::SCHEMA)
}
