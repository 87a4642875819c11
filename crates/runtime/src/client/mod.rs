//! The client half: one [`Client`] speaks to one server, for one authorization context.
//!
//! A client is no thin wrapper around a request. It finds out which era the server speaks and remembers it, keeps its
//! child alive or makes its connection anew, waits for its turn, repeats only what may be repeated, ends every call
//! exactly once, and tells what is known of its effect.

mod attempts;
mod breakers;
mod catalog;
mod config;
mod drive;
mod error;
mod explain;
mod handler;
mod host;
mod http;
mod inbound;
mod judge;
mod leg;
mod link;
mod listen;
mod options;
mod ready;
mod record;
mod roots;
mod rounds;
mod span;
mod stdio;
mod tasks;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::error::Outcome;
use steadfast_core::exchange::{Limits, Operation};
use steadfast_core::fingerprint::{Carrier, Key};
use steadfast_core::hop::Revision;
use steadfast_core::ids::{ProgressToken, RequestId, Tag};
use steadfast_core::object::{self, Members};
use steadfast_core::policy::Contract;
use steadfast_core::policy::breaker::Class;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::message;
use attempts::{Ask, Done, Kinds, Pipeline, ResultKind};
use catalog::{Catalog, Defined};
use ready::{Connector, Target};
use roots::Lending;
use tasks::Declaring;

pub use breakers::Breakers;
pub use catalog::{CatalogStore, Definition, Found, InMemory, LeftOut, Light, Listed, Shared};
pub use config::{Config, Context, ToolContract};
pub use error::{Category, Error};
pub use explain::{Explanation, Finding, Said};
pub use handler::{Answering, Credentials, Handler, Headers, NoAnswer, Question, Silent};
pub use host::{Host, HostError, Identity};
pub use http::{Endpoint, Settings as HttpSettings};
pub use listen::{ListenEvent, Subscription};
pub use options::{CallOptions, OnNote, OnProgress, Run};
pub use ready::{ConnectionState, Facts};
pub use record::{Recent, Record, Recorder};
pub use roots::{RootError, Roots};
pub use stdio::guard::{guard, guard_by};
pub use stdio::{Command, Opened, Streams};
pub use tasks::{FolderJournal, Forgetful, TaskEntry, TaskHandle, TaskJournal};

/// A connector to one server. Clones are the same client; calls run side by side.
#[derive(Clone)]
pub struct Client {
    pipeline: Arc<Pipeline>,
    recent: Arc<Recent>,
    catalog: Arc<Catalog>,
    /// Where tasks are kept; without it none are asked for.
    tasks: Option<Arc<dyn TaskJournal>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.pipeline.config.name).finish_non_exhaustive()
    }
}

/// Why a client cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The command could not be started.
    #[error("the server command {command:?} could not be started: {source}; check its path and permissions")]
    Spawn {
        /// The program, without its arguments.
        command: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The address is not usable.
    #[error("{url:?} cannot be used as a server address: {why}; write it as http://HOST:PORT/PATH")]
    Address {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A configured header cannot be sent.
    #[error("the header {name:?} cannot be sent; use a name of HTTP and visible ASCII without line ends")]
    Header {
        /// Its name; the value may be secret.
        name: String,
    },
    /// The configured root certificates cannot be used.
    #[error("the root certificates cannot be read; give them in PEM, each between its BEGIN and END lines")]
    Roots,
}

/// What a request was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The result's own bytes: one JSON object.
    pub result: Bytes,
    /// The revision that it was said in.
    pub revision: Revision,
    /// The call's id in the log.
    pub call_id: String,
    /// How many attempts its last round took.
    pub attempts: u32,
}

impl From<Done> for Answered {
    fn from(done: Done) -> Self {
        let Done { result, revision, call_id, attempts, .. } = done;
        Self { result, revision, call_id, attempts }
    }
}

/// Puts a client together.
#[derive(Clone)]
pub struct Builder {
    target: Target,
    config: Config,
    handler: Arc<dyn Handler>,
    credentials: Option<Arc<dyn Credentials>>,
    recorder: Option<Arc<dyn Recorder>>,
    breakers: Option<Arc<Breakers>>,
    catalogs: Option<Arc<dyn CatalogStore>>,
    roots: Roots,
    tasks: Option<Arc<dyn TaskJournal>>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Builder {
    fn new(target: Target, config: Config, handler: Arc<dyn Handler>) -> Self {
        Self {
            target,
            config,
            handler,
            credentials: None,
            recorder: None,
            breakers: None,
            catalogs: None,
            roots: Roots::default(),
            tasks: None,
        }
    }

    /// How the server is treated.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Who answers the server's questions; without one nothing is declared and every question refused.
    #[must_use]
    pub fn handler(mut self, handler: Arc<dyn Handler>) -> Self {
        self.handler = handler;
        self
    }

    /// The directories that the server is lent: they are declared, and `roots/list` is answered with them.
    #[must_use]
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }

    /// Lets a server answer a call by a task, which is then followed to its end, and kept here until it is over: a modern
    /// one as it likes, one of 2025-11-25 where a tool runs only so. [`Forgetful`] keeps nothing.
    #[must_use]
    pub fn tasks(mut self, journal: Arc<dyn TaskJournal>) -> Self {
        self.tasks = Some(journal);
        self
    }

    /// Where the credentials of an HTTP server come from.
    #[must_use]
    pub fn credentials(mut self, credentials: Arc<dyn Credentials>) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// How an HTTP endpoint is spoken to; without effect on a command.
    ///
    /// # Errors
    /// A header that cannot be sent, or a root certificate that cannot be read.
    pub fn http(mut self, settings: HttpSettings) -> Result<Self, ClientError> {
        if let Target::Url(pool) = &self.target {
            self.target = Target::Url(http::Pool::new(Endpoint::clone(pool.endpoint()), settings)?);
        }
        Ok(self)
    }

    /// Who keeps the record of every attempt, beside the last ones in memory.
    #[must_use]
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Breakers that clients of one server and one tenant share.
    #[must_use]
    pub fn breakers(mut self, breakers: Arc<Breakers>) -> Self {
        self.breakers = Some(breakers);
        self
    }

    /// Where clients share lists that their server calls public; without one this client keeps its own.
    #[must_use]
    pub fn catalogs(mut self, store: Arc<dyn CatalogStore>) -> Self {
        self.catalogs = Some(store);
        self
    }

    /// The client. Nothing is started or sent until its first use.
    pub fn build(self) -> Client {
        let mut seed = [0_u8; 8];
        // Without randomness clients come back together after a loss, which is a pity and no fault.
        let _ = getrandom::fill(&mut seed);
        let clock = Clock::start();
        let config = Arc::new(self.config);
        let handler = if self.roots.is_empty() {
            self.handler
        } else {
            Arc::new(Lending { handler: self.handler, roots: self.roots })
        };
        let handler = match self.tasks {
            Some(_) => Arc::new(Declaring(handler)) as Arc<dyn Handler>,
            None => handler,
        };
        let closing = CancellationToken::new();
        let connector = Arc::new(Connector::new(
            clock,
            Arc::clone(&config),
            Arc::clone(&handler),
            self.credentials.clone(),
            self.target,
            closing.clone(),
        ));
        let recent = Arc::new(Recent::default());
        let recorder: Arc<dyn Recorder> = match self.recorder {
            Some(also) => Arc::new(Both(Arc::clone(&recent), also)),
            None => Arc::clone(&recent) as Arc<dyn Recorder>,
        };
        let breakers = self.breakers.unwrap_or_else(|| Arc::new(Breakers::new(&config)));
        let seed = u64::from_be_bytes(seed);
        let pipeline = Pipeline::new(
            config,
            clock,
            connector,
            handler,
            self.credentials,
            recorder,
            breakers,
            closing,
            seed,
        );
        let catalog = Arc::new(Catalog::new(&pipeline, self.catalogs));
        Client { pipeline: Arc::new(pipeline), recent, catalog, tasks: self.tasks }
    }
}

struct Both(Arc<Recent>, Arc<dyn Recorder>);

impl Recorder for Both {
    fn record(&self, record: &Record) {
        self.0.record(record);
        self.1.record(record);
    }
}

impl Client {
    /// A client of a command that is started and spoken to over its stdin and stdout.
    pub fn of_command(command: Command) -> Builder {
        Builder::new(Target::Child(command), Config::default(), Arc::new(Silent))
    }

    /// A client of a server at the other end of a pair of byte streams, such as a socket; `open` is asked for a pair
    /// whenever there is to be a connection. It is spoken to as a child is over its pipes: one message a line, a cancel
    /// is `notifications/cancelled`, the end of the streams is the end of every request on them, and the budget of
    /// restarts is that of connections.
    pub fn of_streams(open: impl Fn() -> Opened + Send + Sync + 'static) -> Builder {
        let target = Target::Streams(stdio::Opener(Arc::new(open)));
        Builder::new(target, Config::default(), Arc::new(Silent))
    }

    /// A client of a Streamable HTTP endpoint.
    ///
    /// # Errors
    /// The URL cannot be used.
    pub fn of_url(url: &str) -> Result<Builder, ClientError> {
        let pool = http::Pool::new(Endpoint::parse(url)?, HttpSettings::default())?;
        Ok(Builder::new(Target::Url(pool), Config::default(), Arc::new(Silent)))
    }

    /// The server's configured name.
    pub fn name(&self) -> &str {
        &self.pipeline.config.name
    }

    /// What becomes of the connection.
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.pipeline.connector.state()
    }

    /// What is remembered of a call: one record an attempt.
    pub fn records(&self, call_id: &str) -> Vec<Record> {
        self.recent.of(call_id)
    }

    /// Makes the connection if there is none, and tells what the server said of itself.
    ///
    /// # Errors
    /// There is no connection, or the server refuses to say.
    pub async fn discover(&self, options: CallOptions) -> Result<Facts, Error> {
        let made = tokio::select! {
            made = self.pipeline.connector.ready() => made,
            () = options.cancel.cancelled() => {
                let why = "the call was cancelled";
                return Err(self.pipeline.refuse("server/discover", None, &options, Category::ClientCancelled, why));
            }
        };
        // Whatever stands in the way, the pipeline has the words for it.
        if let Ok(ready) = made
            && let Some(facts) = ready.facts.clone()
        {
            return Ok(facts);
        }
        self.discover_anew(options).await
    }

    /// Asks a modern server what it says of itself, whatever it said before.
    async fn discover_anew(&self, mut options: CallOptions) -> Result<Facts, Error> {
        let ask = self.plain("server/discover", "{}", Kinds::default(), &options);
        let done = self.pipeline.ask(ask, &mut options).await?;
        ready::facts_of_discover(&done.result, done.revision).ok_or_else(|| Error::Transport {
            category: Category::InvalidResponse,
            sent: true,
            outcome: Outcome::Executed,
            sentence: format!("server {} answered server/discover with what is no such result", self.name()),
            call_id: done.call_id,
        })
    }

    /// Calls a tool. `arguments` is one JSON object, sent as it is. A result that says `isError` is a result: it is
    /// for the model to read, and nothing repeats it.
    ///
    /// # Errors
    /// There is no result; the error says whose fault that is and what is known of the effect.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: &str,
        options: CallOptions,
    ) -> Result<Answered, Error> {
        let mut params = Members::default();
        params.set("name", object::string(name));
        params.set("arguments", arguments.to_owned());
        self.request("tools/call", &params.to_json(), options).await
    }

    /// Gets a prompt. `arguments` is one JSON object of strings.
    ///
    /// # Errors
    /// As [`Self::call_tool`].
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &str,
        options: CallOptions,
    ) -> Result<Answered, Error> {
        let mut params = Members::default();
        params.set("name", object::string(name));
        params.set("arguments", arguments.to_owned());
        self.request("prompts/get", &params.to_json(), options).await
    }

    /// Sends any request. `params` is one JSON object, whose members leave as they are but for the `_meta` keys of
    /// this hop. Questions of the server are answered on the way, where the method has them.
    ///
    /// # Errors
    /// As [`Self::call_tool`].
    pub async fn request(&self, method: &str, params: &str, options: CallOptions) -> Result<Answered, Error> {
        self.send(method, params, options, true).await.map(Answered::from)
    }

    /// Sends a request for somebody else, as a gateway does: a question in return is for them to answer, so
    /// `input_required` and task results are handed on.
    ///
    /// # Errors
    /// As [`Self::call_tool`].
    pub async fn forward(&self, method: &str, params: &str, options: CallOptions) -> Result<Answered, Error> {
        self.send(method, params, options, false).await.map(Answered::from)
    }

    async fn send(
        &self,
        method: &str,
        params: &str,
        mut options: CallOptions,
        answers: bool,
    ) -> Result<Done, Error> {
        let refused = |name: Option<&str>, sentence: String| {
            self.pipeline.refuse(method, name, &options, Category::Validation, sentence)
        };
        let members = Members::parse(params)
            .map_err(|_| refused(None, "the params are not one JSON object; wrap them in {…}".to_owned()))?;
        let name = members.get_str("name");
        let tool = name.as_deref().filter(|_| method == "tools/call");
        let config = &self.pipeline.config;
        let contract = tool.and_then(|tool| config.contract(tool));
        let pointer = contract.and_then(|contract| contract.key.as_deref());
        let arguments = members.get("arguments");
        let in_arguments =
            pointer.zip(arguments).and_then(|(pointer, json)| message::string_at(json, pointer));
        let meta = members.get("_meta").and_then(|meta| Members::parse(meta).ok());
        let in_meta = meta.and_then(|meta| meta.get_str(message::META_KEY));
        let in_params = members.get_str("idempotencyKey");
        let key = Key::from_carriers([
            (Carrier::Header, options.key.as_deref()),
            (Carrier::Meta, in_meta.as_deref()),
            (Carrier::Params, in_params.as_deref()),
            (Carrier::Arguments, in_arguments.as_deref()),
        ])
        .map_err(|error| refused(tool, error.to_string()))?;
        let mut placed = None;
        if let (Some(key), Some(pointer), None) = (&key, pointer, &in_arguments) {
            // The upstream looks for it where its own schema has it, whatever carrier it came by (ruling 4).
            let arguments = message::with_string_at(arguments.unwrap_or("{}"), pointer, key.as_str())
                .map_err(|why| refused(tool, why.to_owned()))?;
            let mut members = members.clone();
            members.set("arguments", arguments);
            placed = Some(members);
        }
        let sent = placed.as_ref().unwrap_or(&members).get("arguments");
        let defined = match tool {
            Some(tool) => Some(
                Defined::checked(self, tool, sent, &options).await.map_err(|why| refused(Some(tool), why))?,
            ),
            None => None,
        };
        let placed = placed.as_ref().map(Members::to_json);
        let kinds = Kinds::of(method, !answers || self.tasks.is_some());
        let in_meta = key.as_ref().filter(|_| pointer.is_none()).map(Key::as_str);
        let described = contract.map_or_else(|| Contract::of_method(method), |contract| contract.contract);
        let of_tool = contract.and_then(|contract| contract.limits);
        let (limits, limits_by) = limits_of(options.limits, of_tool, config.limits);
        let ask = Ask {
            params: placed.as_deref().unwrap_or(params),
            name: name.as_deref().filter(|_| matches!(method, "tools/call" | "prompts/get")),
            class: described.class(key.is_some()),
            breaker: Class::of(method, described.effect),
            key: in_meta,
            keyed: key.is_some(),
            rejects: contract.map_or(&[], |contract| &contract.rejects),
            limits,
            limits_by,
            defined: defined.as_ref(),
            augments: answers && self.tasks.is_some(),
            ..self.plain(method, params, kinds, &options)
        };
        let done = if answers {
            self.pipeline.ask_in_rounds(ask, &mut options).await?
        } else {
            self.pipeline.ask(ask, &mut options).await?
        };
        let done = if answers && done.kind == ResultKind::Task {
            let rejects = contract.map_or(&[][..], |contract| &contract.rejects);
            self.follow(done, tool, rejects, options).await?
        } else {
            done
        };
        if let Some(defined) = &defined {
            defined.check_output(&done).await?;
        }
        Ok(done)
    }

    fn plain<'a>(&self, method: &'a str, params: &'a str, kinds: Kinds, options: &CallOptions) -> Ask<'a> {
        let contract = Contract::of_method(method);
        let (limits, limits_by) = limits_of(options.limits, None, self.pipeline.config.limits);
        Ask {
            method,
            params,
            name: None,
            class: contract.class(false),
            breaker: Class::of(method, contract.effect),
            key: None,
            keyed: false,
            rejects: &[],
            limits,
            limits_by,
            operation: Operation::of_method(method),
            kinds,
            leg_of: None,
            defined: None,
            augments: false,
            aside: false,
            bound_to: None,
            sent: None,
        }
    }

    /// Ends the connection and releases what it held: a child's tree within about `grace`, a session by DELETE.
    /// Calls that still run are cancelled, and the server is told so. No business effect is revoked.
    pub async fn close(&self, grace: Duration) {
        self.pipeline.closing.cancel();
        self.pipeline.connector.close(grace).await;
    }
}

/// The limits that count, and who sets them: the call before its tool's contract, that before the server's configuration.
fn limits_of(of_call: Option<Limits>, of_tool: Option<Limits>, of_server: Limits) -> (Limits, &'static str) {
    match (of_call, of_tool) {
        (Some(limits), _) => (limits, "the call itself"),
        (None, Some(limits)) => (limits, "the contract of its tool"),
        (None, None) => (of_server, "the server's configuration"),
    }
}

/// The request that a token was minted for.
fn request_of(token: &ProgressToken) -> Option<RequestId> {
    match &token.0 {
        Tag::String(text) => text.strip_prefix("p-")?.parse().ok().map(|serial: i64| serial.into()),
        Tag::Integer(_) => None,
    }
}
