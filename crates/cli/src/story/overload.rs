//! A chatty tool and a reader that takes nothing: what is kept, what gives way.

use serde::Serialize;
use steadfast::core::ids::ProgressToken;
use steadfast::core::sse::queue::{BoundedQueue, Item, Limits};

use crate::exit::Failure;

/// What was offered to the queue, and what its reader found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Overload {
    pub(crate) capacity_items: usize,
    pub(crate) capacity_bytes: usize,
    pub(crate) offered: u64,
    pub(crate) most_waiting: usize,
    pub(crate) coalesced: u64,
    pub(crate) dropped: u64,
    pub(crate) needs_refetch: bool,
    pub(crate) kept: Vec<String>,
    pub(crate) final_response_kept: bool,
}

/// Two progress tokens taking turns, one list change, and a final response, into four places that nobody empties.
pub(crate) fn tell() -> Result<Overload, Failure> {
    let (capacity_items, capacity_bytes, message_bytes) = (4, 1_024, 100);
    let mut queue = BoundedQueue::new(Limits::new(capacity_items, capacity_bytes, 16 << 20)?);
    let mut story = Overload {
        capacity_items,
        capacity_bytes,
        offered: 0,
        most_waiting: 0,
        coalesced: 0,
        dropped: 0,
        needs_refetch: false,
        kept: Vec::new(),
        final_response_kept: false,
    };
    let mut offer = |queue: &mut BoundedQueue<String>, item| -> Result<(), Failure> {
        use steadfast::core::sse::queue::Pushed;
        story.offered += 1;
        if let Pushed::Coalesced { .. } = queue.push(item)? {
            story.coalesced += 1;
        }
        story.most_waiting = story.most_waiting.max(queue.len());
        Ok(())
    };
    for step in 1..=1_000 {
        for token in ["a", "b"].into_iter().take(if step % 2 == 0 { 2 } else { 1 }) {
            let payload = format!("progress {token} {step}");
            let token = ProgressToken::from(token);
            offer(&mut queue, Item::Progress { token, bytes: message_bytes, payload })?;
        }
        if step == 500 {
            let payload = "tools changed".to_owned();
            offer(&mut queue, Item::Other { merge: Some("tools".into()), bytes: message_bytes, payload })?;
        }
    }
    offer(&mut queue, Item::Final { bytes: message_bytes, payload: "final response".into() })?;
    story.dropped = queue.dropped();
    story.needs_refetch = queue.needs_refetch();
    while let Some(item) = queue.pop() {
        let (payload, is_final) = match item {
            Item::Progress { payload, .. } | Item::Other { payload, .. } => (payload, false),
            Item::Final { payload, .. } => (payload, true),
        };
        story.final_response_kept |= is_final;
        story.kept.push(payload);
    }
    Ok(story)
}
