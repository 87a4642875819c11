//! Byte streams that are no pipes of a child: a Unix or TCP socket, the pipes of a container.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// A pair of byte streams to one server. It reads what is written to `writer` and is shut down with it.
pub struct Streams {
    /// What the server says.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// What is said to it.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// A pair that is being opened.
pub type Opened = Pin<Box<dyn Future<Output = io::Result<Streams>> + Send>>;

/// What opens a pair, once a connection.
#[derive(Clone)]
pub(in crate::client) struct Opener(pub(in crate::client) Arc<dyn Fn() -> Opened + Send + Sync>);

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opener").finish_non_exhaustive()
    }
}
