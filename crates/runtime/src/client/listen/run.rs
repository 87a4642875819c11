//! The loop that obeys the machine of a subscription.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::hop::Era;
use steadfast_core::subscription::{
    Change, End, Filter, Ignored, Input, Output, Refetch, Subscription as Machine,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::ListenEvent;
use super::backlog::Backlog;
use crate::client::inbound::Notice;
use crate::client::{Category, Client, Error, Facts};
use crate::listening::{method_of, params_of};

/// What one listen may have told and nobody has looked at. They are looked at at once, so only a flood fills it.
const TOLD: usize = 256;

/// Whoever holds a subscription.
pub(super) struct Holder {
    pub(super) client: Client,
    pub(super) filter: Filter,
    pub(super) events: Arc<Backlog>,
    pub(super) close: CancellationToken,
}

/// One listen under way.
pub(super) struct Listen {
    pub(super) client: Client,
    pub(super) filter: Filter,
    number: u64,
    /// Whether it returns after an earlier one: then the server is asked anew what it can do.
    pub(super) returns: bool,
    pub(super) cancel: CancellationToken,
    tell: mpsc::Sender<(u64, Told)>,
}

/// What a listen tells.
pub(super) enum Told {
    Sent,
    Acknowledged(Filter, Option<Facts>),
    Changed(Change, Bytes),
    Ended(Result<End, Error>),
}

impl Holder {
    pub(super) async fn run(self) {
        let pipeline = &self.client.pipeline;
        let clock = pipeline.clock;
        let mut used = pipeline.used.subscribe();
        let spread = pipeline.seed ^ pipeline.connector.next_id().unsigned_abs();
        let mut machine = Machine::start(self.filter.clone(), spread);
        let (tell, mut told) = mpsc::channel(TOLD);
        let mut open: Option<(u64, CancellationToken, AbortOnDropHandle<()>)> = None;
        // What the machine's outputs are told about with: it knows neither payloads nor errors.
        let mut about = About::default();
        loop {
            let mut over = self.close.is_cancelled() || pipeline.closing.is_cancelled();
            while let Some(output) = machine.poll_output() {
                match output {
                    Output::Listen { listen, filter } => {
                        let cancel = CancellationToken::new();
                        let one = Listen {
                            client: self.client.clone(),
                            filter,
                            number: listen,
                            returns: listen > 1,
                            cancel: cancel.clone(),
                            tell: tell.clone(),
                        };
                        open =
                            Some((listen, cancel, AbortOnDropHandle::new(tokio::spawn(Arc::new(one).run()))));
                    }
                    Output::Cancel { listen } => {
                        if let Some((_, cancel, _)) = open.as_ref().filter(|(number, ..)| *number == listen) {
                            cancel.cancel();
                        }
                    }
                    Output::Active { missing } => {
                        let facts = about.facts.take();
                        self.events.tell(ListenEvent::Acknowledged { missing, facts });
                    }
                    Output::Stale(stale) => {
                        self.stale(&stale);
                        self.events.tell(ListenEvent::Ended { graceful: about.graceful, stale });
                    }
                    Output::Refetch(what) => {
                        self.stale(&what);
                        self.events.tell(ListenEvent::Gap(what));
                    }
                    Output::Deliver(change) => {
                        let params = about.params.take().unwrap_or_default();
                        // Who follows the task hears of it here; all else was handed on where it was heard.
                        if matches!(change, Change::Task(_)) {
                            self.relay(method_of(&change), params.clone());
                        }
                        self.events.change(change, params);
                    }
                    Output::Refused => {
                        over = true;
                        if let Some(error) = about.error.take() {
                            self.events.tell(ListenEvent::Refused(error));
                        }
                    }
                    Output::Ignored(what) => self.ignored(what),
                }
            }
            if over {
                drop(told);
                if let Some((_, _, task)) = open {
                    // Given up, it ends once the server was told.
                    let _ = task.await;
                }
                return self.events.end();
            }
            tokio::select! {
                biased;
                () = self.close.cancelled() => machine.handle(clock.now(), Input::Close),
                () = pipeline.closing.cancelled() => machine.handle(clock.now(), Input::Close),
                Some((listen, news)) = told.recv() => {
                    let input = match news {
                        Told::Sent => Input::Sent { listen },
                        Told::Acknowledged(granted, facts) => {
                            (about.facts, about.graceful) = (facts, false);
                            Input::Acknowledged { listen, granted }
                        }
                        Told::Changed(change, params) => {
                            about.params = Some(params);
                            Input::Notified { listen, change }
                        }
                        Told::Ended(end) => {
                            // What it was used for until now was not its next use.
                            used.mark_unchanged();
                            about.graceful = matches!(end, Ok(End::Result));
                            let end = match end {
                                Ok(end) => end,
                                Err(error) => {
                                    let end = end_of(&error);
                                    tracing::info!(
                                        server = self.client.name(), call = error.call_id(), ?end, "a listen ended"
                                    );
                                    about.error = Some(error);
                                    end
                                }
                            };
                            Input::Ended { listen, end }
                        }
                    };
                    machine.handle(clock.now(), input);
                }
                Ok(()) = used.changed(), if about.graceful => machine.handle(clock.now(), Input::Used),
                () = clock.sleep_until(machine.poll_timeout()) => machine.handle_timeout(clock.now()),
            }
        }
    }

    /// Marks stale what the catalogs of this client keep.
    fn stale(&self, what: &[Refetch]) {
        for one in what {
            let change = match one {
                Refetch::Tools => Change::Tools,
                Refetch::Prompts => Change::Prompts,
                // The templates change with them, and are named beside them.
                Refetch::Resources => Change::Resources,
                Refetch::Resource(uri) => Change::Resource(uri.clone()),
                Refetch::ResourceTemplates | Refetch::Task(_) => continue,
            };
            self.relay(method_of(&change), Bytes::copy_from_slice(params_of(&change).as_bytes()));
        }
    }

    fn relay(&self, method: &str, params: Bytes) {
        // Nobody may be listening.
        let notice = Notice { method: method.into(), params, relayed: true };
        let _ = self.client.pipeline.connector.notices.send(notice);
    }

    fn ignored(&self, what: Ignored) {
        tracing::debug!(server = self.client.name(), ?what, "ignored of a subscription");
    }
}

#[derive(Default)]
struct About {
    facts: Option<Facts>,
    params: Option<Bytes>,
    graceful: bool,
    error: Option<Error>,
}

impl Listen {
    async fn run(self: Arc<Self>) {
        let connector = &self.client.pipeline.connector;
        let made = tokio::select! {
            made = connector.ready() => made,
            () = self.cancel.cancelled() => return,
            () = self.client.pipeline.closing.cancelled() => return,
        };
        let end = match made {
            Ok(ready) if ready.revision.era() == Era::Legacy => self.overhear(&ready).await,
            // Whatever stands in the way, the request has the words for it.
            Ok(_) | Err(_) => self.ask().await,
        };
        // Nobody may be left to hear it.
        let _ = self.tell.send((self.number, Told::Ended(end))).await;
    }

    /// Never waits; if there are too many of them, something is lost, and so is the listen.
    pub(super) fn tell(&self, news: Told) {
        if self.tell.try_send((self.number, news)).is_err() {
            self.cancel.cancel();
        }
    }
}

/// What an end without a result is. What would be refused in the same way again is not asked for again.
fn end_of(error: &Error) -> End {
    match error {
        // The peer's own trouble, or that of a hop further on, may pass.
        Error::Protocol { code: -32_603 | -32_000..=-1, .. } => End::Lost,
        Error::Protocol { .. } => End::Refused,
        Error::Local { category, .. } | Error::Transport { category, .. } => match category {
            Category::Unsupported | Category::Authorization | Category::Validation => End::Refused,
            _ => End::Lost,
        },
    }
}
