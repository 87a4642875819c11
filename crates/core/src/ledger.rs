//! The life of a record: one business intent under one key, from its claim to its settlement.
//!
//! These are pure transitions. A store runs each of them inside one durable transaction, reads the record before and
//! writes it after; the simulator's store does the same in memory. That is why both keep the same promises.

use core::time::Duration;

use crate::fingerprint::Fingerprint;
use crate::time::{Instant, Wall};

/// How long a claim lives without being renewed (ruling 10).
pub const LEASE: Duration = Duration::from_secs(30);
/// How often its owner renews it (ruling 10).
pub const RENEW_EVERY: Duration = Duration::from_secs(10);

/// The time of a machine, as leases need it: no wall clock decides about a lease, and none survives a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Which run of the machine this is.
    pub boot: u128,
    /// Since that run began, time asleep included.
    pub up: Instant,
    /// For people, and for retention.
    pub wall: Wall,
}

/// Which process holds a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u128);

/// Who enforces the key (product.md "The configuration").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Enforcement {
    /// Only this ledger: it joins and replays, and never lets a doubtful write be sent again (ruling 1).
    Gateway,
    /// The upstream too: a doubtful write may be sent again under the same key.
    Upstream,
}

/// Where a record stands. `R` is the stored answer; the transitions never look inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State<R> {
    /// Someone executes, or died executing.
    Claimed {
        /// Who.
        owner: Owner,
        /// In which run of the machine.
        boot: u128,
        /// Until when the claim stands, unless it is renewed.
        until: Instant,
    },
    /// The last leg was answered with a question: nothing is in flight, nobody holds a lease (ruling 8).
    AwaitingInput,
    /// The upstream made it a task and settles it with the task's end (ruling 8).
    HeldByTask {
        /// The stored handle.
        handle: R,
    },
    /// Executed, with this answer, for ever (I-09).
    Committed {
        /// The stored answer.
        answer: R,
    },
    /// Certainly not executed, by no attempt (ruling 2). The key is free.
    Rejected,
    /// May or may not have been executed (G8).
    Unknown,
}

impl<R> State<R> {
    /// The word for people and reports.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Claimed { .. } => "claimed",
            Self::AwaitingInput => "awaiting_input",
            Self::HeldByTask { .. } => "held_by_task",
            Self::Committed { .. } => "committed",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
        }
    }
}

/// One key's record.
///
/// | state | claim, same fingerprint | claim, other fingerprint | settle, same epoch | lease over | reconcile |
/// |---|---|---|---|---|---|
/// | (none) | → Claimed: run | – | – | – | – |
/// | Claimed, live | join | mismatch | → Committed, Rejected, Unknown, AwaitingInput, HeldByTask | → Unknown | refused |
/// | Claimed, lease over | as Unknown | mismatch | as live: its owner knows best | → Unknown | as Unknown |
/// | AwaitingInput | → Claimed: run the next leg | mismatch | refused | – | refused |
/// | HeldByTask | join the task | mismatch | → Committed, Rejected, Unknown | – | refused |
/// | Committed | replay | mismatch | refused | – | refused |
/// | Rejected | → Claimed: run | → Claimed: run | refused | – | refused |
/// | Unknown | upstream enforces: → Claimed: run again; else unknown | mismatch | Committed or Rejected by the last owner; else refused | – | → Committed or Rejected |
///
/// A settle under another epoch than the last claim's is refused in every state (I-10). Rejected becomes Unknown
/// where an earlier attempt or leg under the key is not proven unexecuted (ruling 2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record<R> {
    /// What the key is bound to.
    pub fingerprint: Fingerprint,
    /// Which claim was the last; the first is 1.
    pub epoch: u64,
    /// Whether an attempt before the current one is not proven unexecuted.
    pub doubtful: bool,
    /// Where it stands.
    pub state: State<R>,
    /// When the key was first claimed.
    pub claimed_at: Wall,
    /// When the last attempt ended or was given up for dead; retention counts from here.
    pub settled_at: Option<Wall>,
}

/// What a second attempt meets. `A` is how the store hands an answer out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict<A> {
    /// The caller holds the claim and executes, under this epoch.
    Run {
        /// Names this claim in `renew` and `settle`.
        epoch: u64,
        /// Whether an earlier attempt may have been executed: only an upstream that enforces the key may be asked.
        again: bool,
    },
    /// Someone executes: wait for the settlement, within one's own limits.
    Join,
    /// A task executes: hand out its handle, or wait.
    JoinTask(A),
    /// It was executed: this is the stored answer.
    Replay(A),
    /// The key is bound to something else: refuse, before anything is sent (I-08).
    Mismatch,
    /// It may have been executed, and nothing here may run it again: reconcile, or say so (I-12).
    Unknown,
}

/// How an owner ends its claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Settlement<R> {
    /// Executed: a result came, `isError` included.
    Committed(R),
    /// Proven unexecuted (ruling 2).
    Rejected,
    /// Bytes may have left and no answer tells.
    Unknown,
    /// The leg was answered with `input_required`.
    AwaitingInput,
    /// The call was answered with a task handle.
    HeldByTask(R),
}

/// Why a settlement or renewal was refused; the record is as it was, except that a lease found to be over is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SettleError {
    /// There is no record under this key.
    #[error("there is no record under this key; claim it first")]
    Missing,
    /// Another claim came after this one (I-10).
    #[error("the claim of epoch {given} is no longer the last, which is {last}; its outcome is not stored")]
    Stale {
        /// The epoch that was given.
        given: u64,
        /// The record's.
        last: u64,
    },
    /// The record is not claimed.
    #[error("the record is {state}, so there is no claim to settle")]
    NotClaimed {
        /// Where the record stands.
        state: &'static str,
    },
}

/// Why a record was not reconciled; it is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("only an unknown record can be reconciled, and this one is {state}")]
pub struct NotUnknown {
    /// Where the record stands; `missing` if there is none.
    pub state: &'static str,
}

/// What reconciliation found (ruling 3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resolution<R> {
    /// It was executed, with this answer.
    Committed(R),
    /// It certainly was not.
    Rejected,
}

/// A claim as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// What the key shall be bound to.
    pub fingerprint: Fingerprint,
    /// Who will execute.
    pub owner: Owner,
    /// Who enforces the key.
    pub enforcement: Enforcement,
}

impl<R: Clone> Record<R> {
    /// Claims a key: changes or makes its record, and says what the caller may do.
    pub fn claim(record: &mut Option<Self>, claim: Claim, now: Stamp) -> Verdict<R> {
        let Some(known) = record else {
            *record = Some(Self {
                fingerprint: claim.fingerprint,
                epoch: 1,
                doubtful: false,
                state: State::claimed(claim.owner, now),
                claimed_at: now.wall,
                settled_at: None,
            });
            return Verdict::Run { epoch: 1, again: false };
        };
        known.expire(now);
        let same = known.fingerprint == claim.fingerprint;
        match (&known.state, same) {
            (State::Rejected, true | false) => {
                known.fingerprint = claim.fingerprint;
                known.run(claim.owner, now)
            }
            (
                State::Claimed { .. }
                | State::AwaitingInput
                | State::HeldByTask { .. }
                | State::Committed { .. }
                | State::Unknown,
                false,
            ) => Verdict::Mismatch,
            (State::Claimed { .. }, true) => Verdict::Join,
            (State::AwaitingInput, true) => known.run(claim.owner, now),
            (State::HeldByTask { handle }, true) => Verdict::JoinTask(handle.clone()),
            (State::Committed { answer }, true) => Verdict::Replay(answer.clone()),
            (State::Unknown, true) => match claim.enforcement {
                Enforcement::Upstream => known.run(claim.owner, now),
                Enforcement::Gateway => Verdict::Unknown,
            },
        }
    }

    /// Lengthens a live claim.
    ///
    /// # Errors
    /// The epoch is stale, or the record is not claimed any more.
    pub fn renew(&mut self, epoch: u64, now: Stamp) -> Result<(), SettleError> {
        self.expire(now);
        self.check(epoch)?;
        match &mut self.state {
            State::Claimed { until, .. } => {
                *until = now.up.saturating_add(LEASE);
                Ok(())
            }
            State::AwaitingInput
            | State::HeldByTask { .. }
            | State::Committed { .. }
            | State::Rejected
            | State::Unknown => Err(SettleError::NotClaimed { state: self.state.as_str() }),
        }
    }

    /// Ends a claim. A settlement as rejected is kept as unknown where an earlier attempt or leg is in doubt, so who
    /// tells a caller `not_executed` reads [`Self::state`] first.
    ///
    /// # Errors
    /// The epoch is stale, or the state has no claim to end.
    pub fn settle(&mut self, epoch: u64, settlement: Settlement<R>, now: Stamp) -> Result<(), SettleError> {
        self.check(epoch)?;
        match (&self.state, &settlement) {
            (State::Claimed { .. }, _)
            // Taken for dead and alive after all: what it knows is better than what nobody knows.
            | (State::Unknown, Settlement::Committed(_) | Settlement::Rejected)
            | (State::HeldByTask { .. }, Settlement::Committed(_) | Settlement::Rejected | Settlement::Unknown) => {}
            (State::Unknown, Settlement::Unknown | Settlement::AwaitingInput | Settlement::HeldByTask(_))
            | (State::HeldByTask { .. }, Settlement::AwaitingInput | Settlement::HeldByTask(_))
            | (State::AwaitingInput | State::Committed { .. } | State::Rejected, _) => {
                return Err(SettleError::NotClaimed { state: self.state.as_str() });
            }
        }
        self.state = match settlement {
            Settlement::Committed(answer) => State::Committed { answer },
            Settlement::Rejected if self.doubtful => State::Unknown,
            Settlement::Rejected => State::Rejected,
            Settlement::Unknown => State::Unknown,
            Settlement::AwaitingInput => State::AwaitingInput,
            Settlement::HeldByTask(handle) => State::HeldByTask { handle },
        };
        self.settled_at = Some(now.wall);
        Ok(())
    }

    /// Settles an unknown record by what was found out about it. A claim whose lease is over counts as unknown.
    ///
    /// # Errors
    /// The record is anything else.
    pub fn reconcile(&mut self, resolution: Resolution<R>, now: Stamp) -> Result<(), NotUnknown> {
        self.expire(now);
        match self.state {
            State::Unknown => {
                self.state = match resolution {
                    Resolution::Committed(answer) => State::Committed { answer },
                    Resolution::Rejected => {
                        self.doubtful = false;
                        State::Rejected
                    }
                };
                self.settled_at = Some(now.wall);
                Ok(())
            }
            State::Claimed { .. }
            | State::AwaitingInput
            | State::HeldByTask { .. }
            | State::Committed { .. }
            | State::Rejected => Err(NotUnknown { state: self.state.as_str() }),
        }
    }

    /// Takes a claim whose lease is over for what it is: nobody knows. `true` if that changed the record.
    ///
    /// Never at another process's start, only by time: an owner that is alive renews (ruling 10).
    pub fn expire(&mut self, now: Stamp) -> bool {
        match self.state {
            State::Claimed { boot, until, .. } if boot != now.boot || now.up >= until => {
                self.state = State::Unknown;
                self.settled_at = Some(now.wall);
                true
            }
            State::Claimed { .. }
            | State::AwaitingInput
            | State::HeldByTask { .. }
            | State::Committed { .. }
            | State::Rejected
            | State::Unknown => false,
        }
    }

    /// Whether the record may be forgotten: settled for `retention`. What is claimed, awaiting or unknown never is
    /// (ruling 15).
    pub fn may_be_purged(&self, retention: Duration, now: Wall) -> bool {
        match self.state {
            State::Committed { .. } | State::Rejected => {
                self.settled_at.is_some_and(|settled| settled.saturating_add(retention) <= now)
            }
            State::Claimed { .. } | State::AwaitingInput | State::HeldByTask { .. } | State::Unknown => false,
        }
    }

    fn run(&mut self, owner: Owner, now: Stamp) -> Verdict<R> {
        match self.state {
            // A leg that was answered with a question, and what nobody knows, may have had effects.
            State::AwaitingInput | State::Unknown => self.doubtful = true,
            State::Claimed { .. } | State::HeldByTask { .. } | State::Committed { .. } | State::Rejected => {}
        }
        let again = matches!(self.state, State::Unknown);
        self.epoch = self.epoch.saturating_add(1);
        self.state = State::claimed(owner, now);
        self.settled_at = None;
        Verdict::Run { epoch: self.epoch, again }
    }

    const fn check(&self, epoch: u64) -> Result<(), SettleError> {
        if epoch == self.epoch { Ok(()) } else { Err(SettleError::Stale { given: epoch, last: self.epoch }) }
    }
}

impl<R> State<R> {
    fn claimed(owner: Owner, now: Stamp) -> Self {
        Self::Claimed { owner, boot: now.boot, until: now.up.saturating_add(LEASE) }
    }
}
