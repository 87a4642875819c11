//! The trace that a call belongs to.

use steadfast_core::trace::Trace;

/// The trace that a call belongs to; every attempt is a span of its own in it (TRC-06).
#[derive(Clone, Debug)]
pub(super) struct Span {
    id: String,
    flags: String,
    seed: u64,
}

impl Span {
    /// The caller's trace, or a new one.
    pub(super) fn of(caller: Option<&Trace>, seed: u64) -> Self {
        match caller {
            Some(trace) => Self { id: trace.id().to_owned(), flags: trace.parent()[53..55].to_owned(), seed },
            None => {
                let mut bytes = [0_u8; 16];
                // Without randomness there is the client's own number, which is unlike others' at least.
                if getrandom::fill(&mut bytes).is_err() {
                    bytes[..8].copy_from_slice(&seed.to_be_bytes());
                }
                let id = bytes.iter().fold(String::new(), |id, byte| id + &format!("{byte:02x}"));
                Self { id, flags: "00".to_owned(), seed }
            }
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn parent(&self, serial: i64) -> String {
        let span = steadfast_core::rng::Rng::new(self.seed ^ serial.unsigned_abs()).next_u64() | 1;
        format!("00-{}-{span:016x}-{}", self.id, self.flags)
    }
}
