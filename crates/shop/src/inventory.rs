//! `reserve_inventory`: stock that must be promised once, and never below zero (D-15).

use std::sync::Arc;

use rusqlite::OptionalExtension;
use serde_json::{Value, json};
use steadfast::server::tools::{ToolResult, Tools};
use steadfast_store::{Effect, Ledger, Refusal, StoreError};

use crate::mutation;

/// The operation's name, which a key is bound to.
pub const OPERATION: &str = "reserve_inventory";

/// One reservation, checked. Its key is bound to all three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// What.
    pub sku: String,
    /// How many; positive.
    pub quantity: i64,
    /// For whom.
    pub tenant: String,
}

impl Reservation {
    /// Reads a tool's arguments.
    ///
    /// # Errors
    /// What is wrong with them, and where.
    pub fn read(arguments: &serde_json::Map<String, Value>) -> Result<Self, String> {
        let text = |name: &str| match arguments.get(name).and_then(Value::as_str) {
            Some(text) if !text.is_empty() && text.len() <= 64 => Ok(text.to_owned()),
            _ => Err(format!("/{name} must be a string of 1 to 64 bytes")),
        };
        let (sku, tenant) = (text("sku")?, text("tenant")?);
        match arguments.get("quantity").and_then(Value::as_i64) {
            Some(quantity) if quantity > 0 => Ok(Self { sku, quantity, tenant }),
            _ => Err("/quantity must be a whole number above 0".into()),
        }
    }

    /// Reserves: the effect, to be run inside the ledger's transaction.
    ///
    /// # Errors
    /// There is no such article, or too little of it; nothing changed then.
    pub fn reserve(&self, effect: &Effect<'_>) -> Result<Value, Refusal> {
        let left: Option<i64> = effect.query(
            "UPDATE shop_stock SET available = available - ?2 WHERE sku = ?1 AND available >= ?2 RETURNING available",
            (&self.sku, self.quantity),
        )?;
        let Some(left) = left else {
            let available: Option<i64> =
                effect.query("SELECT available FROM shop_stock WHERE sku = ?1", [&self.sku])?;
            return Err(Refusal(match available {
                None => format!("there is no article {:?}; ask get_inventory", self.sku),
                Some(available) => {
                    format!("only {available} of {:?} are available; reserve fewer", self.sku)
                }
            }));
        };
        let number: Option<i64> = effect.query(
            "INSERT INTO shop_reservation (tenant, sku, quantity) VALUES (?1, ?2, ?3) RETURNING number",
            (&self.tenant, &self.sku, self.quantity),
        )?;
        Ok(json!({
            "reservation": format!("v-{:06}", number.unwrap_or_default()),
            "sku": self.sku,
            "quantity": self.quantity,
            "tenant": self.tenant,
            "available": left,
        }))
    }
}

/// The shop's shelves, filled when they are first made, and its reservations.
pub(crate) const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS shop_stock (
    sku TEXT PRIMARY KEY, available INTEGER NOT NULL CHECK (available >= 0)) WITHOUT ROWID;
INSERT OR IGNORE INTO shop_stock VALUES ('anvil', 10), ('rope', 100), ('widget', 1000);
CREATE TABLE IF NOT EXISTS shop_reservation (
    number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL)";

/// The record that a caller fetches again before it decides anything.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Stock {
    /// Which article.
    pub sku: String,
    /// How many are left.
    pub available: i64,
    /// How many reservations there are.
    pub reservations: i64,
}

/// Looks an article up; `None` if there is no such article.
///
/// # Errors
/// The store cannot be read.
pub fn stock(ledger: &Ledger, sku: &str) -> Result<Option<Stock>, StoreError> {
    ledger.look(|connection| {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Stock { sku: row.get(0)?, available: row.get(1)?, reservations: row.get(2)? })
        };
        connection
            .prepare_cached(
                "SELECT sku, available, (SELECT count(*) FROM shop_reservation WHERE sku = ?1)
                 FROM shop_stock WHERE sku = ?1",
            )?
            .query_row([sku], read)
            .optional()
    })
}

pub(crate) fn add(tools: Tools, ledger: &Arc<Ledger>) -> Tools {
    let (reserving, looking) = (Arc::clone(ledger), Arc::clone(ledger));
    let tools = mutation::add_finder(
        tools,
        ledger,
        "find_reservation",
        "Finds the reservation that was made under an idempotencyKey, for a caller whose answer was lost.",
        OPERATION,
    );
    tools
        .with(
            OPERATION,
            "Reserves stock for a tenant. An idempotencyKey is bound to article, quantity and tenant: the same \
             reservation is made once, and a changed one under the same key is refused.",
            json!({
                "type": "object",
                "properties": {
                    "sku": { "type": "string", "minLength": 1, "maxLength": 64 },
                    "quantity": { "type": "integer", "minimum": 1 },
                    "tenant": { "type": "string", "minLength": 1, "maxLength": 64 },
                    "idempotencyKey": { "type": "string", "minLength": 1, "maxLength": 255 },
                },
                "required": ["sku", "quantity", "tenant"],
            }),
            move |call| {
                let ledger = Arc::clone(&reserving);
                async move {
                    match Reservation::read(&call.arguments) {
                        Ok(wanted) => {
                            mutation::run(ledger, call, OPERATION, move |effect| wanted.reserve(effect)).await
                        }
                        Err(fault) => ToolResult::error(fault),
                    }
                }
            },
        )
        .with(
            "get_inventory",
            "Says how many of an article are available, and how often it was reserved.",
            json!({
                "type": "object",
                "properties": { "sku": { "type": "string" } },
                "required": ["sku"],
            }),
            move |call| {
                let ledger = Arc::clone(&looking);
                async move {
                    let sku = call.arguments.get("sku").and_then(Value::as_str).unwrap_or_default();
                    match stock(&ledger, sku) {
                        Ok(Some(stock)) => ToolResult::structured(json!(stock)),
                        Ok(None) => ToolResult::error("there is no such article; try anvil, rope or widget"),
                        Err(error) => ToolResult::error(error.to_string()),
                    }
                }
            },
        )
}
