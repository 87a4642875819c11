//! Why the ledger's table is what it is: layouts and checkpoint intervals against each other, as ratios within one run.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use steadfast_core::rng::Rng;

const BATCH: usize = 64;
const RUN: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;

struct Layout {
    name: &'static str,
    schema: &'static str,
    insert: &'static str,
    checkpoint_pages: i64,
    ordered_keys: bool,
}

const TEXT_SCHEMA: &str =
    "CREATE TABLE r (key TEXT PRIMARY KEY, fingerprint BLOB, answer BLOB) WITHOUT ROWID";
const TEXT_INSERT: &str = "INSERT INTO r VALUES (?1, ?3, ?4)";
const HASH_SCHEMA: &str =
    "CREATE TABLE r (id INTEGER PRIMARY KEY, hash INTEGER, key TEXT, fingerprint BLOB, answer BLOB);
                           CREATE INDEX r_by_hash ON r (hash)";
const HASH_INSERT: &str = "INSERT INTO r (hash, key, fingerprint, answer) VALUES (?2, ?1, ?3, ?4)";

const END_SCHEMA: &str =
    "CREATE TABLE r (id INTEGER PRIMARY KEY, hash INTEGER, key TEXT, fingerprint BLOB, answer BLOB, ended INTEGER);
                          CREATE INDEX r_by_hash ON r (hash);
                          CREATE INDEX r_by_end ON r (ended)";
const END_INSERT: &str =
    "INSERT INTO r (hash, key, fingerprint, answer, ended) VALUES (?2, ?1, ?3, ?4, unixepoch())";

const LAYOUTS: [Layout; 7] = [
    Layout {
        name: "rowid, 64-bit hash index, checkpoint 8,000",
        schema: HASH_SCHEMA,
        insert: HASH_INSERT,
        checkpoint_pages: 8_000,
        ordered_keys: false,
    },
    Layout {
        name: "the same, and an index on when it ended",
        schema: END_SCHEMA,
        insert: END_INSERT,
        checkpoint_pages: 8_000,
        ordered_keys: false,
    },
    Layout {
        name: "rowid, 64-bit hash index, checkpoint 1,000",
        schema: HASH_SCHEMA,
        insert: HASH_INSERT,
        checkpoint_pages: 1_000,
        ordered_keys: false,
    },
    Layout {
        name: "rowid, 64-bit hash index, checkpoint 32,000",
        schema: HASH_SCHEMA,
        insert: HASH_INSERT,
        checkpoint_pages: 32_000,
        ordered_keys: false,
    },
    Layout {
        name: "text key without rowid, checkpoint 8,000",
        schema: TEXT_SCHEMA,
        insert: TEXT_INSERT,
        checkpoint_pages: 8_000,
        ordered_keys: false,
    },
    Layout {
        name: "text key without rowid, checkpoint 1,000",
        schema: TEXT_SCHEMA,
        insert: TEXT_INSERT,
        checkpoint_pages: 1_000,
        ordered_keys: false,
    },
    Layout {
        name: "text key without rowid, keys in time order",
        schema: TEXT_SCHEMA,
        insert: TEXT_INSERT,
        checkpoint_pages: 8_000,
        ordered_keys: true,
    },
];

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut rates = LAYOUTS.each_ref().map(|_| Vec::new());
    for round in 0..ROUNDS {
        for (index, layout) in LAYOUTS.iter().enumerate() {
            rates[index].push(measure(&folder.path().join(format!("{index}-{round}.db")), layout));
        }
    }
    let medians = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    println!(
        "records with a 1 KiB answer, {BATCH} a commit, medians of {ROUNDS} runs; the first layout is 1"
    );
    for (layout, median) in LAYOUTS.iter().zip(medians) {
        println!("{:<44} {median:>8.0}/s  {:.2}", layout.name, median / medians[0]);
    }
}

fn measure(path: &Path, layout: &Layout) -> f64 {
    let connection = Connection::open(path).expect("a file");
    connection.pragma_update(None, "journal_mode", "WAL").expect("WAL");
    connection.pragma_update(None, "synchronous", "FULL").expect("FULL");
    connection.pragma_update(None, "wal_autocheckpoint", layout.checkpoint_pages).expect("checkpoint");
    connection.execute_batch(layout.schema).expect("the schema");
    let mut rng = Rng::new(7);
    let answer = vec![b'x'; 1_024];
    let (start, mut records) = (Instant::now(), 0_u64);
    while start.elapsed() < RUN {
        connection.execute_batch("BEGIN IMMEDIATE").expect("begin");
        for _ in 0..BATCH {
            let hash = rng.next_u64() as i64;
            let key = if layout.ordered_keys {
                format!("{records:032x}")
            } else {
                format!("{hash:016x}{:016x}", rng.next_u64())
            };
            connection
                .prepare_cached(layout.insert)
                .and_then(|mut it| it.execute(params![key, hash, [7_u8; 32], answer]))
                .expect("an insert");
            records += 1;
        }
        connection.execute_batch("COMMIT").expect("commit");
    }
    records as f64 / start.elapsed().as_secs_f64()
}
