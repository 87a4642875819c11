//! Where the host's own code is asked: for answers to a server's questions, for credentials, and told what came.

use std::future::ready;
use std::pin::Pin;

use steadfast_core::object::Members;

use steadfast_core::catalog::Changes;

/// A question of a server: `elicitation/create`, `sampling/createMessage` or `roots/list`. It is an untrusted party's
/// text in every era and shape, within a task too (TSK-31, TSK-53).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The server's configured name.
    pub server: String,
    /// What is asked for.
    pub method: String,
    /// Its params, as they came: one JSON object.
    pub params: String,
}

/// Why a question has no answer. Declining an elicitation is an answer; this is a host that cannot, or a person who
/// refuses (MRT-21, AMB-32).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The host has no way to answer such a question.
    #[error("this host cannot answer {0}; call from one that can")]
    Unsupported(String),
    /// The host declared such questions in another mode only, so the server may not ask them (CAP-19).
    #[error("this host declared no such mode of {0}, so the server may not ask it; declare what you answer")]
    Undeclared(String),
    /// The person refused.
    #[error("the user refused to answer")]
    Refused,
    /// Nobody answered in time.
    #[error("nobody answered the question in time")]
    TimedOut,
}

/// An answer under way: the bare result object, as JSON.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<String, NoAnswer>> + Send + 'a>>;

/// What a host is asked and told.
pub trait Handler: Send + Sync {
    /// The capabilities to declare to the server, as one JSON object (CAP-16): only what [`Self::answer`] answers.
    fn capabilities(&self) -> String {
        "{}".to_owned()
    }

    /// Answers a question. Dropping the future takes it back: the server no longer asks, or too much time has gone.
    fn answer<'a>(&'a self, question: Question) -> Answering<'a> {
        Box::pin(ready(Err(NoAnswer::Unsupported(question.method))))
    }

    /// A server's `notifications/message`: the params as they came, of an untrusted party.
    fn log(&self, server: &str, params: &str) {
        let _ = (server, params);
    }

    /// The server says that a list changed; which one, the notice's method says. It is fetched again when it is next
    /// needed.
    fn list_changed(&self, server: &str, notice: &str) {
        let _ = (server, notice);
    }

    /// A list that was fetched again says something else than before; which one, the method that fetches it says.
    fn definitions_changed(&self, server: &str, list: &str, changes: &Changes) {
        let _ = (server, list, changes);
    }
}

/// Asks the host, if it declared that it answers such a question. An elicitation without `mode` is one by form, and
/// `"elicitation": {}` declares forms alone (MRT-34, CAP-17), so a URL reaches only hosts that know how to ask for consent
/// before they open it (MRT-35).
pub(super) async fn ask(handler: &dyn Handler, question: Question) -> Result<String, NoAnswer> {
    let declared = handler.capabilities();
    let declared = Members::parse(&declared).unwrap_or_default();
    let capability = question.method.split('/').next().unwrap_or_default();
    let Some(settings) = declared.get(capability) else {
        return Err(NoAnswer::Unsupported(question.method));
    };
    if capability == "elicitation" {
        let mode = Members::parse(&question.params).ok().and_then(|params| params.get_str("mode"));
        let mode = mode.as_deref().unwrap_or("form");
        let modes = Members::parse(settings).unwrap_or_default();
        let forms_alone = modes.iter().next().is_none() && mode == "form";
        if !forms_alone && modes.get(mode).is_none() {
            return Err(NoAnswer::Undeclared(question.method));
        }
    }
    handler.answer(question).await
}

/// A host that answers nothing and declares nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Handler for Silent {}

/// Headers under way.
pub type Headers<'a> = Pin<Box<dyn Future<Output = Result<Vec<(String, String)>, String>> + Send + 'a>>;

/// Where the credentials of an HTTP server come from. They travel with each request, so a request that runs keeps
/// those it began with (F100, F103).
pub trait Credentials: Send + Sync {
    /// The headers of the next request. An error is one sentence, without any secret, and nothing is sent.
    fn headers(&self) -> Headers<'_>;

    /// The server refused them (401), with this `WWW-Authenticate`. Whether new ones are there, so that the request is
    /// worth one more try: it was certainly not executed.
    fn refused<'a>(&'a self, challenge: Option<&'a str>) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        let _ = challenge;
        Box::pin(ready(false))
    }
}
