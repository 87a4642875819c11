//! One logical call: its turn, its attempts, what each came to, and what the caller is told.

#![allow(
    clippy::result_large_err,
    reason = "a miss is made once a failed attempt, beside a round trip to a server"
)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use steadfast_core::call::{Attempts, Failed};
use steadfast_core::envelope;
use steadfast_core::error::{Kind, Outcome};
use steadfast_core::exchange::requester::End;
use steadfast_core::exchange::{Clock as Limit, Ignored, Limits, Operation, Progress, Reply, Spec};
use steadfast_core::hop::{Era, Revision, Transport};
use steadfast_core::ids::{ProgressToken, RequestId};
use steadfast_core::object::Members;
use steadfast_core::policy::breaker::{Breaker, Class, Observed, Permit};
use steadfast_core::policy::{Failure, RetryClass, Verdict};
use steadfast_core::time::Instant;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::drive::{self, Ears, Exchanged};
use super::error::{Category, Error};
use super::handler::{Credentials, Handler};
use super::leg::{Detail, Outgoing};
use super::options::{CallOptions, Run};
use super::ready::{Connector, Ready, supported_in};
use super::record::{Record, Recorder};
use crate::clock::Clock;
use crate::message::{self, Metadata};

/// What all calls of one client share.
pub(super) struct Pipeline {
    pub(super) config: Arc<Config>,
    pub(super) clock: Clock,
    pub(super) connector: Arc<Connector>,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) credentials: Option<Arc<dyn Credentials>>,
    pub(super) recorder: Arc<dyn Recorder>,
    pub(super) closing: CancellationToken,
    pub(super) breakers: Arc<Breakers>,
    /// Spreads pauses and names calls; random once a client.
    pub(super) seed: u64,
    slots: Semaphore,
    waiting: AtomicUsize,
    calls: AtomicU64,
    /// How long the last answered attempt took, in microseconds: what the next one is expected to take.
    estimate_us: AtomicU64,
}

/// The breakers of one server and tenant: where writes fail, reads may still be served. Clients of one tenant may share
/// them; tenants never do (D-46).
#[derive(Debug)]
pub struct Breakers([Mutex<Breaker>; 3]);

impl Breakers {
    /// All closed.
    pub fn new(config: &Config) -> Self {
        Self(std::array::from_fn(|_| Mutex::new(Breaker::new(config.breaker))))
    }

    fn of(&self, class: Class) -> std::sync::MutexGuard<'_, Breaker> {
        let at = match class {
            Class::Read => 0,
            Class::Write => 1,
            Class::List => 2,
        };
        self.0[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all are closed.
    pub fn are_closed(&self) -> bool {
        self.0.iter().all(|one| one.lock().unwrap_or_else(PoisonError::into_inner).as_str() == "closed")
    }
}

/// One request as its caller means it.
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    /// Complete but for the `_meta` keys of the hop; one JSON object.
    pub(super) params: &'a str,
    /// The tool or prompt, for the record.
    pub(super) name: Option<&'a str>,
    pub(super) class: RetryClass,
    pub(super) breaker: Class,
    /// The key, where it travels in `_meta`; where it stands in the arguments it is there already.
    pub(super) key: Option<&'a str>,
    pub(super) keyed: bool,
    pub(super) rejects: &'a [i64],
    pub(super) limits: Limits,
    pub(super) operation: Operation,
    /// Which `resultType` beside `complete` this method may be answered with.
    pub(super) kinds: Kinds,
    /// The call that it is a leg of; a new one if absent.
    pub(super) leg_of: Option<&'a Done>,
    pub(super) mirrors: &'a (dyn Fn() -> Vec<(String, String)> + Send + Sync),
}

/// Which results a method may have (MRT-04, TSK-05, MSG-15).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    pub(super) input_required: bool,
    pub(super) task: bool,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) result: Bytes,
    pub(super) kind: ResultKind,
    pub(super) revision: Revision,
    pub(super) call_id: String,
    pub(super) trace_id: String,
    pub(super) attempts: u32,
    pub(super) round: u32,
}

/// `resultType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultKind {
    Complete,
    InputRequired,
    Task,
}

/// Why there is no result, before it is an error for the caller.
struct Miss {
    kind: Kind,
    category: Category,
    failed: Failed,
    sentence: String,
    clock: Option<Limit>,
    /// The peer's own error object.
    error: Option<Bytes>,
    challenge: Option<String>,
}

impl Miss {
    fn local(category: Category, sentence: impl Into<String>) -> Self {
        Self {
            kind: Kind::Local,
            category,
            failed: Failed {
                failure: Failure::RefusedHere,
                sent: false,
                retry_after: None,
                cancelled: category == Category::ClientCancelled,
                estimate: Duration::ZERO,
            },
            sentence: sentence.into(),
            clock: None,
            error: None,
            challenge: None,
        }
    }
}

impl Pipeline {
    #[allow(clippy::too_many_arguments, reason = "it is put together in one place")]
    pub(super) fn new(
        config: Arc<Config>,
        clock: Clock,
        connector: Arc<Connector>,
        handler: Arc<dyn Handler>,
        credentials: Option<Arc<dyn Credentials>>,
        recorder: Arc<dyn Recorder>,
        breakers: Arc<Breakers>,
        closing: CancellationToken,
        seed: u64,
    ) -> Self {
        let slots = Semaphore::new(config.concurrency.clamp(1, Semaphore::MAX_PERMITS));
        Self {
            config,
            clock,
            connector,
            handler,
            credentials,
            recorder,
            closing,
            breakers,
            seed,
            slots,
            waiting: AtomicUsize::new(0),
            calls: AtomicU64::new(1),
            estimate_us: AtomicU64::new(0),
        }
    }

    /// Asks, as often as may be, and says what came of it.
    pub(super) async fn ask(&self, ask: Ask<'_>, options: &mut CallOptions) -> Result<Done, Error> {
        let started = self.clock.now().mono;
        let (call_id, trace, round) = match ask.leg_of {
            Some(done) => (done.call_id.clone(), self.trace_within(&done.trace_id), done.round + 1),
            None => (self.new_call(), self.trace(options), 0),
        };
        let mut record = Record {
            call_id: call_id.clone(),
            trace_id: trace.id().to_owned(),
            agent_run_id: options.run.as_ref().map(|run| run.id().to_owned()),
            server_key: self.config.name.clone(),
            method: ask.method.to_owned(),
            tool_name: ask.name.map(str::to_owned),
            round,
            keyed: ask.keyed,
            ..Record::default()
        };
        let deadline = self.deadline(started, &ask, options);
        let mut attempts = Attempts::new(ask.class, self.config.retry, self.seed, deadline);
        // One slot for all attempts of a call: a retry never waits behind those that came later (D-42). A listen may
        // last for ever and takes none.
        let slot = match ask.operation {
            Operation::Listen => Ok(None),
            Operation::Ordinary | Operation::Initialize | Operation::Probe => {
                self.turn(deadline, options).await.map(Some)
            }
        };
        let waited = self.clock.now().mono.saturating_since(started);
        record.queue_wait_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let _slot = match slot {
            Ok(slot) => slot,
            Err(miss) => return Err(self.give_up(record, &miss, Outcome::NotExecuted, "stop: refused here")),
        };
        let mut fresh_credentials = false;
        loop {
            let mut record = record.clone();
            let miss = match self.attempt(&ask, options, &mut attempts, &trace, deadline, &mut record).await {
                Ok((result, kind, revision)) => {
                    let attempts = attempts.count();
                    let trace_id = trace.id().to_owned();
                    return Ok(Done { result, kind, revision, call_id, trace_id, attempts, round });
                }
                Err(miss) => miss,
            };
            if miss.failed.failure == Failure::Unauthenticated
                && !fresh_credentials
                && let Some(credentials) = &self.credentials
                && credentials.refused(miss.challenge.as_deref()).await
            {
                fresh_credentials = true;
                record.retryable = true;
                self.write(record, &miss, Outcome::NotExecuted, "retry: new credentials");
                continue;
            }
            let (verdict, outcome) = attempts.failed(self.clock.now(), &miss.failed);
            // What was corrected cannot be, so the same would come again.
            let verdict = match verdict {
                Verdict::Mend if !Self::is_mended(&miss) => {
                    return Err(self.give_up(record, &miss, outcome, "stop: final"));
                }
                verdict => verdict,
            };
            match verdict {
                Verdict::Stop(stop) => return Err(self.give_up(record, &miss, outcome, stop.as_str())),
                Verdict::Mend => {
                    record.retryable = true;
                    self.write(record, &miss, outcome, "mend once");
                }
                Verdict::Retry { after } => {
                    record.retryable = true;
                    self.write(record.clone(), &miss, outcome, "retry");
                    let at = self.clock.now().mono.saturating_add(after);
                    let gave_up = tokio::select! {
                        () = self.clock.sleep_until(Some(at)) => None,
                        miss = self.thrown(options) => Some(miss),
                    };
                    if let Some(gave_up) = gave_up {
                        record.attempt = 0;
                        return Err(self.give_up(record, &gave_up, outcome, "stop: cancelled"));
                    }
                }
            }
        }
    }

    /// One attempt. What the record says of it is complete when it ends, but for the verdict.
    async fn attempt(
        &self,
        ask: &Ask<'_>,
        options: &mut CallOptions,
        attempts: &mut Attempts,
        trace: &Span,
        deadline: Instant,
        record: &mut Record,
    ) -> Result<(Bytes, ResultKind, Revision), Miss> {
        self.may_go_on(options)?;
        let ready = self.connection(options, deadline).await;
        record.attempt = attempts.begin();
        let ready = ready?;
        record.transport = Some(ready.link.transport().as_str().to_owned());
        record.protocol_version = Some(ready.revision.as_str().to_owned());
        let permit = self.breakers.of(ask.breaker).permit(self.clock.now());
        let guard = match permit {
            Permit::Pass => Permitted::new(self, ask.breaker, false),
            Permit::Probe => Permitted::new(self, ask.breaker, true),
            Permit::Refused { .. } => {
                let sentence = format!(
                    "server {} failed too often of late, so nothing was sent to it; try again later",
                    self.config.name
                );
                return Err(Miss::local(Category::BreakerOpen, sentence));
            }
        };
        if let Some(run) = &options.run {
            run.spend().map_err(|()| budget(run))?;
        }
        let outgoing = self.prepare(ask, options, &ready, trace, deadline).await?;
        let Prepared { spec, params, headers } = outgoing;
        record.request_id = Some(spec.id.to_json());
        let leg = ready.link.leg(Outgoing { spec: &spec, method: ask.method, params: &params, headers });
        let id = spec.id.clone();
        let run_cancel = options.run.as_ref().map(|run| run.cancel_token().clone()).unwrap_or_default();
        let cancel = options.cancel.clone();
        let switches = [(&cancel, None), (&run_cancel, None), (&self.closing, Some("the client is closing"))];
        let mut ears = Listener { options, server: &self.config.name, handler: &*self.handler };
        let holding = (ready.revision.era() == Era::Legacy).then(|| ready.asking.subscribe());
        let exchanged = drive::request(self.clock, spec, leg, &switches, holding, &mut ears).await;
        ready.link.forget(&id);
        record.sent = exchanged.sent;
        record.answered = matches!(exchanged.end, End::Answered(_));
        if exchanged.sent {
            record.network_time_ms = Some(u64::try_from(exchanged.network.as_millis()).unwrap_or(u64::MAX));
        }
        if ready.hop().transport == Transport::Http && ready.revision.era() == Era::Modern && record.answered
        {
            record.headers_equal = Some(true);
        }
        let judged = self.judge(ask, &ready, exchanged);
        match &judged {
            Ok(_) => guard.report(Observed::Success),
            Err(miss) => {
                if miss.failed.failure == Failure::HeadersRefused {
                    record.headers_equal = Some(false);
                }
                guard.report(Observed::of(miss.failed.failure));
            }
        }
        if let Ok((result, ..)) = &judged {
            record.outcome = Outcome::Executed.as_str().to_owned();
            if is_error(result) {
                record.error_kind = Some("tool".to_owned());
            }
            record.ended_unix_ms = self.clock.now().wall.as_unix_millis();
            self.recorder.record(record);
        }
        judged
    }

    /// What must still hold before anything leaves.
    fn may_go_on(&self, options: &CallOptions) -> Result<(), Miss> {
        if self.closing.is_cancelled() {
            return Err(Miss::local(Category::Closed, "the client is closed"));
        }
        if options.cancel.is_cancelled()
            || options.run.as_ref().is_some_and(|run| run.cancel_token().is_cancelled())
        {
            return Err(Miss::local(Category::ClientCancelled, "the call was cancelled before it was sent"));
        }
        Ok(())
    }

    /// Waits for a turn: a place in the queue, and no longer than may be.
    async fn turn(&self, deadline: Instant, options: &CallOptions) -> Result<SemaphorePermit<'_>, Miss> {
        self.may_go_on(options)?;
        if let Ok(slot) = self.slots.try_acquire() {
            return Ok(slot);
        }
        let _place = Place::take(&self.waiting, self.config.queue).ok_or_else(|| {
            let sentence = format!(
                "{} requests to server {} run and {} wait, which is as many as may; try again later",
                self.config.concurrency, self.config.name, self.config.queue
            );
            Miss::local(Category::QueueFull, sentence)
        })?;
        let latest = self.clock.now().mono.saturating_add(self.config.queue_wait).min(deadline);
        tokio::select! {
            slot = self.slots.acquire() => slot.map_err(|_| Miss::local(Category::Closed, "the client is closed")),
            () = self.clock.sleep_until(Some(latest)) => Err(Miss::local(
                Category::QueueWait,
                format!(
                    "the request waited {:?} for its turn behind others to server {}; try again later",
                    self.config.queue_wait, self.config.name
                ),
            )),
            miss = self.thrown(options) => Err(miss),
        }
    }

    async fn connection(&self, options: &CallOptions, deadline: Instant) -> Result<Arc<Ready>, Miss> {
        let made = tokio::select! {
            made = self.connector.ready() => made,
            miss = self.thrown(options) => return Err(miss),
            () = self.clock.sleep_until(Some(deadline)) => {
                let mut miss = Miss::local(
                    Category::Deadline,
                    format!("server {} was not ready before the call's deadline", self.config.name),
                );
                miss.clock = Some(Limit::Maximum);
                return Err(miss);
            }
        };
        made.map_err(|unready| {
            let category = match unready.detail.failure {
                _ if unready.unsupported => Category::Unsupported,
                Some(Failure::Unauthenticated) => Category::Authorization,
                Some(Failure::RefusedHere) => Category::Spawn,
                _ => Category::Connect,
            };
            let mut miss = Miss::local(category, unready.detail.remark.clone().unwrap_or_default());
            miss.kind = Kind::Transport;
            miss.challenge.clone_from(&unready.detail.challenge);
            miss.failed.retry_after = unready.detail.retry_after;
            if !unready.unsupported {
                miss.failed.failure = unready.detail.failure.unwrap_or(Failure::NothingLeft);
            }
            miss
        })
    }

    /// Ends when the caller, its run or the client gives up.
    async fn thrown(&self, options: &CallOptions) -> Miss {
        let run = async {
            match &options.run {
                Some(run) => run.cancel_token().cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = options.cancel.cancelled() => {}
            () = run => {}
            () = self.closing.cancelled() => return Miss::local(Category::Closed, "the client was closed"),
        }
        Miss::local(Category::ClientCancelled, "the call was cancelled")
    }

    async fn prepare(
        &self,
        ask: &Ask<'_>,
        options: &CallOptions,
        ready: &Ready,
        trace: &Span,
        deadline: Instant,
    ) -> Result<Prepared, Miss> {
        let serial = self.connector.next_id();
        let token = options.on_progress.is_some().then(|| token_of(serial));
        let parent = trace.parent(serial);
        let metadata = Metadata {
            revision: ready.revision,
            capabilities: &self.handler.capabilities(),
            token: token.as_ref(),
            key: ask.key,
            trace_parent: Some(&parent),
            log_level: options.log_level.as_deref(),
        };
        let params = message::params_with(ask.params, &metadata).map_err(|_| {
            Miss::local(Category::Validation, "the params are not one JSON object; wrap them in {…}")
        })?;
        let mut headers = Vec::new();
        if ready.link.transport() == Transport::Http {
            if ready.revision.era() == Era::Modern {
                headers = (ask.mirrors)();
            }
            if let Some(credentials) = &self.credentials {
                let fetched = tokio::select! {
                    fetched = credentials.headers() => fetched,
                    miss = self.thrown(options) => return Err(miss),
                };
                headers.extend(fetched.map_err(|why| Miss::local(Category::Authorization, why))?);
            }
        }
        let left = deadline.saturating_since(self.clock.now().mono);
        let maximum = ask.limits.maximum().min(left);
        // Both are positive, or the deadline has been reached.
        let limits = match ask.operation {
            Operation::Listen => Ok(Limits::NONE),
            _ => Limits::new(ask.limits.idle().min(maximum), maximum),
        };
        let limits = limits.map_err(|_| {
            let mut miss =
                Miss::local(Category::Deadline, "the call's deadline was reached before it was sent");
            miss.clock = Some(Limit::Maximum);
            miss
        })?;
        let spec = Spec {
            id: RequestId::from(serial),
            operation: ask.operation,
            hop: ready.hop(),
            limits,
            token,
            progress_interval: options.progress_interval,
        };
        Ok(Prepared { spec, params, headers })
    }

    /// What the end of an exchange means.
    fn judge(
        &self,
        ask: &Ask<'_>,
        ready: &Arc<Ready>,
        exchanged: Exchanged,
    ) -> Result<(Bytes, ResultKind, Revision), Miss> {
        let Exchanged { end, sent, detail, network, .. } = exchanged;
        let server = &self.config.name;
        let estimate = Duration::from_micros(self.estimate_us.load(Ordering::Relaxed));
        let failed = |failure| Failed {
            failure,
            sent,
            retry_after: detail.retry_after,
            cancelled: failure == Failure::Cancelled,
            estimate,
        };
        let miss = |kind, category, failure, sentence: String| Miss {
            kind,
            category,
            failed: failed(failure),
            sentence,
            clock: None,
            error: None,
            challenge: detail.challenge.clone(),
        };
        match end {
            End::Answered(Reply::Result(result)) => {
                let took = u64::try_from(network.as_micros()).unwrap_or(u64::MAX);
                self.estimate_us.store(took, Ordering::Relaxed);
                match read_result(&result, ask.kinds) {
                    Ok(Read::Result(kind)) => Ok((result, kind, ready.revision)),
                    Ok(Read::Declared(own)) => Err(own.miss(failed, server)),
                    Err(why) => {
                        let sentence = format!("server {server} answered with what is no result: {why}");
                        Err(miss(Kind::Transport, Category::InvalidResponse, Failure::Unreadable, sentence))
                    }
                }
            }
            End::Answered(Reply::Error(error)) => Err(self.refused(ask, ready, error, &detail, failed)),
            End::Cancelled if self.closing.is_cancelled() => Err(miss(
                Kind::Local,
                Category::Closed,
                Failure::Cancelled,
                "the client was closed".to_owned(),
            )),
            End::Cancelled => {
                let sentence = "the call was cancelled".to_owned();
                Err(miss(Kind::Local, Category::ClientCancelled, Failure::Cancelled, sentence))
            }
            End::TimedOut(clock) => {
                let (failure, limit) = match clock {
                    Limit::Idle => (Failure::TimedOutIdle, ask.limits.idle()),
                    Limit::Maximum => (Failure::TimedOutMaximum, ask.limits.maximum()),
                };
                let sentence = match clock {
                    Limit::Idle => format!("server {server} was silent for {limit:?}, the idle limit"),
                    Limit::Maximum => {
                        format!("the call to server {server} took as long as it may ({limit:?} at most)")
                    }
                };
                Err(Miss { clock: Some(clock), ..miss(Kind::Local, Category::Deadline, failure, sentence) })
            }
            End::CancelledByPeer => {
                let sentence = format!("server {server} ended the subscription");
                Err(miss(Kind::Transport, Category::StreamEnded, Failure::StreamEnded, sentence))
            }
            End::Lost => {
                let failure = detail.failure.unwrap_or(Failure::ConnectionLost);
                let category = match failure {
                    Failure::NothingLeft => Category::Connect,
                    Failure::StreamEnded => Category::StreamEnded,
                    Failure::Unreadable => Category::InvalidResponse,
                    Failure::Unauthenticated | Failure::Forbidden => Category::Authorization,
                    Failure::ConnectionLost => Category::TransportLost,
                    _ => Category::HttpStatus,
                };
                if failure == Failure::SessionGone {
                    self.connector.discard(ready);
                }
                let why =
                    detail.remark.clone().unwrap_or_else(|| "it went away before its answer".to_owned());
                let sentence = format!("server {server} gave no answer: {why}");
                Err(miss(Kind::Transport, category, failure, sentence))
            }
        }
    }

    /// A JSON-RPC error: the peer's, or one of ours from a hop further on (ruling 9).
    fn refused(
        &self,
        ask: &Ask<'_>,
        ready: &Arc<Ready>,
        error: Bytes,
        detail: &Detail,
        failed: impl Fn(Failure) -> Failed,
    ) -> Miss {
        let text = std::str::from_utf8(&error).unwrap_or_default();
        let object = envelope::error_object_of(text);
        let data = object.as_ref().and_then(|object| object.data).map(serde_json::value::RawValue::get);
        if let Some(own) = data.and_then(Declared::of) {
            return own.miss(failed, &self.config.name);
        }
        let code = object.as_ref().map_or(0, |object| object.code);
        let names_meta = object.as_ref().is_some_and(|object| object.message.contains("_meta"));
        let failure = match &object {
            Some(_) => detail.of_error(code, names_meta, ask.rejects),
            None => Failure::Unreadable,
        };
        if failure == Failure::SessionGone {
            self.connector.discard(ready);
        }
        // Once: the attempts count it.
        if failure == Failure::VersionRefused
            && let Some(supported) = supported_in(data)
            && !self.connector.version_refused(ready, supported)
        {
            return Miss {
                kind: Kind::Protocol,
                category: Category::Unsupported,
                failed: Failed { retry_after: None, ..failed(Failure::NotDispatched) },
                sentence: String::new(),
                clock: None,
                error: Some(error),
                challenge: None,
            };
        }
        Miss {
            kind: Kind::Protocol,
            category: Category::InvalidResponse,
            failed: failed(failure),
            sentence: String::new(),
            clock: None,
            challenge: detail.challenge.clone(),
            error: Some(error),
        }
    }

    /// Whether what was refused is corrected already: the connector knows another version. Refused headers are made of
    /// the tool's schema, and would come out the same.
    const fn is_mended(miss: &Miss) -> bool {
        matches!(miss.failed.failure, Failure::VersionRefused)
    }

    fn write(&self, mut record: Record, miss: &Miss, outcome: Outcome, verdict: &str) {
        record.cancelled = miss.failed.cancelled;
        record.error_kind = Some(miss.kind.as_str().to_owned());
        record.error_code = Some(match &miss.error {
            Some(error) => code_of(error).to_string(),
            None => miss.category.as_str().to_owned(),
        });
        record.outcome = outcome.as_str().to_owned();
        record.verdict = Some(verdict.to_owned());
        record.ended_unix_ms = self.clock.now().wall.as_unix_millis();
        tracing::info!(
            server = %record.server_key, call = %record.call_id, method = %record.method, attempt = record.attempt,
            error = record.error_code, outcome = %record.outcome, verdict, "attempt failed"
        );
        self.recorder.record(&record);
    }

    fn give_up(&self, record: Record, miss: &Miss, outcome: Outcome, verdict: &str) -> Error {
        let call_id = record.call_id.clone();
        let sent = record.sent;
        self.write(record, miss, outcome, verdict);
        match (&miss.error, miss.kind) {
            (Some(error), _) => {
                let text = String::from_utf8_lossy(error).into_owned();
                let object = envelope::error_object_of(&text);
                let code = object.as_ref().map_or(0, |object| object.code);
                let message = object.map_or_else(String::new, |object| object.message.into_owned());
                Error::Protocol { code, message, raw: text, outcome, call_id }
            }
            (None, Kind::Transport | Kind::Protocol) => {
                let sentence = miss.sentence.clone();
                Error::Transport { category: miss.category, sent, outcome, sentence, call_id }
            }
            (None, Kind::Local) => Error::Local {
                category: miss.category,
                clock: miss.clock,
                outcome,
                sentence: miss.sentence.clone(),
                call_id,
            },
        }
    }

    /// When the call must be over: its own maximum, the caller's deadline and that of its run, whichever is first.
    fn deadline(&self, started: Instant, ask: &Ask<'_>, options: &CallOptions) -> Instant {
        let mut deadline = match ask.operation {
            Operation::Listen => Instant::from_nanos(u64::MAX),
            Operation::Ordinary | Operation::Initialize | Operation::Probe => {
                started.saturating_add(ask.limits.maximum())
            }
        };
        if let Some(within) = options.deadline {
            deadline = deadline.min(started.saturating_add(within));
        }
        if let Some(left) = options.run.as_ref().and_then(Run::time_left) {
            deadline = deadline.min(started.saturating_add(left));
        }
        deadline
    }

    fn new_call(&self) -> String {
        let serial = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{serial}", self.seed)
    }

    /// The caller's trace, or a new one.
    fn trace(&self, options: &CallOptions) -> Span {
        match &options.trace {
            Some(trace) => {
                Span { id: trace.id().to_owned(), flags: trace.parent()[53..55].to_owned(), seed: self.seed }
            }
            None => {
                let mut bytes = [0_u8; 16];
                // Without randomness there is the client's own number, which is unlike others' at least.
                if getrandom::fill(&mut bytes).is_err() {
                    bytes[..8].copy_from_slice(&self.seed.to_be_bytes());
                }
                let id = bytes.iter().fold(String::new(), |id, byte| id + &format!("{byte:02x}"));
                Span { id, flags: "00".to_owned(), seed: self.seed }
            }
        }
    }

    fn trace_within(&self, id: &str) -> Span {
        Span { id: id.to_owned(), flags: "00".to_owned(), seed: self.seed }
    }
}

struct Prepared {
    spec: Spec,
    params: String,
    headers: Vec<(String, String)>,
}

/// The trace that a call belongs to; every attempt is a span of its own in it (TRC-06).
struct Span {
    id: String,
    flags: String,
    seed: u64,
}

impl Span {
    fn id(&self) -> &str {
        &self.id
    }

    fn parent(&self, serial: i64) -> String {
        let span = steadfast_core::rng::Rng::new(self.seed ^ serial.unsigned_abs()).next_u64() | 1;
        format!("00-{}-{span:016x}-{}", self.id, self.flags)
    }
}

/// A place in the queue; given back on every path.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let taken = waiting.fetch_add(1, Ordering::Relaxed);
        let place = Self(waiting);
        (taken < most).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A breaker's permit; one that is dropped, because its caller was, told nothing of the server.
struct Permitted<'a> {
    pipeline: &'a Pipeline,
    class: Class,
    probe: bool,
    observed: Observed,
}

impl<'a> Permitted<'a> {
    const fn new(pipeline: &'a Pipeline, class: Class, probe: bool) -> Self {
        Self { pipeline, class, probe, observed: Observed::Neutral }
    }

    fn report(mut self, observed: Observed) {
        self.observed = observed;
    }
}

impl Drop for Permitted<'_> {
    fn drop(&mut self) {
        let now = self.pipeline.clock.now();
        self.pipeline.breakers.of(self.class).record(now, self.observed, self.probe);
    }
}

/// Hands on what one attempt hears.
struct Listener<'a> {
    options: &'a mut CallOptions,
    server: &'a str,
    handler: &'a dyn Handler,
}

impl Ears for Listener<'_> {
    fn progress(&mut self, progress: Progress) {
        if let Some(on_progress) = &mut self.options.on_progress {
            on_progress(progress);
        }
    }

    fn note(&mut self, method: &str, params: &Bytes) {
        if method == "notifications/message" {
            self.handler.log(self.server, &String::from_utf8_lossy(params));
        }
        if let Some(on_note) = &mut self.options.on_note {
            on_note(method, params);
        }
    }

    fn ignored(&mut self, what: Ignored) {
        tracing::debug!(server = self.server, ?what, "ignored");
    }
}

/// The error of a Steadfast further on, which says itself what it means.
struct Declared {
    kind: Kind,
    category: String,
    outcome: Outcome,
    retryable: bool,
    clock: Option<Limit>,
    sentence: String,
}

impl Declared {
    /// From what holds `steadfast/error`: an error's `data`, or a result's `_meta`.
    fn of(holder: &str) -> Option<Self> {
        let holder: Value = serde_json::from_str(holder).ok()?;
        let own = holder.get("steadfast/error")?;
        let outcome = match own["outcome"].as_str()? {
            "not_executed" => Outcome::NotExecuted,
            "executed" => Outcome::Executed,
            "unknown" => Outcome::Unknown,
            _ => return None,
        };
        Some(Self {
            kind: if own["kind"] == "transport" { Kind::Transport } else { Kind::Local },
            category: own["category"].as_str().unwrap_or_default().to_owned(),
            outcome,
            retryable: own["retryable"] == true,
            clock: match own["clock"].as_str() {
                Some("idle") => Some(Limit::Idle),
                Some("maximum") => Some(Limit::Maximum),
                _ => None,
            },
            sentence: own["server"].as_str().unwrap_or_default().to_owned(),
        })
    }

    fn miss(self, failed: impl Fn(Failure) -> Failed, server: &str) -> Miss {
        let behind =
            if self.sentence.is_empty() { String::new() } else { format!(" about {:?}", self.sentence) };
        let category = Category::from_word(&self.category).unwrap_or(Category::TransportLost);
        Miss {
            kind: self.kind,
            category,
            failed: failed(Failure::Declared { outcome: self.outcome, retryable: self.retryable }),
            sentence: format!("server {server} reports{behind}: {category}"),
            clock: self.clock,
            error: None,
            challenge: None,
        }
    }
}

enum Read {
    Result(ResultKind),
    Declared(Declared),
}

/// Reads as much of a result as decides what it is (MSG-15, MSG-16).
fn read_result(result: &[u8], kinds: Kinds) -> Result<Read, String> {
    let text = std::str::from_utf8(result).map_err(|_| "it is not UTF-8".to_owned())?;
    let members = Members::parse(text).map_err(|_| "it is no object".to_owned())?;
    if let Some(own) =
        members.get("_meta").filter(|meta| meta.contains("steadfast/error")).and_then(Declared::of)
    {
        return Ok(Read::Declared(own));
    }
    let Some(kind) = members.get("resultType") else { return Ok(Read::Result(ResultKind::Complete)) };
    match kind {
        "\"complete\"" => Ok(Read::Result(ResultKind::Complete)),
        "\"input_required\"" if kinds.input_required => Ok(Read::Result(ResultKind::InputRequired)),
        "\"task\"" if kinds.task => Ok(Read::Result(ResultKind::Task)),
        other => {
            let shown: String = other.chars().filter(|c| !c.is_control()).take(40).collect();
            Err(format!("its resultType {shown} is none that this method may have"))
        }
    }
}

fn is_error(result: &[u8]) -> bool {
    std::str::from_utf8(result)
        .ok()
        .and_then(|text| Members::parse(text).ok().map(|members| members.get("isError") == Some("true")))
        .unwrap_or_default()
}

fn code_of(error: &[u8]) -> i64 {
    std::str::from_utf8(error).ok().and_then(envelope::error_object_of).map_or(0, |object| object.code)
}

fn budget(run: &Run) -> Miss {
    Miss::local(Category::Budget, format!("run {} has used up its calls; give it more, or end it", run.id()))
}

/// The progress token of a request; its number leads back to it.
pub(super) fn token_of(serial: i64) -> ProgressToken {
    ProgressToken::from(format!("p-{serial}").as_str())
}
