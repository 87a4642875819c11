//! One logical call: its turn, its attempts, what each came to, and what the caller is told.

#![allow(
    clippy::result_large_err,
    reason = "a miss is made once a failed attempt, beside a round trip to a server"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use steadfast_core::call::{Attempts, Policy};
use steadfast_core::envelope;
use steadfast_core::error::{Kind, Outcome};
use steadfast_core::exchange::requester::End;
use steadfast_core::exchange::{Clock as Limit, Ignored, Limits, Operation, Progress, Spec};
use steadfast_core::hop::{Era, Revision, Transport};
use steadfast_core::ids::{ProgressToken, RequestId};
use steadfast_core::object::Members;
use steadfast_core::policy::breaker::{Class, Observed, Permit};
use steadfast_core::policy::{Failure, RetryClass, Verdict};
use steadfast_core::time::Instant;
use tokio::sync::{Semaphore, SemaphorePermit, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::breakers::{Breakers, Permitted};
use super::catalog::Defined;
use super::config::Config;
use super::drive::{self, Ears};
use super::error::{Category, Error};
use super::handler::{Credentials, Handler};
use super::inbound::{self, Notice};
use super::judge::{Miss, code_of, is_error};
use super::leg::Outgoing;
use super::options::{CallOptions, Run};
use super::ready::{Connector, Ready};
use super::record::{Record, Recorder};
use super::span::{self, Span};
use super::tasks::Beginning;
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
    /// Counts what the server is used for: who left it alone after a graceful end comes back then (ruling 20).
    pub(super) used: watch::Sender<u64>,
    slots: Semaphore,
    waiting: AtomicUsize,
    calls: AtomicU64,
    /// How long the last answered attempt took, in microseconds: what the next one is expected to take.
    pub(super) estimate_us: AtomicU64,
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
    /// Who sets them, for errors (F034).
    pub(super) limits_by: &'static str,
    pub(super) operation: Operation,
    /// Which `resultType` beside `complete` this method may be answered with.
    pub(super) kinds: Kinds,
    /// The call that it is a leg of; a new one if absent.
    pub(super) leg_of: Option<&'a Done>,
    /// What is known of the tool that is called.
    pub(super) defined: Option<&'a Defined<'a>>,
    /// It may ask to be a task where that is how the server has it: somebody follows what it becomes.
    pub(super) augments: bool,
    /// It takes no slot: the client's own fetch of a list, of which there is one at a time, and for which a call that
    /// has a slot may wait; and the wait for the result of a task.
    pub(super) aside: bool,
    /// What it says is of one connection with a legacy server, whose epoch this is, and means nothing on another: a
    /// cursor (LEG-90). 0 until the first request of such a row.
    pub(super) bound_to: Option<&'a AtomicU64>,
    /// Told the id of each attempt right before its first byte may leave.
    pub(super) sent: Option<&'a (dyn Fn(&RequestId) + Send + Sync)>,
}

/// Which results a method may have (MRT-04, TSK-05, MSG-15).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    pub(super) input_required: bool,
    pub(super) task: bool,
    /// The answer is that of another request, result or error (LEG-108).
    pub(super) other: bool,
}

impl Kinds {
    /// What a request of this method may be answered with, by somebody who takes tasks or does not. A further method
    /// becomes capable of them here (TSK-07): following one asks nothing of the method.
    pub(super) fn of(method: &str, takes_tasks: bool) -> Self {
        Self {
            input_required: matches!(method, "tools/call" | "prompts/get" | "resources/read"),
            // No answer to a call that did not declare the extension (TSK-03), and of no other method (TSK-05).
            task: method == "tools/call" && takes_tasks,
            other: method == "tasks/result",
        }
    }
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) result: Bytes,
    pub(super) kind: ResultKind,
    pub(super) revision: Revision,
    pub(super) call_id: String,
    pub(super) trace: Span,
    pub(super) attempts: u32,
    pub(super) round: u32,
    /// When its first round began.
    pub(super) began: Instant,
    /// The id of its last attempt, as JSON.
    pub(super) request_id: Option<String>,
}

impl Done {
    /// The token under which its progress was asked for, if it was.
    pub(super) fn token(&self) -> Option<ProgressToken> {
        self.request_id.as_deref()?.parse().ok().map(token_of)
    }
}

/// `resultType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultKind {
    Complete,
    InputRequired,
    Task,
    /// Not one of them: the error that another request ended with.
    Error,
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
            used: watch::Sender::new(0),
            slots,
            waiting: AtomicUsize::new(0),
            calls: AtomicU64::new(1),
            estimate_us: AtomicU64::new(0),
        }
    }

    /// Asks, as often as may be, and says what came of it.
    pub(super) async fn ask(&self, ask: Ask<'_>, options: &mut CallOptions) -> Result<Done, Error> {
        let started = self.clock.now().mono;
        let (call_id, trace, round, began) = match ask.leg_of {
            Some(done) => (done.call_id.clone(), done.trace.clone(), done.round + 1, done.began),
            None => (self.new_call(), Span::of(options.trace.as_ref(), self.seed), 0, started),
        };
        let mut record = Record {
            round,
            keyed: ask.keyed,
            ..self.record_of(call_id.clone(), &trace, ask.method, ask.name, options)
        };
        if let Some((age, stale)) = ask.defined.and_then(Defined::age) {
            record.cache_age_ms = Some(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            record.cache_stale = stale;
        }
        let must_end = self.must_end(began, options);
        // One slot for all attempts of a call: a retry never waits behind those that came later (D-42). A listen may
        // last for ever and takes none.
        let slot = match ask.operation {
            Operation::Listen => Ok(None),
            Operation::Ordinary | Operation::Initialize | Operation::Probe | Operation::Augmented
                if ask.aside =>
            {
                Ok(None)
            }
            Operation::Ordinary | Operation::Initialize | Operation::Probe | Operation::Augmented => {
                self.turn(must_end, options).await.map(Some)
            }
        };
        let waited = self.clock.now().mono.saturating_since(started);
        record.queue_wait_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let _slot = match slot {
            Ok(slot) => slot,
            Err(miss) => {
                let span = span::begin(&record);
                return Err(self.give_up(&span, record, &miss, Outcome::NotExecuted, "stop: refused here"));
            }
        };
        // The limits of a request count from its turn on: who waits behind others is not slow (F085).
        let own_end = Self::deadline(self.clock.now().mono, &ask);
        let until = if must_end < own_end {
            Until { at: must_end, by: "the deadline of the call or of its run" }
        } else {
            Until { at: own_end, by: ask.limits_by }
        };
        // Whether and when to listen again is decided by the subscription, not by its request.
        let policy = match ask.operation {
            Operation::Listen => Policy { max_attempts: 1, ..self.config.retry },
            Operation::Ordinary | Operation::Initialize | Operation::Probe | Operation::Augmented => {
                if ask.method != "server/discover" {
                    self.used.send_modify(|uses| *uses += 1);
                }
                self.config.retry
            }
        };
        let mut attempts = Attempts::new(ask.class, policy, self.seed, until.at);
        let mut fresh_credentials = false;
        loop {
            let mut record = record.clone();
            let span = span::begin(&record);
            let attempt = self.attempt(&ask, options, &mut attempts, &trace, until, &mut record);
            let miss = match attempt.instrument(span.clone()).await {
                Ok((result, kind, revision)) => {
                    span::end(&span, &record);
                    let attempts = attempts.count();
                    let request_id = record.request_id;
                    return Ok(Done {
                        result,
                        kind,
                        revision,
                        call_id,
                        trace,
                        attempts,
                        round,
                        began,
                        request_id,
                    });
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
                self.write(&span, record, &miss, Outcome::NotExecuted, "retry: new credentials");
                continue;
            }
            let (verdict, outcome) = attempts.failed(self.clock.now(), &miss.failed);
            // What was corrected cannot be, so the same would come again.
            let verdict = match verdict {
                Verdict::Mend if !self.is_mended(&ask, &miss, options, until.at).await => {
                    return Err(self.give_up(&span, record, &miss, outcome, "stop: final"));
                }
                verdict => verdict,
            };
            match verdict {
                Verdict::Stop(stop) => {
                    return Err(self.give_up(&span, record, &miss, outcome, stop.as_str()));
                }
                Verdict::Mend => {
                    record.retryable = true;
                    self.write(&span, record, &miss, outcome, "mend once");
                }
                Verdict::Retry { after } => {
                    record.retryable = true;
                    self.write(&span, record.clone(), &miss, outcome, "retry");
                    let at = self.clock.now().mono.saturating_add(after);
                    let gave_up = tokio::select! {
                        () = self.clock.sleep_until(Some(at)) => None,
                        miss = self.thrown(options) => Some(miss),
                    };
                    if let Some(gave_up) = gave_up {
                        record.attempt = 0;
                        let span = span::begin(&record);
                        return Err(self.give_up(&span, record, &gave_up, outcome, "stop: cancelled"));
                    }
                }
            }
        }
    }

    /// Whether what was refused is corrected: the connector knows another version already, and headers may come out
    /// otherwise by a newer definition. A caller that gave up meanwhile is told so by the next attempt.
    async fn is_mended(&self, ask: &Ask<'_>, miss: &Miss, options: &CallOptions, deadline: Instant) -> bool {
        if miss.failed.failure == Failure::VersionRefused {
            return true;
        }
        let Some(defined) = ask.defined.filter(|_| miss.failed.failure == Failure::HeadersRefused) else {
            return false;
        };
        tokio::select! {
            mended = defined.mend(options) => mended,
            _ = self.thrown(options) => true,
            () = self.clock.sleep_until(Some(deadline)) => false,
        }
    }

    /// One attempt. What the record says of it is complete when it ends, but for the verdict.
    async fn attempt(
        &self,
        ask: &Ask<'_>,
        options: &mut CallOptions,
        attempts: &mut Attempts,
        trace: &Span,
        until: Until,
        record: &mut Record,
    ) -> Result<(Bytes, ResultKind, Revision), Miss> {
        self.may_go_on(options)?;
        record.attempt = attempts.begin();
        // Asked first: an open breaker starts no child either. A listen lasts, so it tries nothing out for others.
        let guard = match ask.operation {
            Operation::Listen => None,
            Operation::Ordinary | Operation::Initialize | Operation::Probe | Operation::Augmented => {
                Some(self.permitted(ask.breaker)?)
            }
        };
        let report = |observed| {
            if let Some(guard) = guard {
                guard.report(observed);
            }
        };
        let ready = match self.connection(options, until.at).await {
            Ok(ready) => ready,
            Err(miss) => {
                if miss.kind == Kind::Transport {
                    report(Observed::of(miss.failed.failure));
                }
                return Err(miss);
            }
        };
        record.transport = Some(ready.link.transport().as_str().to_owned());
        record.protocol_version = Some(ready.revision.as_str().to_owned());
        if let Some(epoch) = ask.bound_to.filter(|_| ready.revision.era() == Era::Legacy) {
            let first = epoch.compare_exchange(0, ready.epoch, Ordering::Relaxed, Ordering::Relaxed);
            if first.is_err_and(|epoch| epoch != ready.epoch) {
                let sentence =
                    format!("the session with server {} that this belongs to is gone", self.config.name);
                let miss = Miss::local(Category::TransportLost, sentence);
                return Err(Miss { kind: Kind::Transport, ..miss });
            }
        }
        if let Some(run) = &options.run {
            run.spend().map_err(|()| budget(run))?;
        }
        let outgoing = self.prepare(ask, options, &ready, trace, until.at).await?;
        let Prepared { spec, params, headers, span_id } = outgoing;
        let augmented = spec.operation == Operation::Augmented;
        record.span_id = Some(span_id);
        record.request_id = Some(spec.id.to_json());
        let leg = ready.link.leg(Outgoing { spec: &spec, method: ask.method, params: &params, headers });
        let id = spec.id.clone();
        let run_cancel = options.run.as_ref().map(|run| run.cancel_token().clone()).unwrap_or_default();
        let cancel = options.cancel.clone();
        let switches = [(&cancel, None), (&run_cancel, None), (&self.closing, Some("the client is closing"))];
        let (server, handler, notices) = (&*self.config.name, &*self.handler, &self.connector.notices);
        let mut ears = Listener { options, server, handler, notices, sent: ask.sent };
        let holding = (ready.revision.era() == Era::Legacy).then(|| ready.asking.subscribe());
        let strays = ready.strays.count();
        let exchanged = if let Some(defined) = ask.defined.filter(|_| augmented) {
            let beginning = Beginning {
                client: defined.client().clone(),
                call_id: record.call_id.clone(),
                tool: record.tool_name.clone(),
                spec,
                leg,
                link: ready.link.clone(),
                holding,
            };
            let given_up = async {
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = run_cancel.cancelled() => {}
                }
            };
            beginning.run(given_up, &mut ears).await
        } else {
            let exchanged = drive::request(self.clock, spec, leg, &switches, holding, &mut ears).await;
            ready.link.forget(&id);
            exchanged
        };
        record.sent = exchanged.sent;
        record.answered = matches!(exchanged.end, End::Answered(_));
        if exchanged.sent {
            record.network_time_ms = Some(u64::try_from(exchanged.network.as_millis()).unwrap_or(u64::MAX));
        }
        if ready.hop().transport == Transport::Http && ready.revision.era() == Era::Modern && record.answered
        {
            record.headers_equal = Some(true);
        }
        let mut judged = self.judge(ask, &ready, augmented, exchanged, until.by);
        if let Err(miss) = &mut judged {
            self.name_likely_cause(&ready, strays, miss);
        }
        match &judged {
            Ok(_) => report(Observed::Success),
            Err(miss) => {
                if miss.failed.failure == Failure::HeadersRefused {
                    record.headers_equal = Some(false);
                }
                report(Observed::of(miss.failed.failure));
            }
        }
        self.connector.degraded(!self.breakers.are_closed());
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

    fn permitted(&self, class: Class) -> Result<Permitted<'_>, Miss> {
        match self.breakers.of(class).permit(self.clock.now()) {
            Permit::Pass => Ok(Permitted::new(&self.breakers, self.clock, class, false)),
            Permit::Probe => Ok(Permitted::new(&self.breakers, self.clock, class, true)),
            Permit::Refused { .. } => {
                let sentence = format!(
                    "server {} failed too often of late, so nothing was sent to it; try again later",
                    self.config.name
                );
                Err(Miss::local(Category::BreakerOpen, sentence))
            }
        }
    }

    /// F016: a server that changes ids answers, and no request is found for it. Where one request alone was pending, that
    /// is why it waited in vain.
    fn name_likely_cause(&self, ready: &Ready, before: u64, miss: &mut Miss) {
        let alone = self.slots.available_permits() + 1 == self.config.concurrency;
        if alone
            && miss.clock.is_some()
            && let Some(id) = ready.strays.since(before)
        {
            let more = format!(", though it answered to id {id} meanwhile, which no request has");
            miss.sentence.push_str(&more);
        }
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
    pub(super) async fn thrown(&self, options: &CallOptions) -> Miss {
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
        let span_id = trace.span_id(serial);
        let parent = trace.parent(&span_id);
        let metadata = Metadata {
            revision: ready.revision,
            capabilities: &self.handler.capabilities(),
            token: token.as_ref(),
            key: ask.key,
            trace_parent: Some(&parent),
            trace_state: trace.state(),
            log_level: options.log_level.as_deref(),
        };
        let mut params = message::params_with(ask.params, &metadata).map_err(|_| {
            Miss::local(Category::Validation, "the params are not one JSON object; wrap them in {…}")
        })?;
        let mut operation = ask.operation;
        if ask.augments
            && ready.takes_tasks()
            && let Some(defined) = ask.defined
            && tokio::select! {
                runs = defined.runs_only_as_task(options) => runs,
                miss = self.thrown(options) => return Err(miss),
            }
        {
            params = augmented(&params, ask.limits);
            operation = Operation::Augmented;
        }
        let mut headers = Vec::new();
        if ready.link.transport() == Transport::Http {
            if ready.revision.era() == Era::Modern {
                headers = ask.defined.map(Defined::headers).unwrap_or_default();
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
            operation,
            hop: ready.hop(),
            limits,
            token,
            progress_interval: options.progress_interval,
        };
        Ok(Prepared { spec, params, headers, span_id })
    }

    fn write(&self, span: &tracing::Span, mut record: Record, miss: &Miss, outcome: Outcome, verdict: &str) {
        record.cancelled = miss.failed.cancelled;
        record.error_kind = Some(miss.kind.as_str().to_owned());
        record.error_code = Some(match &miss.error {
            Some(error) => code_of(error).to_string(),
            None => miss.category.as_str().to_owned(),
        });
        record.outcome = outcome.as_str().to_owned();
        record.verdict = Some(verdict.to_owned());
        record.ended_unix_ms = self.clock.now().wall.as_unix_millis();
        span::end(span, &record);
        tracing::info!(
            parent: span, server = %record.server_key, call = %record.call_id, method = %record.method, attempt = record.attempt,
            error = record.error_code, outcome = %record.outcome, verdict, "attempt failed"
        );
        self.recorder.record(&record);
    }

    fn record_of(
        &self,
        call_id: String,
        trace: &Span,
        method: &str,
        name: Option<&str>,
        options: &CallOptions,
    ) -> Record {
        Record {
            call_id,
            trace_id: trace.id().to_owned(),
            agent_run_id: options.run.as_ref().map(|run| run.id().to_owned()),
            server_key: self.config.name.clone(),
            method: method.to_owned(),
            tool_name: name.map(str::to_owned),
            ..Record::default()
        }
    }

    /// Refuses a call before it is one. That leaves a record too: whether it was refused here is what is asked first
    /// (G15).
    pub(super) fn refuse(
        &self,
        method: &str,
        name: Option<&str>,
        options: &CallOptions,
        category: Category,
        sentence: impl Into<String>,
    ) -> Error {
        let trace = Span::of(options.trace.as_ref(), self.seed);
        let record = self.record_of(self.new_call(), &trace, method, name, options);
        let miss = Miss::local(category, sentence);
        self.give_up(&span::begin(&record), record, &miss, Outcome::NotExecuted, "stop: refused here")
    }

    fn give_up(
        &self,
        span: &tracing::Span,
        record: Record,
        miss: &Miss,
        outcome: Outcome,
        verdict: &str,
    ) -> Error {
        let call_id = record.call_id.clone();
        let sent = record.sent;
        self.write(span, record, miss, outcome, verdict);
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

    /// When one round must be over by its own limits.
    fn deadline(started: Instant, ask: &Ask<'_>) -> Instant {
        match ask.operation {
            Operation::Listen => Instant::from_nanos(u64::MAX),
            Operation::Ordinary | Operation::Initialize | Operation::Probe | Operation::Augmented => {
                started.saturating_add(ask.limits.maximum())
            }
        }
    }

    /// When the whole call must be over, whoever is waited for: the caller's deadline or that of its run.
    pub(super) fn must_end(&self, began: Instant, options: &CallOptions) -> Instant {
        let of_call = options.deadline.map(|within| began.saturating_add(within));
        let of_run = options.run.as_ref().and_then(Run::time_left);
        let of_run = of_run.map(|left| self.clock.now().mono.saturating_add(left));
        of_call.into_iter().chain(of_run).min().unwrap_or(Instant::from_nanos(u64::MAX))
    }

    pub(super) fn new_call(&self) -> String {
        let serial = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{serial}", self.seed)
    }
}

/// The params of a call that asks to be a task, and to be kept for as long as the call may take (LEG-101).
fn augmented(params: &str, limits: Limits) -> String {
    // Within what a JSON number holds exactly.
    let ttl = limits.maximum().as_millis().min((1 << 53) - 1);
    let mut members = Members::parse(params).unwrap_or_default();
    members.set("task", format!(r#"{{"ttl":{ttl}}}"#));
    members.to_json()
}

/// When a call must be over, and who says so.
#[derive(Clone, Copy, Debug)]
struct Until {
    at: Instant,
    by: &'static str,
}

struct Prepared {
    spec: Spec,
    params: String,
    headers: Vec<(String, String)>,
    span_id: String,
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

/// Hands on what one attempt hears.
struct Listener<'a> {
    options: &'a mut CallOptions,
    server: &'a str,
    handler: &'a dyn Handler,
    notices: &'a broadcast::Sender<Notice>,
    sent: Option<&'a (dyn Fn(&RequestId) + Send + Sync)>,
}

impl Ears for Listener<'_> {
    fn sent(&mut self, id: &RequestId) {
        if let Some(sent) = self.sent {
            sent(id);
        }
    }

    fn progress(&mut self, progress: Progress) {
        if let Some(on_progress) = &mut self.options.on_progress {
            on_progress(progress);
        }
    }

    fn note(&mut self, method: &str, params: &Bytes) {
        if method == "notifications/message" {
            self.handler.log(self.server, &String::from_utf8_lossy(params));
        }
        inbound::noticed(self.handler, self.server, self.notices, method, params);
        if let Some(on_note) = &mut self.options.on_note {
            on_note(method, params);
        }
    }

    fn ignored(&mut self, what: Ignored) {
        tracing::debug!(server = self.server, ?what, "ignored");
    }
}

fn budget(run: &Run) -> Miss {
    Miss::local(Category::Budget, format!("run {} has used up its calls; give it more, or end it", run.id()))
}

/// The progress token of a request; its number leads back to it.
pub(super) fn token_of(serial: i64) -> ProgressToken {
    ProgressToken::from(format!("p-{serial}").as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: TSK-05, MRT-04
    #[test]
    fn tsk_07_one_table_says_which_methods_may_be_answered_by_more_than_a_result() {
        for (method, asks, becomes_task) in [
            ("tools/call", true, true),
            ("prompts/get", true, false),
            ("resources/read", true, false),
            ("tools/list", false, false),
            ("tasks/get", false, false),
            ("tasks/result", false, false),
            ("subscriptions/listen", false, false),
        ] {
            let kinds = Kinds::of(method, true);
            assert_eq!((kinds.input_required, kinds.task), (asks, becomes_task), "{method}");
            assert!(!Kinds::of(method, false).task, "{method}: nobody declared the extension");
        }
    }
}
