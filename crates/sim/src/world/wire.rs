//! What is under way between the two ends.
//!
//! On stdio there are two pipes, each in order. On HTTP the request has a connection of its own, whose
//! response stream is in order; a notification of the client is another POST, which may overtake and be
//! overtaken.

use std::collections::VecDeque;

use steadfast_core::hop::{Hop, Transport};

use super::Lane;
use crate::event::{Message, Side};

/// Something under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Item {
    Message(Message),
    /// The client closed the response stream.
    Closed,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Wire {
    transport: Transport,
    up: VecDeque<Item>,
    aside: VecDeque<Item>,
    down: VecDeque<Item>,
    connected: bool,
    client_must_see: bool,
    server_must_see: bool,
}

impl Wire {
    pub(super) const fn new(hop: Hop) -> Self {
        Self {
            transport: hop.transport,
            up: VecDeque::new(),
            aside: VecDeque::new(),
            down: VecDeque::new(),
            connected: true,
            client_must_see: false,
            server_must_see: false,
        }
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.connected
    }

    pub(super) fn is_empty(&self, lane: Lane) -> bool {
        match lane {
            Lane::Up => self.up.is_empty(),
            Lane::Aside => self.aside.is_empty(),
            Lane::Down => self.down.is_empty(),
        }
    }

    pub(super) fn take(&mut self, lane: Lane) -> Option<Item> {
        match lane {
            Lane::Up => self.up.pop_front(),
            Lane::Aside => self.aside.pop_front(),
            Lane::Down => self.down.pop_front(),
        }
    }

    /// The request itself: into the pipe, or as a new POST.
    pub(super) fn put_request(&mut self, message: Message) {
        if self.connected {
            self.up.push_back(Item::Message(message));
        }
    }

    /// A notification of the client: into the same pipe, or as another POST, which needs no working first
    /// one.
    pub(super) fn put_notification(&mut self, message: Message) {
        match self.transport {
            Transport::Stdio => self.put_request(message),
            Transport::Http => self.aside.push_back(Item::Message(message)),
        }
    }

    /// Whatever the server says; what it writes into a broken or closed stream is gone.
    pub(super) fn put_down(&mut self, message: Message) {
        if self.connected {
            self.down.push_back(Item::Message(message));
        }
    }

    /// The client closes the response stream. What had already arrived in its process may still be handed
    /// over.
    pub(super) fn close(&mut self) {
        if self.connected {
            self.connected = false;
            self.up.push_back(Item::Closed);
        }
    }

    /// The request is over and its response stream with it (HTTP).
    pub(super) const fn finish(&mut self) {
        self.connected = false;
    }

    /// The connection breaks under both ends. A server that never saw a request over HTTP has nothing to see.
    pub(super) fn break_down(&mut self, server_has_started: bool) {
        self.connected = false;
        self.up.clear();
        self.down.clear();
        self.client_must_see = true;
        self.server_must_see = server_has_started;
    }

    pub(super) const fn loss_unseen(&self, side: Side) -> bool {
        match side {
            Side::Client => self.client_must_see,
            Side::Server => self.server_must_see,
        }
    }

    pub(super) const fn see_loss(&mut self, side: Side) {
        match side {
            Side::Client => self.client_must_see = false,
            Side::Server => self.server_must_see = false,
        }
    }
}
