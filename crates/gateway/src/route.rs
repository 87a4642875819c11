//! A server behind the gateway, as a [`Service`]: what the host asks is asked of it, and its bytes come back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast::client::{CallOptions, Client, ClientError, Config, Error};
use steadfast::message::OwnError;
use steadfast::server::{Answer, Answering, Caller, Context, Request, Service};
use steadfast_core::era::Wish;
use steadfast_core::error::Kind;
use steadfast_core::exchange::{Limits, Reply};

use crate::config::Server;

/// Forwards every request to one server.
#[derive(Debug)]
pub struct Route {
    name: String,
    client: Client,
}

impl Route {
    /// A route to a configured server, which is started or reached with the first request. A relative `cwd` starts at
    /// `folder`.
    ///
    /// # Errors
    /// The URL is not usable.
    pub fn open(name: &str, server: &Server, folder: &Path, limits: Limits) -> Result<Self, ClientError> {
        let client = server.client(folder)?;
        // The host is modern, and nothing translates yet between it and a legacy server.
        let config = Config { era: Wish::Modern, ..server.treatment(name, limits) };
        Ok(Self { name: name.to_owned(), client: client.config(config).build() })
    }

    /// Ends the connection to the server; a child is given `grace` to exit, and then killed.
    pub async fn close(&self, grace: Duration) {
        self.client.close(grace).await;
    }

    async fn forward(self: Arc<Self>, request: Request, context: Context) -> Answer {
        let mut options = CallOptions {
            cancel: context.cancelled().clone(),
            trace: context.trace().cloned(),
            ..CallOptions::default()
        };
        if context.wants_progress() {
            options.on_progress = Some(Box::new(move |progress| context.progress(progress)));
        }
        match self.client.forward(&request.method, &request.params, options).await {
            Ok(answered) => Reply::Result(answered.result),
            Err(error) => self.told(request.method == "tools/call", &error),
        }
    }

    /// An error of the server as it came; one of ours as what it is.
    fn told(&self, is_call: bool, error: &Error) -> Answer {
        let (kind, category, clock, sentence) = match error {
            Error::Protocol { raw, .. } => return Reply::Error(Bytes::from(raw.clone())),
            Error::Transport { category, sentence, .. } => (Kind::Transport, category, None, sentence),
            Error::Local { category, clock, sentence, .. } => (Kind::Local, category, *clock, sentence),
        };
        let own = OwnError {
            kind,
            category: category.as_str(),
            outcome: error.outcome(),
            clock,
            server: Some(&self.name),
            text: sentence,
        };
        // A model reads results; JSON-RPC errors often end in a log (product.md "Errors", ruling 9).
        if is_call {
            Reply::Result(Bytes::from(own.as_tool_result()))
        } else {
            Reply::Error(Bytes::from(own.as_json_rpc_error()))
        }
    }
}

/// A route as a service of an endpoint.
#[derive(Clone, Debug)]
pub struct Forward(pub Arc<Route>);

impl Service for Forward {
    fn knows(&self, _method: &str, _caller: &Caller) -> bool {
        // Unknown methods and extensions pass; the server itself says what it does not know (ruling 22).
        true
    }

    fn answer(&self, request: Request, context: Context) -> Answering {
        Box::pin(Arc::clone(&self.0).forward(request, context))
    }
}
