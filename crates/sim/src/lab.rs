//! The lab: four orders of events on each hop, played by both machines against each other (D-22).
//!
//! - **A** the cancel wins: the answer was already under way when the caller gave up.
//! - **B** the completion wins: the caller gives up after it was answered.
//! - **C** progress comes before each idle deadline, until the absolute limit ends it all (D-07).
//! - **D** the caller abandons a running request by its transport's own means.
//!
//! Rows are read off what was seen in the run; nothing of them is written down here.

use serde::{Serialize, Serializer};
use steadfast_core::exchange::requester::End;
use steadfast_core::hop::{Hop, Transport};

use crate::choices::Choices;
use crate::event::{Event, Exchange, Message, Side, ignored_words, terminal_word};
use crate::run::Run;
use crate::transcript::Transcript;
use crate::world::{Action, Lane, Script, Setup, World};

/// One of the four orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Scenario {
    /// Cancel, then complete.
    A,
    /// Complete, then cancel.
    B,
    /// Progress before each idle deadline, then past the absolute limit.
    C,
    /// The caller abandons the request.
    D,
}

impl Scenario {
    /// All four, in the order in which reports print them.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];
}

/// How one scenario went on one hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Which order of events.
    pub scenario: Scenario,
    /// `stdio` or `http`.
    #[serde(serialize_with = "as_transport")]
    pub transport: Transport,
    /// `modern` or `legacy`.
    pub era: &'static str,
    /// How the exchange ended for the caller.
    pub terminal: &'static str,
    /// Whether the caller got a final response.
    pub final_response: bool,
    /// How the client told the server that it gave up.
    pub signal: &'static str,
    /// What the client had to ignore.
    pub ignored: String,
}

/// All sixteen rows: each scenario on each hop.
pub fn run() -> Vec<Row> {
    Scenario::ALL.iter().flat_map(|&scenario| Hop::ALL.map(|hop| play(scenario, hop).0)).collect()
}

/// One scenario on one hop, with the transcript of the race.
pub fn play(scenario: Scenario, hop: Hop) -> (Row, Transcript) {
    let mut choices = Choices::recorded(Default::default());
    let mut transcript = Transcript::with_events();
    let mut run = Run::new(&mut choices, &mut transcript);
    let mut world = World::new(setup(scenario, hop), &mut run);
    for step in steps(scenario) {
        match step {
            Step::At(millis) => world.wait_until(millis),
            Step::Do(action) => {
                debug_assert!(world.enabled().contains(&action), "{action:?} cannot happen here");
                world.apply(action, &mut run);
            }
        }
    }
    // What is still under way arrives, in the first order that is possible.
    world.play(&mut run);
    debug_assert_eq!(run.violation(), None);
    (row(scenario, hop, &transcript), transcript)
}

enum Step {
    At(u64),
    Do(Action),
}

/// Idle 500 ms, maximum 2000 ms, as D-07 has them; and exactly as much progress and answers as the scenario
/// uses.
fn setup(scenario: Scenario, hop: Hop) -> Setup {
    let script = match scenario {
        Scenario::A | Scenario::B => Script { progress: 0, answers: 1, cancels: 1, ..Script::default() },
        Scenario::C => Script { progress: 6, ..Script::default() },
        Scenario::D => Script { progress: 2, cancels: 1, ..Script::default() },
    };
    Setup { limits: crate::world::limits_ms(500, 2000), ..Setup::small(hop, script) }
}

fn steps(scenario: Scenario) -> Vec<Step> {
    use Action::{Cancel, Deliver, HandlerAnswer, HandlerProgress, Send, Wake};
    let mut steps = vec![Step::Do(Send), Step::Do(Deliver(Lane::Up))];
    let progress = |at| [Step::At(at), Step::Do(HandlerProgress), Step::Do(Deliver(Lane::Down))];
    match scenario {
        Scenario::A => steps.extend([Step::At(100), Step::Do(HandlerAnswer), Step::Do(Cancel)]),
        Scenario::B => steps.extend([
            Step::At(100),
            Step::Do(HandlerAnswer),
            Step::Do(Deliver(Lane::Down)),
            Step::Do(Cancel),
        ]),
        Scenario::C => {
            steps.extend([400, 800, 1200, 1600, 1900].into_iter().flat_map(progress));
            // The last one is still under way when the limit is reached.
            steps.extend([
                Step::At(1999),
                Step::Do(HandlerProgress),
                Step::At(2000),
                Step::Do(Wake(Side::Client)),
            ]);
        }
        Scenario::D => {
            steps.extend(progress(100));
            steps.extend([Step::At(200), Step::Do(HandlerProgress), Step::Do(Cancel)]);
        }
    }
    steps
}

fn row(scenario: Scenario, hop: Hop, transcript: &Transcript) -> Row {
    let mut end = None;
    let (mut posted, mut closed) = (false, false);
    let mut ignored = Vec::new();
    for (_, event) in transcript.events() {
        let Event::Exchange(event) = event else { continue };
        match *event {
            Exchange::CallerEnd { end: seen } => end = Some(seen),
            Exchange::Put { by: Side::Client, message: Message::Cancelled { .. } } => posted = true,
            Exchange::Closed => closed = true,
            Exchange::HungUp => break,
            Exchange::Ignored { by: Side::Client, what } => ignored.push(ignored_words(what)),
            _ => {}
        }
    }
    Row {
        scenario,
        transport: hop.transport,
        era: hop.era.as_str(),
        terminal: end.map_or("none", |end| terminal_word(end.terminal())),
        final_response: matches!(end, Some(End::Answered(_))),
        signal: match (posted, closed) {
            (false, false) => "none",
            (false, true) => "close_stream",
            (true, false) => "notification",
            (true, true) => "post_notification",
        },
        ignored: if ignored.is_empty() { "nothing".to_owned() } else { ignored.join(", ") },
    }
}

fn as_transport<S: Serializer>(transport: &Transport, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(transport.as_str())
}
