//! What a tool's definition does for a call of it: arguments checked before anything is sent, headers that repeat them,
//! results checked on arrival. A call keeps the definition that it began with, unless the server refuses its headers.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use steadfast_core::catalog::Subject;
use steadfast_core::error::{Kind, Outcome};
use steadfast_core::object::Members;

use super::definition::Definition;
use crate::client::Client;
use crate::client::attempts::{Done, ResultKind};
use crate::client::error::{Category, Error};
use crate::client::options::CallOptions;
use crate::client::record::Record;
use crate::schema::{self, is_bounded, mirror};

/// Something that is asked of a definition, and may have to be fetched for it.
type Telling<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// A call of a tool, and what is known of the tool.
pub(in crate::client) struct Defined<'a> {
    client: &'a Client,
    tool: &'a str,
    /// One JSON object, as it is sent.
    arguments: &'a str,
    seen: Mutex<Option<Seen>>,
}

/// A definition, and how old the list is that it stands in.
#[derive(Clone)]
struct Seen {
    definition: Arc<Definition>,
    age: Duration,
    stale: bool,
}

impl<'a> Defined<'a> {
    /// Looks the tool up among what is there, and checks the arguments. Nothing is fetched for that, unless they break
    /// a definition that may be out of date: by such a one nothing is refused (CCH-14, F089).
    ///
    /// # Errors
    /// The arguments are not what the tool asks for: the sentence that says so.
    pub(in crate::client) async fn checked(
        client: &'a Client,
        tool: &'a str,
        arguments: Option<&'a str>,
        options: &CallOptions,
    ) -> Result<Self, String> {
        let arguments = arguments.unwrap_or("{}");
        let mut seen = client.seen(tool);
        if seen.is_some() && client.pipeline.credentials.is_some() {
            // What was seen with another token says nothing of this call (AUT-05). Without credentials it fails anyway.
            seen = match client.credentials(options).await {
                Ok(credentials) => {
                    let now = client.pipeline.clock.now().mono;
                    client.catalog.current(&client.pipeline, now).under(credentials);
                    client.seen(tool)
                }
                Err(_) => None,
            };
        }
        if let Some(first) = &seen
            && let Err(why) = fits(&first.definition, arguments).await
        {
            let refuse = |why: String| {
                format!(
                    "the arguments are not what tool {tool:?} of server {} asks for: {why}; correct them",
                    client.name()
                )
            };
            if !first.stale {
                return Err(refuse(why));
            }
            let anew = client.list(&Subject::Tools, true, options).await.ok().filter(|(kept, _)| !kept.stale);
            if let Some((kept, _)) = anew {
                seen = kept.snapshot.get(tool).map(|definition| Seen {
                    definition: Arc::clone(definition),
                    age: client.age(&kept),
                    stale: false,
                });
                if let Some(now) = &seen {
                    fits(&now.definition, arguments).await.map_err(refuse)?;
                }
            }
        }
        Ok(Self { client, tool, arguments, seen: Mutex::new(seen) })
    }

    /// Who calls it.
    pub(in crate::client) const fn client(&self) -> &'a Client {
        self.client
    }

    fn seen(&self) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The `Mcp-Param-*` headers by the newest definition that there is; none where there is none (HDR-33, HDR-41).
    pub(in crate::client) fn headers(&self) -> Vec<(String, String)> {
        let Some(Seen { definition, .. }) = self.seen() else { return Vec::new() };
        if definition.mirrors.is_empty() {
            return Vec::new();
        }
        let arguments: Value = serde_json::from_str(self.arguments).unwrap_or_default();
        mirror::headers(&definition.mirrors, &arguments)
    }

    /// How old the list was that the call was checked against, and whether it was stale.
    pub(in crate::client) fn age(&self) -> Option<(Duration, bool)> {
        self.seen().map(|seen| (seen.age, seen.stale))
    }

    /// The server refused the headers: the tools are listed anew. Whether they come out otherwise now; if not, the same
    /// refusal would follow (HDR-32).
    pub(in crate::client) fn mend<'b>(&'b self, options: &'b CallOptions) -> Telling<'b> {
        Box::pin(async move {
            let before = self.headers();
            let Ok((kept, _)) = self.client.list(&Subject::Tools, true, options).await else { return false };
            let definition = kept.snapshot.get(self.tool).cloned();
            let age = self.client.age(&kept);
            let seen = definition.map(|definition| Seen { definition, age, stale: kept.stale });
            *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
            self.headers() != before
        })
    }

    /// Whether a legacy server runs the tool only as a task (LEG-102, LEG-103): where nothing is known of the tool, the
    /// tools are listed first. What may run as a task or without is called without.
    pub(in crate::client) fn runs_only_as_task<'b>(&'b self, options: &'b CallOptions) -> Telling<'b> {
        Box::pin(async move {
            if self.seen().is_none()
                && let Ok((kept, _)) = self.client.list(&Subject::Tools, false, options).await
                && let Some(definition) = kept.snapshot.get(self.tool).cloned()
            {
                let seen = Seen { definition, age: self.client.age(&kept), stale: kept.stale };
                *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
            }
            self.seen().is_some_and(|seen| seen.definition.task_support().as_deref() == Some("required"))
        })
    }

    /// Checks the result against the tool's own `outputSchema` (TOL-07). The call was executed; only its word is not to
    /// be trusted.
    ///
    /// # Errors
    /// It breaks the schema: the server's fault.
    pub(in crate::client) async fn check_output(&self, done: &Done) -> Result<(), Error> {
        let Some(schema) = self.seen().and_then(|seen| seen.definition.output.clone()) else { return Ok(()) };
        match done.kind {
            ResultKind::Complete => {}
            ResultKind::InputRequired | ResultKind::Task | ResultKind::Error => return Ok(()),
        }
        let text = std::str::from_utf8(&done.result).unwrap_or_default();
        let members = Members::parse(text).unwrap_or_default();
        if members.get("isError") == Some("true") {
            return Ok(());
        }
        let checked = match members.get("structuredContent") {
            None => Err("there is no structuredContent".to_owned()),
            Some(json) if !is_bounded(json) => Err("it holds more values than are read".to_owned()),
            Some(json) => match serde_json::from_str(json) {
                Ok(value) => schema::checked(&schema, value).await.map(drop),
                Err(_) => Err("it cannot be read".to_owned()),
            },
        };
        checked.map_err(|why| self.untrusted(done, &why))
    }

    fn untrusted(&self, done: &Done, why: &str) -> Error {
        let pipeline = &self.client.pipeline;
        let category = Category::InvalidOutput;
        pipeline.recorder.record(&Record {
            call_id: done.call_id.clone(),
            trace_id: done.trace.id().to_owned(),
            server_key: self.client.name().to_owned(),
            method: "tools/call".to_owned(),
            tool_name: Some(self.tool.to_owned()),
            attempt: done.attempts,
            round: done.round,
            sent: true,
            answered: true,
            error_kind: Some(Kind::Transport.as_str().to_owned()),
            error_code: Some(category.as_str().to_owned()),
            outcome: Outcome::Executed.as_str().to_owned(),
            verdict: Some("stop: final".to_owned()),
            ended_unix_ms: pipeline.clock.now().wall.as_unix_millis(),
            ..Record::default()
        });
        let sentence = format!(
            "the result of tool {:?} of server {} breaks the tool's own outputSchema ({why}), so it is not handed on; tell whoever runs the server",
            self.tool,
            self.client.name()
        );
        Error::Transport {
            category,
            sent: true,
            outcome: Outcome::Executed,
            sentence,
            call_id: done.call_id.clone(),
        }
    }
}

impl Client {
    /// A tool's definition among what is there, however old.
    fn seen(&self, tool: &str) -> Option<Seen> {
        let now = self.pipeline.clock.now().mono;
        let mut state = self.catalog.current(&self.pipeline, now);
        let held = state.list(&Subject::Tools).entry.held()?;
        let definition = Arc::clone(held.value.get(tool)?);
        Some(Seen { definition, age: now.saturating_since(held.received), stale: !held.is_fresh(now) })
    }
}

/// Whether arguments are what a definition asks for.
async fn fits(definition: &Definition, arguments: &str) -> Result<(), String> {
    let Some(schema) = &definition.input else { return Ok(()) };
    if !is_bounded(arguments) {
        return Err("they hold more values than are read; send fewer".to_owned());
    }
    let value = serde_json::from_str(arguments).map_err(|_| "they cannot be read".to_owned())?;
    schema::checked(schema, value).await.map(drop)
}
