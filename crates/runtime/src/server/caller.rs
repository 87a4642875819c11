//! Who sent a request, in which revision, and what it may be sent.

use std::sync::Arc;

use serde_json::Value;
use steadfast_core::hop::{Hop, Revision, Transport};
use steadfast_core::task::TaskOwner;

/// The sender of one request. In the modern era it is read from the request alone (STA-01, CAP-05); in the legacy
/// eras from its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The authenticated tenant and principal; `local` and `local` where nobody authenticates (ruling 21).
    pub principal: TaskOwner,
    /// The revision that this request obeys.
    pub revision: Revision,
    /// How it came.
    pub transport: Transport,
    /// What the client says it can do.
    pub capabilities: Capabilities,
    /// From which level on it wants log entries; `None` for none (LOG-01).
    pub level: Option<Level>,
}

impl Caller {
    /// Somebody of this machine who speaks the modern revision and can do nothing beyond it.
    pub fn local(transport: Transport) -> Self {
        Self {
            principal: TaskOwner { tenant: "local".into(), principal: "local".into() },
            revision: Revision::V2026_07_28,
            transport,
            capabilities: Capabilities::default(),
            level: None,
        }
    }

    /// The hop that it speaks over.
    pub const fn hop(&self) -> Hop {
        Hop { transport: self.transport, era: self.revision.era() }
    }
}

/// A client's capabilities: the JSON object as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities(Arc<str>);

/// The identifier of the tasks extension (TSK-01).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

impl Default for Capabilities {
    fn default() -> Self {
        Self("{}".into())
    }
}

impl Capabilities {
    /// Capabilities from the JSON text of an object; anything else declares nothing.
    pub fn from_json(json: &str) -> Self {
        Self(json.into())
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Whether the object at `path` was declared, as `["elicitation", "url"]`. An empty `elicitation` declares its
    /// form mode (CAP-17).
    pub fn declare(&self, path: &[&str]) -> bool {
        if &*self.0 == "{}" {
            return false;
        }
        let Ok(mut at) = serde_json::from_str::<Value>(&self.0) else { return false };
        for (depth, name) in path.iter().enumerate() {
            let bare_form = depth == 1
                && path[0] == "elicitation"
                && *name == "form"
                && at.as_object().is_some_and(serde_json::Map::is_empty);
            if bare_form {
                return true;
            }
            at = match at.get_mut(*name) {
                Some(Value::Null) | None => return false,
                Some(inner) => inner.take(),
            };
        }
        true
    }

    /// Whether the tasks extension was declared.
    pub fn declare_tasks(&self) -> bool {
        self.declare(&["extensions", TASKS_EXTENSION])
    }
}

/// How much a log entry matters (LOG-04), the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// `debug`.
    Debug,
    /// `info`.
    Info,
    /// `notice`.
    Notice,
    /// `warning`.
    Warning,
    /// `error`.
    Error,
    /// `critical`.
    Critical,
    /// `alert`.
    Alert,
    /// `emergency`.
    Emergency,
}

impl Level {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cap_17_an_empty_elicitation_is_form_mode_and_nothing_else() {
        let declares = |json: &str, path: &[&str]| Capabilities::from_json(json).declare(path);
        assert!(declares(r#"{"elicitation":{}}"#, &["elicitation", "form"]));
        assert!(!declares(r#"{"elicitation":{}}"#, &["elicitation", "url"]));
        assert!(!declares(r#"{"elicitation":{"url":{}}}"#, &["elicitation", "form"]));
        assert!(declares(r#"{"sampling":{"tools":{}}}"#, &["sampling", "tools"]));
        assert!(!declares(r#"{"sampling":{}}"#, &["sampling", "tools"]));
        assert!(!declares("{}", &["roots"]));
        assert!(!declares("[1]", &["roots"]));
        assert!(
            Capabilities::from_json(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#).declare_tasks()
        );
        assert!(!Capabilities::from_json(r#"{"tasks":{}}"#).declare_tasks(), "TSK-63");
    }
}
