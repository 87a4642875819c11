//! Up to six messages of every kind through a queue of two or three places, taken by the peer whenever it
//! likes.

use steadfast_core::sse::queue::{BoundedQueue, Item, Limits, Pushed};
use steadfast_core::time::Now;

use super::Scope;
use crate::check::FINAL_BYTES;
use crate::event::{Became, Event, Held, Queue, What};
use crate::planted::queue as planted;
use crate::run::Run;

pub(super) fn scopes() -> Vec<Scope> {
    const TWO: Limits = limits(2);
    const THREE: Limits = limits(3);
    vec![
        Scope::new("queue-two-places", |run| World::new(2, TWO, run).play(run)),
        Scope::new("queue-three-places", |run| World::new(3, THREE, run).play(run)),
    ]
}

/// Room for a message that says something of its own and two others.
const BYTES: usize = 4;

/// Only used in constants, where limits that cannot be do not compile.
const fn limits(items: usize) -> Limits {
    match Limits::new(items, BYTES, FINAL_BYTES) {
        Ok(limits) => limits,
        Err(_) => panic!("limits that no stream can work with"),
    }
}

const MOST_OFFERED: u32 = 6;
const KINDS: [What; 5] = [What::Progress(0), What::Progress(1), What::Other, What::Mergeable, What::Final];

#[derive(Clone, Hash)]
struct World {
    queue: BoundedQueue<u32>,
    offered: u32,
    /// What a planted bug keeps beside the queue.
    beside: Vec<(u32, What)>,
}

impl World {
    fn new(items: usize, limits: Limits, run: &mut Run<'_>) -> Self {
        see(run, Queue::Opened { items, bytes: BYTES });
        Self { queue: BoundedQueue::new(limits), offered: 0, beside: Vec::new() }
    }

    fn play(mut self, run: &mut Run<'_>) {
        loop {
            run.visit(&self);
            let can_offer = if self.offered < MOST_OFFERED { KINDS.len() } else { 0 };
            let can_take = usize::from(!self.queue.is_empty());
            if can_offer + can_take == 0 || run.is_over() {
                break;
            }
            let choice = run.choose(can_offer + can_take);
            match KINDS.get(choice).filter(|_| choice < can_offer) {
                Some(&what) => self.offer(what, run),
                None => self.take(run),
            }
        }
        let held = self.held(run);
        see(run, Queue::AtRest { held });
    }

    fn offer(&mut self, what: What, run: &mut Run<'_>) {
        let number = self.offered;
        self.offered += 1;
        let became = match self.queue.push(item(what, number)) {
            Ok(Pushed::Queued { .. }) => Became::Queued,
            Ok(Pushed::Coalesced { .. }) => Became::Coalesced,
            Ok(Pushed::NotKept) if planted::keeps_beside(run.bug()) => {
                self.beside.push((number, what));
                Became::Queued
            }
            Ok(Pushed::NotKept) => Became::NotKept,
            Err(_) => Became::Refused,
        };
        let held = self.held(run);
        see(run, Queue::Offered { number, what, became, held });
    }

    fn take(&mut self, run: &mut Run<'_>) {
        let Some(item) = self.queue.pop() else { return };
        let (what, number) = match item {
            Item::Progress { token, payload, .. } => {
                (What::Progress(token.to_json().parse().unwrap_or(u8::MAX)), payload)
            }
            Item::Other { merge: None, payload, .. } => (What::Other, payload),
            Item::Other { merge: Some(_), payload, .. } => (What::Mergeable, payload),
            Item::Final { .. } if planted::drops_finals(run.bug()) => return,
            Item::Final { payload, .. } => (What::Final, payload),
        };
        let held = self.held(run);
        see(run, Queue::Taken { number, what, held });
    }

    fn held(&self, run: &Run<'_>) -> Held {
        Held {
            items: self.queue.len() + self.beside.len(),
            bytes: self.queue.held_bytes(),
            refetch: planted::refetch(run.bug(), self.queue.needs_refetch()),
        }
    }
}

fn item(what: What, payload: u32) -> Item<u32> {
    match what {
        What::Progress(token) => Item::Progress { token: i64::from(token).into(), bytes: 1, payload },
        What::Other => Item::Other { merge: None, bytes: 2, payload },
        What::Mergeable => Item::Other { merge: Some("list_changed".into()), bytes: 1, payload },
        What::Final => Item::Final { bytes: FINAL_BYTES, payload },
    }
}

fn see(run: &mut Run<'_>, event: Queue) {
    run.see(Now::default(), Event::Queue(event));
}
