//! What only the tasks of 2025-11-25 have: a request that waits for the result, and carries questions and progress
//! meanwhile (LEG-108, LEG-109, LEG-113).

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use steadfast_core::envelope;
use steadfast_core::error::Outcome;
use steadfast_core::exchange::{Progress, Reply};
use steadfast_core::hop::Era;
use steadfast_core::ids::ProgressToken;
use steadfast_core::object::Members;
use steadfast_core::task::Status;
use steadfast_core::time::Wall;
use tokio::sync::watch;

use super::methods::failed;
use super::run::refuse;
use super::worker::{refusal, text};
use super::{Inner, lock, shape};
use crate::message::OwnError;
use crate::server::{Answer, Caller, Context};

/// The progress of a legacy task under the token of its call. Whoever holds the lock passes it on.
#[derive(Clone)]
pub(super) struct Forward(Arc<tokio::sync::Mutex<Way>>);

struct Way {
    token: ProgressToken,
    progress: watch::Receiver<Option<Progress>>,
    /// What was passed on last: a client hears only what rises (PRG-05).
    passed: Option<f64>,
}

impl Forward {
    /// For a legacy call with a progress token: where its work reports to, and where it is read.
    pub(super) fn of(params: &str, caller: &Caller) -> Option<(Arc<watch::Sender<Option<Progress>>>, Self)> {
        let token = envelope::params_of(params).ok()?.meta.progress_token?.ok()?;
        if caller.revision.era() == Era::Modern {
            return None;
        }
        let (sender, progress) = watch::channel(None);
        let way = Way { token, progress, passed: None };
        Some((Arc::new(sender), Self(Arc::new(tokio::sync::Mutex::new(way)))))
    }
}

impl Way {
    /// Passes progress on for as long as it is polled.
    async fn pass(&mut self, id: &str, context: &Context) -> Infallible {
        while self.progress.changed().await.is_ok() {
            let Some(latest) = self.progress.borrow_and_update().clone() else { continue };
            if self.passed.is_none_or(|passed| passed < latest.value.get()) {
                self.passed = Some(latest.value.get());
                let notice = envelope::progress(&self.token, &latest);
                if let Some(params) = Members::parse(&notice).ok().as_ref().and_then(|it| it.get("params")) {
                    context.notify("notifications/progress", &shape::related(id, params));
                }
            }
        }
        std::future::pending().await
    }
}

impl Inner {
    /// `tasks/result`: waits until the task is over, then answers as its call would have been.
    pub(super) async fn result(&self, id: &str, context: &Context) -> Answer {
        let mut changed = self.board.watch(id);
        let mut freed = self.asking.subscribe();
        let forward = lock(&self.forwards).get(id).cloned();
        let mut told: Option<Wall> = None;
        let wait = async {
            loop {
                changed.mark_unchanged();
                freed.mark_unchanged();
                let task = {
                    let (id, caller) = (id.to_owned(), context.caller().principal.clone());
                    self.stored(move |store| store.get(&id, &caller)).await
                };
                let task = match task {
                    Ok(task) => task,
                    Err(failure) => return failed(&failure),
                };
                if told.replace(task.updated_at()).is_some_and(|told| told < task.updated_at()) {
                    // May be sent, and must not be relied on (LEG-114).
                    context.notify("notifications/tasks/status", &shape::legacy(id, &task));
                }
                match task.status() {
                    Status::Completed { result } => {
                        return Reply::Result(Bytes::from(shape::legacy_result(id, result)));
                    }
                    Status::Failed { error } => return Reply::Error(Bytes::from(error.clone())),
                    Status::Cancelled => {
                        let error =
                            OwnError::local("client_cancelled", Outcome::Unknown, "the task was cancelled");
                        return Reply::Error(Bytes::from(error.as_json_rpc_error()));
                    }
                    Status::Working => {
                        let _ = changed.changed().await;
                    }
                    Status::InputRequired { open } => {
                        let asked =
                            open.iter().find_map(|(key, it)| Some((Asking::begin(self, id, key)?, it)));
                        match asked {
                            Some((asking, question)) => asking.put(question, context, &mut changed).await,
                            // Each is put on another stream, until that has its answer or goes away.
                            None => tokio::select! {
                                _ = changed.changed() => {}
                                _ = freed.changed() => {}
                            },
                        }
                    }
                }
            }
        };
        let pass = async {
            match &forward {
                Some(Forward(way)) => way.lock().await.pass(id, context).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = wait => answer,
            never = pass => match never {},
            // The wait was cancelled and not the task (TSK-68): nobody reads this.
            () = context.cancelled().cancelled() => refuse(-32603, "the wait for the result was cancelled"),
        }
    }
}

/// A question that is put to a legacy client on this stream, and on no other.
struct Asking<'a> {
    inner: &'a Inner,
    place: (String, String),
}

impl<'a> Asking<'a> {
    fn begin(inner: &'a Inner, id: &str, key: &str) -> Option<Self> {
        let place = (id.to_owned(), key.to_owned());
        let mut is_free = false;
        inner.asking.send_if_modified(|asking| {
            is_free = asking.insert(place.clone());
            // Nobody waits for a question to be taken.
            false
        });
        is_free.then_some(Self { inner, place })
    }

    /// Asks, and stores the answer; returns early once the question is open no more.
    async fn put(self, question: &str, context: &Context, changed: &mut watch::Receiver<Wall>) {
        #[derive(serde::Deserialize)]
        struct Written<'a> {
            method: String,
            #[serde(borrow)]
            params: &'a RawValue,
        }
        let (id, key) = &self.place;
        let Ok(question) = serde_json::from_str::<Written<'_>>(question) else { return };
        let params = shape::related(id, question.params.get());
        let mut answering = std::pin::pin!(context.ask(&question.method, &params));
        let reply = loop {
            tokio::select! {
                reply = &mut answering => break reply,
                _ = changed.changed() => {
                    let (id, caller) = (id.clone(), context.caller().principal.clone());
                    let task = self.inner.stored(move |store| store.get(&id, &caller)).await;
                    let open = task.is_ok_and(|task| {
                        matches!(task.status(), Status::InputRequired { open } if open.contains_key(key))
                    });
                    if !open {
                        return;
                    }
                }
            }
        };
        let answer = match reply {
            Ok(Reply::Result(answer)) => text(&answer),
            Ok(Reply::Error(error)) => refusal(&text(&error)),
            Err(_) => {
                // This stream cannot ask; the question is another's, or waits for its end.
                drop(self);
                let _ = changed.changed().await;
                return;
            }
        };
        let (id, key, caller) = (id.clone(), key.clone(), context.caller().principal.clone());
        let (asked, answers) = (id.clone(), [(key, answer)].into());
        if let Ok((_, task)) = self.inner.stored(move |store| store.answer(&asked, &caller, answers)).await {
            self.inner.saw(&id, &task);
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.inner.asking.send_if_modified(|asking| asking.remove(&self.place));
    }
}
