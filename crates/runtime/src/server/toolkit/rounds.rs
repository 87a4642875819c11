//! The rounds of a modern call: what a request brings of the earlier ones, and what it leaves for the next (MRT).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use steadfast_core::hop::Era;
use steadfast_core::time::Wall;

use super::failure::{Failure, Why};
use super::lists::refuse;
use super::questions::Question;
use super::sealed::Origin;
use super::service::Inner;
use crate::message;
use crate::server::Answer;

/// What earlier rounds brought and what this one leaves. Its `Debug` tells nothing of either.
#[derive(Default)]
pub(super) struct Rounds {
    /// What this request and its state answer.
    answers: BTreeMap<String, Value>,
    remembered: Option<Value>,
    left: Mutex<Left>,
}

/// What a round that ended without a result leaves.
#[derive(Default)]
struct Left {
    open: BTreeMap<String, Question>,
    remember: Option<Value>,
    /// What was asked before and is answered: it travels on in the state.
    taken: BTreeMap<String, Value>,
}

impl Rounds {
    /// What is answered of these questions. An answer that is none to its question is refused (MRT-27).
    pub(super) fn take(
        &self,
        questions: &BTreeMap<String, Question>,
    ) -> Result<BTreeMap<String, Value>, Failure> {
        let mut answers = BTreeMap::new();
        for (key, question) in questions {
            let Some(answer) = self.answers.get(key) else { continue };
            if !question.is_answered_by(answer) {
                let text =
                    format!("inputResponses.{key} is no answer to its question; send what it asks for");
                return Err(Failure(Why::Protocol(message::error_body(-32602, &text))));
            }
            self.left().taken.insert(key.clone(), answer.clone());
            answers.insert(key.clone(), answer.clone());
        }
        Ok(answers)
    }

    /// Leaves questions for the client to answer with its next request.
    pub(super) fn leave(&self, questions: BTreeMap<String, Question>) {
        self.left().open.extend(questions);
    }

    pub(super) const fn remembered(&self) -> Option<&Value> {
        self.remembered.as_ref()
    }

    pub(super) fn remember(&self, value: Value) {
        self.left().remember = Some(value);
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rounds")
    }
}

/// What a request state holds.
#[derive(Default, Serialize, Deserialize)]
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
    pub(super) fn rounds(&self, params: &str, origin: &Origin) -> Result<Option<Arc<Rounds>>, Answer> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            #[serde(default, deserialize_with = "present")]
            input_responses: Option<Value>,
            #[serde(default, deserialize_with = "present")]
            request_state: Option<Value>,
        }
        if origin.caller.revision.era() == Era::Legacy {
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
                .and_then(|state| self.seal.open(origin, now(), state).ok())
                .and_then(|state| serde_json::from_str(&state).ok())
                .ok_or_else(|| {
                    refuse(-32602, "requestState is not valid for this call; start the call anew without it")
                })?,
        };
        let State { mut answers, remembered } = state;
        match input_responses {
            None => {}
            // What this request says stands above what an earlier one said. What nobody asks for is not looked at
            // (MRT-28).
            Some(Value::Object(given)) => answers.extend(given),
            Some(_) => {
                return Err(refuse(-32602, "params.inputResponses must be an object; send answers by key"));
            }
        }
        Ok(Some(Arc::new(Rounds { answers, remembered, left: Mutex::default() })))
    }

    /// The answer of a round that ended with open questions: they, and where there is something to keep, the state
    /// (MRT-05, MRT-06).
    pub(super) fn input_required(&self, rounds: &Rounds, origin: &Origin) -> Answer {
        let Left { open, remember, taken } = std::mem::take(&mut *rounds.left());
        let requests: Map<String, Value> =
            open.iter().map(|(key, question)| (key.clone(), question.to_json())).collect();
        let mut result = json!({ "inputRequests": requests });
        if remember.is_some() || !taken.is_empty() {
            let state = State { answers: taken, remembered: remember };
            let expires = now().saturating_add(self.question_timeout);
            let text = serde_json::to_string(&state).unwrap_or_default();
            result["requestState"] = self.seal.close(origin, expires, &text).into();
        }
        self.result(&origin.caller, "input_required", result)
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
