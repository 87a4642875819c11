//! The bugs that the checkers must catch, one at least for each invariant.
//!
//! A bug sits between a machine and its world, where a careless driver would have it: it changes what the
//! machine is told or what is made of its outputs. Nothing of it is compiled into the core, and without a
//! planted bug every function of these modules hands back what it was given.

pub(crate) mod breaker;
pub(crate) mod call;
pub(crate) mod catalog;
pub(crate) mod exchange;
pub(crate) mod ledger;
pub(crate) mod queue;
pub(crate) mod stdio;
pub(crate) mod subscription;
pub(crate) mod task;

use crate::check::Invariant;

macro_rules! bugs {
    ($($bug:ident, $name:literal, breaks $invariant:literal in $scope:literal: $what:literal;)*) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Bug {
            $(#[doc = $what] $bug,)*
        }

        impl Bug {
            /// All of them, in the order of the invariants that they break.
            pub const ALL: &[Self] = &[$(Self::$bug),*];

            /// The invariant whose checker must catch it.
            pub const fn breaks(self) -> Invariant {
                Invariant(match self {
                    $(Self::$bug => $invariant,)*
                })
            }

            /// The scope in which it is hunted.
            pub const fn scope(self) -> &'static str {
                match self {
                    $(Self::$bug => $scope,)*
                }
            }

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name,)*
                }
            }

            /// What it does, for a person.
            pub const fn describe(self) -> &'static str {
                match self {
                    $(Self::$bug => $what,)*
                }
            }
        }
    };
}

bugs! {
    EndToldTwice, "end-told-twice", breaks 1 in "exchange-stdio-modern":
        "the caller is told the end twice";
    LateResponseDelivered, "late-response-delivered", breaks 2 in "exchange-stdio-modern":
        "a response that comes after the cancel is delivered all the same";
    CancelPostedOverModernHttp, "cancel-posted-over-modern-http", breaks 2 in "exchange-http-modern":
        "a request over modern HTTP is cancelled by posting a notification";
    AnsweredAfterCancel, "answered-after-cancel", breaks 2 in "exchange-stdio-modern":
        "the server answers although the cancel has won";
    SignalForgotten, "signal-forgotten", breaks 2 in "exchange-stdio-legacy":
        "the server is never told that the caller gave up";
    CancelUnderRetypedId, "cancel-under-retyped-id", breaks 3 in "exchange-stdio-modern":
        "the cancel names the id in another JSON type";
    WallClockForLimits, "wall-clock-for-limits", breaks 4 in "exchange-http-legacy":
        "limits are measured with the wall clock";
    ProgressRestartsMaximum, "progress-restarts-maximum", breaks 4 in "exchange-stdio-modern":
        "progress starts the absolute limit anew";
    HeldProgressLost, "held-progress-lost", breaks 5 in "exchange-rate-stdio":
        "progress that the rate held back is forgotten when the answer comes";
    ProgressRepeated, "progress-repeated", breaks 5 in "exchange-http-modern":
        "progress is handed on twice";
    AnswerUnderRetypedId, "answer-under-retyped-id", breaks 6 in "exchange-stdio-modern":
        "the answer carries the id in another JSON type";
    IdReused, "id-reused", breaks 6 in "retry":
        "an attempt is sent under the id of the one before it";
    DoubtfulWriteRetried, "doubtful-write-retried", breaks 7 in "retry":
        "a write is sent again although it may have been executed and nobody enforces its key";
    FingerprintNotCompared, "fingerprint-not-compared", breaks 8 in "ledger-other-arguments-gateway":
        "the stored answer is replayed without comparing the fingerprint";
    ReplayAltered, "replay-altered", breaks 9 in "ledger-equal-arguments-gateway":
        "a replay differs from the stored answer";
    LiveLeaseIgnored, "live-lease-ignored", breaks 10 in "ledger-equal-arguments-upstream":
        "a key is claimed while another lease on it lives";
    StaleEpochSettles, "stale-epoch-settles", breaks 10 in "ledger-equal-arguments-upstream":
        "an owner that was taken for dead settles under its successor's epoch";
    SentBeforeClaim, "sent-before-claim", breaks 11 in "ledger-equal-arguments-gateway":
        "the request leaves before its claim is durable";
    ToldBeforeSettled, "told-before-settled", breaks 11 in "ledger-equal-arguments-gateway":
        "the caller is told the result before it is durable";
    DoubtfulRepeated, "doubtful-repeated", breaks 12 in "ledger-equal-arguments-gateway":
        "what may have been executed is sent again, and nobody enforces its key";
    KeyCheckedApart, "key-checked-apart", breaks 12 in "ledger-race-two":
        "the key is looked up before the transaction that has the effect";
    SentAfterLease, "sent-after-lease", breaks 12 in "ledger-reconcile":
        "an owner that slept beyond its lease sends all the same";
    UnknownCalledRejected, "unknown-called-rejected", breaks 12 in "ledger-equal-arguments-gateway":
        "an attempt without an answer is stored as not executed";
    RetriedAfterCancel, "retried-after-cancel", breaks 14 in "retry":
        "an attempt follows the caller's cancel";
    RetryAfterIgnored, "retry-after-ignored", breaks 14 in "retry":
        "an attempt comes sooner than the server asked for";
    AttemptsNotCounted, "attempts-not-counted", breaks 14 in "retry":
        "attempts are not counted";
    OpenBreakerSends, "open-breaker-sends", breaks 15 in "breaker-outcomes":
        "a call is sent that the open breaker refused";
    CancelCountedAsFailure, "cancel-counted-as-failure", breaks 15 in "breaker-outcomes":
        "a caller's cancel counts against the server";
    CancelCountedAsSuccess, "cancel-counted-as-success", breaks 15 in "breaker-outcomes":
        "a caller's cancel closes the breaker";
    QueueUnbounded, "queue-unbounded", breaks 16 in "queue-two-places":
        "what finds no room in the queue is kept all the same";
    FinalDropped, "final-dropped", breaks 16 in "queue-three-places":
        "a final response is dropped like anything else";
    LossNotTold, "loss-not-told", breaks 16 in "queue-two-places":
        "the peer is not told that something was dropped";
    PrivateListShared, "private-list-shared", breaks 17 in "catalog-shared":
        "a list that is somebody's is put where everybody finds it";
    TtlIgnored, "ttl-ignored", breaks 17 in "catalog-shared":
        "a list is called fresh for as long as the operator allows, whatever its server says";
    QuestionKept, "question-kept", breaks 17 in "catalog-faults":
        "a question of the server is kept as if it were the list";
    FetchNotFenced, "fetch-not-fenced", breaks 18 in "catalog-shared":
        "a change that is heard while the list is fetched is forgotten";
    FirstPageDecides, "first-page-decides", breaks 19 in "catalog-shared":
        "a list is as public as its first page";
    PagesKept, "pages-kept", breaks 19 in "catalog-faults":
        "the pages before a bad cursor are kept";
    EventBeforeAcknowledgement, "event-before-acknowledgement", breaks 20 in "subscription-returns":
        "a notification is handed on before the acknowledgement or outside its filter";
    ReturnedAtOnce, "returned-at-once", breaks 21 in "subscription-returns":
        "the holder listens again at once, after a graceful end too";
    LastEventIdSent, "last-event-id-sent", breaks 21 in "subscription-returns":
        "a return asks to go on after the last event instead of fetching";
    RefetchForgotten, "refetch-forgotten", breaks 21 in "subscription-returns":
        "what was missed while nobody listened is not fetched";
    SubscriptionDeaf, "subscription-deaf", breaks 21 in "subscription-returns":
        "a listen that is never acknowledged is waited for without a limit";
    HandleBeforeDurable, "handle-before-durable", breaks 22 in "task-crash":
        "a task's handle is given before the task is durable";
    InputKeyReused, "input-key-reused", breaks 22 in "task":
        "a task asks under a key that was used before";
    AcknowledgementTakenForEnd, "acknowledgement-taken-for-end", breaks 22 in "task":
        "an acknowledged cancel is told as the end";
    FinalStateReplaced, "final-state-replaced", breaks 22 in "task":
        "a task's end is replaced by a later one";
    IdNeverReleased, "id-never-released", breaks 24 in "exchange-stdio-modern":
        "the id of an ended request is never released";
    TimerInThePast, "timer-in-the-past", breaks 25 in "exchange-stdio-modern":
        "a machine wants to be woken at once for ever";
    PieceTakenForLine, "piece-taken-for-line", breaks 26 in "stdio-noise":
        "what one read brought is taken for a line";
    PendingCallForgotten, "pending-call-forgotten", breaks 26 in "stdio-noise":
        "a dead child leaves a call waiting for ever";
    DeadLeaseWaitedFor, "dead-lease-waited-for", breaks 28 in "ledger-equal-arguments-gateway":
        "a waiter looks at a dead owner's lease with a clock that stands still";
}

impl Bug {
    /// The bug of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}
