//! The lists as a host asks for them: whole, or searched.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::catalog::{ContentHash, Subject};

use super::Kept;
use super::definition::{Definition, LeftOut};
use crate::client::Client;
use crate::client::error::Error;
use crate::client::options::CallOptions;
use crate::client::record::Record;

/// A list, and how old it is.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What can be used, in the server's order.
    pub definitions: Arc<[Arc<Definition>]>,
    /// What cannot, and why.
    pub left_out: Arc<[LeftOut]>,
    /// Why it is not all of what the server has: it does not end, or is too large.
    pub cut: Option<&'static str>,
    /// How long ago it was received.
    pub age: Duration,
    /// It was there already.
    pub hit: bool,
    /// It may be out of date: the server told of a change or its time is up, and it could not be fetched anew, or not
    /// again so soon.
    pub stale: bool,
    /// The call's id in the log.
    pub call_id: String,
}

/// A tool as a model chooses by it; [`Client::definition`] has the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Light {
    /// Its name.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// The first line of its description, at most 200 characters.
    pub summary: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// What its definition says: equal if nothing changed.
    pub content: ContentHash,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best fits, best first.
    pub tools: Vec<Light>,
    /// How many tools were searched.
    pub of: usize,
    /// How old the list is.
    pub age: Duration,
    /// As in [`Listed`].
    pub stale: bool,
}

impl Client {
    /// All tools of the server: kept, as long as it says that they hold. A definition that cannot be used is left out
    /// alone. What is listed is no right to call it.
    ///
    /// # Errors
    /// There is no list, and none that may serve in its place.
    pub async fn list_tools(&self, options: CallOptions) -> Result<Listed, Error> {
        self.listed(&Subject::Tools, options).await
    }

    /// All prompts of the server.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn list_prompts(&self, options: CallOptions) -> Result<Listed, Error> {
        self.listed(&Subject::Prompts, options).await
    }

    /// All resources of the server.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn list_resources(&self, options: CallOptions) -> Result<Listed, Error> {
        self.listed(&Subject::Resources, options).await
    }

    /// All templates of resources of the server.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn list_resource_templates(&self, options: CallOptions) -> Result<Listed, Error> {
        self.listed(&Subject::Templates, options).await
    }

    /// The tools that fit best to a few words, by name, tags, title and description; at most `limit`. No words fit all.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn search_tools(
        &self,
        query: &str,
        limit: usize,
        options: CallOptions,
    ) -> Result<Found, Error> {
        let (kept, _) = self.list(&Subject::Tools, false, &options).await?;
        let all = &kept.snapshot.definitions;
        let light = |at: usize| {
            let one = &all[at];
            let (name, title, tags) = (one.name.clone(), one.title.clone(), one.tags.clone());
            Light { name, title, summary: one.summary(), tags, content: one.content }
        };
        let tools = kept.snapshot.index().search(query, limit).into_iter().map(light).collect();
        Ok(Found { tools, of: all.len(), age: self.age(&kept), stale: kept.stale })
    }

    /// One tool's definition, if the server has it and it can be used.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn definition(
        &self,
        tool: &str,
        options: CallOptions,
    ) -> Result<Option<Arc<Definition>>, Error> {
        if let Some(kept) = self.at_hand(&Subject::Tools) {
            return Ok(kept.snapshot.get(tool).cloned());
        }
        // The way of a miss is long, and what it would need is not made ready for a hit.
        let (kept, _) = Box::pin(self.list(&Subject::Tools, false, &options)).await?;
        Ok(kept.snapshot.get(tool).cloned())
    }

    async fn listed(&self, subject: &Subject, options: CallOptions) -> Result<Listed, Error> {
        let (kept, hit) = self.list(subject, false, &options).await?;
        let age = self.age(&kept);
        let call_id = if hit || kept.call_id.is_empty() {
            self.served(subject.method(), age, kept.stale, &options)
        } else {
            kept.call_id.clone()
        };
        let snapshot = &kept.snapshot;
        Ok(Listed {
            definitions: Arc::clone(&snapshot.definitions),
            left_out: Arc::clone(&snapshot.left_out),
            cut: snapshot.cut.map(|cut| cut.as_str()),
            age,
            hit,
            stale: kept.stale,
            call_id,
        })
    }

    pub(super) fn age(&self, kept: &Kept) -> Duration {
        self.pipeline.clock.now().mono.saturating_since(kept.received)
    }

    /// Leaves the record of a request that was answered from here.
    pub(super) fn served(&self, method: &str, age: Duration, stale: bool, options: &CallOptions) -> String {
        let call_id = self.pipeline.new_call();
        self.pipeline.recorder.record(&Record {
            call_id: call_id.clone(),
            trace_id: options.trace.as_ref().map(|trace| trace.id().to_owned()).unwrap_or_default(),
            agent_run_id: options.run.as_ref().map(|run| run.id().to_owned()),
            server_key: self.name().to_owned(),
            method: method.to_owned(),
            cache_hit: true,
            cache_age_ms: Some(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            cache_stale: stale,
            answered: true,
            outcome: "not_executed".to_owned(),
            ended_unix_ms: self.pipeline.clock.now().wall.as_unix_millis(),
            ..Record::default()
        });
        call_id
    }
}
