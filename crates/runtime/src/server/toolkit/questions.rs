//! What can be asked of a client, and what counts as an answer.

use serde_json::{Value, json};
use steadfast_core::hop::Revision;

use crate::schema::Schema;
use crate::server::Caller;

/// Something to ask the user, the model behind the client, or the client itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub(super) method: &'static str,
    pub(super) params: Value,
}

impl Question {
    /// A form: `schema` is an object of primitive fields, as `elicitation/create` takes it. Not for secrets: ask for
    /// those by [`Self::url`].
    pub fn form(message: impl Into<String>, schema: Value) -> Self {
        // Without a mode it is a form in every revision; the older ones know no modes (MRT-34).
        let params = json!({ "message": message.into(), "requestedSchema": schema });
        Self { method: "elicitation/create", params }
    }

    /// A page that the user is sent to. That it was accepted means consent, and not that anything was done there
    /// (MRT-35).
    pub fn url(message: impl Into<String>, url: &str, id: &str) -> Self {
        let params = json!({ "mode": "url", "message": message.into(), "url": url, "elicitationId": id });
        Self { method: "elicitation/create", params }
    }

    /// Something for the client's model: the params of `sampling/createMessage`.
    pub const fn sampling(params: Value) -> Self {
        Self { method: "sampling/createMessage", params }
    }

    /// Which roots the client has.
    pub fn roots() -> Self {
        Self { method: "roots/list", params: json!({}) }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "method": self.method, "params": self.params })
    }

    fn is_form(&self) -> bool {
        self.method == "elicitation/create" && self.params.get("mode").is_none()
    }

    /// The capability that a client needs to be asked this (MRT-07, CAP-19).
    pub(super) fn needs(&self) -> &'static [&'static str] {
        match self.method {
            "elicitation/create" if self.is_form() => &["elicitation", "form"],
            "elicitation/create" => &["elicitation", "url"],
            "roots/list" => &["roots"],
            _ if self.params.get("tools").or(self.params.get("toolChoice")).is_some() => {
                &["sampling", "tools"]
            }
            _ => &["sampling"],
        }
    }

    /// Whether this caller may be asked this: its revision has the question and it declared that it can answer (LEG-77).
    pub(super) fn may_be_put_to(&self, caller: &Caller) -> bool {
        let since = match (self.method, self.is_form()) {
            ("elicitation/create", true) => Revision::V2025_06_18,
            ("elicitation/create", false) => Revision::V2025_11_25,
            _ => Revision::V2025_03_26,
        };
        caller.revision >= since && caller.capabilities.declare(self.needs())
    }

    /// Whether an answer has the shape of one, and a form's content what its schema says (MRT-27).
    pub(super) fn is_answered_by(&self, answer: &Value) -> bool {
        match self.method {
            "elicitation/create" => match answer["action"].as_str() {
                Some("accept") if self.is_form() => {
                    let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
                    Schema::new(self.params["requestedSchema"].clone())
                        .is_ok_and(|schema| content.is_object() && schema.check(&content).is_ok())
                }
                // Declined and cancelled are answers as well (MRT-30).
                Some("accept" | "decline" | "cancel") => true,
                Some(_) | None => false,
            },
            "roots/list" => answer["roots"].is_array(),
            _ => {
                answer["role"].is_string() && (answer["content"].is_object() || answer["content"].is_array())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::hop::Transport;

    use super::*;
    use crate::server::Capabilities;

    fn name() -> Question {
        let schema =
            json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
        Question::form("Your name?", schema)
    }

    fn able(revision: Revision, capabilities: Value) -> Caller {
        let capabilities = Capabilities::from_json(&capabilities.to_string());
        Caller { revision, capabilities, ..Caller::local(Transport::Http) }
    }

    // shows: CAP-17, CAP-19, LEG-77
    #[test]
    fn mrt_07_nobody_is_asked_what_it_did_not_declare() {
        let sampling = Question::sampling(json!({ "messages": [], "maxTokens": 1 }));
        let with_tools = Question::sampling(json!({ "messages": [], "maxTokens": 1, "tools": [] }));
        let page = Question::url("Log in", "https://example.org", "1");
        let all = [&name(), &page, &sampling, &with_tools, &Question::roots()];
        let may = |revision, capabilities: Value| {
            let caller = able(revision, capabilities);
            all.map(|question| question.may_be_put_to(&caller))
        };
        let modern = Revision::V2026_07_28;
        assert_eq!(may(modern, json!({})), [false; 5]);
        assert_eq!(may(modern, json!({ "elicitation": {} })), [true, false, false, false, false]);
        assert_eq!(may(modern, json!({ "elicitation": { "url": {} } })), [false, true, false, false, false]);
        assert_eq!(may(modern, json!({ "sampling": {} })), [false, false, true, false, false]);
        assert_eq!(may(modern, json!({ "sampling": { "tools": {} } })), [false, false, true, true, false]);
        assert_eq!(may(modern, json!({ "roots": {} })), [false, false, false, false, true]);
        let everything = || json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} });
        assert_eq!(may(Revision::V2025_11_25, everything()), [true, true, true, false, true]);
        assert_eq!(may(Revision::V2025_06_18, everything()), [true, false, true, false, true]);
        assert_eq!(may(Revision::V2025_03_26, everything()), [false, false, true, false, true]);
    }

    // shows: MRT-30
    #[test]
    fn mrt_27_an_answer_fits_its_question_or_is_none() {
        for answer in [
            json!({ "action": "accept", "content": { "name": "Anna" } }),
            json!({ "action": "decline" }),
            json!({ "action": "cancel" }),
        ] {
            assert!(name().is_answered_by(&answer), "{answer}");
        }
        for answer in [
            json!(12345),
            json!(null),
            json!({}),
            json!({ "action": "maybe" }),
            json!({ "action": "accept" }),
            json!({ "action": "accept", "content": [] }),
            json!({ "action": "accept", "content": { "name": 1 } }),
        ] {
            assert!(!name().is_answered_by(&answer), "{answer}");
        }
        let sampling = Question::sampling(json!({}));
        assert!(sampling.is_answered_by(&json!({ "role": "assistant", "content": { "type": "text" } })));
        assert!(!sampling.is_answered_by(&json!({ "role": "assistant", "content": "x" })));
        assert!(Question::roots().is_answered_by(&json!({ "roots": [] })));
        assert!(!Question::roots().is_answered_by(&json!({ "roots": {} })));
    }
}
