//! One order again: from its text form, or from a seed.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::check::Violation;
use crate::choices::{Choices, Path, PathError};
use crate::planted::Bug;
use crate::run::Run;
use crate::scopes;
use crate::transcript::Transcript;

/// Which order of which scope, written `SCOPE:0.2.1`; with a planted bug `SCOPE+BUG:0.2.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The scope's name.
    pub scope: String,
    /// The bug to plant.
    pub bug: Option<Bug>,
    /// Where the order comes from.
    pub order: Order,
}

/// Where an order comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// A list of choices.
    Recorded(Path),
    /// A generator with this seed.
    Seeded(u64),
}

/// Why an order cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// No scope has this name.
    #[error("there is no scope `{0}`; `steadfast sim explore` lists them")]
    NoSuchScope(String),
    /// No bug has this name.
    #[error("there is no planted bug `{0}`; `steadfast sim explore` lists them")]
    NoSuchBug(String),
    /// The part after the colon.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// What one order showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// The order's text form; it gives this replay again, whatever the order came from.
    pub replay: String,
    /// The invariant that was broken, if one was.
    pub violation: Option<Violation>,
    /// The SHA-256 of all events.
    pub digest: String,
    /// One JSON object an event.
    pub transcript: Vec<String>,
}

/// Plays one order and keeps everything.
///
/// # Errors
/// The scope does not exist.
pub fn run(target: &Target) -> Result<Replay, ReplayError> {
    let scope = scopes::named(&target.scope).ok_or_else(|| ReplayError::NoSuchScope(target.scope.clone()))?;
    let mut choices = match &target.order {
        Order::Recorded(path) => Choices::recorded(path.clone()),
        Order::Seeded(seed) => Choices::seeded(*seed),
    };
    let mut transcript = Transcript::with_events();
    let mut run = Run::new(&mut choices, &mut transcript).with_bug(target.bug);
    scope.play(&mut run);
    let violation = run.violation();
    Ok(Replay {
        replay: Target::recorded(scope.name, target.bug, choices.path()).to_string(),
        violation,
        digest: transcript.digest(),
        transcript: transcript.lines().collect(),
    })
}

impl Target {
    /// The order that these choices lead through.
    pub fn recorded(scope: &str, bug: Option<Bug>, path: Path) -> Self {
        Self { scope: scope.to_owned(), bug, order: Order::Recorded(path) }
    }

    /// The order that this seed draws.
    pub fn seeded(scope: &str, seed: u64) -> Self {
        Self { scope: scope.to_owned(), bug: None, order: Order::Seeded(seed) }
    }
}

impl FromStr for Target {
    type Err = ReplayError;

    fn from_str(text: &str) -> Result<Self, ReplayError> {
        let (place, path) = text.split_once(':').unwrap_or((text, ""));
        let (scope, bug) = match place.split_once('+') {
            None => (place, None),
            Some((scope, name)) => {
                (scope, Some(Bug::named(name).ok_or_else(|| ReplayError::NoSuchBug(name.to_owned()))?))
            }
        };
        Ok(Self::recorded(scope, bug, path.parse()?))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scope)?;
        if let Some(bug) = self.bug {
            write!(f, "+{}", bug.name())?;
        }
        match &self.order {
            Order::Recorded(path) => write!(f, ":{path}"),
            Order::Seeded(seed) => write!(f, " --seed {seed}"),
        }
    }
}
