//! Who waits for a change of which task in this process.

use std::collections::HashMap;
use std::sync::Mutex;

use steadfast_core::time::Wall;
use tokio::sync::watch;

use super::lock;

/// The last state of each task that somebody here waits for or listens to, by the time of its change: it rises with
/// every change (TSK-58).
#[derive(Debug, Default)]
pub(super) struct Board(Mutex<HashMap<String, watch::Sender<Wall>>>);

impl Board {
    /// Waits for changes of this task from now on.
    pub(super) fn watch(&self, id: &str) -> watch::Receiver<Wall> {
        let mut board = lock(&self.0);
        let known = board.entry(id.to_owned()).or_insert_with(|| watch::Sender::new(Wall::default()));
        known.subscribe()
    }

    /// Notes a state; says whether it is news. What nobody waited for so far is news each time.
    pub(super) fn saw(&self, id: &str, updated_at: Wall) -> bool {
        match lock(&self.0).get(id) {
            None => true,
            Some(known) => known.send_if_modified(|known| {
                let newer = *known < updated_at;
                *known = updated_at.max(*known);
                newer
            }),
        }
    }

    /// Whose changes are to be looked for: those that somebody waits for, and those that are `listened` to. All others
    /// are forgotten (I-24).
    pub(super) fn wanted(&self, listened: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut wanted: HashMap<String, watch::Sender<Wall>> = HashMap::new();
        let mut board = lock(&self.0);
        for id in listened {
            let known = board.remove(&id).unwrap_or_else(|| watch::Sender::new(Wall::default()));
            wanted.insert(id, known);
        }
        wanted.extend(board.drain().filter(|(_, known)| known.receiver_count() > 0));
        *board = wanted;
        board.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsk_58_an_older_state_is_no_news() {
        let board = Board::default();
        let at = Wall::from_unix_millis;
        let mut waiting = board.watch("a");
        assert!(board.saw("a", at(2)));
        assert!(!board.saw("a", at(2)) && !board.saw("a", at(1)));
        assert!(waiting.has_changed().unwrap());
        assert_eq!(*waiting.borrow_and_update(), at(2));
    }

    #[test]
    fn i_24_what_nobody_waits_for_is_forgotten() {
        let board = Board::default();
        let waiting = board.watch("a");
        drop(board.watch("b"));
        let mut wanted = board.wanted(["c".to_owned()]);
        wanted.sort_unstable();
        assert_eq!(wanted, ["a", "c"]);
        drop(waiting);
        assert_eq!(board.wanted([]), Vec::<String>::new());
    }
}
