//! What both ends of a subscription write and read: filters and changes as `subscriptions/listen` words them (SUB).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use steadfast_core::object::Members;
use steadfast_core::subscription::{Change, Filter};

/// What opens a subscription (SUB-03).
pub(crate) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// `notifications` of a listen's params, or of its acknowledgement's.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Notifications {
    #[serde(default)]
    tools_list_changed: bool,
    #[serde(default)]
    prompts_list_changed: bool,
    #[serde(default)]
    resources_list_changed: bool,
    #[serde(default)]
    pub(crate) resource_subscriptions: BTreeSet<String>,
    #[serde(default)]
    pub(crate) task_ids: Option<BTreeSet<String>>,
}

impl Notifications {
    /// From the params that hold them; `None` if they are missing or of another shape (SUB-27).
    pub(crate) fn of_params(params: &str) -> Option<Self> {
        // A map first: what is derived would take an array for its fields in their order.
        #[derive(Deserialize)]
        struct Params {
            notifications: Map<String, Value>,
        }
        let Params { notifications } = serde_json::from_str(params).ok()?;
        serde_json::from_value(notifications.into()).ok()
    }

    pub(crate) fn into_filter(self) -> Filter {
        Filter {
            tools: self.tools_list_changed,
            prompts: self.prompts_list_changed,
            resources: self.resources_list_changed,
            uris: self.resource_subscriptions,
            tasks: self.task_ids.unwrap_or_default(),
        }
    }
}

/// A filter as it is asked for and acknowledged: neither `false` nor `[]` in it (AMB-36).
pub(crate) fn written(filter: &Filter) -> Value {
    let mut written = Map::new();
    for (name, flag) in [
        ("toolsListChanged", filter.tools),
        ("promptsListChanged", filter.prompts),
        ("resourcesListChanged", filter.resources),
    ] {
        if flag {
            written.insert(name.into(), true.into());
        }
    }
    for (name, set) in [("resourceSubscriptions", &filter.uris), ("taskIds", &filter.tasks)] {
        if !set.is_empty() {
            written.insert(name.into(), set.iter().cloned().collect::<Vec<_>>().into());
        }
    }
    written.into()
}

/// The notification that tells of a change.
pub(crate) const fn method_of(change: &Change) -> &'static str {
    match change {
        Change::Tools => "notifications/tools/list_changed",
        Change::Prompts => "notifications/prompts/list_changed",
        Change::Resources => "notifications/resources/list_changed",
        Change::Resource(_) => "notifications/resources/updated",
        Change::Task(_) => "notifications/tasks",
    }
}

/// What a notification says of a change by itself.
pub(crate) fn params_of(change: &Change) -> Arc<str> {
    match change {
        Change::Tools | Change::Prompts | Change::Resources => "{}".into(),
        Change::Resource(uri) => json!({ "uri": uri }).to_string().into(),
        Change::Task(id) => json!({ "taskId": id }).to_string().into(),
    }
}

/// The change that a notification tells of; `None` if it tells of none, or not of which.
pub(crate) fn change_of(method: &str, params: &str) -> Option<Change> {
    let member = |name| Members::parse(params).ok()?.get_str(name);
    Some(match method {
        "notifications/tools/list_changed" => Change::Tools,
        "notifications/prompts/list_changed" => Change::Prompts,
        "notifications/resources/list_changed" => Change::Resources,
        "notifications/resources/updated" => Change::Resource(member("uri")?),
        "notifications/tasks" => Change::Task(member("taskId")?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_01_a_filter_and_a_change_survive_being_written() {
        let filter = Filter {
            tools: true,
            prompts: false,
            resources: true,
            uris: ["x://a".to_owned()].into(),
            tasks: ["t".to_owned()].into(),
        };
        let params = json!({ "notifications": written(&filter) });
        let notifications = params["notifications"].as_object().unwrap();
        assert!(!notifications.contains_key("promptsListChanged"), "absent is not wanted");
        let read = Notifications::of_params(&params.to_string()).map(Notifications::into_filter);
        assert_eq!(read, Some(filter));
        for change in [
            Change::Tools,
            Change::Prompts,
            Change::Resources,
            Change::Resource("x://a".into()),
            Change::Task("t".into()),
        ] {
            assert_eq!(change_of(method_of(&change), &params_of(&change)), Some(change));
        }
        assert_eq!(change_of("notifications/resources/updated", r#"{"uri":7}"#), None);
        assert_eq!(change_of("notifications/message", "{}"), None);
    }
}
