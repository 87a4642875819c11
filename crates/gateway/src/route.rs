//! A server behind the gateway, as a [`Service`]: what the host asks is asked of it, and its bytes come back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast::client::{Client, ClientError, Command, RequestOptions};
use steadfast::message::OwnError;
use steadfast::server::{Answer, Answering, Caller, Context, Request, Service};
use steadfast_core::error::{Kind, Outcome};
use steadfast_core::exchange::requester::End;
use steadfast_core::exchange::{Clock, Limits, Reply};

use crate::config::Server;

/// Forwards every request to one server.
#[derive(Debug)]
pub struct Route {
    name: String,
    client: Client,
    limits: Limits,
}

impl Route {
    /// Connects to a configured server: a command is started now, an endpoint is reached with the first request.
    /// A relative `cwd` starts at `folder`.
    ///
    /// # Errors
    /// The command cannot be started, or the URL is not usable.
    pub fn open(name: &str, server: &Server, folder: &Path, limits: Limits) -> Result<Self, ClientError> {
        let client = match (&server.url, &server.command) {
            (Some(url), _) => Client::http(url)?,
            (None, program) => Client::spawn(&Command {
                program: program.clone().unwrap_or_default().into(),
                args: server.args.iter().map(Into::into).collect(),
                env: server.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
                cwd: server.cwd.as_ref().map(|cwd| folder.join(cwd)),
            })?,
        };
        Ok(Self { name: name.to_owned(), client, limits })
    }

    /// Ends the connection to the server; a child is given `grace` to exit, and then killed.
    pub async fn close(&self, grace: Duration) {
        self.client.close(grace).await;
    }

    async fn forward(self: Arc<Self>, request: Request, context: Context) -> Answer {
        let mut options = RequestOptions {
            limits: self.limits,
            cancel: context.cancelled().clone(),
            ..RequestOptions::default()
        };
        if context.wants_progress() {
            options.on_progress = Some(Box::new(move |progress| context.progress(progress)));
        }
        let is_call = request.method == "tools/call";
        match self.client.request(&request.method, &request.params, options).await {
            Ok(ended) => {
                let outcome = if ended.sent { Outcome::Unknown } else { Outcome::NotExecuted };
                match ended.end {
                    End::Answered(reply) => reply,
                    End::TimedOut(clock) => {
                        let text = format!("server {} reached the {} limit", self.name, clock.as_str());
                        self.own(is_call, Kind::Local, "deadline", outcome, &text, Some(clock))
                    }
                    End::Lost | End::CancelledByPeer => {
                        let why = ended.remark.unwrap_or_else(|| "it went away before its answer".into());
                        let text = format!("server {} was lost: {why}", self.name);
                        self.own(is_call, Kind::Transport, "transport_lost", outcome, &text, None)
                    }
                    // The host gave up; what is returned here goes nowhere.
                    End::Cancelled => {
                        self.own(is_call, Kind::Local, "client_cancelled", outcome, "cancelled", None)
                    }
                }
            }
            Err(error) => {
                self.own(is_call, Kind::Local, "validation", Outcome::NotExecuted, &error.to_string(), None)
            }
        }
    }

    fn own(
        &self,
        is_call: bool,
        kind: Kind,
        category: &'static str,
        outcome: Outcome,
        text: &str,
        clock: Option<Clock>,
    ) -> Answer {
        let error = OwnError { kind, category, outcome, clock, server: Some(&self.name), text };
        // A model reads results; JSON-RPC errors often end in a log (product.md "Errors", ruling 9).
        if is_call {
            Reply::Result(Bytes::from(error.as_tool_result()))
        } else {
            Reply::Error(Bytes::from(error.as_json_rpc_error()))
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
