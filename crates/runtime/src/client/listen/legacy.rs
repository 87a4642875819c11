//! A listen on a legacy server: it tells of its lists by itself, and of resources that were subscribed to.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steadfast_core::object::Members;
use steadfast_core::subscription::{End, Filter};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::run::{Listen, Told};
use crate::client::attempts::Kinds;
use crate::client::ready::Ready;
use crate::client::{CallOptions, Error};
use crate::listening::change_of;

/// How long a server may take to be told that its resources are of no interest any more.
const UNSUBSCRIBED_WITHIN: Duration = Duration::from_secs(2);

impl Listen {
    /// Listens until the connection ends, or nobody wants to any more.
    pub(super) async fn overhear(&self, ready: &Arc<Ready>) -> Result<End, Error> {
        // Before anything is subscribed to, so that nothing is missed.
        let mut notices = self.client.pipeline.connector.notices.subscribe();
        let capabilities = ready.facts.as_ref().map_or("{}", |facts| &facts.capabilities);
        let declared = |capability: &str, what: &str| {
            let all = Members::parse(capabilities).ok();
            let one = all.as_ref().and_then(|all| Members::parse(all.get(capability)?).ok());
            one.is_some_and(|one| one.get(what) == Some("true"))
        };
        self.tell(Told::Sent);
        let mut granted = Filter {
            tools: self.filter.tools && declared("tools", "listChanged"),
            prompts: self.filter.prompts && declared("prompts", "listChanged"),
            resources: self.filter.resources && declared("resources", "listChanged"),
            ..Filter::default()
        };
        if declared("resources", "subscribe") {
            for uri in &self.filter.uris {
                match self.of_resource("resources/subscribe", uri, self.cancel.clone()).await {
                    Ok(()) => drop(granted.uris.insert(uri.clone())),
                    // This one may not be listened for.
                    Err(Error::Protocol { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.tell(Told::Acknowledged(granted.clone(), self.returns.then(|| ready.facts.clone()).flatten()));
        loop {
            let notice = tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    self.unsubscribe(&granted).await;
                    return Ok(End::Lost);
                }
                () = ready.lost() => return Ok(End::Lost),
                notice = notices.recv() => notice,
            };
            match notice {
                Ok(notice) if notice.relayed => {}
                Ok(notice) => {
                    let params = std::str::from_utf8(&notice.params).unwrap_or_default();
                    if let Some(change) = change_of(&notice.method, params) {
                        self.tell(Told::Changed(change, notice.params.clone()));
                    }
                }
                // More came than could be kept, so what is covered has to be fetched.
                Err(RecvError::Lagged(_) | RecvError::Closed) => return Ok(End::Lost),
            }
        }
    }

    async fn of_resource(&self, method: &str, uri: &str, cancel: CancellationToken) -> Result<(), Error> {
        let params = json!({ "uri": uri }).to_string();
        let mut options = CallOptions { cancel, ..CallOptions::default() };
        let ask = self.client.plain(method, &params, Kinds::default(), &options);
        self.client.pipeline.ask(ask, &mut options).await.map(drop)
    }

    async fn unsubscribe(&self, granted: &Filter) {
        // It is a courtesy: what still comes is nobody's business.
        let all = async {
            for uri in &granted.uris {
                let _ = self.of_resource("resources/unsubscribe", uri, CancellationToken::new()).await;
            }
        };
        let _ = tokio::time::timeout(UNSUBSCRIBED_WITHIN, all).await;
    }
}
