//! What a legacy session remembers: what was negotiated, what was asked for, and what is open in either direction.
//!
//! On stdio it is the process's, over HTTP the one that `Mcp-Session-Id` names. A modern request beside it learns
//! nothing from it (VER-23).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use steadfast_core::envelope;
use steadfast_core::exchange::Reply;
use steadfast_core::hop::{Era, Revision, Transport};
use steadfast_core::subscription::Filter;
use steadfast_core::task::TaskOwner;
use tokio::sync::watch;

use super::caller::{Caller, Capabilities, Level};
use super::context::Questions;
use super::{Answer, Heard, Listening, Request, Service, listen};
use crate::listening::method_of;
use crate::message;

/// One legacy session.
#[derive(Debug)]
pub(super) struct Session {
    principal: TaskOwner,
    revision: Revision,
    transport: Transport,
    capabilities: Capabilities,
    level: Mutex<Level>,
    uris: Mutex<BTreeSet<String>>,
    listening: watch::Sender<Option<Arc<Listening>>>,
    initialized: AtomicBool,
    pub(super) questions: Arc<Questions>,
}

impl Session {
    /// The session that an `initialize` opens: with the version it asks for where that is a legacy one, else with the
    /// newest of them (LEG-07, VER-24).
    ///
    /// # Errors
    /// The params lack `protocolVersion` or `capabilities`: the sentence for a `-32602`.
    pub(super) fn open(
        request: &Request,
        principal: TaskOwner,
        transport: Transport,
    ) -> Result<Self, &'static str> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            protocol_version: String,
            #[serde(borrow)]
            capabilities: &'a RawValue,
        }
        let params: Params<'_> = serde_json::from_str(&request.params)
            .map_err(|_| "initialize needs params.protocolVersion and params.capabilities; send both")?;
        let revision = Revision::from_name(&params.protocol_version)
            .filter(|revision| revision.era() == Era::Legacy)
            .unwrap_or(Revision::NEWEST_LEGACY);
        Ok(Self {
            principal,
            revision,
            transport,
            capabilities: Capabilities::from_json(params.capabilities.get()),
            // What a client that never says a level is sent.
            level: Mutex::new(Level::Info),
            uris: Mutex::default(),
            listening: watch::Sender::new(None),
            initialized: AtomicBool::new(false),
            questions: Arc::default(),
        })
    }

    pub(super) const fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) const fn principal(&self) -> &TaskOwner {
        &self.principal
    }

    /// Who a request of this session comes from.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            principal: self.principal.clone(),
            revision: self.revision,
            transport: self.transport,
            capabilities: self.capabilities.clone(),
            level: Some(*lock(&self.level)),
        }
    }

    /// `notifications/initialized`: from now on the session is told of changes.
    pub(super) async fn initialized(&self, service: &dyn Service) {
        if !self.initialized.swap(true, Ordering::Relaxed) {
            let listening = service.listen(&self.caller(), self.wanted()).await;
            self.listening.send_replace(listening.map(Arc::new));
        }
    }

    /// Answers what belongs to the session and not to a method of the service: `ping`, and where the service knows
    /// them `logging/setLevel`, `resources/subscribe` and `resources/unsubscribe`. `None` for everything else.
    pub(super) async fn answer(&self, request: &Request, service: &dyn Service) -> Option<Answer> {
        let method = request.method.as_str();
        if method == "ping" {
            return Some(done());
        }
        if !matches!(method, "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe")
            || !service.knows(method, &self.caller())
        {
            return None;
        }
        let params: Value = serde_json::from_str(&request.params).unwrap_or_default();
        Some(match method {
            "logging/setLevel" => match params["level"].as_str().and_then(Level::from_name) {
                Some(level) => {
                    *lock(&self.level) = level;
                    done()
                }
                None => refuse(-32602, "params.level is not one of debug … emergency; send one of the eight"),
            },
            _ => match params["uri"].as_str() {
                Some(uri) if method == "resources/subscribe" => self.subscribe(uri, service).await,
                Some(uri) => {
                    lock(&self.uris).remove(uri);
                    if let Some(listening) = &*self.listening.borrow() {
                        let mut granted = listening.granted();
                        granted.uris.remove(uri);
                        listening.regrant(granted);
                    }
                    done()
                }
                None => refuse(-32602, "params.uri must be a string; send the resource's URI"),
            },
        })
    }

    async fn subscribe(&self, uri: &str, service: &dyn Service) -> Answer {
        let known = {
            let mut uris = lock(&self.uris);
            let known = !uris.insert(uri.to_owned());
            if !listen::fit(uris.iter()) {
                uris.remove(uri);
                return refuse(
                    message::OWN_ERROR_CODE,
                    "this session subscribed to as many resources as it may; unsubscribe from one",
                );
            }
            known
        };
        let listening = service.listen(&self.caller(), self.wanted()).await;
        let Some(listening) = listening.filter(|listening| listening.granted().uris.contains(uri)) else {
            if !known {
                lock(&self.uris).remove(uri);
            }
            let error = json!({ "code": -32002, "message": "Resource not found", "data": { "uri": uri } });
            return Reply::Error(Bytes::from(error.to_string()));
        };
        let listening = Arc::new(listening);
        let old = self.listening.send_replace(Some(Arc::clone(&listening)));
        if let Some(old) = old {
            listening.inherit(&old);
        }
        done()
    }

    /// The next unsolicited notification. Dropping the future loses nothing.
    pub(super) async fn unsolicited(&self) -> Bytes {
        let mut place = self.listening.subscribe();
        loop {
            let current = place.borrow_and_update().clone();
            let heard = async {
                match &current {
                    Some(listening) => listening.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                heard = heard => match heard {
                    Heard::Change { change, params } => {
                        return Bytes::from(envelope::notification(method_of(&change), &params));
                    }
                    // Too much changed to tell each: everything that was listened for counts as changed.
                    Heard::Overflow => {
                        if let Some(listening) = &current {
                            listening.restart();
                        }
                    }
                },
                // The sender lives as long as `self`.
                _ = place.changed() => {}
            }
        }
    }

    /// Nothing will be asked or told any more.
    pub(super) fn end(&self) {
        self.questions.end();
        self.listening.send_replace(None);
    }

    fn wanted(&self) -> Filter {
        Filter {
            tools: true,
            prompts: true,
            resources: true,
            uris: lock(&self.uris).clone(),
            tasks: BTreeSet::new(),
        }
    }
}

fn done() -> Answer {
    Reply::Result(Bytes::from_static(b"{}"))
}

fn refuse(code: i64, text: &str) -> Answer {
    Reply::Error(Bytes::from(message::error_body(code, text)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
