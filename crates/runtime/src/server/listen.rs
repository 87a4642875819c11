//! `subscriptions/listen`: the acknowledgement first, then what was granted and nothing else (SUB).

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast_core::envelope::{self, SUBSCRIPTION_ID};
use steadfast_core::exchange::Reply;
use steadfast_core::ids::RequestId;
use steadfast_core::object::Members;
use steadfast_core::subscription::Filter;
use tokio_util::sync::CancellationToken;

use super::caller::TASKS_EXTENSION;
use super::context::{Context, Gate};
use super::{Answer, Caller, Heard, Objection, Request, Service};
use crate::listening::{ACKNOWLEDGED, Notifications, method_of, written};
use crate::message;

/// The most resources and tasks that one listen, or one legacy session, may name.
const MAX_SUBJECTS: usize = 1_024;
/// And the most bytes of their names: they are kept as long as somebody listens.
const MAX_SUBJECT_BYTES: usize = 256 << 10;

/// Whether so much may be named by one listener.
pub(super) fn fit<'a>(subjects: impl Iterator<Item = &'a String> + Clone) -> bool {
    subjects.clone().count() <= MAX_SUBJECTS && subjects.map(String::len).sum::<usize>() <= MAX_SUBJECT_BYTES
}

/// What a listen asks for.
///
/// # Errors
/// It asks for too much, `params.notifications` is missing or has the wrong shape (SUB-27), or it asks for tasks and the request does not
/// declare the extension (SUB-26).
pub(super) fn wanted(request: &Request, caller: &Caller) -> Result<Filter, Objection> {
    let Some(wanted) = Notifications::of_params(&request.params) else {
        let text = "params.notifications must be an object of flags, resourceSubscriptions and taskIds; send one, {} for nothing";
        return Err(Objection { code: -32602, error: message::error_body(-32602, text) });
    };
    if wanted.task_ids.is_some() && !caller.capabilities.declare_tasks() {
        let error = json!({
            "code": -32021,
            "message": "taskIds needs the tasks extension; declare it in this request's clientCapabilities",
            "data": { "requiredCapabilities": { "extensions": { TASKS_EXTENSION: {} } } },
        });
        return Err(Objection { code: -32021, error: error.to_string() });
    }
    let subjects = || wanted.resource_subscriptions.iter().chain(wanted.task_ids.iter().flatten());
    if !fit(subjects()) {
        let text = "a listen names at most 1024 resources and tasks, of 256 KiB together; split it";
        return Err(Objection { code: -32602, error: message::error_body(-32602, text) });
    }
    Ok(wanted.into_filter())
}

/// Listens until the server ends, then gives the graceful result. `None` once the listener fell behind. A cancel drops
/// this future from outside: nothing more is sent then.
pub(super) async fn run(
    service: &dyn Service,
    request: Request,
    context: &Context,
    gate: &Gate,
    id: &RequestId,
    ending: CancellationToken,
) -> Option<Answer> {
    let tag = |params: &str| {
        let mut params = Members::parse(params).unwrap_or_default();
        // The members are our own or a service's; a `_meta` that is no object gives way.
        if params.edit("_meta", |meta| meta.set(SUBSCRIPTION_ID, id.to_json())).is_err() {
            params.set(
                "_meta",
                json!({ SUBSCRIPTION_ID: serde_json::from_str::<Value>(&id.to_json()).ok() }).to_string(),
            );
        }
        params.to_json()
    };
    let filter = match wanted(&request, context.caller()) {
        Ok(filter) => filter,
        Err(objection) => return Some(Reply::Error(Bytes::from(objection.error))),
    };
    // A listen lasts, and its params are needed no more.
    drop(request);
    // Registered before the acknowledgement is written, delivered after it (SUB-28).
    let Some(listening) = service.listen(context.caller(), filter).await else {
        let error = message::error_body(-32601, "this server tells of no changes; fetch what you need");
        return Some(Reply::Error(Bytes::from(error)));
    };
    let acknowledged = json!({ "notifications": written(&listening.granted()) }).to_string();
    let say = |method: &str, params: &str| {
        let notice = Bytes::from(envelope::notification(method, &tag(params)));
        gate.with(|outlet| outlet.say(notice))
    };
    if !say(ACKNOWLEDGED, &acknowledged) {
        return None;
    }
    loop {
        tokio::select! {
            biased;
            () = context.cancelled().cancelled() => return None,
            heard = listening.next() => match heard {
                Heard::Change { change, params } => {
                    if !say(method_of(&change), &params) {
                        return None;
                    }
                }
                Heard::Overflow => return None,
            },
            () = ending.cancelled() => {
                let result = tag("{}");
                let result = format!(r#"{{"resultType":"complete",{}"#, &result[1..]);
                return Some(Reply::Result(Bytes::from(result)));
            }
        }
    }
}
