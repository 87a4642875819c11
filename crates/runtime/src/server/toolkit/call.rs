//! One call of a tool, as its handler sees it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Map, Value};
use steadfast_core::envelope::{NotAString, Params};
use steadfast_core::fingerprint::{Carrier, Key, Scope};
use steadfast_core::ijson::Document;
use steadfast_core::task::TaskOwner;
use steadfast_store::{Effect, Ledger, Refusal};

use super::content::ToolResult;
use super::dialogue::Dialogue;
use super::effect;
use super::failure::Failure;

/// The argument that carries an idempotency key, as a pointer into the arguments.
const KEY_POINTER: &str = "/idempotencyKey";

/// One call of a tool: its arguments, its key and its effects. It derefs to the [`Dialogue`] with its caller.
#[derive(Clone)]
pub struct Call {
    pub(super) arguments: Arc<Map<String, Value>>,
    pub(super) keyed: Keyed,
    pub(super) dialogue: Dialogue,
}

/// The key of a call, and what it is bound to.
#[derive(Clone, Default)]
pub(super) struct Keyed {
    key: Option<Key>,
    bound: Vec<u8>,
}

impl Call {
    /// The arguments, as they came; they are what the tool's schema says.
    pub fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }

    /// The business intent, where the caller named one: in `_meta["steadfast/idempotencyKey"]`, in
    /// `params.idempotencyKey` or in the argument `idempotencyKey`.
    pub const fn key(&self) -> Option<&Key> {
        self.keyed.key.as_ref()
    }

    /// Progress, log entries, the cancel switch, and questions to the user.
    pub const fn dialogue(&self) -> &Dialogue {
        &self.dialogue
    }

    /// Runs an effect on the server's ledger: with a key at most once, however often it is called, in one durable
    /// transaction with the record of the key (G7, D-12); without a key each time. A later call under the key gets the
    /// stored answer, marked `steadfast/replayed`; the same key with anything else is refused.
    ///
    /// The effect may run again if its transaction was lost before it was durable: it must do nothing but its SQL, and
    /// it has 1 s (ruling 12).
    pub async fn execute<F>(&self, operation: &'static str, effect: F) -> ToolResult
    where
        F: FnMut(&Effect<'_>) -> Result<Value, Refusal> + Send + 'static,
    {
        let Some(ledger) = self.ledger() else {
            return ToolResult::error(NO_LEDGER);
        };
        let Keyed { key, bound } = &self.keyed;
        effect::execute(ledger, self.scope(), key.clone(), bound, operation, effect).await
    }

    /// What an operation answered that was committed under a key of this caller, for one whose own answer was lost;
    /// `None` if nothing was committed.
    ///
    /// # Errors
    /// The key is none, or the ledger cannot be read.
    pub async fn find(&self, operation: &'static str, key: &str) -> Result<Option<Value>, Failure> {
        let ledger = self.ledger().ok_or_else(|| Failure::failed(NO_LEDGER))?;
        effect::find(ledger, self.scope(), operation, Key::new(key)?).await
    }

    fn ledger(&self) -> Option<&Arc<Ledger>> {
        self.dialogue.server.ledger.as_ref()
    }

    /// Whose key it is.
    fn scope(&self) -> Scope {
        let TaskOwner { tenant, principal } = self.caller().principal.clone();
        Scope { tenant, principal, server: self.dialogue.server.name.clone() }
    }
}

const NO_LEDGER: &str = "this server keeps no ledger; build it with one";

impl Deref for Call {
    type Target = Dialogue;

    fn deref(&self) -> &Dialogue {
        &self.dialogue
    }
}

/// Arguments and keys reach no log.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("is_keyed", &self.key().is_some()).finish_non_exhaustive()
    }
}

impl Keyed {
    /// The key that the carriers of a call agree on, and the canonical arguments without the member that carries it.
    ///
    /// # Errors
    /// Two carriers disagree, a key is no key, or the arguments cannot be bound to it: the sentence that says so.
    pub(super) fn of(params: &Params<'_>, raw: &str, arguments: &Map<String, Value>) -> Result<Self, String> {
        let mut carried = [None, None, None];
        for (place, key) in carried.iter_mut().zip([&params.meta.idempotency_key, &params.idempotency_key]) {
            *place = key.as_ref().map(|key| key.as_deref()).transpose().map_err(ToString::to_string)?;
        }
        carried[2] = match arguments.get("idempotencyKey") {
            None => None,
            Some(Value::String(key)) => Some(key),
            // A key that is no string is an error and not an absent one: its sender believes the call to be keyed.
            Some(_) => return Err(NotAString.to_string()),
        };
        let carriers = [Carrier::Meta, Carrier::Params, Carrier::Arguments].into_iter().zip(carried);
        let key = Key::from_carriers(carriers).map_err(|error| error.to_string())?;
        let mut bound = Vec::new();
        if key.is_some() {
            // From the text that came: the parsed arguments no longer show what two readers could read differently.
            let mut document = Document::parse(raw.as_bytes())
                .map_err(|fault| format!("the arguments cannot be bound to a key: {fault}"))?;
            document.remove(KEY_POINTER);
            bound = document.canonical().into_bytes();
        }
        Ok(Self { key, bound })
    }
}
