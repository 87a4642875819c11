//! The bounded queue of one stream: what waits, what gives way, and what is never lost.
//!
//! The last test holds the queue against a plain list that obeys the same rules (I-16).

use proptest::prelude::*;
use steadfast_core::ids::ProgressToken;
use steadfast_core::sse::queue::{BoundedQueue, Item, Limits, LimitsError, Pushed, Refused};

const FINAL_BYTES: usize = 100;

fn queue(items: usize, bytes: usize) -> BoundedQueue<u32> {
    BoundedQueue::new(Limits::new(items, bytes, FINAL_BYTES).unwrap())
}

fn progress(token: i64, bytes: usize, payload: u32) -> Item<u32> {
    Item::Progress { token: token.into(), bytes, payload }
}

fn other(bytes: usize, payload: u32) -> Item<u32> {
    Item::Other { merge: None, bytes, payload }
}

fn notice(key: &str, payload: u32) -> Item<u32> {
    Item::Other { merge: Some(key.into()), bytes: 1, payload }
}

const fn answer(bytes: usize, payload: u32) -> Item<u32> {
    Item::Final { bytes, payload }
}

const fn payload(item: &Item<u32>) -> u32 {
    match item {
        Item::Progress { payload, .. } | Item::Other { payload, .. } | Item::Final { payload, .. } => {
            *payload
        }
    }
}

fn drain(queue: &mut BoundedQueue<u32>) -> Vec<u32> {
    std::iter::from_fn(|| queue.pop()).map(|item| payload(&item)).collect()
}

#[test]
fn d_17_adjacent_progress_of_one_token_is_coalesced_and_nothing_is_missing() {
    let mut queue = queue(4, 100);
    for (item, pushed) in [
        (progress(1, 10, 1), Pushed::Queued { dropped: 0 }),
        (progress(1, 12, 2), Pushed::Coalesced { dropped: 0 }),
        (progress(2, 10, 3), Pushed::Queued { dropped: 0 }),
        (progress(1, 10, 4), Pushed::Queued { dropped: 0 }),
        (progress(1, 1, 5), Pushed::Coalesced { dropped: 0 }),
    ] {
        assert_eq!(queue.push(item), Ok(pushed));
    }
    assert_eq!((queue.len(), queue.held_bytes(), queue.needs_refetch()), (3, 23, false));
    assert_eq!(drain(&mut queue), [2, 3, 5]);
}

#[test]
fn d_17_at_capacity_the_oldest_progress_goes_and_the_stream_is_marked() {
    let mut queue = queue(3, 100);
    for (item, pushed) in [
        (other(1, 1), Pushed::Queued { dropped: 0 }),
        (progress(1, 1, 2), Pushed::Queued { dropped: 0 }),
        (progress(2, 1, 3), Pushed::Queued { dropped: 0 }),
        (progress(1, 1, 4), Pushed::Queued { dropped: 1 }),
        (other(1, 5), Pushed::Queued { dropped: 1 }),
        (progress(1, 98, 6), Pushed::Queued { dropped: 1 }),
        (other(99, 7), Pushed::NotKept),
        (other(1, 8), Pushed::Queued { dropped: 1 }),
        (progress(1, 1, 9), Pushed::NotKept),
        (other(1, 10), Pushed::NotKept),
    ] {
        assert_eq!(queue.push(item.clone()), Ok(pushed), "{item:?}");
    }
    assert_eq!((queue.dropped(), queue.needs_refetch()), (7, true));
    assert_eq!(drain(&mut queue), [1, 5, 8]);
}

#[test]
fn g9_the_final_response_waits_outside_the_limits_and_is_the_last() {
    let mut queue = queue(2, 10);
    queue.push(other(5, 1)).unwrap();
    queue.push(other(5, 2)).unwrap();
    assert_eq!(queue.push(answer(101, 3)), Err(Refused::TooLarge { bytes: 101, limit: 100 }));
    assert_eq!(queue.push(answer(100, 4)), Ok(Pushed::Queued { dropped: 0 }));
    assert_eq!((queue.len(), queue.held_bytes()), (3, 110));

    let before = queue.clone();
    assert_eq!(queue.push(answer(1, 5)), Err(Refused::SecondFinal));
    assert_eq!(queue.push(progress(1, 1, 6)), Err(Refused::AfterFinal));
    assert_eq!(queue.push(other(1, 7)), Err(Refused::AfterFinal));
    assert_eq!(queue, before);

    assert_eq!(drain(&mut queue), [1, 2, 4]);
    assert_eq!(queue.push(answer(1, 8)), Err(Refused::SecondFinal));
    assert_eq!(queue.push(other(1, 9)), Err(Refused::AfterFinal));
    assert!(queue.is_empty() && !queue.needs_refetch());
}

#[test]
fn sub_20_equal_notices_that_wait_are_merged() {
    let mut queue = queue(2, 10);
    assert_eq!(queue.push(notice("tools", 1)), Ok(Pushed::Queued { dropped: 0 }));
    assert_eq!(queue.push(notice("prompts", 2)), Ok(Pushed::Queued { dropped: 0 }));
    assert_eq!(queue.push(notice("tools", 3)), Ok(Pushed::Coalesced { dropped: 0 }));
    assert_eq!(queue.push(notice("resources", 4)), Ok(Pushed::NotKept));
    assert_eq!(queue.pop().map(|item| payload(&item)), Some(1));
    assert_eq!(queue.push(notice("tools", 5)), Ok(Pushed::Queued { dropped: 0 }));
    assert_eq!(drain(&mut queue), [2, 5]);
}

#[test]
fn d_17_a_buffer_for_fewer_than_two_is_refused() {
    assert_eq!(Limits::new(1, 10, 10), Err(LimitsError::Items(1)));
    assert_eq!(Limits::new(2, 0, 10), Err(LimitsError::Bytes));
    assert_eq!(Limits::new(2, 10, 0), Err(LimitsError::Bytes));
    assert!(Limits::new(2, 1, 1).is_ok());
}

#[test]
fn no_debug_text_shows_what_a_message_says() {
    let mut queue = BoundedQueue::new(Limits::new(3, 100, FINAL_BYTES).unwrap());
    for item in [
        Item::Progress { token: 1.into(), bytes: 6, payload: "secret" },
        Item::Other { merge: Some("tools".into()), bytes: 6, payload: "secret" },
        Item::Final { bytes: 6, payload: "secret" },
    ] {
        queue.push(item).unwrap();
    }
    let text = format!("{queue:?}");
    assert!(!text.contains("secret") && text.contains("tools"), "{text}");
}

const fn size(item: &Item<u32>) -> usize {
    match item {
        Item::Progress { bytes, .. } | Item::Other { bytes, .. } | Item::Final { bytes, .. } => *bytes,
    }
}

/// The same rules over a plain list, every sum made anew.
struct Model {
    items: usize,
    bytes: usize,
    list: Vec<Item<u32>>,
    ended: bool,
    dropped: u64,
}

impl Model {
    fn fits(&self, list: &[Item<u32>], bytes: usize) -> bool {
        list.len() < self.items && list.iter().map(size).sum::<usize>() + bytes <= self.bytes
    }

    fn push(&mut self, item: Item<u32>) {
        if self.ended {
            return;
        }
        match &item {
            Item::Final { bytes, .. } => {
                if *bytes <= FINAL_BYTES {
                    self.ended = true;
                    self.list.push(item);
                }
                return;
            }
            Item::Other { merge: Some(_), .. } => {
                if self.list.iter().any(|it| merge_of(it) == merge_of(&item)) {
                    return;
                }
            }
            Item::Progress { .. } | Item::Other { merge: None, .. } => {}
        }
        let firm: Vec<_> = self.list.iter().filter(|it| token_of(it).is_none()).cloned().collect();
        if !self.fits(&firm, size(&item)) {
            self.dropped += 1;
            return;
        }
        if token_of(&item).is_some() && self.list.last().and_then(token_of) == token_of(&item) {
            self.list.pop();
        }
        while !self.fits(&self.list, size(&item)) {
            let oldest = self.list.iter().position(|it| token_of(it).is_some()).unwrap();
            self.list.remove(oldest);
            self.dropped += 1;
        }
        self.list.push(item);
    }
}

fn token_of(item: &Item<u32>) -> Option<&ProgressToken> {
    match item {
        Item::Progress { token, .. } => Some(token),
        Item::Other { .. } | Item::Final { .. } => None,
    }
}

fn merge_of(item: &Item<u32>) -> Option<&str> {
    match item {
        Item::Other { merge, .. } => merge.as_deref(),
        Item::Progress { .. } | Item::Final { .. } => None,
    }
}

const fn number_it(item: &mut Item<u32>, number: u32) {
    match item {
        Item::Progress { payload, .. } | Item::Other { payload, .. } | Item::Final { payload, .. } => {
            *payload = number;
        }
    }
}

/// `None` takes one message out.
fn any_step() -> impl Strategy<Value = Option<Item<u32>>> {
    let bytes = 0..9_usize;
    prop_oneof![
        6 => (0..3_i64, bytes.clone()).prop_map(|(token, bytes)| Some(progress(token, bytes, 0))),
        3 => bytes.clone().prop_map(|bytes| Some(other(bytes, 0))),
        2 => "[ab]".prop_map(|key| Some(notice(&key, 0))),
        1 => (0..120_usize).prop_map(|bytes| Some(answer(bytes, 0))),
        3 => Just(None),
    ]
}

proptest! {
    #[test]
    fn i_16_a_queue_stays_in_its_limits_keeps_order_and_never_loses_an_answer(
        items in 2..5_usize, bytes in 1..24_usize,
        steps in proptest::collection::vec(any_step(), 0..40),
    ) {
        let limits = Limits::new(items, bytes, FINAL_BYTES).unwrap();
        let mut queue = BoundedQueue::new(limits);
        let mut model = Model { items, bytes, list: Vec::new(), ended: false, dropped: 0 };
        let (mut answered, mut accepted, mut coalesced, mut seen) = (None, 0_u64, 0, Vec::new());
        for (number, step) in (1..).zip(steps) {
            match step {
                None => {
                    let popped = queue.pop();
                    let expected = if model.list.is_empty() { None } else { Some(model.list.remove(0)) };
                    prop_assert_eq!(&popped, &expected);
                    seen.extend(popped);
                }
                Some(mut item) => {
                    number_it(&mut item, number);
                    model.push(item.clone());
                    let pushed = queue.push(item.clone());
                    accepted += u64::from(pushed.is_ok());
                    coalesced += u64::from(matches!(pushed, Ok(Pushed::Coalesced { .. })));
                    if matches!(item, Item::Final { .. }) && pushed.is_ok() {
                        prop_assert_eq!(answered.replace(number), None, "one answer");
                    }
                }
            }
            let slot = model.list.last().filter(|last| matches!(last, Item::Final { .. }));
            prop_assert!(queue.len() - usize::from(slot.is_some()) <= items);
            prop_assert!(queue.held_bytes() - slot.map_or(0, size) <= bytes);
            prop_assert_eq!(queue.len(), model.list.len());
            prop_assert_eq!(queue.dropped(), model.dropped);
            prop_assert_eq!(queue.needs_refetch(), model.dropped > 0);
            prop_assert_eq!(queue.held_bytes(), model.list.iter().map(size).sum::<usize>());
        }
        seen.extend(std::iter::from_fn(|| queue.pop()));
        let numbers: Vec<_> = seen.iter().map(payload).collect();
        prop_assert!(numbers.is_sorted(), "{numbers:?}");
        // What was accepted came out, was coalesced, or was counted as dropped.
        prop_assert_eq!(seen.len() as u64, accepted - coalesced - queue.dropped());
        prop_assert_eq!(seen.iter().find(|it| matches!(it, Item::Final { .. })).map(payload), answered);
        prop_assert!(answered.is_none_or(|answer| numbers.last() == Some(&answer)));
    }
}
