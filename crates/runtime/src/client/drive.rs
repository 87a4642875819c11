//! The loop that obeys a [`Requester`]: handle, drain, sleep until the timeout.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use steadfast_core::exchange::requester::{End, Input, Output};
use steadfast_core::exchange::{CancelSignal, Progress, Requester, Spec};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Ended;
use crate::clock::Clock;

/// Lets the first byte leave. It runs right after the machine was told so, never before.
pub(super) type Launch = Box<dyn FnOnce() + Send>;

/// One request's way to the peer, as a transport offers it.
pub(super) struct Leg {
    /// Gets ready to send without sending: a connection, a place in the writer's queue. An error is why not.
    pub(super) prepare: Pin<Box<dyn Future<Output = Result<Launch, String>> + Send>>,
    /// What the peer says about this request; its end is the loss of the transport.
    pub(super) heard: mpsc::Receiver<Heard>,
    /// Tells the peer that we gave up. Must not wait.
    pub(super) signal: Box<dyn FnMut(&CancelSignal) + Send>,
}

/// Something the peer said, with a remark where the transport has one.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) input: Input<Bytes>,
    /// For the error's text: a status, an exit code.
    pub(super) remark: Option<String>,
}

impl From<Input<Bytes>> for Heard {
    fn from(input: Input<Bytes>) -> Self {
        Self { input, remark: None }
    }
}

/// Runs one request to its end.
pub(super) async fn request(
    clock: Clock,
    spec: Spec,
    mut leg: Leg,
    cancel: CancellationToken,
    closing: CancellationToken,
    mut on_progress: Box<dyn FnMut(Progress) + Send>,
) -> Ended {
    let mut exchange = Requester::start(clock.now(), spec);
    let mut preparing = true;
    let mut cancel_seen = false;
    let mut remark = None;
    loop {
        let mut end: Option<End<Bytes>> = None;
        while let Some(output) = exchange.poll_output() {
            match output {
                Output::Progress(progress) => on_progress(progress),
                Output::Signal(signal) => (leg.signal)(&signal),
                Output::Ended(ended) => end = Some(ended),
                Output::Ignored(_) => {}
            }
        }
        if let Some(end) = end {
            return Ended { end, sent: exchange.was_sent(), remark };
        }
        let timeout = exchange.poll_timeout().map(|(at, _)| at);
        let input = tokio::select! {
            prepared = &mut leg.prepare, if preparing => {
                preparing = false;
                match prepared {
                    Ok(launch) => {
                        exchange.handle(clock.now(), Input::Sent);
                        // A limit may have been reached just now; then nothing may leave any more.
                        if exchange.terminal().is_none() { launch(); }
                        continue
                    }
                    Err(why) => { remark = Some(why); Input::Lost }
                }
            }
            heard = leg.heard.recv() => match heard {
                Some(heard) => { remark = heard.remark.or(remark); heard.input }
                None => Input::Lost,
            },
            () = cancel.cancelled(), if !cancel_seen => {
                cancel_seen = true;
                Input::Cancel { reason: None }
            }
            () = closing.cancelled(), if !cancel_seen => {
                cancel_seen = true;
                Input::Cancel { reason: Some("the client is closing".into()) }
            }
            () = clock.sleep_until(timeout) => { exchange.handle_timeout(clock.now()); continue }
        };
        exchange.handle(clock.now(), input);
    }
}
