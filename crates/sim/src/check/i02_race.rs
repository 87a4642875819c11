//! I-02: completion first: delivered, and no cancel is sent. Cancel first: nothing is delivered, and exactly
//! one signal of the right kind is sent. Whoever is first wins, at either side.

use steadfast_core::exchange::requester::End;
use steadfast_core::exchange::responder::Answer;
use steadfast_core::exchange::{Operation, Reply, Terminal};
use steadfast_core::hop::{Era, Transport};
use steadfast_core::time::Now;

use super::Verdict;
use crate::event::{Body, Exchange, Message, Side, Started};

#[derive(Clone, Debug, Default)]
pub(super) struct Race {
    client: Option<Started>,
    server: Option<Started>,
    sent: bool,
    /// What happened first to a client that had not ended, and when.
    first: Option<(First, Now)>,
    end: Option<End<Body>>,
    posted: u8,
    closed: u8,
    server_first: Option<ServerFirst>,
    server_ended: bool,
    responses: u8,
    told_to_stop: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    GaveUp,
    Answer(Reply<Body>),
    CancelledByPeer,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerFirst {
    Cancelled,
    /// The server's own application ended the listen.
    Revoked,
    Answer(Reply<Body>),
    /// The handler was gone without an answer.
    Gone,
}

impl Race {
    #[inline]
    pub(super) fn see(&mut self, now: Now, event: &Exchange) -> Verdict {
        match *event {
            Exchange::Started(started) => match started.by {
                Side::Client => self.client = Some(started),
                Side::Server => self.server = Some(started),
            },
            Exchange::Put { by: Side::Client, message: Message::Request { .. } } => self.sent = true,
            Exchange::Put { by: Side::Client, message: Message::Cancelled { .. } } => self.posted += 1,
            Exchange::Closed => self.closed += 1,
            Exchange::GaveUp => self.is_first(First::GaveUp, now),
            Exchange::Got { by: Side::Client, message: Message::Response { id, answer } }
                if self.sent && self.client.is_some_and(|client| client.id == id) =>
            {
                self.is_first(First::Answer(as_reply(answer)), now);
            }
            Exchange::Got { by: Side::Client, message: Message::Cancelled { id } }
                if self.sent && self.client.is_some_and(|c| c.id == id && may_be_ended_by_server(&c)) =>
            {
                self.is_first(First::CancelledByPeer, now);
            }
            Exchange::LossSeen { by: Side::Client } => self.is_first(First::Lost, now),
            Exchange::CallerEnd { end } => {
                self.end = Some(end);
                return self.first_has_won(now, end);
            }
            Exchange::Got { by: Side::Server, message: Message::Cancelled { id } }
                if self.server.is_some_and(|s| s.id == id && may_be_cancelled_by_notice(&s)) =>
            {
                self.is_server_first(ServerFirst::Cancelled);
            }
            Exchange::CloseSeen | Exchange::LossSeen { by: Side::Server }
                if self.server.is_some_and(|server| disconnect_cancels(&server)) =>
            {
                self.is_server_first(ServerFirst::Cancelled);
            }
            Exchange::ListenRevoked if self.server.is_some_and(|server| may_be_ended_by_server(&server)) => {
                self.is_server_first(ServerFirst::Revoked);
            }
            Exchange::HandlerAnswer { answer } => self.is_server_first(ServerFirst::Answer(answer)),
            Exchange::HandlerGone => self.is_server_first(ServerFirst::Gone),
            Exchange::ServerEnd { terminal } => {
                self.server_ended = true;
                return self.server_first_has_won(terminal);
            }
            Exchange::HandlerStop => self.told_to_stop = true,
            Exchange::Put { by: Side::Server, message } => return self.server_puts(message),
            Exchange::AtRest { .. } => return self.at_rest(),
            _ => {}
        }
        Ok(())
    }

    fn is_first(&mut self, what: First, now: Now) {
        if self.first.is_none() && self.end.is_none() {
            self.first = Some((what, now));
        }
    }

    fn is_server_first(&mut self, what: ServerFirst) {
        if self.server_first.is_none() && !self.server_ended && self.server.is_some() {
            self.server_first = Some(what);
        }
    }

    fn first_has_won(&self, now: Now, end: End<Body>) -> Verdict {
        let won = match (end, self.first) {
            // I-04 says whether a limit was due.
            (End::TimedOut(_), None) => true,
            (End::TimedOut(_), Some((_, at))) => at.mono == now.mono,
            (End::Answered(reply), Some((First::Answer(first), at))) => reply == first && at.mono == now.mono,
            (End::Cancelled, Some((First::GaveUp, at)))
            | (End::CancelledByPeer, Some((First::CancelledByPeer, at)))
            | (End::Lost, Some((First::Lost, at))) => at.mono == now.mono,
            (End::Answered(_) | End::Cancelled | End::CancelledByPeer | End::Lost, _) => false,
        };
        if won { Ok(()) } else { Err("what happened first did not decide the end") }
    }

    fn server_first_has_won(&self, terminal: Terminal) -> Verdict {
        let won = match (terminal, self.server_first) {
            // I-04 says whether a limit was due.
            (Terminal::TimedOut(_), _)
            | (Terminal::Cancelled, Some(ServerFirst::Cancelled | ServerFirst::Revoked))
            | (Terminal::Completed, Some(ServerFirst::Answer(Reply::Result(_))))
            | (Terminal::Failed, Some(ServerFirst::Answer(Reply::Error(_)) | ServerFirst::Gone)) => true,
            (Terminal::Cancelled | Terminal::Completed | Terminal::Failed | Terminal::Lost, _) => false,
        };
        if won { Ok(()) } else { Err("what happened first at the server did not decide its end") }
    }

    fn server_puts(&mut self, message: Message) -> Verdict {
        match (self.server_first, message) {
            // The server's own limit came at the same instant; I-04 says whether it was due.
            (_, Message::Response { answer: Answer::TimedOut(_), .. }) => self.responses += 1,
            (Some(ServerFirst::Cancelled), _) => {
                return Err("the server sent something after the cancel had won");
            }
            (Some(ServerFirst::Answer(first)), Message::Response { answer, .. }) => {
                self.responses += 1;
                if answer != Answer::Reply(first) {
                    return Err("the server sent another answer than the first one");
                }
            }
            (Some(ServerFirst::Revoked | ServerFirst::Gone) | None, Message::Response { .. }) => {
                self.responses += 1;
            }
            (_, Message::Progress { .. } | Message::Cancelled { .. } | Message::Request { .. }) => {}
        }
        if self.responses > 1 { Err("the server answered twice") } else { Ok(()) }
    }

    fn at_rest(&self) -> Verdict {
        let Some(client) = self.client else { return Ok(()) };
        let (posted, closed) = match self.end {
            Some(End::Cancelled | End::TimedOut(_)) if self.sent => expected_signals(&client),
            _ => (0, 0),
        };
        if self.posted != posted {
            return Err("the number of cancel notifications is not what the transport and the end ask for");
        }
        if self.closed != closed {
            return Err("the response stream was closed, or left open, against what the transport asks for");
        }
        match self.server_first {
            Some(ServerFirst::Cancelled | ServerFirst::Revoked) if !self.told_to_stop => {
                Err("the request was given up, and its handler was not told to stop")
            }
            Some(ServerFirst::Answer(_)) if self.responses == 0 => {
                Err("the completion had won, and no answer was sent")
            }
            _ => Ok(()),
        }
    }
}

/// How many notifications and how many closed streams tell the server that a request was given up (table
/// ERA).
const fn expected_signals(client: &Started) -> (u8, u8) {
    match (client.operation, client.hop.transport, client.hop.era) {
        (Operation::Initialize | Operation::Probe | Operation::Augmented, _, _) => (0, 0),
        (Operation::Ordinary | Operation::Listen, Transport::Stdio, _) => (1, 0),
        (Operation::Ordinary | Operation::Listen, Transport::Http, Era::Modern) => (0, 1),
        (Operation::Ordinary | Operation::Listen, Transport::Http, Era::Legacy) => (1, 1),
    }
}

fn may_be_ended_by_server(started: &Started) -> bool {
    started.operation == Operation::Listen && started.hop.transport == Transport::Stdio
}

fn may_be_cancelled_by_notice(started: &Started) -> bool {
    let posted_in_the_modern_era = (started.hop.transport, started.hop.era) == (Transport::Http, Era::Modern);
    started.operation != Operation::Initialize && !posted_in_the_modern_era
}

fn disconnect_cancels(started: &Started) -> bool {
    (started.hop.transport, started.hop.era) != (Transport::Http, Era::Legacy)
}

const fn as_reply(answer: Answer<Body>) -> Reply<Body> {
    match answer {
        Answer::Reply(reply) => reply,
        Answer::TimedOut(_) | Answer::NoAnswer => Reply::Error(0),
    }
}
