//! A connection that is ready: a version and a path, never a session (D-27). How one is made, once for all who wait,
//! and made again after it went.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use steadfast_core::envelope;
use steadfast_core::era::{self, Evidence, Step, Wish};
use steadfast_core::exchange::requester::End;
use steadfast_core::exchange::{Ignored, Limits, Operation, Progress, Reply, Spec};
use steadfast_core::hop::{Hop, Revision, Transport};
use steadfast_core::ids::RequestId;
use steadfast_core::object::{self, Members};
use steadfast_core::policy::{Failure, Permit, Restarts};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::config::Config;
use super::drive::{self, Exchanged};
use super::handler::{Credentials, Handler};
use super::inbound::{self, Asking, Notice, Strays};
use super::leg::{Detail, Inbox, Outgoing};
use super::link::Link;
use super::{ClientError, Command, http, stdio};
use crate::clock::Clock;
use crate::message::{self, Metadata};

/// Where the server is.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Child(Command),
    Streams(stdio::Opener),
    Url(Arc<http::Pool>),
}

/// What a client makes of its connection, for people and for whoever decides whether to ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Nothing has been sent, or the client is closed.
    Disconnected,
    /// Finding out what the server speaks.
    Probing,
    /// A version and a path are known.
    Ready,
    /// It was lost; the next use makes it anew.
    Reconnecting,
    /// It is there, and some of it does not work: a breaker is not closed.
    Degraded,
    /// No version is common.
    Unsupported,
}

/// What a server said of itself, by `server/discover` or in the handshake: of an untrusted party (CAP-10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The revision spoken.
    pub revision: Revision,
    /// `capabilities`, as one JSON object.
    pub capabilities: String,
    /// `serverInfo`, as it came, where it came.
    pub info: Option<String>,
    /// `instructions`.
    pub instructions: Option<String>,
}

impl Facts {
    /// Whether a capability is there: the member's name, such as `tools`.
    pub fn offers(&self, capability: &str) -> bool {
        Members::parse(&self.capabilities).is_ok_and(|all| all.get(capability).is_some_and(|it| it != "null"))
    }
}

/// A connection that is ready.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) link: Link,
    pub(super) revision: Revision,
    /// What was learned on the way; none where nothing had to be asked.
    pub(super) facts: Option<Facts>,
    /// Which connection of this client; the first is 1.
    pub(super) epoch: u64,
    /// Questions of a legacy server that are being answered.
    pub(super) asking: Asking,
    /// Answers to ids that no request of ours waits under.
    pub(super) strays: Strays,
    /// It broke, and nothing new may be sent over it.
    lost: CancellationToken,
    /// Looks after what comes outside of requests. With the connection it ends.
    _inbound: AbortOnDropHandle<()>,
}

impl Ready {
    pub(super) const fn hop(&self) -> Hop {
        Hop { transport: self.link.transport(), era: self.revision.era() }
    }

    /// Whether a call may ask to be a task, as 2025-11-25 has it (LEG-101, LEG-102).
    pub(super) fn takes_tasks(&self) -> bool {
        let declared = |path: &[&str], json: &str| {
            path.iter().try_fold(json.to_owned(), |json, name| {
                Some(Members::parse(&json).ok()?.get(name)?.to_owned())
            })
        };
        self.revision == Revision::V2025_11_25
            && self.facts.as_ref().is_some_and(|facts| {
                let at = declared(&["tasks", "requests", "tools", "call"], &facts.capabilities);
                at.is_some_and(|it| it.starts_with('{'))
            })
    }

    /// Waits until nothing new may be sent over it any more.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(super) struct Unready {
    /// As an attempt of which nothing left.
    pub(super) detail: Detail,
    /// No version is common: asking again gives the same.
    pub(super) unsupported: bool,
}

impl Unready {
    fn new(sentence: impl Into<String>) -> Self {
        Self { detail: Detail::failed(Failure::NothingLeft, sentence), unsupported: false }
    }

    /// It is our own decision not to connect: nothing comes of trying again now.
    fn refused(sentence: String) -> Self {
        Self { detail: Detail::failed(Failure::RefusedHere, sentence), unsupported: false }
    }
}

type Made = Result<Arc<Ready>, Unready>;

/// Makes connections to one server, one at a time.
pub(super) struct Connector {
    pub(super) clock: Clock,
    pub(super) config: Arc<Config>,
    pub(super) handler: Arc<dyn Handler>,
    /// Probe and handshake need them as every request does.
    credentials: Option<Arc<dyn Credentials>>,
    target: Target,
    /// Ids are never used again, over all connections (MSG-05, LEG-11, F019).
    ids: AtomicI64,
    epochs: AtomicU64,
    slot: Mutex<Slot>,
    /// The child that was started last; there is never more than one (F074).
    child: Mutex<Option<Arc<stdio::Connection>>>,
    restarts: Mutex<Restarts>,
    state: watch::Sender<ConnectionState>,
    pub(super) notices: broadcast::Sender<Notice>,
    pub(super) progress: inbound::Sender,
    closing: CancellationToken,
}

#[derive(Default)]
struct Slot {
    ready: Option<Arc<Ready>>,
    /// Under way: everybody waits for the same one (F046, F080).
    making: Option<watch::Receiver<Option<Made>>>,
    /// What this endpoint or command was found to speak. Never given up for a later failure (VER-17).
    era: Option<Revision>,
    /// It was found behind the two endpoints of 2024-11-05, where it is looked for first.
    two_endpoints: bool,
}

/// What a child that is to be replaced, or of which nothing was learned, may take to go.
const REPLACED: Duration = Duration::from_secs(2);
/// How many notices may wait for a slow listener; it is told that it missed some.
const NOTICES: usize = 256;

impl Connector {
    pub(super) fn new(
        clock: Clock,
        config: Arc<Config>,
        handler: Arc<dyn Handler>,
        credentials: Option<Arc<dyn Credentials>>,
        target: Target,
        closing: CancellationToken,
    ) -> Self {
        let mut seed = [0; 8];
        // Without randomness the children of several clients come back together, which is a pity and no fault.
        let _ = getrandom::fill(&mut seed);
        let restarts = Restarts::new(config.restarts, u64::from_ne_bytes(seed));
        Self {
            clock,
            child: Mutex::default(),
            restarts: Mutex::new(restarts),
            config,
            handler,
            credentials,
            target,
            ids: AtomicI64::new(1),
            epochs: AtomicU64::new(0),
            slot: Mutex::default(),
            state: watch::Sender::new(ConnectionState::Disconnected),
            notices: broadcast::Sender::new(NOTICES),
            progress: broadcast::Sender::new(NOTICES),
            closing,
        }
    }

    pub(super) const fn transport(&self) -> Transport {
        match self.target {
            Target::Child(_) | Target::Streams(_) => Transport::Stdio,
            Target::Url(_) => Transport::Http,
        }
    }

    /// Where the server is, with all that its command is given; for a digest only.
    pub(super) fn place(&self) -> String {
        format!("{:?}", self.target)
    }

    pub(super) fn state(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// A connection that is there works in part, or wholly again.
    pub(super) fn degraded(&self, degraded: bool) {
        self.state.send_if_modified(|state| {
            let now = match *state {
                ConnectionState::Ready | ConnectionState::Degraded if degraded => ConnectionState::Degraded,
                ConnectionState::Ready | ConnectionState::Degraded => ConnectionState::Ready,
                ConnectionState::Disconnected
                | ConnectionState::Probing
                | ConnectionState::Reconnecting
                | ConnectionState::Unsupported => return false,
            };
            std::mem::replace(state, now) != now
        });
    }

    pub(super) fn next_id(&self) -> i64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// The connection, if there is one: nothing is started.
    pub(super) fn current(&self) -> Option<Arc<Ready>> {
        self.lock().ready.clone().filter(|ready| !ready.lost.is_cancelled())
    }

    /// The connection, made if there is none. Who stops waiting stops nothing for the others.
    pub(super) async fn ready(self: &Arc<Self>) -> Made {
        let mut made = {
            let mut slot = self.lock();
            if let Some(ready) = slot.ready.as_ref().filter(|ready| !ready.lost.is_cancelled()) {
                return Ok(Arc::clone(ready));
            }
            let under_way = slot.making.as_ref().filter(|made| made.has_changed().is_ok()).cloned();
            match under_way {
                Some(made) => made,
                None => {
                    let (tell, made) = watch::channel(None);
                    slot.making = Some(made.clone());
                    tokio::spawn(Arc::clone(self).make(tell));
                    made
                }
            }
        };
        let made = match made.wait_for(Option::is_some).await {
            Ok(made) => made.clone(),
            Err(_) => None,
        };
        made.unwrap_or_else(|| Err(Unready::new("the client is closed")))
    }

    async fn make(self: Arc<Self>, tell: watch::Sender<Option<Made>>) {
        let first = self.epochs.load(Ordering::Relaxed) == 0;
        self.state.send_replace(if first { ConnectionState::Probing } else { ConnectionState::Reconnecting });
        let made = tokio::select! {
            made = self.connect() => made,
            () = self.closing.cancelled() => Err(Unready::new("the client is closed")),
        };
        if let (Err(_), Some(child)) = (&made, self.child()) {
            child.close(REPLACED).await;
        }
        let state = match &made {
            Ok(_) => ConnectionState::Ready,
            Err(unready) if unready.unsupported => ConnectionState::Unsupported,
            Err(_) => ConnectionState::Disconnected,
        };
        let mut slot = self.lock();
        slot.making = None;
        if let Ok(ready) = &made {
            slot.era = Some(ready.revision);
            slot.ready = Some(Arc::clone(ready));
            tokio::spawn(watch_over(Arc::downgrade(&self), Arc::clone(ready), self.closing.clone()));
        }
        drop(slot);
        self.state.send_replace(state);
        tell.send_replace(Some(made));
    }

    /// This connection is of no use any more, though it has not ended: its session is gone.
    pub(super) fn discard(&self, ready: &Arc<Ready>) {
        ready.lost.cancel();
        let mut slot = self.lock();
        if slot.ready.as_ref().is_some_and(|current| current.epoch == ready.epoch) {
            slot.ready = None;
        }
        drop(slot);
        self.state.send_if_modified(|state| {
            let was_ready = *state == ConnectionState::Ready;
            if was_ready {
                *state = ConnectionState::Reconnecting;
            }
            was_ready
        });
    }

    /// A modern server refused the version that was spoken; the next connection is made by what it named.
    pub(super) fn version_refused(&self, ready: &Arc<Ready>, supported: Vec<String>) -> bool {
        match era::after_probe(self.config.era, self.transport(), Evidence::VersionRefused(supported)) {
            Step::Speak(_) => true,
            Step::Handshake { .. } => {
                self.lock().era = Some(Revision::NEWEST_LEGACY);
                self.discard(ready);
                true
            }
            Step::TwoEndpoints | Step::Undecided | Step::Unsupported { .. } => false,
        }
    }

    pub(super) async fn close(&self, grace: Duration) {
        let ready = self.lock().ready.take();
        if let Some(ready) = ready {
            ready.lost.cancel();
            ready.link.close(grace).await;
        }
        // Also one that is still being asked what it speaks.
        if let Some(child) = self.child() {
            child.close(grace).await;
        }
        self.state.send_replace(ConnectionState::Disconnected);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(self: &Arc<Self>) -> Made {
        let known = self.lock().era;
        let limit = self.config.start_limit;
        match tokio::time::timeout(limit, self.find_out(known)).await {
            Ok(made) => made,
            Err(_) => Err(Unready::new(format!(
                "server {} did not say within {limit:?} what it speaks; look at its log, or raise start_limit",
                self.config.name
            ))),
        }
    }

    async fn find_out(self: &Arc<Self>, known: Option<Revision>) -> Made {
        let wish = self.config.era;
        if std::mem::take(&mut self.lock().two_endpoints) {
            return self.two_endpoints().await;
        }
        let step = match (known, wish) {
            (Some(revision), _) if revision.era() == steadfast_core::hop::Era::Modern => {
                Step::Speak(revision)
            }
            (Some(_), _) | (None, Wish::Legacy) => Step::Handshake { fresh: true },
            // Over HTTP a wish for the modern era needs no probe: every request describes itself. A child is asked,
            // so that a legacy one fails clearly (VER-09).
            (None, Wish::Modern) if self.transport() == Transport::Http => Step::Speak(Revision::V2026_07_28),
            (None, Wish::Auto | Wish::Modern) => return self.probe(wish).await,
        };
        let open = self.open().await?;
        self.follow(step, open, None).await
    }

    /// Asks by `server/discover`.
    async fn probe(self: &Arc<Self>, wish: Wish) -> Made {
        let open = self.open().await?;
        let spoken = Revision::V2026_07_28;
        let probed = open.link.clone();
        let mut asked = Box::pin(self.ask(&probed, spoken, "server/discover", "{}", Operation::Probe));
        let silence = async {
            match self.transport() {
                Transport::Stdio => tokio::time::sleep(self.config.probe_silence).await,
                Transport::Http => std::future::pending().await,
            }
        };
        let exchanged = tokio::select! {
            exchanged = &mut asked => exchanged,
            () = silence => match era::after_probe(wish, self.transport(), Evidence::Silence) {
                // A server that is slow to start may answer the probe yet: the first of the two answers decides (VER-18).
                Step::Handshake { .. } => tokio::select! {
                    biased;
                    exchanged = &mut asked => exchanged,
                    made = self.handshake(open.clone()) => return made,
                },
                step => return self.follow(step, open.clone(), None).await,
            },
        };
        let (evidence, facts) = evidence_of(&exchanged, spoken, "server/discover");
        let step = era::after_probe(wish, self.transport(), evidence);
        if step == Step::Undecided {
            return Err(Unready { detail: undecided(exchanged), unsupported: false });
        }
        self.follow(step, open, facts).await
    }

    async fn follow(self: &Arc<Self>, step: Step, open: Open, facts: Option<Facts>) -> Made {
        match step {
            Step::Speak(revision) => Ok(self.seal(open, revision, facts)),
            Step::Handshake { fresh } => {
                let spent = fresh && self.lock().era.is_none() && self.config.era != Wish::Legacy;
                let open = if spent { self.open().await? } else { open };
                self.handshake(open).await
            }
            Step::TwoEndpoints | Step::Undecided => Err(Unready::new("the server said nothing of its era")),
            Step::Unsupported { supported } => Err(self.unsupported(&supported)),
        }
    }

    /// The handshake of the legacy eras; of a lost one nobody may be told (LEG-10).
    async fn handshake(self: &Arc<Self>, open: Open) -> Made {
        let open = match &self.target {
            Target::Child(_) | Target::Streams(_) => open,
            Target::Url(pool) => Self::session(pool),
        };
        let (exchanged, made) = self.initialize(open).await;
        let exchanged = match made {
            Some(made) => return made,
            None => exchanged,
        };
        let (evidence, _) = evidence_of(&exchanged, Revision::NEWEST_LEGACY, "initialize");
        match era::after_handshake(self.config.era, self.transport(), evidence) {
            Step::Speak(revision) => Ok(self.seal(self.open().await?, revision, None)),
            Step::TwoEndpoints => self.two_endpoints().await,
            Step::Undecided => Err(Unready { detail: undecided(exchanged), unsupported: false }),
            Step::Unsupported { supported } => {
                let mut unready = self.unsupported(&supported);
                if let Some(why) = told(&exchanged) {
                    unready.detail.remark =
                        Some(format!("server {} refused the handshake: {why}", self.config.name));
                }
                Err(unready)
            }
            Step::Handshake { .. } => Err(self.unsupported(&[])),
        }
    }

    /// One `initialize` with what follows from its answer; nothing if it is no `InitializeResult`.
    async fn initialize(self: &Arc<Self>, open: Open) -> (Exchanged, Option<Made>) {
        let mut capabilities: serde_json::Value =
            serde_json::from_str(&self.handler.capabilities()).unwrap_or_default();
        // LEG-100: those are of who makes tasks of the other's requests, which is never done here.
        if let Some(capabilities) = capabilities.as_object_mut() {
            capabilities.remove("tasks");
        }
        let params = json!({
            "protocolVersion": Revision::NEWEST_LEGACY.as_str(),
            "capabilities": capabilities,
            "clientInfo": { "name": "steadfast", "version": env!("CARGO_PKG_VERSION") },
        });
        let spoken = Revision::NEWEST_LEGACY;
        let exchanged =
            self.ask(&open.link, spoken, "initialize", &params.to_string(), Operation::Initialize).await;
        let Some(answer) = initialized(&exchanged) else { return (exchanged, None) };
        let made = match answer {
            Ok(facts) => {
                if let Link::Http(connection) = &open.link {
                    connection.start_session(facts.revision);
                }
                open.link.notify("notifications/initialized", "{}");
                Ok(self.seal(open, facts.revision, Some(facts)))
            }
            // LEG-08: it answers with a version that we do not speak.
            Err(version) => {
                open.link.close(Duration::from_secs(1)).await;
                Err(self.unsupported(&[version]))
            }
        };
        (exchanged, Some(made))
    }

    async fn two_endpoints(self: &Arc<Self>) -> Made {
        let Target::Url(pool) = &self.target else { return Err(self.unsupported(&[])) };
        let (inbox, inbound) = Inbox::new();
        let credentials = self.headers().await.map_err(|detail| Unready { detail, unsupported: false })?;
        let made = http::Connection::two_endpoints(Arc::clone(pool), inbox, credentials).await;
        let connection = made.map_err(|detail| {
            let unsupported = matches!(detail.status, Some(200..=299 | 400 | 404 | 405 | 406));
            Unready { detail, unsupported }
        })?;
        let open = Open::new(Link::Http(Arc::new(connection)), inbound);
        let (exchanged, made) = self.initialize(open).await;
        let made = made.unwrap_or_else(|| Err(Unready { detail: undecided(exchanged), unsupported: false }));
        self.lock().two_endpoints = made.is_ok();
        made
    }

    /// The credentials of a request that is no attempt of a call.
    async fn headers(&self) -> Result<Vec<(String, String)>, Detail> {
        match &self.credentials {
            Some(credentials) if self.transport() == Transport::Http => {
                credentials.headers().await.map_err(|why| Detail::failed(Failure::RefusedHere, why))
            }
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// A new child, or a path to the endpoint: nothing is sent.
    async fn open(&self) -> Result<Open, Unready> {
        let (inbox, inbound) = Inbox::new();
        let link = match &self.target {
            Target::Child(command) => {
                // What cannot be started now cannot be started in a moment either.
                let refused = |error: ClientError| Unready::refused(error.to_string());
                let program = stdio::check(command).map_err(refused)?;
                self.turn().await?;
                let stall = self.config.write_stall;
                self.keep(stdio::Connection::start(command, program, stall, inbox).await.map_err(refused)?)
            }
            Target::Streams(opener) => {
                self.turn().await?;
                let streams = (opener.0)().await.map_err(|error| {
                    let name = &self.config.name;
                    Unready::new(format!("no connection to server {name}: {error}; check that it runs"))
                })?;
                self.keep(stdio::Connection::over(streams, self.config.write_stall, inbox))
            }
            Target::Url(pool) => Link::Http(Arc::new(http::Connection::modern(Arc::clone(pool)))),
        };
        Ok(Open::new(link, inbound))
    }

    /// Waits until the last child is gone and a new one may be started.
    async fn turn(&self) -> Result<(), Unready> {
        let mut last_end = None;
        if let Some(last) = self.child() {
            last.close(REPLACED).await;
            last_end = last.end();
        }
        if let Some((lived, _)) = &last_end {
            self.restarts().ended(*lived);
        }
        loop {
            let now = self.clock.now().mono;
            let permit = self.restarts().start(now);
            match permit {
                Permit::Now => return Ok(()),
                Permit::Wait { until } => self.clock.sleep_until(Some(until)).await,
                Permit::Refused { until } => {
                    let sentence = self.started_too_often(until.saturating_since(now), last_end);
                    return Err(Unready::refused(sentence));
                }
            }
        }
    }

    fn keep(&self, child: stdio::Connection) -> Link {
        let child = Arc::new(child);
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&child));
        Link::Stdio(child)
    }

    fn started_too_often(&self, pause: Duration, last_end: Option<(Duration, String)>) -> String {
        let (name, budget) = (&self.config.name, self.config.restarts);
        let why = last_end.map_or_else(String::new, |(_, why)| format!(" ({why})"));
        format!(
            "server {name} was started {} times within {:?} and did not stay{why}; it is started again in {:.1} s at \
             the earliest, look at its log until then",
            budget.starts.max(1),
            budget.window,
            pause.as_secs_f64()
        )
    }

    fn child(&self) -> Option<Arc<stdio::Connection>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn restarts(&self) -> std::sync::MutexGuard<'_, Restarts> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(pool: &Arc<http::Pool>) -> Open {
        let (inbox, inbound) = Inbox::new();
        Open::new(Link::Http(Arc::new(http::Connection::session(Arc::clone(pool), inbox))), inbound)
    }

    fn seal(&self, open: Open, revision: Revision, facts: Option<Facts>) -> Arc<Ready> {
        let Open { link, inbound } = open;
        let asking = Asking::default();
        let strays = Strays::default();
        let inbound = inbound.lock().unwrap_or_else(PoisonError::into_inner).take();
        let looked_after = inbound.map(|inbound| {
            let host = inbound::Host {
                server: self.config.name.clone(),
                handler: Arc::clone(&self.handler),
                notices: self.notices.clone(),
                progress: self.progress.clone(),
                limit: self.config.question_limit,
                strays: strays.clone(),
            };
            inbound::look_after(host, link.clone(), revision, inbound, asking.clone())
        });
        let inbound = tokio::spawn(async move {
            if let Some(looked_after) = looked_after {
                looked_after.await;
            }
        });
        Arc::new(Ready {
            link,
            revision,
            facts,
            epoch: self.epochs.fetch_add(1, Ordering::Relaxed) + 1,
            asking,
            strays,
            lost: CancellationToken::new(),
            _inbound: AbortOnDropHandle::new(inbound),
        })
    }

    /// One exchange that is no attempt of a call.
    async fn ask(
        &self,
        link: &Link,
        revision: Revision,
        method: &str,
        params: &str,
        operation: Operation,
    ) -> Exchanged {
        let id = RequestId::from(self.next_id());
        let hop = Hop { transport: link.transport(), era: revision.era() };
        // The start limit above bounds all of it.
        let limits = Limits::NONE;
        let spec = Spec { id, operation, hop, limits, token: None, progress_interval: Duration::ZERO };
        let metadata = Metadata { revision, capabilities: &self.handler.capabilities(), ..Metadata::NONE };
        // These params are our own, so they are an object.
        let params = message::params_with(params, &metadata).unwrap_or_default();
        let headers = match self.headers().await {
            Ok(headers) => headers,
            Err(detail) => {
                let (stdio, network) = (false, Duration::ZERO);
                return Exchanged { end: End::Lost, sent: false, detail, stdio, network };
            }
        };
        let leg = link.leg(Outgoing { spec: &spec, method, params: &params, headers });
        let id = spec.id.clone();
        let exchanged = drive::request(self.clock, spec, leg, &[], None, &mut Deaf).await;
        link.forget(&id);
        exchanged
    }

    fn unsupported(&self, supported: &[String]) -> Unready {
        let ours: Vec<&str> = Revision::ALL.into_iter().map(Revision::as_str).collect();
        let theirs = match supported {
            [] => "none that we do".to_owned(),
            names => names.join(", "),
        };
        let sentence = format!(
            "server {} speaks {theirs}, and we speak {}; change `era`, or update one of the two",
            self.config.name,
            ours.join(", ")
        );
        Unready { unsupported: true, ..Unready::new(sentence) }
    }
}

impl Drop for Connector {
    /// Nobody is left who could use its connection, nor who looks after it.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// A connection of which it is not decided yet what it speaks.
#[derive(Clone)]
struct Open {
    link: Link,
    inbound: Arc<Mutex<Option<inbound::Receiver>>>,
}

impl Open {
    fn new(link: Link, inbound: inbound::Receiver) -> Self {
        Self { link, inbound: Arc::new(Mutex::new(Some(inbound))) }
    }
}

/// Takes the connection out of use when it ends.
async fn watch_over(connector: std::sync::Weak<Connector>, ready: Arc<Ready>, closing: CancellationToken) {
    let lost = ready.lost.clone();
    let gone = tokio::select! {
        gone = ready.link.gone() => gone,
        () = lost.cancelled() => return,
        () = closing.cancelled() => return,
    };
    if let Some(connector) = connector.upgrade() {
        if !gone.by_us {
            tracing::warn!(server = %connector.config.name, "connection lost: {}", gone.why);
        }
        connector.discard(&ready);
    }
}

/// Hears nothing of a request but its end.
struct Deaf;

impl drive::Ears for Deaf {
    fn progress(&mut self, _progress: Progress) {}

    fn note(&mut self, _method: &str, _params: &Bytes) {}

    fn ignored(&mut self, _what: Ignored) {}
}

/// What an exchange says of the era, and of the server.
fn evidence_of(exchanged: &Exchanged, spoken: Revision, method: &str) -> (Evidence, Option<Facts>) {
    let detail = &exchanged.detail;
    let evidence = match &exchanged.end {
        End::Answered(Reply::Result(result)) => {
            return match discovered(result, spoken).filter(|_| method == "server/discover") {
                Some((versions, facts)) => (Evidence::Discovered(versions), Some(facts)),
                None => (Evidence::OtherResult, None),
            };
        }
        End::Answered(Reply::Error(error)) => match detail.status {
            Some(401 | 403 | 429 | 500..=599) => Evidence::Nothing,
            _ => error_evidence(error, detail.status),
        },
        End::Lost => match (detail.failure, detail.status) {
            (_, Some(400 | 404 | 405)) => Evidence::NoSuchEndpoint,
            (_, Some(401 | 403 | 429 | 500..=599)) => Evidence::Nothing,
            (Some(Failure::Unreadable), _) => Evidence::OtherResult,
            (_, Some(_)) => Evidence::OtherError,
            (_, None) if spoken_over_stdio(exchanged) => Evidence::Exited,
            (_, None) => Evidence::Nothing,
        },
        End::Cancelled | End::CancelledByPeer | End::TimedOut(_) => Evidence::Nothing,
    };
    (evidence, None)
}

/// On stdio the loss of a request that left is the end of the process.
const fn spoken_over_stdio(exchanged: &Exchanged) -> bool {
    exchanged.sent
        && matches!(exchanged.detail.failure, None | Some(Failure::ConnectionLost))
        && exchanged.stdio
}

fn error_evidence(error: &[u8], status: Option<u16>) -> Evidence {
    let text = std::str::from_utf8(error).unwrap_or_default();
    let Some(object) = envelope::error_object_of(text) else { return Evidence::OtherError };
    match object.code {
        -32_022 => match supported_in(object.data.map(serde_json::value::RawValue::get)) {
            Some(versions) => Evidence::VersionRefused(versions),
            None => Evidence::OtherError,
        },
        -32_020 | -32_021 => Evidence::ModernError,
        -32_601 if status == Some(404) => Evidence::UnknownMethod,
        _ if status == Some(404) || status == Some(405) => Evidence::NoSuchEndpoint,
        _ => Evidence::OtherError,
    }
}

/// `data.supported` of a refused version.
pub(super) fn supported_in(data: Option<&str>) -> Option<Vec<String>> {
    let data = Members::parse(data?).ok()?;
    serde_json::from_str(data.get("supported")?).ok()
}

fn discovered(result: &[u8], spoken: Revision) -> Option<(Vec<String>, Facts)> {
    let result = Members::parse(std::str::from_utf8(result).ok()?).ok()?;
    let versions = serde_json::from_str(result.get("supportedVersions")?).ok()?;
    let capabilities = result.get("capabilities").filter(|it| it.starts_with('{'))?;
    let meta = result.get("_meta").and_then(|meta| Members::parse(meta).ok());
    let facts = Facts {
        revision: spoken,
        capabilities: capabilities.to_owned(),
        info: meta.and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo").map(str::to_owned)),
        instructions: result.get_str("instructions"),
    };
    Some((versions, facts))
}

/// What a `DiscoverResult` says.
pub(super) fn facts_of_discover(result: &[u8], spoken: Revision) -> Option<Facts> {
    discovered(result, spoken).map(|(_, facts)| facts)
}

/// The answer to `initialize`: facts, or the version that we do not speak; `None` if it is no such answer.
fn initialized(exchanged: &Exchanged) -> Option<Result<Facts, String>> {
    let End::Answered(Reply::Result(result)) = &exchanged.end else { return None };
    let result = Members::parse(std::str::from_utf8(result).ok()?).ok()?;
    let version = result.get_str("protocolVersion")?;
    let Some(revision) =
        Revision::from_name(&version).filter(|revision| revision.era() == steadfast_core::hop::Era::Legacy)
    else {
        // The oldest is spoken in one shape only, over its own transport; its messages are those of the next.
        return Some(if version == "2024-11-05" {
            Ok(facts_of(&result, Revision::V2025_03_26))
        } else {
            Err(version)
        });
    };
    Some(Ok(facts_of(&result, revision)))
}

fn facts_of(result: &Members<'_>, revision: Revision) -> Facts {
    Facts {
        revision,
        capabilities: result.get("capabilities").filter(|it| it.starts_with('{')).unwrap_or("{}").to_owned(),
        info: result.get("serverInfo").map(str::to_owned),
        instructions: result.get_str("instructions"),
    }
}

/// Why nothing is decided, for whoever waits.
fn undecided(exchanged: Exchanged) -> Detail {
    let why = told(&exchanged);
    let mut detail = exchanged.detail;
    // The probe is no attempt of the call: of that nothing left.
    detail.failure = match detail.failure {
        Some(Failure::Unauthenticated) => Some(Failure::Unauthenticated),
        Some(Failure::RateLimited) => Some(Failure::RateLimited),
        _ => Some(Failure::NothingLeft),
    };
    detail.remark = why.or(detail.remark);
    detail
}

/// What the peer, or the transport, says.
fn told(exchanged: &Exchanged) -> Option<String> {
    match &exchanged.end {
        End::Answered(Reply::Error(error)) => {
            let object = envelope::error_object_of(std::str::from_utf8(error).ok()?)?;
            let message: String = object.message.chars().filter(|c| !c.is_control()).take(200).collect();
            Some(format!("it answered with error {}: {}", object.code, object::string(&message)))
        }
        End::Answered(Reply::Result(_)) => Some("its answer is no result of that method".to_owned()),
        End::TimedOut(_) | End::Lost | End::Cancelled | End::CancelledByPeer => {
            exchanged.detail.remark.clone()
        }
    }
}
