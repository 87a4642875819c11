//! What changed, told to those who listen: each has a bounded backlog of its own and none waits for another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use steadfast_core::subscription::{Change, Filter};
use tokio::sync::Notify;

use crate::listening::params_of;

/// The most different changes that may wait for one listener; past it its subscription ends (SUB-20).
const BACKLOG: usize = 256;

/// Where a service says what changed. Clones are the same place.
#[derive(Clone, Default)]
pub struct Changes {
    listeners: Arc<Mutex<Vec<Weak<Backlog>>>>,
}

/// One listener's end: what it was granted, and what of that has changed. Registered from the moment it exists, so
/// that nothing between the grant and the first look is lost (SUB-28).
#[derive(Debug)]
pub struct Listening {
    backlog: Arc<Backlog>,
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Something changed. `params` are the notification's own members as JSON text; the subscription's id is not
    /// among them.
    Change {
        /// What.
        change: Change,
        /// The JSON text of an object.
        params: Arc<str>,
    },
    /// More changed than may wait: what this covers must be fetched again, and the subscription ends.
    Overflow,
}

#[derive(Debug, Default)]
struct Backlog {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    granted: Filter,
    /// The order of arrival; an equal change that waits already takes the newer one's params.
    order: VecDeque<Change>,
    params: BTreeMap<Change, Arc<str>>,
    overflown: bool,
}

impl Changes {
    /// Nobody listens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens for what `granted` covers, from now on.
    pub fn listen(&self, granted: Filter) -> Listening {
        let state = Mutex::new(State { granted, ..State::default() });
        let backlog = Arc::new(Backlog { state, arrived: Notify::new() });
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(&backlog));
        Listening { backlog }
    }

    /// Whether anybody listens for it.
    pub fn is_heard(&self, change: &Change) -> bool {
        self.heard_by(|granted| granted.covers(change))
    }

    /// The tasks that anybody listens for.
    pub fn tasks(&self) -> BTreeSet<String> {
        let mut tasks = BTreeSet::new();
        self.heard_by(|granted| {
            tasks.extend(granted.tasks.iter().cloned());
            false
        });
        tasks
    }

    /// Whether one of those who listen was granted such a filter.
    fn heard_by(&self, mut granted: impl FnMut(&Filter) -> bool) -> bool {
        let listeners: Vec<_> = lock(&self.listeners).iter().filter_map(Weak::upgrade).collect();
        listeners.iter().any(|listener| granted(&lock(&listener.state).granted))
    }

    /// Tells everybody who listens for it. Never waits.
    pub fn publish(&self, change: &Change) {
        self.publish_with(change, params_of(change));
    }

    /// As [`Self::publish`], with the notification's `params`: JSON text of an object.
    pub fn publish_with(&self, change: &Change, params: Arc<str>) {
        let listeners: Vec<_> = lock(&self.listeners).iter().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            let mut state = lock(&listener.state);
            if !state.granted.covers(change) || state.overflown {
                continue;
            }
            if state.params.insert(change.clone(), Arc::clone(&params)).is_none() {
                state.order.push_back(change.clone());
            }
            if state.order.len() > BACKLOG {
                *state = State {
                    granted: std::mem::take(&mut state.granted),
                    overflown: true,
                    ..State::default()
                };
            }
            drop(state);
            listener.arrived.notify_one();
        }
    }

    /// How many listen now.
    pub fn listeners(&self) -> usize {
        lock(&self.listeners).iter().filter(|listener| listener.strong_count() > 0).count()
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("listeners", &self.listeners()).finish()
    }
}

impl Listening {
    /// What is listened for.
    pub fn granted(&self) -> Filter {
        lock(&self.backlog.state).granted.clone()
    }

    /// Listens for something else from now on; what waits and is no longer covered is dropped.
    pub fn regrant(&self, granted: Filter) {
        let mut state = lock(&self.backlog.state);
        let State { order, params, .. } = &mut *state;
        order.retain(|change| granted.covers(change));
        params.retain(|change, _| granted.covers(change));
        state.granted = granted;
    }

    /// Takes over what still waits for another listener whose place this one takes, as far as it is covered.
    pub fn inherit(&self, other: &Self) {
        let old = std::mem::take(&mut *lock(&other.backlog.state));
        let mut state = lock(&self.backlog.state);
        state.overflown |= old.overflown;
        let State { order, params, granted, .. } = &mut *state;
        let newer = std::mem::take(order);
        order.extend(
            old.order.into_iter().filter(|change| granted.covers(change) && !params.contains_key(change)),
        );
        order.extend(newer);
        for (change, said) in old.params {
            if granted.covers(&change) {
                params.entry(change).or_insert(said);
            }
        }
    }

    /// After an overflow: everything that is listened for counts as changed, and listening goes on. For a holder that
    /// cannot be told to listen again.
    pub fn restart(&self) {
        let mut state = lock(&self.backlog.state);
        let granted = std::mem::take(&mut state.granted);
        let lists = [
            (granted.tools, Change::Tools),
            (granted.prompts, Change::Prompts),
            (granted.resources, Change::Resources),
        ];
        let lists = lists.into_iter().filter_map(|(listened, change)| listened.then_some(change));
        let order = lists.chain(granted.uris.iter().cloned().map(Change::Resource)).collect::<VecDeque<_>>();
        let params = order.iter().map(|change| (change.clone(), params_of(change))).collect();
        *state = State { granted, order, params, overflown: false };
    }

    /// The next change, in the order of arrival. Dropping the future loses nothing.
    pub async fn next(&self) -> Heard {
        loop {
            {
                let mut state = lock(&self.backlog.state);
                if state.overflown {
                    return Heard::Overflow;
                }
                if let Some(change) = state.order.pop_front() {
                    let params = state.params.remove(&change).unwrap_or_else(|| "{}".into());
                    return Heard::Change { change, params };
                }
            }
            self.backlog.arrived.notified().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(listening: &Listening) -> Option<Heard> {
        let mut next = Box::pin(listening.next());
        match next.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(heard) => Some(heard),
            std::task::Poll::Pending => None,
        }
    }

    fn tools() -> Filter {
        Filter { tools: true, ..Filter::default() }
    }

    #[test]
    fn sub_11_each_listener_hears_once_and_only_what_it_was_granted() {
        let changes = Changes::new();
        let (first, second) = (changes.listen(tools()), changes.listen(tools()));
        let other = changes.listen(Filter { prompts: true, ..Filter::default() });
        changes.publish(&Change::Tools);
        changes.publish(&Change::Tools);
        for listening in [&first, &second] {
            assert_eq!(now(listening), Some(Heard::Change { change: Change::Tools, params: "{}".into() }));
            assert_eq!(now(listening), None, "equal pending changes are one");
        }
        assert_eq!(now(&other), None);
        drop(first);
        assert_eq!(changes.listeners(), 2, "I-24");
    }

    #[test]
    fn sub_20_a_listener_that_does_not_read_overflows_alone() {
        let changes = Changes::new();
        let uris = (0..=BACKLOG).map(|n| format!("x://{n}"));
        let all = Filter { uris: uris.clone().collect(), ..Filter::default() };
        let (deaf, attentive) = (changes.listen(all.clone()), changes.listen(all));
        for uri in uris {
            changes.publish(&Change::Resource(uri));
            assert!(matches!(now(&attentive), Some(Heard::Change { .. })));
        }
        assert_eq!(now(&deaf), Some(Heard::Overflow));
        assert_eq!(now(&attentive), None);
    }

    #[test]
    fn leg_82_a_regranted_listener_forgets_what_it_no_longer_asked_for() {
        let changes = Changes::new();
        let uris = |names: &[&str]| Filter {
            uris: names.iter().map(ToString::to_string).collect(),
            ..Filter::default()
        };
        let listening = changes.listen(uris(&["x://a", "x://b"]));
        changes.publish(&Change::Resource("x://a".into()));
        changes.publish(&Change::Resource("x://b".into()));
        listening.regrant(uris(&["x://b"]));
        let Some(Heard::Change { params, .. }) = now(&listening) else { panic!() };
        assert_eq!(&*params, r#"{"uri":"x://b"}"#);
        assert_eq!(now(&listening), None);
    }
}
