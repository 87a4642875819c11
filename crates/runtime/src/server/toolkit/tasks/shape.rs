//! A task as each era writes it. Payloads keep their bytes.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use steadfast_core::hop::{Era, Revision, Transport};
use steadfast_core::object::{self, Members};
use steadfast_core::task::{Status, Task};
use steadfast_store::rfc_3339;

use crate::server::{Caller, Capabilities};

/// The `_meta` key by which messages of 2025-11-25 say to which task they belong (LEG-110).
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// What every shape of a task holds (TSK-11, LEG-106).
fn common(id: &str, task: &Task<String>, era: Era) -> Members<'static> {
    let mut members = Members::default();
    members.set("taskId", object::string(id));
    let status = match (era, task.status()) {
        // LEG-111.
        (Era::Legacy, Status::Completed { result }) if is_error(result) => "failed",
        (_, status) => status.as_str(),
    };
    members.set("status", object::string(status));
    let pending = "a cancel was asked for and the worker has not seen it yet";
    if let Some(message) = task.message().or(task.is_cancel_pending().then_some(pending)) {
        members.set("statusMessage", object::string(message));
    }
    members.set("createdAt", object::string(&rfc_3339(task.created_at())));
    members.set("lastUpdatedAt", object::string(&rfc_3339(task.updated_at())));
    let (ttl, poll_interval) = match era {
        Era::Modern => ("ttlMs", "pollIntervalMs"),
        Era::Legacy => ("ttl", "pollInterval"),
    };
    members.set(ttl, task.ttl().map_or_else(|| "null".to_owned(), millis));
    if let Some(interval) = task.poll_interval() {
        members.set(poll_interval, millis(interval));
    }
    members
}

/// Within what a JSON number holds exactly.
fn millis(duration: Duration) -> String {
    duration.as_millis().min((1 << 53) - 1).to_string()
}

/// The answer of the `tools/call` that became a task: flat, or nested in 2025-11-25 (TSK-08, TSK-10, LEG-106).
pub(super) fn created(id: &str, task: &Task<String>, era: Era) -> String {
    let mut members = common(id, task, era);
    match era {
        Era::Modern => {
            members.set("resultType", r#""task""#);
            members.to_json()
        }
        Era::Legacy => format!(r#"{{"task":{}}}"#, members.to_json()),
    }
}

/// The whole task, as `notifications/tasks` tells it and `tasks/get` answers (TSK-16, TSK-17, TSK-55).
pub(super) fn whole(id: &str, task: &Task<String>) -> Members<'static> {
    let mut members = common(id, task, Era::Modern);
    match task.status() {
        Status::Working | Status::Cancelled => {}
        Status::InputRequired { open } => {
            let mut requests = Members::default();
            for (key, question) in open {
                requests.set(key, question.as_str());
            }
            members.set("inputRequests", requests.to_json());
        }
        Status::Completed { result } => members.set("result", modern_result(result)),
        Status::Failed { error } => members.set("error", error.clone()),
    }
    members
}

/// The task of 2025-11-25: its outcome is asked for by `tasks/result`.
pub(super) fn legacy(id: &str, task: &Task<String>) -> String {
    common(id, task, Era::Legacy).to_json()
}

/// A result as a modern request would have been answered with, whoever made the task (TSK-27, AMB-23).
fn modern_result(result: &str) -> String {
    let Ok(mut members) = Members::parse(result) else { return result.to_owned() };
    if members.get("resultType").is_none() {
        members.set("resultType", r#""complete""#);
    }
    members.to_json()
}

/// A result as `tasks/result` gives it: what a legacy request would have been answered with, and whose it is (LEG-108).
pub(super) fn legacy_result(id: &str, result: &str) -> String {
    let Ok(mut members) = Members::parse(result) else { return result.to_owned() };
    members.remove("resultType");
    relate(id, members)
}

/// The params of a message that belongs to a task of 2025-11-25 (LEG-110).
pub(super) fn related(id: &str, params: &str) -> String {
    Members::parse(params).map_or_else(|_| params.to_owned(), |members| relate(id, members))
}

fn relate(id: &str, mut members: Members<'_>) -> String {
    let task = json!({ "taskId": id }).to_string();
    if members.edit("_meta", |meta| meta.set(RELATED_TASK, task.clone())).is_err() {
        // A `_meta` that is no object says nothing.
        members.set("_meta", json!({ RELATED_TASK: { "taskId": id } }).to_string());
    }
    members.to_json()
}

fn is_error(result: &str) -> bool {
    Members::parse(result).is_ok_and(|members| members.get("isError") == Some("true"))
}

/// What a successor needs of a call: its params, and what its caller could do (AMB-20).
pub(super) struct Remembered {
    pub(super) params: String,
    pub(super) revision: Revision,
    pub(super) transport: Transport,
    pub(super) capabilities: Capabilities,
}

impl Remembered {
    pub(super) fn to_json(params: &str, caller: &Caller) -> String {
        let mut members = Members::default();
        members.set("params", params);
        members.set("revision", object::string(caller.revision.as_str()));
        members.set("transport", object::string(caller.transport.as_str()));
        members.set("capabilities", caller.capabilities.as_json());
        members.to_json()
    }

    /// Nothing where it was written by a version that this one does not understand.
    pub(super) fn from_json(json: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Written<'a> {
            #[serde(borrow)]
            params: &'a RawValue,
            revision: String,
            transport: Transport,
            #[serde(borrow)]
            capabilities: &'a RawValue,
        }
        let written: Written<'_> = serde_json::from_str(json).ok()?;
        Some(Self {
            params: written.params.get().to_owned(),
            revision: Revision::from_name(&written.revision)?,
            transport: written.transport,
            capabilities: Capabilities::from_json(written.capabilities.get()),
        })
    }
}
