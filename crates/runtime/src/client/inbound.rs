//! What a server says outside of our requests: notices, and the requests of a legacy one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::exchange::{Progress, Reply};
use steadfast_core::hop::{Era, Revision};
use steadfast_core::ids::{ProgressToken, RequestId, Tag};
use steadfast_core::object::Members;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinSet;

use super::handler::{self, Handler, NoAnswer, Question};
use super::leg::Inbound;
use super::link::Link;
use crate::message;

pub(super) type Receiver = mpsc::Receiver<Inbound>;
/// Progress of what has its answer already, for whoever follows the task that it became.
pub(super) type Sender = broadcast::Sender<(ProgressToken, Progress)>;

/// A notification for whoever listens within this client.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    pub(super) method: Arc<str>,
    pub(super) params: Bytes,
    /// Made here, of what a loss means, or handed on by a subscription: no legacy server said it by itself.
    pub(super) relayed: bool,
}

/// Questions of one connection at once; a server that asks more is refused.
const MAX_QUESTIONS: usize = 16;

/// The questions that are being answered now. The clocks of the requests that they belong to stand still meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Asking(Arc<watch::Sender<Vec<Option<RequestId>>>>);

impl Default for Asking {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }
}

impl Asking {
    pub(super) fn subscribe(&self) -> Holding {
        Holding(self.0.subscribe())
    }

    /// Whether a request of ours is under way on this connection: each watches what it is asked meanwhile.
    fn may_be_asked(&self) -> bool {
        self.0.receiver_count() > 0
    }

    fn begin(&self, during: Option<RequestId>) -> Asked {
        self.0.send_modify(|open| open.push(during.clone()));
        Asked { asking: self.clone(), during }
    }
}

/// One question; with this it ends.
struct Asked {
    asking: Asking,
    during: Option<RequestId>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.asking.0.send_modify(|open| {
            if let Some(at) = open.iter().position(|one| *one == self.during) {
                open.swap_remove(at);
            }
        });
    }
}

/// Whether a request of ours is held by a question.
#[derive(Debug)]
pub(super) struct Holding(watch::Receiver<Vec<Option<RequestId>>>);

impl Holding {
    /// Waits until that is no longer `held`, and tells what it is then. A question that names no request may belong
    /// to any of them.
    pub(super) async fn changed(&mut self, id: &RequestId, held: bool) -> bool {
        let holds = |open: &Vec<Option<RequestId>>| {
            open.iter().any(|during| during.as_ref().is_none_or(|during| during == id))
        };
        let told = self.0.wait_for(|open| holds(open) != held).await.is_ok();
        if !told {
            std::future::pending::<()>().await;
        }
        !held
    }
}

/// The answers of one connection that no request waited for: how many, and the id of the last.
#[derive(Clone, Debug, Default)]
pub(super) struct Strays(Arc<Mutex<(u64, Option<String>)>>);

impl Strays {
    fn add(&self, id: Option<&RequestId>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = (kept.0 + 1, id.map(RequestId::to_json));
    }

    pub(super) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// What the last one since `count` was answered to, as JSON; `None` if there was none.
    pub(super) fn since(&self, count: u64) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.0 > count).then(|| kept.1.clone().unwrap_or_else(|| "null".to_owned()))
    }
}

/// What is needed to look after a connection.
pub(super) struct Host {
    pub(super) server: String,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) notices: broadcast::Sender<Notice>,
    pub(super) progress: Sender,
    pub(super) limit: Duration,
    pub(super) strays: Strays,
}

/// Looks after what one connection says outside of requests, until it ends.
pub(super) async fn look_after(
    host: Host,
    link: Link,
    revision: Revision,
    mut inbound: Receiver,
    asking: Asking,
) {
    let mut answering = JoinSet::new();
    let mut open = HashMap::new();
    loop {
        let one = tokio::select! {
            one = inbound.recv() => one,
            Some(done) = answering.join_next(), if !answering.is_empty() => {
                if let Ok(id) = done { open.remove(&id); }
                continue
            }
        };
        match one {
            None => return,
            Some(Inbound::Notification { method, params }) => notified(&host, &method, params),
            // Most often nobody follows a task.
            Some(Inbound::Progress { token, progress }) => drop(host.progress.send((token, progress))),
            Some(Inbound::Request { id, method, params, during }) => {
                match (revision.era(), method.as_str()) {
                    (Era::Legacy, "ping") => link.respond(&id, &Reply::Result(Bytes::from_static(b"{}"))),
                    // Whom would the user answer? Roots are asked for by many servers right after the handshake, and
                    // nobody is bothered by that (LEG-80).
                    (Era::Legacy, "elicitation/create" | "sampling/createMessage")
                        if !asking.may_be_asked() =>
                    {
                        let error = message::error_body(
                            -32_602,
                            "no request of this client is under way that this could belong to; ask during one",
                        );
                        link.respond(&id, &Reply::Error(error.into()));
                    }
                    (Era::Legacy, "elicitation/create" | "sampling/createMessage" | "roots/list")
                        if answering.len() < MAX_QUESTIONS =>
                    {
                        let asked = asking.begin(during);
                        let (link, handler, limit) = (link.clone(), Arc::clone(&host.handler), host.limit);
                        let question = Question {
                            server: host.server.clone(),
                            method,
                            params: String::from_utf8_lossy(&params).into_owned(),
                        };
                        let of = id.clone();
                        let task = related_task(&question.params);
                        let handle = answering.spawn(async move {
                            let answer = tokio::time::timeout(limit, handler::ask(&*handler, question)).await;
                            let answer = answer.unwrap_or(Err(NoAnswer::TimedOut));
                            link.respond(&id, &reply(answer.map(|answer| relate(answer, task))));
                            drop(asked);
                            id
                        });
                        open.insert(of, handle);
                    }
                    (Era::Legacy, "elicitation/create" | "sampling/createMessage" | "roots/list") => {
                        let error =
                            message::error_body(-32_603, "too many questions are open; ask again later");
                        link.respond(&id, &Reply::Error(error.into()));
                    }
                    (Era::Legacy, _) => {
                        let error = message::error_body(-32_601, "this client does not know that method");
                        link.respond(&id, &Reply::Error(error.into()));
                    }
                    // A modern server asks nothing, and gets no response (MSG-18, MSG-19).
                    (Era::Modern, _) => {
                        tracing::warn!(server = %host.server, "a modern server sent a request; it was ignored");
                    }
                }
            }
            Some(Inbound::Withdrawn { id }) => {
                if let Some(handle) = open.remove(&id) {
                    handle.abort();
                }
            }
            Some(Inbound::Stray { id }) => {
                host.strays.add(id.as_ref());
                // Ours are numbers; anything else is the server's own text.
                let id = id.and_then(|id| match id.0 {
                    Tag::Integer(number) => Some(number),
                    Tag::String(_) => None,
                });
                tracing::warn!(server = %host.server, id, "an answer that no request waits for was dropped");
            }
            Some(Inbound::Noise { what }) => tracing::warn!(server = %host.server, "{what}"),
        }
    }
}

fn notified(host: &Host, method: &str, params: Bytes) {
    if method == "notifications/message" {
        host.handler.log(&host.server, &String::from_utf8_lossy(&params));
        // There may be many, and what waits in their stead is more than a word.
        return;
    }
    if !noticed(&*host.handler, &host.server, &host.notices, method, &params) {
        // Nobody may be listening.
        let _ = host.notices.send(Notice { method: method.into(), params, relayed: false });
    }
}

/// Hands a change notice on, wherever it came: what is kept is stale by it, and the host may want to know. Whether it
/// is one.
pub(super) fn noticed(
    handler: &dyn Handler,
    server: &str,
    notices: &broadcast::Sender<Notice>,
    method: &str,
    params: &Bytes,
) -> bool {
    let is_list = method.starts_with("notifications/") && method.ends_with("/list_changed");
    let is_change = is_list || method == "notifications/resources/updated";
    if is_change {
        let _ = notices.send(Notice { method: method.into(), params: params.clone(), relayed: false });
    }
    if is_list {
        handler.list_changed(server, method);
    }
    is_change
}

/// The task that a question says it belongs to, as it came.
fn related_task(params: &str) -> Option<String> {
    let params = Members::parse(params).ok()?;
    let meta = Members::parse(params.get("_meta")?).ok()?;
    meta.get(RELATED_TASK).map(str::to_owned)
}

/// An answer says which task it belongs to, if its question did (LEG-110).
fn relate(answer: String, task: Option<String>) -> String {
    let Some(task) = task else { return answer };
    let Ok(mut members) = Members::parse(&answer) else { return answer };
    match members.edit("_meta", |meta| meta.set(RELATED_TASK, task)) {
        Ok(()) => members.to_json(),
        // A `_meta` of the host's that is no object is left as it is.
        Err(_) => answer,
    }
}

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

fn reply(answer: Result<String, NoAnswer>) -> Reply<Bytes> {
    match answer {
        Ok(result) => Reply::Result(result.into()),
        Err(why) => {
            // LEG-79: -1 for a refusal, -32601 for what this host cannot do, -32602 for a mode that it did not declare.
            let code = match why {
                NoAnswer::Unsupported(_) => -32_601,
                NoAnswer::Undeclared(_) => -32_602,
                NoAnswer::Refused => -1,
                NoAnswer::TimedOut => -32_603,
            };
            Reply::Error(message::error_body(code, &why.to_string()).into())
        }
    }
}
