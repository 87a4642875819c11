//! `charge_account`: money that must not be taken twice.

use std::sync::Arc;

use serde_json::{Value, json};
use steadfast::server::tools::{ToolResult, Tools};
use steadfast_store::{Effect, Ledger, Refusal};

use crate::mutation;

/// The operation's name, which a key is bound to.
pub const OPERATION: &str = "charge_account";

/// One charge, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Whom to charge.
    pub account: String,
    /// How much, in cents; positive.
    pub cents: i64,
}

impl Charge {
    /// Reads a tool's arguments.
    ///
    /// # Errors
    /// What is wrong with them, and where.
    pub fn read(arguments: &serde_json::Map<String, Value>) -> Result<Self, String> {
        let account = arguments.get("account").and_then(Value::as_str).unwrap_or_default();
        if account.is_empty() || account.len() > 128 {
            return Err("/account must be a string of 1 to 128 bytes".into());
        }
        match arguments.get("cents").and_then(Value::as_i64) {
            Some(cents) if cents > 0 => Ok(Self { account: account.to_owned(), cents }),
            _ => Err("/cents must be a whole number above 0".into()),
        }
    }

    /// Takes the money: the effect, to be run inside the ledger's transaction. The receipt is numbered by the
    /// execution, so a second execution could not hide.
    ///
    /// # Errors
    /// The store refused the statement.
    pub fn take(&self, effect: &Effect<'_>) -> Result<Value, Refusal> {
        effect.execute(
            "INSERT INTO shop_charge (receipt, account, cents) VALUES (?1, ?2, ?3)",
            (i64::try_from(effect.execution()).unwrap_or(i64::MAX), &self.account, self.cents),
        )?;
        Ok(json!({
            "receipt": format!("r-{:06}", effect.execution()),
            "account": self.account,
            "cents": self.cents,
        }))
    }
}

/// The shop's table of charges.
pub(crate) const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS shop_charge (
    receipt INTEGER PRIMARY KEY, account TEXT NOT NULL, cents INTEGER NOT NULL CHECK (cents > 0))";

pub(crate) fn add(tools: Tools, ledger: &Arc<Ledger>) -> Tools {
    let charging = Arc::clone(ledger);
    let tools = tools.with(
        OPERATION,
        "Charges an account. With an idempotencyKey the same charge never happens twice, however often it is asked \
         for; without one each call charges again.",
        json!({
            "type": "object",
            "properties": {
                "account": { "type": "string", "minLength": 1, "maxLength": 128 },
                "cents": { "type": "integer", "minimum": 1 },
                "idempotencyKey": { "type": "string", "minLength": 1, "maxLength": 255 },
            },
            "required": ["account", "cents"],
        }),
        move |call| {
            let ledger = Arc::clone(&charging);
            async move {
                match Charge::read(&call.arguments) {
                    Ok(charge) => {
                        mutation::run(ledger, call, OPERATION, move |effect| charge.take(effect)).await
                    }
                    Err(fault) => ToolResult::error(fault),
                }
            }
        },
    );
    mutation::add_finder(
        tools,
        ledger,
        "find_charge",
        "Finds the charge that was made under an idempotencyKey, for a caller whose answer was lost.",
        OPERATION,
    )
}
