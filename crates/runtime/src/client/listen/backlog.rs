//! What a subscription has heard and nobody has read yet: bounded, and nothing of it is lost without a word (G9).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use steadfast_core::subscription::{Change, Filter};
use tokio::sync::Notify;

use super::ListenEvent;

/// The most events that may wait.
const BACKLOG: usize = 256;

pub(super) struct Backlog {
    filter: Filter,
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Default)]
struct State {
    events: VecDeque<ListenEvent>,
    over: bool,
}

impl Backlog {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, state: Mutex::default(), arrived: Notify::new() }
    }

    /// A change; one that waits already takes the newer one's params.
    pub(super) fn change(&self, change: Change, params: Bytes) {
        let mut state = self.lock();
        let waiting = state.events.iter_mut().find_map(|event| match event {
            ListenEvent::Changed { change: known, params } if *known == change => Some(params),
            ListenEvent::Changed { .. }
            | ListenEvent::Acknowledged { .. }
            | ListenEvent::Gap(_)
            | ListenEvent::Ended { .. }
            | ListenEvent::Refused(_) => None,
        });
        match waiting {
            Some(older) => *older = params,
            None => self.put(&mut state, ListenEvent::Changed { change, params }),
        }
    }

    pub(super) fn tell(&self, event: ListenEvent) {
        self.put(&mut self.lock(), event);
    }

    /// There is nothing more to come.
    pub(super) fn end(&self) {
        self.lock().over = true;
        self.arrived.notify_one();
    }

    pub(super) async fn next(&self) -> Option<ListenEvent> {
        loop {
            {
                let mut state = self.lock();
                if let Some(event) = state.events.pop_front() {
                    return Some(event);
                }
                if state.over {
                    return None;
                }
            }
            self.arrived.notified().await;
        }
    }

    fn put(&self, state: &mut State, event: ListenEvent) {
        if state.events.len() < BACKLOG {
            state.events.push_back(event);
        } else {
            // Where it stands now is still true; what it was told on the way is fetched instead.
            let last = match event {
                ListenEvent::Changed { .. } | ListenEvent::Gap(_) => {
                    state.events.drain(..).rfind(|event| matches!(event, ListenEvent::Acknowledged { .. }))
                }
                ListenEvent::Acknowledged { .. } | ListenEvent::Ended { .. } | ListenEvent::Refused(_) => {
                    Some(event)
                }
            };
            state.events.clear();
            state.events.push_back(ListenEvent::Gap(self.filter.refetch()));
            state.events.extend(last);
        }
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_core::subscription::Refetch;

    fn part(n: usize) -> Change {
        Change::Resource(format!("x://a/{n}"))
    }

    // shows: SUB-20
    #[tokio::test]
    async fn g9_equal_changes_wait_once_and_too_many_become_a_gap_that_is_told() {
        let filter = Filter { uris: ["x://a".to_owned()].into(), ..Filter::default() };
        let backlog = Backlog::new(filter);
        for n in 0..1_000 {
            backlog.change(part(0), Bytes::from(n.to_string()));
        }
        let only = ListenEvent::Changed { change: part(0), params: Bytes::from_static(b"999") };
        assert_eq!(backlog.next().await, Some(only));

        let acknowledged = ListenEvent::Acknowledged { missing: Filter::default(), facts: None };
        backlog.tell(acknowledged.clone());
        for n in 0..BACKLOG {
            backlog.change(part(n), Bytes::new());
        }
        let gap = ListenEvent::Gap(vec![Refetch::Resource("x://a".into())]);
        assert_eq!(backlog.next().await, Some(gap));
        assert_eq!(backlog.next().await, Some(acknowledged));
        backlog.change(part(7), Bytes::new());
        backlog.end();
        assert!(
            matches!(backlog.next().await, Some(ListenEvent::Changed { .. })),
            "what waits is still read"
        );
        assert_eq!(backlog.next().await, None);
    }
}
