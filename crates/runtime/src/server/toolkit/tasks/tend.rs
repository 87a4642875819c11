//! What nobody asked for: tasks whose worker is gone, tasks whose retention is over, changes of other processes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use steadfast_core::task::Input;
use steadfast_store::Taken;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::shape::Remembered;
use super::shift::{PROCESS_ENDED, Shift, failure};
use super::worker::{Stage, Worker};
use super::{Inner, TaskPolicy, Tasks, Workshop, blocking};
use crate::server::{Caller, Context, Request};

/// How often ended tasks whose retention is over are deleted: each time is a write, and there is no hurry.
const PURGE_EVERY: Duration = Duration::from_secs(600);

impl Tasks {
    /// Looks after the tasks of this server from now on, with the help of its tools; within tokio. Without tools every
    /// orphan is failed.
    pub fn tend(&self, tools: Weak<dyn Workshop>) {
        // A second workshop is the first one's.
        let _ = self.0.workshop.set(tools);
        self.wake();
    }

    /// Ends what is done here: works stop, and tasks that a successor can resume are let go for it at once.
    pub async fn leave(&self) {
        self.0.ending.cancel();
        self.0.shifts.close();
        self.0.shifts.wait().await;
    }

    /// Begins to look after the tasks, once, and as soon as there is a runtime.
    pub(super) fn wake(&self) {
        if Handle::try_current().is_ok() && !self.0.tended.swap(true, Ordering::Relaxed) {
            tokio::spawn(tend(Arc::downgrade(&self.0)));
        }
    }
}

/// Ends with the last of its [`Tasks`].
async fn tend(tasks: Weak<Inner>) {
    let begun = Instant::now();
    let (mut sweep_at, mut purge_at) = (begun, begun);
    while let Some(inner) = tasks.upgrade() {
        let now = Instant::now();
        if sweep_at <= now {
            sweep_at = now + inner.options.sweep_every;
            Tasks(Arc::clone(&inner)).adopt_orphans().await;
            inner.expire().await;
        }
        if purge_at <= now {
            purge_at = now + PURGE_EVERY;
            // What is not deleted now is with the next round.
            let _ = inner.stored(steadfast_store::Tasks::purge).await;
        }
        inner.look_around().await;
        let (ending, wait) = (inner.ending.clone(), inner.options.look_every.min(inner.options.sweep_every));
        drop(inner);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = ending.cancelled() => return,
        }
    }
}

impl Tasks {
    async fn adopt_orphans(&self) {
        let server = self.0.server.clone();
        let Ok(orphans) = self.0.stored(move |store| store.orphans(&server)).await else { return };
        for id in orphans {
            // Somebody else was faster, or its worker lives after all.
            let Ok(taken) = self.0.stored(move |store| store.take_over(&id)).await else { continue };
            self.adopt(taken).await;
        }
    }

    /// Resumes an orphan, or ends it.
    async fn adopt(&self, taken: Taken) {
        let Taken { work, operation, resume, seen } = taken;
        let policy = self.0.policy(&operation);
        let (held, stop) = (Arc::new(work), CancellationToken::new());
        let work = resume
            .filter(|_| policy.resumes)
            .and_then(|json| Remembered::from_json(&json))
            .zip(self.0.tools());
        let work = work.and_then(|(call, tools)| {
            let caller = Caller {
                principal: seen.task.owner().clone(),
                revision: call.revision,
                transport: call.transport,
                capabilities: call.capabilities,
                level: None,
            };
            let context = Context::detached(caller).outliving(stop.clone());
            let (worker, desk) = Worker::new(self, context, Stage::Task(Arc::clone(&held)));
            let request = Request { method: "tools/call".to_owned(), params: call.params };
            Some((tools.resume(request, worker)?, desk))
        });
        if let Some((work, desk)) = work {
            let working = AbortOnDropHandle::new(tokio::spawn(work));
            return self.begin(Shift { held, policy, stop, undelivered: None, desk, working });
        }
        let input = if seen.task.is_cancel_pending() && !policy.writes {
            Input::Checkpoint
        } else {
            let (error, message) = failure("worker_lost", PROCESS_ENDED, policy.writes);
            Input::Fail { error, message }
        };
        let ending = Arc::clone(&held);
        // What is not stored is an orphan again once this lease is over.
        if let Ok((_, task)) = blocking(move || ending.handle(input)).await {
            self.0.saw(held.id(), &task);
        }
    }
}

impl Inner {
    /// Fails what is unfinished at the end of its retention (TSK-23, ruling 13).
    async fn expire(&self) {
        let server = self.server.clone();
        let Ok(overdue) = self.stored(move |store| store.overdue(&server)).await else { return };
        for (id, operation) in overdue {
            let writes = self.policy(&operation).writes;
            let (error, message) = failure("task_expired", "the task did not end within its ttl", writes);
            let expiring = id.clone();
            if let Ok(task) = self.stored(move |store| store.expire(&expiring, error, message)).await {
                self.saw(&id, &task);
            }
        }
    }

    /// Finds what other processes changed.
    async fn look_around(&self) {
        let wanted = self.board.wanted(self.changes.tasks());
        if wanted.is_empty() {
            return;
        }
        let found = self.stored(move |store| {
            Ok(wanted
                .into_iter()
                .filter_map(|id| store.find(&id).ok().map(|task| (id, task)))
                .collect::<Vec<_>>())
        });
        for (id, task) in found.await.unwrap_or_default() {
            self.saw(&id, &task);
        }
    }

    fn tools(&self) -> Option<Arc<dyn Workshop>> {
        self.workshop.get().and_then(Weak::upgrade)
    }

    /// A tool that is gone may have changed anything, and cannot go on.
    fn policy(&self, operation: &str) -> TaskPolicy {
        self.tools().and_then(|tools| tools.policy(operation)).unwrap_or_default()
    }
}
