//! A charge whose response is lost, on a real ledger file.

use std::path::Path;
use std::sync::Barrier;

use serde::Serialize;
use serde_json::{Value, json};
use steadfast::core::fingerprint::{Key, Scope};
use steadfast_shop::charges::{Charge, OPERATION};
use steadfast_store::{ExecuteError, Executed, Execution, Ledger, LedgerView, Line, Options};

use crate::exit::Failure;

/// One attempt, as its caller and an onlooker see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Attempt {
    /// The JSON-RPC id: a new one each time, and never what tells attempts apart.
    pub(crate) request_id: u64,
    pub(crate) key: Option<&'static str>,
    pub(crate) cents: i64,
    /// `executed`, `replayed` or `refused`.
    pub(crate) outcome: &'static str,
    pub(crate) receipt: Option<String>,
    pub(crate) response: &'static str,
    /// How often the operation has been executed on this file by then.
    pub(crate) executions: u64,
}

/// The charge with and without a key, reopened, and reused with another amount.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Story {
    pub(crate) attempts: Vec<Attempt>,
    /// The record of the key, as `ledger show` prints it.
    pub(crate) record: Vec<Line>,
}

/// Same key, two connections at a barrier; then reopened; then one answer spoiled by its caller.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Concurrency {
    pub(crate) rounds: u64,
    pub(crate) executions: u64,
    pub(crate) equal_answers: bool,
    pub(crate) after_reopening: Value,
    pub(crate) after_a_caller_changed_its_copy: Value,
    pub(crate) untouched: bool,
}

pub(crate) fn open(path: &Path) -> Result<Ledger, Failure> {
    let ledger = Ledger::open(path, Options::default())?;
    steadfast_shop::prepare(&ledger)?;
    Ok(ledger)
}

fn charge(ledger: &Ledger, key: Option<&str>, cents: i64) -> Result<Executed, ExecuteError> {
    let charge = Charge { account: "acme".into(), cents, key: None };
    let arguments = json!({ "account": charge.account, "cents": cents }).to_string();
    let execution = Execution {
        scope: Scope::local(steadfast_shop::NAME),
        key: key.and_then(|key| Key::new(key).ok()),
        operation: OPERATION,
        arguments: arguments.as_bytes(),
    };
    ledger
        .execute(execution, move |effect| charge.take(effect).map(|receipt| receipt.to_string().into_bytes()))
}

fn answer(executed: &Executed) -> Value {
    serde_json::from_slice(&executed.answer).unwrap_or_default()
}

/// Tells the story on a new file.
pub(crate) fn tell(path: &Path) -> Result<Story, Failure> {
    let mut attempts = Vec::new();
    let mut ledger = open(path)?;
    let steps = [
        (None, 500, "lost"),
        (None, 500, "delivered"),
        (Some("order-17"), 500, "lost"),
        (Some("order-17"), 500, "delivered"),
        (Some("order-17"), 900, "delivered"),
    ];
    for (request_id, (key, cents, response)) in (1..).zip(steps) {
        if key.is_some() && response == "delivered" {
            // The process that had the lost attempt is gone; only the file is left.
            drop(ledger);
            ledger = open(path)?;
        }
        let outcome = charge(&ledger, key, cents);
        let (word, receipt) = match &outcome {
            Ok(executed) => {
                let receipt = answer(executed)["receipt"].as_str().map(str::to_owned);
                (if executed.replayed { "replayed" } else { "executed" }, receipt)
            }
            Err(ExecuteError::Mismatch) => ("refused", None),
            Err(error) => return Err(Failure::new(crate::exit::Code::Negative, error)),
        };
        let executions = LedgerView::open(path, Options::default())?.executions(OPERATION)?;
        attempts.push(Attempt { request_id, key, cents, outcome: word, receipt, response, executions });
    }
    Ok(Story { attempts, record: LedgerView::open(path, Options::default())?.show("order-17")? })
}

/// Races two connections, then reopens, then spoils an answer.
pub(crate) fn race(path: &Path, rounds: u64) -> Result<Concurrency, Failure> {
    let ledgers = [open(path)?, open(path)?];
    let mut equal_answers = true;
    for round in 0..rounds {
        let key = format!("key-{round}");
        let barrier = Barrier::new(2);
        let answers = std::thread::scope(|scope| {
            ledgers
                .each_ref()
                .map(|ledger| {
                    let (barrier, key) = (&barrier, &key);
                    scope.spawn(move || {
                        barrier.wait();
                        charge(ledger, Some(key), 500)
                    })
                })
                .map(|racer| racer.join().ok().and_then(Result::ok))
        });
        equal_answers &= match answers {
            [Some(a), Some(b)] => a.answer == b.answer && a.replayed != b.replayed,
            _ => false,
        };
    }
    drop(ledgers);
    let ledger = open(path)?;
    let mut first = charge(&ledger, Some("key-0"), 500)?;
    let after_reopening = answer(&first);
    first.answer.fill(b'!');
    let second = answer(&charge(&ledger, Some("key-0"), 500)?);
    let executions = LedgerView::open(path, Options::default())?.executions(OPERATION)?;
    Ok(Concurrency {
        rounds,
        executions,
        equal_answers,
        untouched: second == after_reopening,
        after_reopening,
        after_a_caller_changed_its_copy: second,
    })
}
