//! `tasks/*` in both eras.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use steadfast_core::exchange::Reply;
use steadfast_core::hop::{Era, Revision};
use steadfast_core::object;
use steadfast_store::TaskFailure;

use super::run::{not_declared, refuse};
use super::{Tasks, shape};
use crate::server::{Answer, Caller, Context, Objection, Request};

/// Tasks of one page of `tasks/list`.
const PAGE: usize = 50;

/// The params of all these methods.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    task_id: Option<String>,
    #[serde(borrow)]
    input_responses: Option<BTreeMap<String, &'a RawValue>>,
    cursor: Option<String>,
}

impl Tasks {
    /// Whether this method exists for this caller. `tasks/result` and `tasks/list` are gone from the modern era
    /// (TSK-60); a legacy caller that nobody authenticated has no list of its own (LEG-116).
    pub fn knows(method: &str, caller: &Caller) -> bool {
        match (caller.revision, method) {
            (Revision::V2026_07_28, "tasks/get" | "tasks/update" | "tasks/cancel") => true,
            (Revision::V2025_11_25, "tasks/get" | "tasks/cancel" | "tasks/result") => true,
            (Revision::V2025_11_25, "tasks/list") => is_authenticated(caller),
            (
                Revision::V2026_07_28 | Revision::V2025_11_25 | Revision::V2025_06_18 | Revision::V2025_03_26,
                _,
            ) => false,
        }
    }

    /// What is declared as `capabilities.tasks` at `initialize` (LEG-100); `None` in every other revision, whose
    /// callers must not see it (TSK-62).
    pub fn legacy_capability(caller: &Caller) -> Option<Value> {
        (caller.revision == Revision::V2025_11_25).then(|| {
            let mut declared = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
            if is_authenticated(caller) {
                declared["list"] = json!({});
            }
            declared
        })
    }

    /// What is wrong with a `tasks/*` request before anything is done for it (TSK-48, TSK-63).
    pub fn object(request: &Request, caller: &Caller) -> Option<Objection> {
        let undeclared = caller.revision.era() == Era::Modern
            && Self::knows(&request.method, caller)
            && !caller.capabilities.declare_tasks();
        undeclared.then(|| Objection { code: -32021, error: not_declared() })
    }

    /// Answers a method that [`Self::knows`] knows; `None` for every other.
    pub async fn answer(&self, request: &Request, context: &Context) -> Option<Answer> {
        let caller = &**context.caller();
        if !Self::knows(&request.method, caller) {
            return None;
        }
        if let Some(objection) = Self::object(request, caller) {
            return Some(Reply::Error(Bytes::from(objection.error)));
        }
        self.wake();
        let Ok(params) = serde_json::from_str::<Params<'_>>(&request.params) else {
            return Some(refuse(-32602, "params of tasks/* hold strings and objects; see the schema"));
        };
        if request.method == "tasks/list" {
            return Some(self.list(caller, params.cursor).await.unwrap_or_else(|failure| failed(&failure)));
        }
        let Some(id) = params.task_id else {
            return Some(refuse(-32602, "params.taskId is missing; send the id of a task"));
        };
        let answers = match (request.method.as_str(), params.input_responses) {
            ("tasks/update", None) => {
                return Some(refuse(-32602, "params.inputResponses is missing; send answers by key"));
            }
            (_, answers) => answers.unwrap_or_default(),
        };
        let answers = answers.into_iter().map(|(key, answer)| (key, answer.get().to_owned())).collect();
        let answered = match (caller.revision.era(), request.method.as_str()) {
            (_, "tasks/get") => self.get(id, caller).await,
            (_, "tasks/update") => self.update(id, caller, answers).await,
            (Era::Modern, _) => self.cancel(id, caller).await,
            (Era::Legacy, "tasks/cancel") => self.cancel_at_once(id, caller).await,
            (Era::Legacy, _) => Ok(self.0.result(&id, context).await),
        };
        Some(answered.unwrap_or_else(|failure| failed(&failure)))
    }

    /// Of the tasks that a caller wants to hear of those that it may see (SUB-06, TSK-56).
    pub async fn grant(&self, caller: &Caller, wanted: BTreeSet<String>) -> BTreeSet<String> {
        self.wake();
        let principal = caller.principal.clone();
        let granted = self.0.stored(move |store| {
            Ok(wanted.into_iter().filter(|id| store.get(id, &principal).is_ok()).collect())
        });
        granted.await.unwrap_or_default()
    }

    async fn get(&self, id: String, caller: &Caller) -> Result<Answer, TaskFailure> {
        let (asked, principal) = (id.clone(), caller.principal.clone());
        let task = self.0.stored(move |store| store.get(&asked, &principal)).await?;
        self.0.saw(&id, &task);
        Ok(match caller.revision.era() {
            Era::Modern => {
                let mut members = shape::whole(&id, &task);
                members.set("resultType", r#""complete""#);
                result(members.to_json())
            }
            Era::Legacy => result(shape::legacy(&id, &task)),
        })
    }

    /// The answers are stored before this is acknowledged (AMB-21).
    async fn update(
        &self,
        id: String,
        caller: &Caller,
        answers: BTreeMap<String, String>,
    ) -> Result<Answer, TaskFailure> {
        let (asked, principal) = (id.clone(), caller.principal.clone());
        let (_, task) = self.0.stored(move |store| store.answer(&asked, &principal, answers)).await?;
        self.0.saw(&id, &task);
        Ok(acknowledged())
    }

    /// Acknowledges the intent; the worker observes it, or is done before (D-09, TSK-42, TSK-43).
    async fn cancel(&self, id: String, caller: &Caller) -> Result<Answer, TaskFailure> {
        let (asked, principal) = (id.clone(), caller.principal.clone());
        let task = self.0.stored(move |store| store.cancel(&asked, &principal)).await?;
        self.0.saw(&id, &task);
        Ok(acknowledged())
    }

    async fn cancel_at_once(&self, id: String, caller: &Caller) -> Result<Answer, TaskFailure> {
        let (asked, principal) = (id.clone(), caller.principal.clone());
        let task = self.0.stored(move |store| store.cancel_at_once(&asked, &principal)).await?;
        self.0.saw(&id, &task);
        Ok(result(shape::legacy(&id, &task)))
    }

    async fn list(&self, caller: &Caller, cursor: Option<String>) -> Result<Answer, TaskFailure> {
        let principal = caller.principal.clone();
        let found = self.0.stored(move |store| store.list(&principal, cursor.as_deref(), PAGE as u32 + 1));
        let mut found = found.await?;
        let more = found.len() > PAGE;
        found.truncate(PAGE);
        let next =
            found.last().filter(|_| more).map(|(id, _)| format!(r#","nextCursor":{}"#, object::string(id)));
        let tasks: Vec<String> = found.iter().map(|(id, task)| shape::legacy(id, task)).collect();
        Ok(result(format!(r#"{{"tasks":[{}]{}}}"#, tasks.join(","), next.unwrap_or_default())))
    }
}

/// Whether the principal is somebody of its own: where nobody authenticates, all callers are one.
fn is_authenticated(caller: &Caller) -> bool {
    caller.principal != Caller::local(caller.transport).principal
}

fn acknowledged() -> Answer {
    result(r#"{"resultType":"complete"}"#.to_owned())
}

fn result(json: String) -> Answer {
    Reply::Result(Bytes::from(json))
}

/// TSK-46, TSK-49, LEG-112, LEG-115.
pub(super) fn failed(failure: &TaskFailure) -> Answer {
    let code = match failure {
        TaskFailure::NotFound | TaskFailure::Over(_) => -32602,
        TaskFailure::TooMany { .. }
        | TaskFailure::Refused(_)
        | TaskFailure::Held(_)
        | TaskFailure::Store(_) => -32603,
    };
    refuse(code, &failure.to_string())
}
