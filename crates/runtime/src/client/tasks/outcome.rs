//! What came of a task of 2025-11-25: asked for by `tasks/result`, which waits for it, and on whose stream the server may
//! ask and tell meanwhile (LEG-108, LEG-109, LEG-113).

use std::collections::BTreeMap;

use bytes::Bytes;
use steadfast_core::exchange::Limits;
use steadfast_core::hop::Revision;
use steadfast_core::task::Status;
use steadfast_core::task::follow::Seen;
use tokio_util::sync::CancellationToken;

use super::{TaskHandle, wire};
use crate::client::attempts::ResultKind;
use crate::client::judge::task_in;
use crate::client::{CallOptions, Error};

/// The task in the answer that created it, and where it stands, unless that is an end already: then it is asked.
pub(super) fn created(result: &Bytes) -> Result<(String, Option<Seen<String>>), &'static str> {
    let task = task_in(result).ok_or("it has no task")?;
    let id = wire::id_of(&task)?;
    let seen = wire::seen_in_2025(&task, &id)?;
    let first = match seen.status {
        Status::Working => Some(wire::with(seen, Status::Working)),
        Status::InputRequired { .. } => Some(wire::with(seen, asks())),
        Status::Completed { .. } | Status::Failed { .. } | Status::Cancelled => None,
    };
    Ok((id, first))
}

/// What it asks comes as requests of the server, so no key of a question is known.
const fn asks() -> Status<String> {
    Status::InputRequired { open: BTreeMap::new() }
}

impl TaskHandle {
    /// A state with what came of the task, if it is over.
    pub(super) async fn with_outcome(
        &self,
        seen: Seen<()>,
        options: CallOptions,
    ) -> Result<Seen<String>, Error> {
        let status = match seen.status {
            Status::Working => Status::Working,
            Status::InputRequired { .. } => asks(),
            Status::Cancelled => Status::Cancelled,
            Status::Completed { .. } | Status::Failed { .. } => {
                let failed = matches!(seen.status, Status::Failed { .. });
                let done = self.ask("tasks/result", None, options).await?;
                let text = String::from_utf8_lossy(&done.result).into_owned();
                match done.kind {
                    ResultKind::Error if failed => Status::Failed { error: text },
                    // It was completed, so this is no error of its own: it is gone since.
                    ResultKind::Error => {
                        return Err(crate::client::judge::error_of(
                            &text,
                            &[],
                            self.client.name(),
                            &done.call_id,
                        ));
                    }
                    // A tool whose result says that it failed has a result all the same (LEG-111).
                    ResultKind::Complete | ResultKind::InputRequired | ResultKind::Task => {
                        Status::Completed { result: text }
                    }
                }
            }
        };
        Ok(wire::with(seen, status))
    }

    /// Waits for the result for as long as it takes, so that the server has a stream. `None` if there is none: where the
    /// task stands then, `tasks/get` tells.
    pub(super) async fn waited_for(&self, stop: CancellationToken) -> Option<(String, Revision)> {
        let options = CallOptions { cancel: stop, limits: Some(Limits::NONE), ..CallOptions::default() };
        let done = self.ask("tasks/result", None, options).await.ok()?;
        match done.kind {
            ResultKind::Error => None,
            ResultKind::Complete | ResultKind::InputRequired | ResultKind::Task => {
                Some((String::from_utf8_lossy(&done.result).into_owned(), done.revision))
            }
        }
    }
}
