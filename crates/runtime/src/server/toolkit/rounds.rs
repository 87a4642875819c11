//! The rounds of a modern call: what a request brings of the earlier ones, and what it leaves for the next (MRT).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use steadfast_core::hop::Era;
use steadfast_core::time::Wall;

use super::dialogue::Rounds;
use super::lists::refuse;
use super::sealed::Bound;
use super::service::Inner;
use crate::server::{Answer, Caller};

/// What a request state holds.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    /// The answers of earlier rounds.
    #[serde(default, rename = "a")]
    answers: BTreeMap<String, Value>,
    /// What the handler remembered.
    #[serde(default, rename = "r")]
    remembered: Option<Value>,
}

impl Inner {
    /// What a request brings; `None` for a legacy caller, who is asked while the call runs. An answer to an error is
    /// the error.
    pub(super) fn rounds(
        &self,
        caller: &Caller,
        params: &str,
        bound: &Bound<'_>,
    ) -> Result<Option<Arc<Rounds>>, Answer> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            #[serde(default, deserialize_with = "present")]
            input_responses: Option<Value>,
            #[serde(default, deserialize_with = "present")]
            request_state: Option<Value>,
        }
        if caller.revision.era() == Era::Legacy {
            return Ok(None);
        }
        let Ok(Params { input_responses, request_state }) = serde_json::from_str(params) else {
            return Err(refuse(-32602, "params name a member twice; send each once"));
        };
        let state = match request_state {
            None => State::default(),
            // What was changed, lent or kept too long is not told apart (MRT-32).
            Some(state) => state
                .as_str()
                .and_then(|state| self.seal.open(bound, now(), state).ok())
                .and_then(|state| serde_json::from_str(&state).ok())
                .ok_or_else(|| {
                    refuse(-32602, "requestState is not valid for this call; start the call anew without it")
                })?,
        };
        let State { mut answers, remembered } = state;
        match input_responses {
            None => {}
            // What this request says stands above what an earlier one said.
            Some(Value::Object(given)) => answers.extend(given),
            Some(_) => {
                return Err(refuse(-32602, "params.inputResponses must be an object; send answers by key"));
            }
        }
        Ok(Some(Arc::new(Rounds::new(answers, remembered))))
    }

    /// The answer of a round that ended with open questions: they, and where there is something to keep, the state.
    pub(super) fn input_required(&self, caller: &Caller, rounds: &Rounds, bound: &Bound<'_>) -> Answer {
        let left = rounds.end();
        let mut result = json!({});
        let requests: Map<String, Value> = left.requests();
        result["inputRequests"] = requests.into();
        if left.remember.is_some() || !left.taken.is_empty() {
            let state = State { answers: left.taken, remembered: left.remember };
            let expires = now().saturating_add(self.question_timeout);
            let text = serde_json::to_string(&state).unwrap_or_default();
            result["requestState"] = self.seal.close(bound, expires, &text).into();
        }
        self.result(caller, "input_required", result)
    }
}

fn now() -> Wall {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Wall::from_unix_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// A member that is `null` is there, and not absent.
fn present<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(reader).map(Some)
}
