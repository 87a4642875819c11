//! The bundled sample server: a fixture that real clients can talk to, and two mutations on the durable ledger.

mod basics;
pub mod charges;
pub mod inventory;
pub mod jobs;
mod mutation;

use std::sync::Arc;

use steadfast::server::tools::Tools;
use steadfast_store::{Ledger, StoreError};

/// The server's name, which is part of every key's scope.
pub const NAME: &str = "shop";

/// The server `shop` with all its tools, on a ledger that it prepares.
///
/// # Errors
/// The ledger cannot be written.
pub fn server(ledger: Arc<Ledger>) -> Result<Arc<Tools>, StoreError> {
    prepare(&ledger)?;
    let tools = basics::add(Tools::new(NAME, env!("CARGO_PKG_VERSION")));
    let tools = charges::add(tools, &ledger);
    Ok(Arc::new(inventory::add(tools, &ledger)))
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
