//! A task's cancel, from acknowledged to observed, on a real file.

use std::path::Path;

use serde::Serialize;
use steadfast::core::task::{Input, TaskOwner};
use steadfast_store::{Ledger, NewTask, Options};

use crate::exit::Failure;

/// One step: what happened, and what `tasks/get` says then.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) event: &'static str,
    pub(crate) status: &'static str,
    pub(crate) cancel_pending: bool,
}

/// Two tasks, each told to cancel: one whose worker sees it, and one whose worker is done before it looks.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Story {
    pub(crate) observed: Vec<Step>,
    pub(crate) completed_first: Vec<Step>,
}

/// Tells the story on a file; the connection that asked for the cancel closes before the worker looks.
pub(crate) fn tell(path: &Path) -> Result<Story, Failure> {
    let checkpoint = || ("a worker's checkpoint", Input::Checkpoint);
    let finish = || ("the worker finishes", Input::Finish(r#"{"content":[]}"#.into()));
    Ok(Story {
        observed: follow(path, vec![checkpoint(), finish()])?,
        completed_first: follow(path, vec![finish(), checkpoint()])?,
    })
}

fn follow(path: &Path, after: Vec<(&'static str, Input<String>)>) -> Result<Vec<Step>, Failure> {
    let owner = TaskOwner { tenant: "local".into(), principal: "local".into() };
    let (work, _) = Ledger::open(path, Options::default())?.tasks().create(NewTask {
        owner: owner.clone(),
        server: "demo".into(),
        operation: "job".into(),
        resume: None,
        ttl: None,
        poll_interval: None,
        max_open: 10,
    })?;
    let mut steps = Vec::new();
    let mut keep = |caller: &Ledger, event| -> Result<(), Failure> {
        let task = caller.tasks().get(work.id(), &owner)?;
        steps.push(Step { event, status: task.status().as_str(), cancel_pending: task.is_cancel_pending() });
        Ok(())
    };
    let caller = Ledger::open(path, Options::default())?;
    keep(&caller, "created")?;
    caller.tasks().cancel(work.id(), &owner)?;
    keep(&caller, "tasks/cancel is acknowledged")?;
    drop(caller);
    let caller = Ledger::open(path, Options::default())?;
    keep(&caller, "the caller's connection closes, and another looks")?;
    for (event, input) in after {
        work.handle(input)?;
        keep(&caller, event)?;
    }
    Ok(steps)
}
