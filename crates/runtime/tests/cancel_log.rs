//! What is recorded of a cancel.

mod common;

use std::fmt;
use std::sync::{Arc, Mutex};

use common::{Event, Peer, Probe};
use serde_json::json;
use steadfast::server::Options;
use tracing::field::{Field, Visit};
use tracing::span;

/// Keeps every event as text.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl tracing::Subscriber for Record {
    fn enabled(&self, _metadata: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

/// The reason is recorded where it ended something and where it did not, quoted, so that a peer's words stay one line;
/// arguments are not.
#[tokio::test]
async fn can_15_the_reason_of_a_cancel_is_recorded() {
    let record = Record::default();
    let _recording = tracing::subscriber::set_default(record.clone());
    let (probe, mut events) = Probe::new();
    let mut peer = Peer::connect(&probe, Options::default());
    peer.call("1", "hold", json!({ "card": "4929" })).await;
    assert_eq!(events.recv().await, Some(Event::Began("hold".into())));
    for id in [2, 1] {
        peer.notify(
            "notifications/cancelled",
            json!({ "requestId": id, "reason": "bored\nERROR all is lost" }),
        )
        .await;
    }
    assert_eq!(events.recv().await, Some(Event::Stopped("hold".into())));
    let lines = record.0.lock().unwrap().join("|");
    assert!(
        lines.contains(r#"a cancel leads nowhere request=Some(2) reason=Some("bored\nERROR all is lost")"#),
        "{lines}"
    );
    assert!(lines.contains("cancelled by the peer request=Some(1)"), "{lines}");
    assert!(!lines.contains("4929"), "G15");
}
