//! How a cancel looks on the wire, by transport and era (G4, CAN-02, CAN-03, table ERA).

use alloc::sync::Arc;

use super::Operation;
use crate::hop::{Era, Hop, Transport};
use crate::ids::RequestId;

/// What a requester does to tell the other end that it gave up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CancelSignal {
    /// stdio, both eras: write `notifications/cancelled`.
    Notification {
        /// The request on this hop.
        id: RequestId,
        /// For people and logs.
        reason: Option<Arc<str>>,
    },
    /// Streamable HTTP, modern: close the response stream and post nothing.
    CloseStream,
    /// Streamable HTTP, legacy: POST `notifications/cancelled`, then close the stream on our own account, since
    /// some servers leave it open.
    PostNotification {
        /// The request on this hop.
        id: RequestId,
        /// For people and logs.
        reason: Option<Arc<str>>,
    },
}

impl CancelSignal {
    /// The signal for one request, or `None` where the operation must not be cancelled.
    pub(super) fn for_request(
        operation: Operation,
        hop: Hop,
        id: &RequestId,
        reason: Option<Arc<str>>,
    ) -> Option<Self> {
        match operation {
            Operation::Initialize | Operation::Probe | Operation::Augmented => return None,
            Operation::Ordinary | Operation::Listen => {}
        }
        Some(match (hop.transport, hop.era) {
            (Transport::Stdio, Era::Modern | Era::Legacy) => Self::Notification { id: id.clone(), reason },
            (Transport::Http, Era::Modern) => Self::CloseStream,
            (Transport::Http, Era::Legacy) => Self::PostNotification { id: id.clone(), reason },
        })
    }

    /// The word used in reports: `notification`, `close_stream` or `post_notification`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Notification { .. } => "notification",
            Self::CloseStream => "close_stream",
            Self::PostNotification { .. } => "post_notification",
        }
    }
}

/// An incoming `notifications/cancelled`, as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CancelNotice {
    /// It names a request.
    Names {
        /// As the sender wrote it.
        id: RequestId,
        /// For people and logs; anything but a string counts as absent.
        reason: Option<Arc<str>>,
    },
    /// No `requestId`, or one that is a boolean, a fraction, null, an array or an object.
    Malformed,
}
