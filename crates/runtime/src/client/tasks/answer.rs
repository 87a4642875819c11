//! One question of a task: asked of the host once, and answered to the server as often as it takes (TSK-29, TSK-67).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use steadfast_core::object::Members;
use steadfast_core::policy::Backoff;
use tokio_util::sync::CancellationToken;

use super::TaskHandle;
use super::follow::POLL_WITHIN;
use crate::client::rounds::Asked;
use crate::client::{CallOptions, Category, Error};

/// A question that is being answered.
pub(super) struct Answering {
    pub(super) handle: TaskHandle,
    /// The keys that are open as far as is known.
    pub(super) open: Arc<Mutex<BTreeSet<String>>>,
    /// Nobody waits for the task any more: the question is taken back.
    pub(super) stop: CancellationToken,
    pub(super) key: String,
    /// Method and params, as the server wrote them.
    pub(super) question: String,
}

/// Why there is no answer, and so no end of the task for whoever waits.
pub(super) struct Unanswered {
    pub(super) category: Category,
    pub(super) sentence: String,
}

impl Answering {
    pub(super) async fn run(self) -> Result<(), Unanswered> {
        let pipeline = &self.handle.client.pipeline;
        let asked = Asked::of(&self.question).map_err(|why| {
            let sentence =
                format!("server {} asked in a way that cannot be answered: {why}", self.handle.client.name());
            Unanswered { category: Category::InvalidResponse, sentence }
        })?;
        let answer = tokio::select! {
            answer = pipeline.answer(&asked) => answer,
            () = self.stop.cancelled() => return Ok(()),
        };
        let answer = answer.map_err(|sentence| Unanswered { category: Category::Questions, sentence })?;
        let mut responses = Members::default();
        responses.set(&self.key, answer);
        let responses = responses.to_json();
        let mut failures = 0;
        loop {
            if !self.open.lock().unwrap_or_else(PoisonError::into_inner).contains(&self.key) {
                // Somebody else answered, or it is over: what is not open is not answered (TSK-35).
                return Ok(());
            }
            let (cancel, deadline) = (self.stop.clone(), Some(POLL_WITHIN));
            let options = CallOptions { cancel, deadline, ..CallOptions::default() };
            match self.handle.update(&responses, options).await {
                Ok(()) => {
                    let key = self.key.clone();
                    self.handle.note(move |journal, entry| journal.answered(entry, &key)).await;
                    return Ok(());
                }
                // The server will not have it: its next state says what it makes of that.
                Err(Error::Protocol { code: -32_602 | -32_601 | -32_021, .. }) => return Ok(()),
                Err(error) => {
                    tracing::info!(
                        server = self.handle.client.name(),
                        call = error.call_id(),
                        "an answer did not arrive"
                    );
                    let pause = Backoff::RECONNECT.delay(pipeline.seed, failures);
                    failures += 1;
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.stop.cancelled() => return Ok(()),
                    }
                }
            }
        }
    }
}
