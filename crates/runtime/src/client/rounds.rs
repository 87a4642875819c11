//! Multi round-trip calls: a server asks before it answers, and the host does (MRT).
//!
//! Each round is a request of its own with its own clocks. The time of whoever answers is in none of them, and no slot
//! is held meanwhile.

use std::time::Duration;

use steadfast_core::error::Outcome;
use steadfast_core::exchange::Clock;
use steadfast_core::object::Members;

use super::attempts::{Ask, Done, Pipeline, ResultKind};
use super::error::{Category, Error};
use super::handler::{self, NoAnswer, Question};
use super::options::CallOptions;

/// The pause before the first round without questions; each further one doubles it (MRT-20).
const LOADED: Duration = Duration::from_millis(250);

/// One question, as a round or a task asks it.
pub(super) struct Asked {
    method: String,
    params: String,
}

impl Asked {
    pub(super) fn of(request: &str) -> Result<Self, &'static str> {
        let request = Members::parse(request).map_err(|_| "one of its questions is no object")?;
        let method = request.get_str("method").ok_or("one of its questions names no method")?;
        let known = ["elicitation/create", "sampling/createMessage", "roots/list"];
        if !known.contains(&method.as_str()) {
            return Err("one of its questions is of an unknown method");
        }
        let params = request.get("params").unwrap_or("{}").to_owned();
        Ok(Self { method, params })
    }
}

/// What an `InputRequiredResult` says.
struct Required {
    questions: Vec<(String, Asked)>,
    /// `requestState`, its JSON as it came: it is echoed and nothing else (MRT-13, MRT-15, I-23).
    state: Option<String>,
}

impl Required {
    fn of(result: &[u8]) -> Result<Self, &'static str> {
        let result = std::str::from_utf8(result).map_err(|_| "it is not UTF-8")?;
        let result = Members::parse(result).map_err(|_| "it is no object")?;
        let state = result.get("requestState").map(str::to_owned);
        if state.as_deref().is_some_and(|state| !state.starts_with('"')) {
            return Err("its requestState is no string");
        }
        let mut questions = Vec::new();
        if let Some(requests) = result.get("inputRequests") {
            let requests = Members::parse(requests).map_err(|_| "its inputRequests are no object")?;
            for (key, request) in requests.iter() {
                questions.push((key.to_owned(), Asked::of(request)?));
            }
        }
        if questions.is_empty() && state.is_none() {
            return Err("it asks nothing and has no requestState");
        }
        Ok(Self { questions, state })
    }
}

impl Pipeline {
    /// Asks, and answers what is asked in return, until there is a result.
    pub(super) async fn ask_in_rounds(&self, ask: Ask<'_>, options: &mut CallOptions) -> Result<Done, Error> {
        let mut done = self.ask(Ask { ..ask }, options).await?;
        let mut rounds = 0;
        let mut pause = LOADED;
        while done.kind == ResultKind::InputRequired {
            rounds += 1;
            if rounds > self.config.max_rounds {
                let sentence = format!(
                    "server {} asked for more than {} rounds",
                    self.config.name, self.config.max_rounds
                );
                return Err(not_done(&done, Category::Questions, sentence));
            }
            let required = Required::of(&done.result).map_err(|why| {
                let sentence =
                    format!("server {} asked in a way that cannot be answered: {why}", self.config.name);
                not_done(&done, Category::InvalidResponse, sentence)
            })?;
            let responses = if required.questions.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    error = self.between(&done, options) => return Err(error),
                }
                pause = pause.saturating_mul(2);
                None
            } else {
                Some(self.answers(&done, &required, options).await?)
            };
            // Everything but the answers is as it was (MRT-19); nothing of an earlier round is sent again (MRT-14).
            let mut params = Members::parse(ask.params).unwrap_or_default();
            params.remove("inputResponses");
            params.remove("requestState");
            if let Some(responses) = responses {
                params.set("inputResponses", responses);
            }
            if let Some(state) = required.state {
                params.set("requestState", state);
            }
            let params = params.to_json();
            done = self.ask(Ask { params: &params, leg_of: Some(&done), ..ask }, options).await?;
        }
        Ok(done)
    }

    /// Ends when nobody waits for the next round any more: the call was given up, or must be over.
    async fn between(&self, done: &Done, options: &CallOptions) -> Error {
        let must_end = self.must_end(done.began, options);
        tokio::select! {
            miss = self.thrown(options) => not_done(done, miss.category, "the call was given up between two rounds".to_owned()),
            () = self.clock.sleep_until(Some(must_end)) => Error::Local {
                category: Category::Deadline,
                clock: Some(Clock::Maximum),
                outcome: Outcome::Unknown,
                sentence: "the call's deadline was reached between two rounds".to_owned(),
                call_id: done.call_id.clone(),
            },
        }
    }

    /// The answers to one round's questions, under their keys.
    async fn answers(
        &self,
        done: &Done,
        required: &Required,
        options: &CallOptions,
    ) -> Result<String, Error> {
        let mut answers = Members::default();
        for (key, asked) in &required.questions {
            let answer = tokio::select! {
                answer = self.answer(asked) => answer,
                error = self.between(done, options) => return Err(error),
            };
            let answer = answer.map_err(|sentence| not_done(done, Category::Questions, sentence))?;
            answers.set(key, answer);
        }
        Ok(answers.to_json())
    }

    /// The host's answer to one question as it goes into `inputResponses`, or why there is none. A refusal cannot be
    /// told to the server: there is simply nothing further (MRT-21, AMB-32).
    pub(super) async fn answer(&self, asked: &Asked) -> Result<String, String> {
        let Asked { method, params } = asked;
        let question =
            Question { server: self.config.name.clone(), method: method.clone(), params: params.clone() };
        let answer =
            tokio::time::timeout(self.config.question_limit, handler::ask(&*self.handler, question)).await;
        let answer = answer
            .unwrap_or(Err(NoAnswer::TimedOut))
            .map_err(|why| format!("server {} asked {method}, and {why}", self.config.name))?;
        let mut answer = Members::parse(&answer)
            .map_err(|_| format!("the host's answer to {method} is no JSON object; return one"))?;
        answer.remove("resultType");
        Ok(answer.to_json())
    }
}

/// Earlier rounds were answered, and what the server did in them nobody here knows.
fn not_done(done: &Done, category: Category, sentence: String) -> Error {
    Error::Local { category, clock: None, outcome: Outcome::Unknown, sentence, call_id: done.call_id.clone() }
}
