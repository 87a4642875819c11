//! I-03: a cancel names only an issued request that is in flight, on its own hop; a server's names only a
//! listen on stdio.

use steadfast_core::exchange::Operation;
use steadfast_core::hop::Transport;

use steadfast_core::time::Now;

use super::Verdict;
use crate::event::{Exchange, Id, Message, Side, Started};

#[derive(Clone, Debug, Default)]
pub(super) struct CancelNames {
    sent: Option<Id>,
    answered: Option<Now>,
    server: Option<Started>,
    server_ended: bool,
}

impl CancelNames {
    #[inline]
    pub(super) fn see(&mut self, now: Now, event: &Exchange) -> Verdict {
        match *event {
            Exchange::Put { by: Side::Client, message: Message::Request { id, .. } } => self.sent = Some(id),
            Exchange::Got { by: Side::Client, message: Message::Response { id, .. } }
                if self.sent == Some(id) =>
            {
                self.answered = Some(now);
            }
            Exchange::Put { by: Side::Client, message: Message::Cancelled { id } } => {
                if self.sent != Some(id) {
                    return Err("the client cancelled what it had not sent under this id");
                }
                // At the instant of a limit the answer comes second; I-04 says whether it was that instant.
                if self.answered.is_some_and(|at| at.mono < now.mono) {
                    return Err("the client cancelled what had been answered");
                }
            }
            Exchange::Started(started) if started.by == Side::Server => self.server = Some(started),
            Exchange::ServerEnd { .. } => self.server_ended = true,
            Exchange::Put { by: Side::Server, message: Message::Cancelled { id } } => {
                let allowed = self.server.is_some_and(|server| {
                    server.id == id
                        && server.operation == Operation::Listen
                        && server.hop.transport == Transport::Stdio
                });
                if !allowed || self.server_ended {
                    return Err("the server cancelled something that is no running listen on stdio");
                }
            }
            _ => {}
        }
        Ok(())
    }
}
