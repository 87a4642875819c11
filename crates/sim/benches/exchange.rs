//! How many exchange events a second the simulator plays on one core, all checkers on, every event in the
//! digest; and in the same run the bare machine with the same digest, as the measure of the machine that this
//! runs on.
//!
//! `cargo bench -p steadfast-sim --bench exchange`
#![allow(clippy::print_stdout)]

use std::hash::Hash;
use std::time::{Duration, Instant};

use steadfast_core::exchange::requester::Input;
use steadfast_core::exchange::{Limits, Operation, Progress, Reply, Requester, Spec};
use steadfast_core::hop::Hop;
use steadfast_core::time::Now;
use steadfast_sim::choices::Choices;
use steadfast_sim::event::{Event, Exchange, Message, Side};
use steadfast_sim::run::Run;
use steadfast_sim::transcript::Transcript;
use steadfast_sim::world::{Script, Setup, World};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(600);

fn main() {
    let mut ratios = Vec::new();
    let (mut worlds, mut bares) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (world, bare) = (simulated(), bare_machine());
        ratios.push(world / bare);
        worlds.push(world);
        bares.push(bare);
    }
    println!("simulated, both ends, wire, checkers, digest: {:>6.2} million events/s", median(worlds) / 1e6);
    println!("bare machine and digest:                      {:>6.2} million events/s", median(bares) / 1e6);
    println!("ratio:                                        {:>6.2}", median(ratios));
}

/// Events a second of seeded orders over all hops, each event recorded and judged.
fn simulated() -> f64 {
    let script = Script { progress: 2, answers: 1, panics: 1, cancels: 1, breaks: 1, waits: 2, revokes: 0 };
    let mut choices = Choices::seeded(1);
    let mut transcript = Transcript::digest_only();
    let start = Instant::now();
    while start.elapsed() < ROUND {
        for hop in Hop::ALL.into_iter().cycle().take(400) {
            let mut run = Run::new(&mut choices, &mut transcript);
            World::new(Setup::small(hop, script), &mut run).play(&mut run);
            assert_eq!(run.violation(), None);
            choices.advance();
        }
    }
    transcript.len() as f64 / start.elapsed().as_secs_f64()
}

/// Inputs and outputs a second of one requester that is told of progress and an answer, each recorded.
fn bare_machine() -> f64 {
    let mut transcript = Transcript::digest_only();
    let spec = Spec {
        id: 1.into(),
        operation: Operation::Ordinary,
        hop: Hop::ALL[0],
        limits: Limits::DEFAULT,
        token: Some(1.into()),
        progress_interval: Duration::ZERO,
    };
    let (id, token) = ((&spec.id).into(), spec.token.as_ref().map(Into::into));
    let start = Instant::now();
    while start.elapsed() < ROUND {
        for _ in 0..400 {
            let mut machine = Requester::start(Now::default(), spec.clone());
            let mut feed = |at: u64, input: Input<u32>, message: Message| {
                let now = Now::at_millis(at);
                transcript.record(now, &Event::Exchange(Exchange::Got { by: Side::Client, message }));
                machine.handle(now, input);
                while let Some(output) = machine.poll_output() {
                    output.hash(&mut NoHash);
                    let value = 1;
                    transcript.record(now, &Event::Exchange(Exchange::CallerProgress { value }));
                }
            };
            feed(0, Input::Sent, Message::Request { id, token });
            for value in 1..=6_u32 {
                let progress = Progress::of(f64::from(value)).expect("finite");
                let message = Message::Progress { token: token.expect("given"), value };
                feed(value.into(), Input::Progress(1.into(), progress), message);
            }
            let answer = steadfast_core::exchange::responder::Answer::Reply(Reply::Result(42));
            feed(9, Input::Response(Reply::Result(42)), Message::Response { id, answer });
        }
    }
    transcript.len() as f64 / start.elapsed().as_secs_f64()
}

/// Looks at every output, so that none is optimised away, and costs nothing.
struct NoHash;

impl std::hash::Hasher for NoHash {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        std::hint::black_box(bytes);
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
