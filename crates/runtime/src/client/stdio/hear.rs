//! What a child says on stdout, and whom it is for.

use std::sync::Arc;

use serde_json::value::RawValue;
use steadfast_core::envelope::{self, Message};
use steadfast_core::exchange::requester::Input;
use steadfast_core::exchange::{CancelNotice, Operation};
use steadfast_core::ids::RequestId;
use steadfast_core::stdio::Line;
use tokio::io::AsyncRead;

use super::Shared;
use crate::client::leg::{Heard, Inbound};
use crate::message::MAX_MESSAGE_BYTES;
use crate::{lines, message};

/// So many lines in a row that are no messages show that no server speaks there (F061).
const NOISE_LIMIT: u64 = 10_000;
/// So many are reported one by one; of the rest every one whose number is a power of two.
const NOISE_REPORTED: u64 = 8;

/// Why nothing more is heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// The child closed its stdout.
    Closed,
    /// Nothing but noise comes.
    Noise,
    /// The pipe broke.
    Broken(String),
}

/// Reads until the child closes its stdout.
pub(super) async fn read(stdout: impl AsyncRead + Unpin, shared: Arc<Shared>) -> Silence {
    let mut lines = lines::Reader::new(stdout, MAX_MESSAGE_BYTES);
    let mut noise = Noise::default();
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return Silence::Closed,
            Err(error) => return Silence::Broken(error.to_string()),
        };
        let heard = match line {
            Line::Message(line) => hear(&shared, &line),
            Line::Blank => continue,
            // What is no message concerns no request that could be named; an unanswered one reaches its own limits.
            // Its text may be half an answer, which is for no log (G15).
            Line::Noise(_) => Err("a line that is no message".to_owned()),
            Line::TooLong { bytes } => Err(format!(
                "a line of {bytes} bytes, which is more than a message may have ({MAX_MESSAGE_BYTES})"
            )),
            Line::Unfinished { bytes } => Err(format!("{bytes} bytes of a line that it did not end")),
        };
        match heard {
            Ok(()) => noise.in_a_row = 0,
            Err(what) => {
                if let Some(report) = noise.heard(&what) {
                    shared.inbox.put(Inbound::Noise { what: report });
                }
                if noise.in_a_row >= NOISE_LIMIT {
                    return Silence::Noise;
                }
            }
        }
    }
}

/// Counts what is no message (STD-20).
#[derive(Default)]
struct Noise {
    all: u64,
    in_a_row: u64,
}

impl Noise {
    fn heard(&mut self, what: &str) -> Option<String> {
        self.all += 1;
        self.in_a_row += 1;
        let reported = self.all <= NOISE_REPORTED || self.all.is_power_of_two();
        reported
            .then(|| format!("the server wrote to its stdout {what} (number {}); it was skipped", self.all))
    }
}

/// Hands a message to the request it is for; an error says what it is instead. Never waits: one slow request must not
/// hold up the others (F014).
fn hear(shared: &Shared, line: &[u8]) -> Result<(), String> {
    match envelope::parse(line) {
        // Of two answers the first counts; after it the id leads nowhere. An id of another type is another id (MSG-07),
        // and none at all is nobody's (MSG-10).
        Ok(Message::Response { id, reply }) => {
            match id.as_ref().and_then(|id| shared.table().release(id)) {
                // One place is kept for it.
                Some(to_task) => drop(to_task.try_send(Input::Response(message::owned(&reply)).into())),
                None => drop(shared.inbox.put(Inbound::Stray { id })),
            }
        }
        Ok(Message::Notification { method, params }) => notified(shared, &method, params),
        Ok(Message::Request { id, method, params }) => {
            let (method, params) = (method.into_owned(), message::params_bytes(params));
            shared.inbox.put(Inbound::Request { id, method, params, during: None });
        }
        Err(error) => return Err(format!("a line that cannot be read: {error}")),
    }
    Ok(())
}

fn notified(shared: &Shared, method: &str, params: Option<&RawValue>) {
    let text = params.map_or("{}", RawValue::get);
    if method == "notifications/progress" {
        // Under a token that is not ours it is nobody's (PRG-09).
        let Some((token, progress)) = envelope::progress_of(text) else { return };
        let Some(id) = crate::client::request_of(&token) else { return };
        match shared.table().get(&id) {
            Some(to_task) if to_task.capacity() > 1 => {
                let _ = to_task.try_send(Input::Progress(token, progress).into());
            }
            Some(_) => {}
            None => drop(shared.inbox.put(Inbound::Progress { token, progress })),
        }
        return;
    }
    if method == "notifications/cancelled" {
        let CancelNotice::Names { id, .. } = envelope::cancel_notice_of(Some(text)) else { return };
        // It ends a subscription (SUB-21) or takes back a question of the server's own; it never ends another request
        // of ours (CAN-14).
        let of = shared.table().operation(&id);
        if of == Some(Operation::Listen) {
            tell_listen(shared, &id, Input::PeerCancelled.into());
        } else {
            shared.inbox.put(Inbound::Withdrawn { id });
        }
        return;
    }
    let method = method.to_owned();
    let params = message::params_bytes(params);
    match envelope::subscription_of(text) {
        Some(id) => tell_listen(shared, &id, Heard::Note { method, params }),
        None => drop(shared.inbox.put(Inbound::Notification { method, params })),
    }
}

/// Hands it to the subscription it names and to nobody else (STD-10): one that was given up, or that an earlier process
/// had, is told nothing (STD-19).
fn tell_listen(shared: &Shared, id: &RequestId, heard: Heard) {
    let mut table = shared.table();
    if table.operation(id) != Some(Operation::Listen) {
        return;
    }
    let Some(to_task) = table.get(id) else { return };
    if to_task.capacity() > 1 {
        let _ = to_task.try_send(heard);
        return;
    }
    // Its host is too slow. To skip a notice would leave it with what is stale: the subscription ends, and what it
    // covered is fetched again (SUB-19).
    table.release(id);
    drop(table);
    if let Some(writer) = shared.writer().clone() {
        shared.cancel(writer, id, Some("its listener is too slow"));
    }
}
