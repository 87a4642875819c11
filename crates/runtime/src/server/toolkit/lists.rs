//! The lists, and completion.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::exchange::Reply;

use super::catalog::{Catalog, Definition};
use super::service::Inner;
use crate::message;
use crate::server::{Answer, Caller};

/// The most values of one completion (TOL-05).
const MAX_COMPLETIONS: usize = 100;

impl Inner {
    /// `tools/list`, `prompts/list`, `resources/list` and `resources/templates/list`.
    pub(super) fn list(&self, method: &str, caller: &Caller, params: &str) -> Answer {
        #[derive(Deserialize)]
        struct Params {
            #[serde(default)]
            cursor: Option<String>,
        }
        let Ok(Params { cursor }) = serde_json::from_str(params) else {
            return refuse(-32602, "params.cursor must be a string; leave it out for the first page");
        };
        let cursor = cursor.as_deref();
        match method {
            "tools/list" => self.page(caller, &self.tools, cursor, "tools"),
            "prompts/list" => self.page(caller, &self.prompts, cursor, "prompts"),
            "resources/list" => self.page(caller, &self.resources, cursor, "resources"),
            "resources/templates/list" => self.page(caller, &self.templates, cursor, "resourceTemplates"),
            // Not reached: what the service does not know is not handed over.
            other => refuse(-32601, &format!("no such method: {other}")),
        }
    }

    fn page<T: Definition>(
        &self,
        caller: &Caller,
        catalog: &Catalog<T>,
        cursor: Option<&str>,
        member: &str,
    ) -> Answer {
        let Ok((page, next)) = catalog.page(caller, cursor, self.page_size) else {
            return refuse(-32602, "params.cursor is none of this list; begin again without one");
        };
        let page: Vec<Value> = page.iter().map(|definition| definition.to_json(caller)).collect();
        let mut result = json!({ member: page });
        if let Some(next) = next {
            result["nextCursor"] = next.into();
        }
        self.cacheable(caller, result, catalog.is_public())
    }

    /// `completion/complete`.
    pub(super) fn complete_argument(&self, caller: &Caller, params: &str) -> Answer {
        #[derive(Deserialize)]
        struct Params {
            r#ref: Reference,
            argument: Argument,
        }
        #[derive(Deserialize)]
        struct Reference {
            r#type: String,
            #[serde(default)]
            name: Option<String>,
            #[serde(default)]
            uri: Option<String>,
        }
        #[derive(Deserialize)]
        struct Argument {
            name: String,
            value: String,
        }
        let Ok(Params { r#ref: to, argument }) = serde_json::from_str(params) else {
            return refuse(-32602, "params need ref and argument with a name and a value; send both");
        };
        let Argument { name, value } = argument;
        let found = match (to.r#type.as_str(), to.name.as_deref(), to.uri.as_deref()) {
            ("ref/prompt", Some(prompt), _) => {
                self.prompts.get(caller, prompt).map(|it| (it.has_argument(&name), it.complete.clone()))
            }
            ("ref/resource", _, Some(uri)) => {
                self.templates.get(caller, uri).map(|it| (it.has_variable(&name), it.complete().cloned()))
            }
            _ => None,
        };
        let values = match found {
            Some((true, complete)) => complete.map(|complete| complete(&name, &value)).unwrap_or_default(),
            Some((false, _)) => {
                return refuse(-32602, "params.argument.name is none of what params.ref takes; name one");
            }
            None => {
                return refuse(
                    -32602,
                    "params.ref names nothing that can be completed; name a prompt or a template",
                );
            }
        };
        let total = values.len();
        let values: Vec<String> = values.into_iter().take(MAX_COMPLETIONS).collect();
        let has_more = total > values.len();
        self.complete(
            caller,
            json!({ "completion": { "values": values, "total": total, "hasMore": has_more } }),
        )
    }
}

/// An error that a request gets.
pub(super) fn refuse(code: i64, text: &str) -> Answer {
    Reply::Error(Bytes::from(message::error_body(code, text)))
}
