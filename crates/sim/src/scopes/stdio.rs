//! A child's output cut at any byte, and the child dead after any byte, with two calls waiting for it (F061,
//! F064, F076).

use steadfast_core::exchange::requester::{Input, Output};
use steadfast_core::exchange::{InFlight, Limits, Operation, Reply, Requester, Spec, Terminal};
use steadfast_core::hop::Hop;
use steadfast_core::ids::RequestId;
use steadfast_core::stdio::{self, Framer};
use steadfast_core::time::Now;

use super::Scope;
use crate::event::{Body, Event, Line, Stdio};
use crate::planted::stdio as planted;
use crate::run::Run;

/// A line of more bytes is skipped.
const LIMIT: usize = 5;

/// What the child writes, line by line: its answers are numbers in braces.
type Script = &'static [(&'static [u8], Line)];

pub(super) fn scopes() -> Vec<Scope> {
    const NOISY: Script =
        &[(b"{1}\n", Line::Answer(1)), (b"x\n", Line::Noise), (b"{0}\r\n", Line::Answer(0))];
    const LONG: Script = &[(b"{1234}\n", Line::TooLong), (b"{0}\n", Line::Answer(0))];
    vec![
        Scope::new("stdio-noise", |run| World::new(NOISY, run).play(run)),
        Scope::new("stdio-long-line", |run| World::new(LONG, run).play(run)),
    ]
}

#[derive(Clone, Hash)]
struct World {
    framer: Framer,
    in_flight: InFlight<Requester<Body>>,
    /// What has been written since the last cut.
    piece: Vec<u8>,
    written: usize,
    script: Script,
}

impl World {
    fn new(script: Script, run: &mut Run<'_>) -> Self {
        let hop = Hop::ALL[0];
        let mut in_flight = InFlight::new(hop);
        for call in 0..2_u8 {
            let id = RequestId::from(i64::from(call));
            let spec = Spec {
                id: id.clone(),
                operation: Operation::Ordinary,
                hop,
                limits: Limits::DEFAULT,
                token: None,
                progress_interval: std::time::Duration::ZERO,
            };
            let mut requester = Requester::start(Now::default(), spec);
            requester.handle(Now::default(), Input::Sent);
            // Two calls, two ids.
            let _ = in_flight.open(id, Operation::Ordinary, requester);
            see(run, Stdio::Called { call });
        }
        Self { framer: Framer::new(LIMIT), in_flight, piece: Vec::new(), written: 0, script }
    }

    fn play(mut self, run: &mut Run<'_>) {
        let mut half = false;
        'child: for &(line, kind) in self.script {
            for (i, &byte) in line.iter().enumerate() {
                run.visit(&self);
                self.piece.push(byte);
                self.written += 1;
                half = i + 1 < line.len();
                if !half {
                    see(run, Stdio::Wrote { line: kind });
                }
                match run.choose(3) {
                    0 => {}
                    1 => self.read(run),
                    _ => break 'child,
                }
                if run.is_over() {
                    return;
                }
            }
        }
        self.read(run);
        self.die(half, run);
    }

    /// Reads what was written since the last cut, in one piece.
    fn read(&mut self, run: &mut Run<'_>) {
        let piece = std::mem::take(&mut self.piece);
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let (taken, line) = self.framer.push(rest);
            rest = &rest[taken..];
            if let Some(line) = line {
                self.take(line, run);
            }
        }
        if let Some(line) = planted::after_a_piece(run.bug(), &mut self.framer) {
            self.take(line, run);
        }
        see(run, Stdio::Read);
    }

    fn die(&mut self, half: bool, run: &mut Run<'_>) {
        see(run, Stdio::Died { half });
        if let Some(line) = self.framer.finish() {
            self.take(line, run);
        }
        let lost: Vec<_> = self.in_flight.drain().collect();
        let count = lost.len();
        for (id, mut requester) in lost.into_iter().take(planted::settled_of(run.bug(), count)) {
            requester.handle(Now::default(), Input::Lost);
            settle(&id, &mut requester, run);
        }
        let pending = u8::try_from(self.in_flight.len()).unwrap_or(u8::MAX);
        see(run, Stdio::AtRest { pending });
    }

    fn take(&mut self, line: stdio::Line, run: &mut Run<'_>) {
        let line = match line {
            stdio::Line::Message(bytes) => match answered_call(&bytes) {
                Some(call) => Line::Answer(call),
                None => Line::Noise,
            },
            stdio::Line::Noise(_) | stdio::Line::Blank => Line::Noise,
            stdio::Line::TooLong { .. } => Line::TooLong,
            stdio::Line::Unfinished { .. } => Line::Unfinished,
        };
        see(run, Stdio::Took { line });
        if let Line::Answer(call) = line {
            let id = RequestId::from(i64::from(call));
            if let Some(mut requester) = self.in_flight.release(&id) {
                requester.handle(Now::default(), Input::Response(Reply::Result(0)));
                settle(&id, &mut requester, run);
            }
        }
    }
}

/// `{7}` answers call 7.
fn answered_call(bytes: &[u8]) -> Option<u8> {
    std::str::from_utf8(bytes).ok()?.strip_prefix('{')?.strip_suffix('}')?.parse().ok()
}

fn settle(id: &RequestId, requester: &mut Requester<Body>, run: &mut Run<'_>) {
    let call = id.to_json().parse().unwrap_or(u8::MAX);
    while let Some(output) = requester.poll_output() {
        if let Output::Ended(end) = output {
            see(run, Stdio::Settled { call, answered: end.terminal() == Terminal::Completed });
        }
    }
}

fn see(run: &mut Run<'_>, event: Stdio) {
    run.see(Now::default(), Event::Stdio(event));
}
