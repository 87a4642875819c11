//! One order of a scope while it is played: who chooses, who watches, and which bug is planted.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use steadfast_core::time::{Instant, Now};

use crate::check::{Checks, Violation};
use crate::choices::Choices;
use crate::event::Event;
use crate::planted::Bug;
use crate::transcript::Transcript;

/// What every simulation is handed.
pub struct Run<'a> {
    choices: &'a mut Choices,
    states: Option<&'a mut States>,
    transcript: &'a mut Transcript,
    checks: Checks,
    bug: Option<Bug>,
}

impl<'a> Run<'a> {
    /// A run of the code as it ships.
    pub fn new(choices: &'a mut Choices, transcript: &'a mut Transcript) -> Self {
        Self { choices, states: None, transcript, checks: Checks::new(), bug: None }
    }

    /// The same with a bug planted between a machine and its world, judged by the one checker that must catch
    /// it.
    #[must_use]
    pub fn with_bug(mut self, bug: Option<Bug>) -> Self {
        self.checks = bug.map_or_else(Checks::new, |bug| Checks::only(bug.breaks()));
        self.bug = bug;
        self
    }

    /// The same before these checkers.
    #[must_use]
    pub fn judged_by(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// The same, counting the states that are passed.
    #[must_use]
    pub const fn counting(mut self, states: &'a mut States) -> Self {
        self.states = Some(states);
        self
    }

    /// Which of `n` possible events comes next.
    #[inline]
    pub fn choose(&mut self, n: usize) -> usize {
        self.choices.choose(n)
    }

    /// Something was seen: it is recorded and judged.
    #[inline]
    pub fn see(&mut self, now: Now, event: Event) {
        self.transcript.record(now, &event);
        self.checks.see(now, &event);
    }

    /// A machine was drained of so many outputs and wants to be woken then (I-25).
    #[inline]
    pub fn drained(&mut self, now: Now, outputs: usize, next: Option<Instant>) {
        self.checks.drained(now, outputs, next);
    }

    /// The state between two events, to be counted if it is new.
    #[inline]
    pub fn visit(&mut self, state: &impl Hash) {
        if let Some(states) = &mut self.states
            && self.choices.is_new()
        {
            states.visit(state);
        }
    }

    /// Whether a violation was found, so that going on shows nothing more.
    #[inline]
    pub const fn is_over(&self) -> bool {
        self.checks.violation().is_some()
    }

    /// The first violation.
    pub const fn violation(&self) -> Option<Violation> {
        self.checks.violation()
    }

    /// The planted bug.
    #[inline]
    pub const fn bug(&self) -> Option<Bug> {
        self.bug
    }
}

/// The distinct states of a scope, by their hashes.
#[derive(Clone, Debug, Default)]
pub struct States(HashSet<u64, BuildHasherDefault<AsItIs>>);

impl States {
    /// How many were seen.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Whether none was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn visit(&mut self, state: &impl Hash) {
        let mut hasher = Mixer(0x9e37_79b9_7f4a_7c15);
        state.hash(&mut hasher);
        self.0.insert(hasher.finish());
    }
}

/// A fast hash that is the same on every run: multiply and rotate a word at a time, then mix.
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let z = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        z ^ (z >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }
    #[inline]
    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }
    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }
    #[inline]
    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64);
        self.write_u64((n >> 64) as u64);
    }
    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

/// The keys are hashes already.
#[derive(Clone, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}
