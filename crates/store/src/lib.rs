//! What must outlive a process: the ledger of business intents, and durable tasks, on one SQLite file.
//!
//! Every change is a pure transition of `steadfast_core` inside one durable transaction. Any number of processes of
//! one machine may share a file; each has one writer thread that commits what waits in one go. Nobody is told of a
//! change before the file system has it.

mod calls;
mod clock;
mod file;
mod ledger;
mod sqlite;
mod tasks;

pub use calls::{CallLog, CallView};
pub use clock::{Clock, SystemClock, of_rfc_3339, rfc_3339};
pub use ledger::{
    Answer, Claimed, ExecuteError, Executed, Execution, Intent, Ledger, LedgerView, Line, Options, Refusal,
};
pub use sqlite::{Effect, OpenError, StoreError};
pub use tasks::{NewTask, Seen, Taken, TaskFailure, Tasks, Work};
