//! What is remembered of a call: one record an attempt, without arguments, results, tokens or private URIs (G15, D-47).

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use steadfast_store::CallLog;

/// One attempt of one call. An attempt that was refused here has the number 0 and no request id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// The call; every attempt and round of it has the same.
    pub call_id: String,
    /// The trace that the call belongs to: 32 hex digits.
    pub trace_id: String,
    /// The attempt's span in it, which the server's spans have as their parent: 16 hex digits.
    pub span_id: Option<String>,
    /// The agent's run, where the caller names one.
    pub agent_run_id: Option<String>,
    /// The server's configured name.
    pub server_key: String,
    /// `stdio` or `http`; absent if there was no connection.
    pub transport: Option<String>,
    /// The revision spoken.
    pub protocol_version: Option<String>,
    /// The request's id on the wire, as JSON.
    pub request_id: Option<String>,
    /// What was asked for.
    pub method: String,
    /// The tool or prompt; of a resource nothing, since a URI may be private.
    pub tool_name: Option<String>,
    /// Which attempt; 0 if nothing was tried.
    pub attempt: u32,
    /// Which round of questions; the first request is 0.
    pub round: u32,
    /// How long the call waited for its turn.
    pub queue_wait_ms: u64,
    /// From the first byte to the end.
    pub network_time_ms: Option<u64>,
    /// What the server says that it took.
    pub server_processing_time_ms: Option<u64>,
    /// Whether it was answered from the cache.
    pub cache_hit: bool,
    /// How old the catalog was that it was answered from or checked against.
    pub cache_age_ms: Option<u64>,
    /// Whether that catalog was stale.
    pub cache_stale: bool,
    /// Whether the caller gave up.
    pub cancelled: bool,
    /// Whether another attempt followed, or may.
    pub retryable: bool,
    /// `protocol`, `transport`, `local` or `tool`; absent if it was answered.
    pub error_kind: Option<String>,
    /// The JSON-RPC code or the category.
    pub error_code: Option<String>,
    /// Whether bytes may have left.
    pub sent: bool,
    /// Whether the peer answered.
    pub answered: bool,
    /// Whether the server took the headers for equal to the body; absent where there are none to compare.
    pub headers_equal: Option<bool>,
    /// `not_executed`, `executed` or `unknown`.
    pub outcome: String,
    /// Whether the call carried an idempotency key.
    pub keyed: bool,
    /// What decided against, or for, another attempt.
    pub verdict: Option<String>,
    /// When it ended: milliseconds since 1970.
    pub ended_unix_ms: u64,
}

/// Keeps records.
pub trait Recorder: Send + Sync {
    /// An attempt ended. Must not wait: it is called between the answer and its caller.
    fn record(&self, record: &Record);
}

/// Records that outlive the process, for `steadfast explain`.
impl Recorder for CallLog {
    fn record(&self, record: &Record) {
        // It is all strings and numbers, which JSON can write.
        if let Ok(json) = serde_json::to_string(record) {
            self.append(&record.call_id, json);
        }
    }
}

/// How many attempts are kept in memory.
const KEPT: usize = 1_024;

/// The last records, in memory.
#[derive(Debug, Default)]
pub struct Recent(Mutex<VecDeque<Record>>);

impl Recent {
    /// What is remembered of a call, in order.
    pub fn of(&self, call_id: &str) -> Vec<Record> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().filter(|record| record.call_id == call_id).cloned().collect()
    }

    /// All that are kept, oldest first.
    pub fn all(&self) -> Vec<Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Recorder for Recent {
    fn record(&self, record: &Record) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(record.clone());
    }
}
