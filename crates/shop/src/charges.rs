//! `charge_account`: money that must not be taken twice.

use serde_json::{Value, json};
use steadfast::server::toolkit::{Builder, Call, Tool};
use steadfast_store::{Effect, Refusal};

use crate::finder;

/// The operation's name, which a key is bound to.
pub const OPERATION: &str = "charge_account";

/// One charge.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
pub struct Charge {
    /// Whom to charge.
    #[schemars(length(min = 1, max = 128))]
    pub account: String,
    /// How much, in cents; positive.
    #[schemars(range(min = 1))]
    pub cents: i64,
    /// Names the intent: the same charge under the same key happens once.
    #[serde(default, rename = "idempotencyKey", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub key: Option<String>,
}

impl Charge {
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

pub(crate) fn add(builder: Builder) -> Builder {
    builder
        .tool(Tool::new(
            OPERATION,
            "Charges an account. With an idempotencyKey the same charge never happens twice, however often it is \
             asked for; without one each call charges again.",
            |call: Call, charge: Charge| async move {
                Ok(call.execute(OPERATION, move |effect| charge.take(effect)).await)
            },
        ))
        .tool(finder::tool(
            "find_charge",
            "Finds the charge that was made under an idempotencyKey, for a caller whose answer was lost.",
            OPERATION,
        ))
}
