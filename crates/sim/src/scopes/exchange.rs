//! One exchange between both machines, on each hop: two progress events, the answer, a cancel, both limits,
//! and a broken connection; then the variants, where the rate, the server's limits, a listen or the handshake
//! make a difference.

use std::time::Duration;

use steadfast_core::exchange::responder::Answer;
use steadfast_core::exchange::{Operation, Reply};
use steadfast_core::hop::{Hop, Transport};

use super::Scope;
use crate::event::{Id, Message, Side};
use crate::world::{Script, Setup, World, limits_ms};

/// Progress that does not rise (F037), a second answer, a cancel that no server may send (CAN-14), progress
/// that falls, and progress of nobody (F038); over stdio, where they interleave with everything, the last two
/// are left out.
const FROM_A_CARELESS_SERVER: [(Side, Message); 6] = [
    (Side::Client, Message::Progress { token: Id::text("t"), value: 2 }),
    (Side::Client, Message::Progress { token: Id::text("t"), value: 2 }),
    (Side::Client, Message::Response { id: Id::Integer(1), answer: Answer::Reply(Reply::Error(7)) }),
    (Side::Client, Message::Cancelled { id: Id::Integer(1) }),
    (Side::Client, Message::Progress { token: Id::text("t"), value: 1 }),
    (Side::Client, Message::Progress { token: Id::text("u"), value: 9 }),
];

/// A cancel out of nowhere, under the id and under its other type, and the id used a second time (F010).
const FROM_A_CARELESS_CLIENT: [(Side, Message); 4] = [
    (Side::Server, Message::Cancelled { id: Id::Integer(1) }),
    (Side::Server, Message::Cancelled { id: Id::text("1") }),
    (Side::Server, Message::Cancelled { id: Id::Integer(1) }),
    (Side::Server, Message::Request { id: Id::Integer(1), token: None }),
];

pub(super) fn scopes() -> Vec<Scope> {
    let [stdio_modern, stdio_legacy, http_modern, http_legacy] = Hop::ALL;
    let all = Script { progress: 2, answers: 1, panics: 1, cancels: 1, breaks: 1, waits: 2, revokes: 0 };
    let small = |hop| Setup::small(hop, all);
    // Held back for 4 ms, so that a wait brings it due; the limits are out of the way.
    let rate_limited = |hop| Setup {
        interval: Duration::from_millis(4),
        step: Duration::from_millis(3),
        limits: limits_ms(50, 50),
        script: Script { progress: 3, answers: 1, cancels: 1, waits: 3, ..Script::default() },
        ..small(hop)
    };
    // The server gives up before the client does.
    let impatient_server = |hop| Setup { server_limits: Some(limits_ms(4, 8)), ..small(hop) };
    let listen = |hop| Setup {
        operation: Operation::Listen,
        token: None,
        script: Script { progress: 0, revokes: 1, ..all },
        ..small(hop)
    };
    let initialize = |hop| Setup {
        operation: Operation::Initialize,
        id: Id::text("init"),
        token: None,
        script: Script { progress: 0, ..all },
        ..small(hop)
    };
    let probe = |hop| Setup { operation: Operation::Probe, ..small(hop) };
    let careless_server = |hop: Hop| Setup {
        script: Script { answers: 1, cancels: 1, ..Script::default() },
        strays: match hop.transport {
            Transport::Stdio => &FROM_A_CARELESS_SERVER[..4],
            Transport::Http => &FROM_A_CARELESS_SERVER,
        },
        ..small(hop)
    };
    let careless_client = |hop| Setup {
        script: Script { answers: 1, cancels: 1, ..Script::default() },
        strays: &FROM_A_CARELESS_CLIENT,
        ..small(hop)
    };
    vec![
        world("exchange-stdio-modern", small(stdio_modern)),
        world("exchange-stdio-legacy", small(stdio_legacy)),
        world("exchange-http-modern", small(http_modern)),
        world("exchange-http-legacy", small(http_legacy)),
        world("exchange-rate-stdio", rate_limited(stdio_modern)),
        world("exchange-rate-http", rate_limited(http_modern)),
        world("exchange-server-limits-stdio", impatient_server(stdio_modern)),
        world("exchange-server-limits-http", impatient_server(http_legacy)),
        world("exchange-listen-stdio", listen(stdio_modern)),
        world("exchange-listen-http", listen(http_modern)),
        world("exchange-initialize-stdio", initialize(stdio_legacy)),
        world("exchange-initialize-http", initialize(http_legacy)),
        world("exchange-probe-stdio", probe(stdio_modern)),
        world("exchange-careless-server-stdio", careless_server(stdio_modern)),
        world("exchange-careless-server-http", careless_server(http_modern)),
        world("exchange-careless-client-stdio", careless_client(stdio_legacy)),
        world("exchange-careless-client-http", careless_client(http_modern)),
    ]
}

fn world(name: &'static str, setup: Setup) -> Scope {
    Scope::new(name, move |run| World::new(setup, run).play(run))
}
