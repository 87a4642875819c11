//! What can be seen of a child process behind its pipes.

use serde::Serialize;

/// What can be seen of a child process behind its pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Stdio {
    /// A call was written to the child.
    Called {
        /// Its number.
        call: u8,
    },
    /// The last byte of a line reached us.
    Wrote {
        /// What the line is.
        line: Line,
    },
    /// A piece of the stream has been read.
    Read,
    /// The reader took a line.
    Took {
        /// For what.
        line: Line,
    },
    /// The child died.
    Died {
        /// Whether it died within a line.
        half: bool,
    },
    /// A call was settled.
    Settled {
        /// Its number.
        call: u8,
        /// Whether it was answered; otherwise it is lost.
        answered: bool,
    },
    /// Nothing can happen any more.
    AtRest {
        /// Calls that still wait.
        pending: u8,
    },
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The answer to a call.
    Answer(u8),
    /// Text that is no message.
    Noise,
    /// A line beyond the limit.
    TooLong,
    /// The beginning of a line, when the stream ended.
    Unfinished,
}
