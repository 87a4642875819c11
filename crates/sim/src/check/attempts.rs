//! What checkers note down of each attempt.

/// One note an attempt; there are never more than eight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempts<T>([Option<T>; 8]);

impl<T: Copy> Attempts<T> {
    pub(super) fn get(&self, attempt: u8) -> Option<T> {
        self.0.get(usize::from(attempt)).copied().flatten()
    }

    pub(super) fn set(&mut self, attempt: u8, note: T) {
        if let Some(place) = self.0.get_mut(usize::from(attempt)) {
            *place = Some(note);
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = T> {
        self.0.iter().flatten().copied()
    }
}

impl<T> Default for Attempts<T> {
    fn default() -> Self {
        Self([const { None }; 8])
    }
}
