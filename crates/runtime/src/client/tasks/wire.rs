//! A task as a server writes it: flat, and the same in all three places where it is told (TSK-10, TSK-16, TSK-55). That of
//! 2025-11-25 names its times otherwise and does not tell what came of it (LEG-106, LEG-108).

use std::collections::BTreeMap;
use std::time::Duration;

use steadfast_core::object::Members;
use steadfast_core::task::Status;
use steadfast_core::task::follow::Seen;
use steadfast_store::of_rfc_3339;

/// The id of the task that is told of.
pub(super) fn id_of(task: &[u8]) -> Result<String, &'static str> {
    let task = parse(task)?;
    task.get_str("taskId").filter(|id| !id.is_empty()).ok_or("it has no taskId")
}

/// The state that is told of the task with this id.
pub(super) fn seen(task: &[u8], id: &str) -> Result<Seen<String>, &'static str> {
    let task = of(task, id)?;
    let own = |name: &str| task.get(name).map(str::to_owned);
    let status = match task.get_str("status").as_deref() {
        Some("working") => Status::Working,
        Some("input_required") => {
            let requests = own("inputRequests").unwrap_or_else(|| "{}".to_owned());
            let requests = Members::parse(&requests).map_err(|_| "its inputRequests are no object")?;
            let open: BTreeMap<_, _> =
                requests.iter().map(|(key, request)| (key.to_owned(), request.to_owned())).collect();
            Status::InputRequired { open }
        }
        Some("completed") => {
            let result = own("result").filter(|result| result.starts_with('{'));
            Status::Completed { result: result.ok_or("it is completed and has no result")? }
        }
        Some("failed") => {
            let error = own("error").filter(|error| error.starts_with('{'));
            Status::Failed { error: error.ok_or("it failed and has no error")? }
        }
        Some("cancelled") => Status::Cancelled,
        _ => return Err("its status is none"),
    };
    Ok(at(&task, status, "ttlMs", "pollIntervalMs"))
}

/// The state that is told of a task of 2025-11-25. Its questions and its outcome are told elsewhere.
pub(super) fn seen_in_2025(task: &[u8], id: &str) -> Result<Seen<()>, &'static str> {
    let task = of(task, id)?;
    let status = match task.get_str("status").as_deref() {
        Some("working") => Status::Working,
        Some("input_required") => Status::InputRequired { open: BTreeMap::new() },
        Some("completed") => Status::Completed { result: () },
        Some("failed") => Status::Failed { error: () },
        Some("cancelled") => Status::Cancelled,
        _ => return Err("its status is none"),
    };
    Ok(at(&task, status, "ttl", "pollInterval"))
}

/// A state with what is told elsewhere.
pub(super) fn with(seen: Seen<()>, status: Status<String>) -> Seen<String> {
    let Seen { status: _, message, created_at, updated_at, ttl, poll_interval } = seen;
    Seen { status, message, created_at, updated_at, ttl, poll_interval }
}

fn of<'a>(task: &'a [u8], id: &str) -> Result<Members<'a>, &'static str> {
    let task = parse(task)?;
    if task.get_str("taskId").as_deref() != Some(id) {
        return Err("its taskId is another one");
    }
    Ok(task)
}

fn at<P>(task: &Members<'_>, status: Status<P>, ttl: &str, poll_interval: &str) -> Seen<P> {
    // A time that cannot be read orders nothing: of equal ones the later is taken.
    let time = |name: &str| task.get_str(name).and_then(|text| of_rfc_3339(&text));
    let millis = |name: &str| task.get(name)?.parse().ok().map(Duration::from_millis);
    let created_at = time("createdAt").or_else(|| time("lastUpdatedAt")).unwrap_or_default();
    Seen {
        status,
        message: task.get_str("statusMessage"),
        created_at,
        updated_at: time("lastUpdatedAt").unwrap_or(created_at),
        ttl: millis(ttl),
        poll_interval: millis(poll_interval),
    }
}

fn parse(task: &[u8]) -> Result<Members<'_>, &'static str> {
    let text = std::str::from_utf8(task).map_err(|_| "it is not UTF-8")?;
    Members::parse(text).map_err(|_| "it is no object")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(status: &str, more: &str) -> String {
        format!(
            r#"{{"taskId":"t","status":"{status}","createdAt":"2026-01-01T00:00:00Z",
            "lastUpdatedAt":"2026-01-01T00:00:01.5+00:00","ttlMs":60000,"pollIntervalMs":50{more}}}"#
        )
    }

    #[test]
    fn tsk_11_a_state_is_read_to_its_own_bytes_and_what_is_none_is_said() {
        let done = seen(task("completed", r#","result":{"n": 1.0}"#).as_bytes(), "t").unwrap();
        assert_eq!(done.status, Status::Completed { result: r#"{"n": 1.0}"#.to_owned() });
        assert_eq!(done.updated_at.as_unix_millis() - done.created_at.as_unix_millis(), 1_500);
        assert_eq!(
            (done.ttl, done.poll_interval),
            (Some(Duration::from_secs(60)), Some(Duration::from_millis(50)))
        );
        let forever = r#"{"taskId":"t","status":"working","ttlMs":null,"pollIntervalMs":-1}"#;
        let forever = seen(forever.as_bytes(), "t").unwrap();
        assert_eq!(
            (forever.ttl, forever.poll_interval, forever.created_at),
            (None, None, forever.updated_at)
        );
        for (text, id) in [
            (task("completed", ""), "t"),
            (task("failed", r#","error":7"#), "t"),
            (task("input_required", r#","inputRequests":[]"#), "t"),
            (task("done", ""), "t"),
            (task("working", ""), "u"),
            ("[]".to_owned(), "t"),
        ] {
            assert!(seen(text.as_bytes(), id).is_err(), "{text}");
        }
        assert!(id_of(br#"{"taskId":""}"#).is_err() && id_of(br#"{"taskId":7}"#).is_err());
    }
}
