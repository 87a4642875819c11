//! A store in memory that can lose its process at any step: what is committed stays, what is not is gone.
//!
//! It knows as much of transactions as the promises need: one writer at a time, who sees what was committed
//! before, and whose changes become durable together or not at all. What the changes are is said by the
//! transitions of [`steadfast_core::ledger`] and [`steadfast_core::task`], as in every store.

/// Which connection.
pub type Connection = u8;

/// What is durable, and the transaction that is open.
#[derive(Clone, Debug, Hash)]
pub struct Store<T> {
    durable: T,
    open: Option<(Connection, T)>,
}

impl<T: Clone> Store<T> {
    /// A store that holds this.
    pub const fn new(durable: T) -> Self {
        Self { durable, open: None }
    }

    /// Whether nobody holds the write lock.
    pub const fn is_free(&self) -> bool {
        self.open.is_none()
    }

    /// Takes the write lock and a snapshot; `false` while another connection holds it.
    pub fn begin(&mut self, connection: Connection) -> bool {
        if self.open.is_some() {
            return false;
        }
        self.open = Some((connection, self.durable.clone()));
        true
    }

    /// What the open transaction of this connection sees and changes; `None` if it has none open.
    pub const fn working(&mut self, connection: Connection) -> Option<&mut T> {
        match &mut self.open {
            Some((holder, working)) if *holder == connection => Some(working),
            _ => None,
        }
    }

    /// Makes the transaction's changes durable; `false` if this connection has none open.
    pub fn commit(&mut self, connection: Connection) -> bool {
        match self.open.take_if(|(holder, _)| *holder == connection) {
            Some((_, working)) => {
                self.durable = working;
                true
            }
            None => false,
        }
    }

    /// The connection is gone, and with it what it had not committed.
    pub fn crash(&mut self, connection: Connection) {
        self.open.take_if(|(holder, _)| *holder == connection);
    }

    /// What a reader sees: the last committed state.
    pub const fn read(&self) -> &T {
        &self.durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_12_one_writer_at_a_time_and_what_is_not_committed_is_gone() {
        let mut store = Store::new(0);
        assert!(store.begin(1));
        assert!(!store.begin(2), "the lock is held");
        assert_eq!(store.working(2), None, "without a transaction nothing can be changed");
        *store.working(1).unwrap() = 7;
        assert_eq!(*store.read(), 0, "nobody sees it before the commit");
        assert!(!store.commit(2));
        store.crash(1);
        assert_eq!(*store.read(), 0);

        assert!(store.begin(2));
        *store.working(2).unwrap() = 8;
        store.crash(1);
        assert!(store.commit(2), "another's crash is not ours");
        assert_eq!(*store.read(), 8);
    }
}
