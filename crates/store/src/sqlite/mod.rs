//! One SQLite file: how it is opened, and the thread that writes it.

mod effect;
mod file;
mod schema;
mod writer;

pub use effect::Effect;
pub use file::OpenError;
pub(crate) use file::{open, open_read_only};
pub(crate) use schema::secret;
pub use writer::StoreError;
pub(crate) use writer::{Every, Job, Reply, Turn, Writer};

/// 128 bits that no other process of this machine has. Not a secret: without entropy they can be guessed.
pub(crate) fn random_u128() -> u128 {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u128::from_be_bytes(bytes),
        // No entropy this early in a boot: time and process tell processes of one machine apart.
        Err(_) => {
            let nanos =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            nanos.as_nanos() << 32 | u128::from(std::process::id())
        }
    }
}
