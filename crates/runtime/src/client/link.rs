//! One live connection to a server, whatever it runs over.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::exchange::Reply;
use steadfast_core::hop::Transport;
use steadfast_core::ids::RequestId;

use super::leg::{Gone, Leg, Outgoing};
use super::{http, stdio};

/// A child with its pipes; or an HTTP endpoint: without a session, with one, or the two endpoints of 2024-11-05.
#[derive(Clone, Debug)]
pub(super) enum Link {
    Stdio(Arc<stdio::Connection>),
    Http(Arc<http::Connection>),
}

impl Link {
    pub(super) const fn transport(&self) -> Transport {
        match self {
            Self::Stdio(_) => Transport::Stdio,
            Self::Http(_) => Transport::Http,
        }
    }

    /// The way of one request. Nothing is sent until its launch.
    pub(super) fn leg(&self, outgoing: Outgoing<'_>) -> Leg {
        match self {
            Self::Stdio(connection) => connection.leg(outgoing),
            Self::Http(connection) => connection.leg(outgoing),
        }
    }

    /// The request ended, however: nothing is kept for it but what late answers need.
    pub(super) fn forget(&self, id: &RequestId) {
        match self {
            Self::Stdio(connection) => connection.forget(id),
            Self::Http(connection) => connection.forget(id),
        }
    }

    /// Sends a notification; never waits, and nobody hears whether it arrived.
    pub(super) fn notify(&self, method: &str, params: &str) {
        match self {
            Self::Stdio(connection) => connection.notify(method, params),
            Self::Http(connection) => connection.notify(method, params),
        }
    }

    /// Answers a request of a legacy server; never waits.
    pub(super) fn respond(&self, id: &RequestId, response: &Reply<Bytes>) {
        match self {
            Self::Stdio(connection) => connection.respond(id, response),
            Self::Http(connection) => connection.respond(id, response),
        }
    }

    /// Waits for the end of the connection. A modern HTTP endpoint has no connection that could end: for ever.
    pub(super) async fn gone(&self) -> Gone {
        match self {
            Self::Stdio(connection) => connection.gone().await,
            Self::Http(connection) => connection.gone().await,
        }
    }

    /// Ends it: a child's tree within about `grace` (ruling 19), a session by DELETE. Never hangs.
    pub(super) async fn close(&self, grace: Duration) {
        match self {
            Self::Stdio(connection) => connection.close(grace).await,
            Self::Http(connection) => connection.close(grace).await,
        }
    }
}
