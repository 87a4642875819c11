//! `reserve_inventory`: stock that must be promised once, and never below zero (D-15).

use std::sync::Arc;

use rusqlite::OptionalExtension;
use serde_json::{Value, json};
use steadfast::core::subscription::Change;
use steadfast::server::toolkit::{
    Builder, Call, Contents, Failure, Resource, Template, Tool, ToolResult, Variables,
};
use steadfast_store::{Effect, Ledger, Refusal, StoreError};

use crate::finder;

/// The operation's name, which a key is bound to.
pub const OPERATION: &str = "reserve_inventory";

/// One reservation. Its key is bound to article, quantity and tenant.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
pub struct Reservation {
    /// What.
    #[schemars(length(min = 1, max = 64))]
    pub sku: String,
    /// How many; positive.
    #[schemars(range(min = 1))]
    pub quantity: i64,
    /// For whom.
    #[schemars(length(min = 1, max = 64))]
    pub tenant: String,
    /// Names the intent: the same reservation under the same key is made once.
    #[serde(default, rename = "idempotencyKey", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub key: Option<String>,
}

impl Reservation {
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

/// Where the stock of an article can be read and listened to.
const URI: &str = "inventory://";

/// Which article.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Article {
    /// Its name, such as `widget`.
    sku: String,
}

pub(crate) fn add(builder: Builder, ledger: &Arc<Ledger>) -> Builder {
    let changes = builder.changes().clone();
    let (looking, reading) = (Arc::clone(ledger), Arc::clone(ledger));
    let builder = builder
        .tool(finder::tool(
            "find_reservation",
            "Finds the reservation that was made under an idempotencyKey, for a caller whose answer was lost.",
            OPERATION,
        ))
        .tool(Tool::new(
            OPERATION,
            "Reserves stock for a tenant. An idempotencyKey is bound to article, quantity and tenant: the same \
             reservation is made once, and a changed one under the same key is refused.",
            move |call: Call, wanted: Reservation| {
                let changes = changes.clone();
                async move {
                    let changed = Change::Resource(format!("{URI}{}", wanted.sku));
                    let result = call.execute(OPERATION, move |effect| wanted.reserve(effect)).await;
                    if !result.is_error && !result.meta.contains_key("steadfast/replayed") {
                        changes.publish(&changed);
                    }
                    Ok(result)
                }
            },
        ))
        .tool(Tool::new(
            "get_inventory",
            "Says how many of an article are available, and how often it was reserved.",
            move |_: Call, Article { sku }| {
                let ledger = Arc::clone(&looking);
                async move {
                    let stock = stock(&ledger, &sku)?;
                    let stock = stock.ok_or_else(|| {
                        Failure::failed("there is no such article; try anvil, rope or widget")
                    })?;
                    Ok(ToolResult::structured(json!(stock)))
                }
            },
        ));
    let read = move |sku: String| {
        let ledger = Arc::clone(&reading);
        async move {
            let stock = stock(&ledger, &sku)?;
            let uri = format!("{URI}{sku}");
            // An article that is not there is a resource that is not there.
            Ok(stock.map(|stock| Contents::text(&uri, MIME, json!(stock).to_string())).into_iter().collect())
        }
    };
    let by_name = read.clone();
    let builder = ["anvil", "rope", "widget"].into_iter().fold(builder, |builder, sku| {
        let read = read.clone();
        builder.resource(Resource::new(
            &format!("{URI}{sku}"),
            sku,
            "How many are available, and how often it was reserved.",
            MIME,
            move |_| read(sku.to_owned()),
        ))
    });
    builder.template(Template::new(
        "inventory://{sku}",
        "stock",
        "The stock of one article.",
        MIME,
        move |_, _, variables: Variables| by_name(variables.get("sku").cloned().unwrap_or_default()),
    ))
}

const MIME: &str = "application/json";
