//! Tasks that outlive their processes, and processes that share a file.

use serde_json::{Value, json};
use steadfast::core::ledger::LEASE;
use steadfast::server::toolkit::tasks::{AskError, Question};

use crate::harness::{Bench, Peer, Process, able, local};

fn done() -> Value {
    json!({ "resultType": "complete", "content": [] })
}

fn question(key: &str) -> std::collections::BTreeMap<String, Question> {
    let question =
        Question { method: "elicitation/create".into(), params: json!({ "message": key }).to_string() };
    [(key.to_owned(), question)].into()
}

/// A process that is killed: its runtime goes, with all that ran in it, and nobody is told.
struct Killable {
    runtime: Option<tokio::runtime::Runtime>,
    process: Option<Process>,
}

impl Killable {
    fn start(bench: &Bench) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let process = {
            let _within = runtime.enter();
            bench.start()
        };
        Self { runtime: Some(runtime), process: Some(process) }
    }

    /// Does something in the process.
    async fn within<T: Send + 'static>(
        &mut self,
        act: impl AsyncFnOnce(&mut Process) -> T + Send + 'static,
    ) -> T {
        let mut process = self.process.take().unwrap();
        let runtime = self.runtime.as_ref().unwrap();
        let handle = runtime.handle().clone();
        let (process, came) = tokio::task::spawn_blocking(move || {
            handle.block_on(async move {
                let came = act(&mut process).await;
                (process, came)
            })
        })
        .await
        .unwrap();
        self.process = Some(process);
        came
    }

    /// Creates a task whose work has begun and goes on until the process ends.
    async fn create(&mut self, tool: &'static str) -> String {
        self.within(async move |process| {
            let id = process.create(&able("a"), tool).await;
            std::mem::forget(process.begun().await);
            id
        })
        .await
    }

    fn kill(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

// shows: G8, G14, F104, ruling 10
#[tokio::test]
async fn g14_a_task_whose_process_died_works_until_its_lease_is_over_and_then_fails_saying_what_is_known() {
    let bench = Bench::new();
    for (tool, outcome) in [("write", "unknown"), ("at_once", "not_executed")] {
        let mut first = Killable::start(&bench);
        let id = first.create(tool).await;
        first.kill();
        let second = bench.start();
        bench.clock.wait(LEASE / 2);
        for _ in 0..20 {
            assert_eq!(second.get(&able("a"), &id).await["status"], "working", "never at another's start");
            tokio::task::yield_now().await;
        }
        bench.clock.wait(LEASE / 2);
        let task = second.until(&able("a"), &id, "failed").await;
        let error = &task["error"]["data"]["steadfast/error"];
        assert_eq!((&error["category"], &error["outcome"]), (&json!("worker_lost"), &json!(outcome)));
        let message = task["statusMessage"].as_str().unwrap();
        assert!(message.contains("the process that worked on this task ended"), "{message}");
        assert!(task.get("result").is_none(), "TSK-28");
    }
}

#[tokio::test]
async fn g14_a_tool_that_can_resume_goes_on_in_the_next_process_with_what_it_was_asked_and_told() {
    let bench = Bench::new();
    let mut first = Killable::start(&bench);
    let id = first.create("resumable").await;
    first.kill();
    bench.clock.wait(LEASE);
    let mut second = bench.start();
    let resumed = second.begun().await;
    assert_eq!(
        (&*resumed.tool, &resumed.params),
        ("resumable", &json!({ "arguments": {}, "name": "resumable" }))
    );
    assert_eq!(resumed.worker.context().caller().principal, able("a").principal);
    assert_eq!(resumed.worker.context().caller().capabilities, able("a").capabilities, "AMB-20");
    assert_eq!(second.get(&able("a"), &id).await["status"], "working");
    resumed.finish(done());
    assert_eq!(second.until(&able("a"), &id, "completed").await["result"], done());
}

// shows: TSK-33, TSK-34
#[tokio::test]
async fn tsk_34_a_successor_is_given_the_answers_of_before_and_asks_nothing_twice() {
    let bench = Bench::new();
    let mut first = Killable::start(&bench);
    let id = first
        .within(async |process| {
            let id = process.create(&able("a"), "resumable").await;
            let begun = process.begun().await;
            let worker = begun.worker.clone();
            tokio::spawn(async move {
                worker.ask([question("name"), question("size")].into_iter().flatten().collect()).await
            });
            process.until(&able("a"), &id, "input_required").await;
            let params = json!({ "taskId": id, "inputResponses": { "name": { "action": "accept" } } });
            process.ask(&able("a"), "tasks/update", params).await.unwrap();
            std::mem::forget(begun);
            id
        })
        .await;
    first.kill();
    bench.clock.wait(LEASE);
    let mut second = bench.start();
    let resumed = second.begun().await;
    assert_eq!(resumed.worker.ask(question("name")).await.unwrap()["name"], r#"{"action":"accept"}"#);
    let worker = resumed.worker.clone();
    let asking = tokio::spawn(async move { worker.ask(question("size")).await });
    let task = second.get(&able("a"), &id).await;
    assert_eq!(task["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["size"], "still open");
    let params = json!({ "taskId": id, "inputResponses": { "size": { "action": "decline" } } });
    second.ask(&able("a"), "tasks/update", params).await.unwrap();
    assert_eq!(asking.await.unwrap().unwrap()["size"], r#"{"action":"decline"}"#);
    assert_eq!(resumed.worker.ask(question("size")).await, Err(AskError::KeyReused("size".into())));
    resumed.finish(done());
}

#[tokio::test]
async fn d_09_a_cancel_that_nobody_saw_is_seen_by_the_successor() {
    let bench = Bench::new();
    let mut first = Killable::start(&bench);
    let [resumable, read, write] =
        [first.create("resumable").await, first.create("at_once").await, first.create("write").await];
    first.kill();
    let mut second = bench.start();
    for id in [&resumable, &read, &write] {
        let acknowledged = second.ask(&able("a"), "tasks/cancel", json!({ "taskId": id })).await;
        assert_eq!(acknowledged, Ok(json!({ "resultType": "complete" })));
        assert_eq!(second.get(&able("a"), id).await["status"], "working");
    }
    bench.clock.wait(LEASE);
    second.until(&able("a"), &resumable, "cancelled").await;
    assert!(second.begun().await.worker.context().cancelled().is_cancelled());
    second.until(&able("a"), &read, "cancelled").await;
    // G8: what may have happened is never called cancelled.
    let task = second.until(&able("a"), &write, "failed").await;
    assert_eq!(task["error"]["data"]["steadfast/error"]["outcome"], "unknown");
}

#[tokio::test]
async fn an_orderly_end_lets_go_what_can_be_resumed_and_fails_the_rest_at_once() {
    let bench = Bench::new();
    let mut first = bench.start();
    let [resumable, write] =
        [first.create(&able("a"), "resumable").await, first.create(&able("a"), "write").await];
    let begun = [first.begun().await, first.begun().await];
    first.served.0.tasks.leave().await;
    drop((first, begun));
    let mut second = bench.start();
    // No lease had to run out: the clock stands still.
    let resumed = second.begun().await;
    assert_eq!(resumed.tool, "resumable");
    resumed.finish(done());
    second.until(&able("a"), &resumable, "completed").await;
    let task = second.get(&able("a"), &write).await;
    assert_eq!(
        (&task["status"], &task["error"]["data"]["steadfast/error"]["outcome"]),
        (&json!("failed"), &json!("unknown"))
    );
}

// shows: G14, TSK-13
#[tokio::test]
async fn g14_questions_cancels_and_news_cross_processes_of_one_file() {
    let bench = Bench::new();
    let (mut worker, caller) = (bench.start(), bench.start());
    let id = worker.create(&local(), "stubborn").await;
    let begun = worker.begun().await;
    let asker = begun.worker.clone();
    let asking = tokio::spawn(async move { asker.ask(question("name")).await });
    let mut peer = Peer::connect(&caller);
    peer.ask("sub", "subscriptions/listen", json!({ "notifications": { "taskIds": [id] } })).await;
    assert_eq!(peer.next().await["params"]["notifications"], json!({ "taskIds": [id] }));
    caller.until(&local(), &id, "input_required").await;
    let params = json!({ "taskId": id, "inputResponses": { "name": { "action": "accept" } } });
    caller.ask(&local(), "tasks/update", params).await.unwrap();
    assert_eq!(asking.await.unwrap().unwrap()["name"], r#"{"action":"accept"}"#);
    caller.ask(&local(), "tasks/cancel", json!({ "taskId": id })).await.unwrap();
    begun.worker.context().cancelled().cancelled().await;
    begun.finish(done());
    // What was said in between may be merged; the end is not.
    while peer.next().await["params"]["status"] != "completed" {}
}
