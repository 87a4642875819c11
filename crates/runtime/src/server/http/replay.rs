//! What one legacy stream has sent, kept within bounds for a client that comes back for it (LEG-42, LEG-43).

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;

/// The most messages kept of one stream.
const ITEMS: usize = 256;
/// The most bytes kept of one stream, the newest message aside.
const BYTES: usize = 1 << 20;

/// The id of an event: the stream within its session, and the place in that stream (LEG-41). It is written `3-17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventId {
    pub(super) stream: u64,
    /// 0 stands before the first message.
    pub(super) place: u64,
}

impl EventId {
    /// Reads a `Last-Event-ID`; only what is written here is one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, place) = text.split_once('-')?;
        let id = Self { stream: stream.parse().ok()?, place: place.parse().ok()? };
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.place)
    }
}

/// The newest messages of one stream, by their places.
#[derive(Debug, Default)]
pub(super) struct Log {
    kept: VecDeque<Bytes>,
    bytes: usize,
    /// The place of the newest message, kept or not.
    last: u64,
}

impl Log {
    /// The place of the newest message; 0 if there was none.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// How many bytes are kept.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the next message and gives its place. Beyond the limits the oldest go; the newest always stays.
    pub(super) fn push(&mut self, message: Bytes) -> u64 {
        self.last += 1;
        self.bytes += message.len();
        self.kept.push_back(message);
        while self.kept.len() > 1 && (self.kept.len() > ITEMS || self.bytes > BYTES) {
            self.drop_oldest();
        }
        self.last
    }

    /// The next message counts, but is not kept, and nothing before it: there is no room for it anywhere.
    pub(super) fn pass(&mut self) -> u64 {
        self.last += 1;
        self.kept.clear();
        self.bytes = 0;
        self.last
    }

    /// The first kept message behind `place`, and its own place; the one between is lost where that is not the next.
    pub(super) fn after(&self, place: u64) -> Option<(u64, &Bytes)> {
        let first = self.last + 1 - self.kept.len() as u64;
        let wanted = first.max(place.saturating_add(1));
        let index = usize::try_from(wanted - first).ok()?;
        self.kept.get(index).map(|message| (wanted, message))
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(log: &Log, mut after: u64) -> Vec<u64> {
        std::iter::from_fn(|| {
            let (place, message) = log.after(after)?;
            assert_eq!(message.as_ref(), place.to_string().as_bytes());
            after = place;
            Some(place)
        })
        .collect()
    }

    fn say(log: &mut Log) {
        let text = (log.last() + 1).to_string();
        log.push(Bytes::from(text));
    }

    #[test]
    fn leg_43_what_follows_an_event_is_found_in_order() {
        let mut log = Log::default();
        assert_eq!(log.after(0), None);
        (0..3).for_each(|_| say(&mut log));
        assert_eq!(places(&log, 0), [1, 2, 3]);
        assert_eq!(places(&log, 2), [3]);
        assert_eq!(places(&log, 3), [0; 0]);
        assert_eq!(places(&log, u64::MAX), [0; 0]);
    }

    #[test]
    fn i_16_a_log_keeps_the_newest_within_its_limits() {
        let mut log = Log::default();
        (0..1_000).for_each(|_| say(&mut log));
        assert_eq!(places(&log, 0), (745..=1_000).collect::<Vec<_>>(), "a gap, then the newest");
        log.push(Bytes::from(vec![b'x'; BYTES]));
        assert_eq!(log.bytes(), BYTES);
        log.push(Bytes::from(vec![b'x'; 5 * BYTES]));
        assert_eq!((log.bytes(), log.after(0).unwrap().0), (5 * BYTES, 1_002), "a large answer is kept");
        assert_eq!(log.pass(), 1_003);
        assert_eq!((log.bytes(), log.after(0)), (0, None));
        log.push(Bytes::from_static(b"1004"));
        assert_eq!(places(&log, 0), [1_004]);
    }

    #[test]
    fn leg_41_an_event_id_reads_back_and_nothing_else_is_one() {
        let id = EventId { stream: 3, place: 17 };
        assert_eq!(EventId::parse(&id.to_string()), Some(id));
        for broken in ["", "3", "3-", "-3", "3-x", "+3-1", "03-1", "3-1-1", " 3-1", "99999999999999999999-1"]
        {
            assert_eq!(EventId::parse(broken), None, "{broken}");
        }
    }
}
