//! The bundled sample server: a fixture that real clients can talk to.

mod basics;

use std::sync::Arc;

use steadfast::server::tools::Tools;

/// The server `shop` with all its tools.
pub fn server() -> Arc<Tools> {
    Arc::new(basics::add(Tools::new("shop", env!("CARGO_PKG_VERSION"))))
}
