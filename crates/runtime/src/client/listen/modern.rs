//! A listen on a modern server: one request that lasts.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::json;
use steadfast_core::envelope;
use steadfast_core::ids::RequestId;
use steadfast_core::subscription::End;

use super::run::{Listen, Told};
use crate::client::attempts::{Ask, Kinds};
use crate::client::{CallOptions, Error};
use crate::listening::{ACKNOWLEDGED, Notifications, change_of, written};

impl Listen {
    /// Listens until the end.
    pub(super) async fn ask(self: &Arc<Self>) -> Result<End, Error> {
        let facts = match self.returns {
            true => {
                let options = CallOptions { cancel: self.cancel.clone(), ..CallOptions::default() };
                Some(self.client.discover_anew(options).await?)
            }
            false => None,
        };
        let params = json!({ "notifications": written(&self.filter) }).to_string();
        // The id of the request, by which what comes is known to be its own.
        let own = Arc::new(Mutex::new(None::<RequestId>));
        let sent = |id: &RequestId| {
            *own.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.clone());
            self.tell(Told::Sent);
        };
        let (listen, known, mut facts) = (Arc::clone(self), Arc::clone(&own), facts);
        let on_note = move |method: &str, params: &Bytes| {
            let text = std::str::from_utf8(params).unwrap_or_default();
            let own = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if envelope::subscription_of(text).is_some_and(|named| Some(named) != own) {
                tracing::warn!(
                    server = listen.client.name(),
                    method,
                    "it names another subscription; ignored"
                );
            } else if method == ACKNOWLEDGED {
                // What cannot be read grants nothing.
                let granted = Notifications::of_params(text).map(Notifications::into_filter);
                listen.tell(Told::Acknowledged(granted.unwrap_or_default(), facts.take()));
            } else if let Some(change) = change_of(method, text) {
                listen.tell(Told::Changed(change, params.clone()));
            }
        };
        let mut options = CallOptions {
            cancel: self.cancel.clone(),
            on_note: Some(Box::new(on_note)),
            ..CallOptions::default()
        };
        let plain = self.client.plain("subscriptions/listen", &params, Kinds::default(), &options);
        let ask = Ask { sent: Some(&sent), ..plain };
        self.client.pipeline.ask(ask, &mut options).await.map(|_| End::Result)
    }
}
