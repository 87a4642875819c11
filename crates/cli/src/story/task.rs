//! A task's cancel, from acknowledged to observed, on a real file.

use std::path::Path;

use serde::Serialize;
use steadfast::core::task::{Input, TaskOwner};
use steadfast_store::{Ledger, Options};

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
    let ledger = Ledger::open(path, Options::default())?;
    let (id, _) = ledger.tasks().create(owner.clone(), None, None)?;
    let mut steps = Vec::new();
    let mut keep = |ledger: &Ledger, event| -> Result<(), Failure> {
        let task = ledger.tasks().get(&id, &owner)?;
        steps.push(Step { event, status: task.status().as_str(), cancel_pending: task.is_cancel_pending() });
        Ok(())
    };
    keep(&ledger, "created")?;
    ledger.tasks().handle(&id, &owner, Input::Cancel)?;
    keep(&ledger, "tasks/cancel is acknowledged")?;
    drop(ledger);
    let ledger = Ledger::open(path, Options::default())?;
    keep(&ledger, "the connection closes and the process starts anew")?;
    for (event, input) in after {
        ledger.tasks().handle(&id, &owner, input)?;
        keep(&ledger, event)?;
    }
    Ok(steps)
}
