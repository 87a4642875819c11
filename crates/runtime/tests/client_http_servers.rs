//! The client against servers of this crate, over real sockets and in both eras. The desk knows no `server/discover`, so the era is
//! given.

mod wire;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::client::{
    Answered, Answering, CallOptions, Category, Client, Config, Error, Handler, HttpSettings, Question,
};
use steadfast::core::era::Wish;
use steadfast::core::hop::Era;
use tokio::task::JoinHandle;
use wire::{Act, Event, Server, within};

struct Agrees;

impl Handler for Agrees {
    fn capabilities(&self) -> String {
        r#"{"elicitation":{}}"#.to_owned()
    }

    fn answer<'a>(&'a self, _question: Question) -> Answering<'a> {
        Box::pin(std::future::ready(Ok(r#"{"action":"accept","content":{}}"#.to_owned())))
    }
}

fn client(server: &Server, era: Wish) -> Client {
    let url = format!("http://{}/mcp", server.address);
    let config = Config { name: "desk".to_owned(), era, ..Config::default() };
    Client::of_url(&url).unwrap().config(config).handler(Arc::new(Agrees)).build()
}

fn call(
    client: &Client,
    tool: &str,
    arguments: Value,
    options: CallOptions,
) -> JoinHandle<Result<Answered, Error>> {
    let (client, tool) = (client.clone(), tool.to_owned());
    tokio::spawn(async move { client.call_tool(&tool, &arguments.to_string(), options).await })
}

async fn done(calling: JoinHandle<Result<Answered, Error>>) -> Result<Value, Error> {
    let done = within("the end of the call", calling).await.unwrap();
    done.map(|done| serde_json::from_slice(&done.result).unwrap())
}

// shows: HTTP-10, PRG-01, LEG-21, LEG-28, LEG-34, LEG-78
#[tokio::test]
async fn http_10_progress_logs_questions_and_answers_come_through_in_both_eras() {
    for era in [Wish::Modern, Wish::Legacy] {
        let mut server = Server::start().await;
        let client = client(&server, era);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (progress, notes) = (Arc::clone(&heard), Arc::clone(&heard));
        let options = CallOptions {
            on_progress: Some(Box::new(move |it| progress.lock().unwrap().push(it.value.get().to_string()))),
            on_note: Some(Box::new(move |_, params| {
                notes.lock().unwrap().push(String::from_utf8(params.to_vec()).unwrap());
            })),
            ..CallOptions::default()
        };
        let calling = call(&client, "held", json!({ "as": "a" }), options);
        assert_eq!(server.next().await, Event::Began("a".into()));
        server.desk.tell("a", Act::Progress(1.0));
        server.desk.tell("a", Act::Notify(json!({ "level": "info", "data": "ä" })));
        if era == Wish::Legacy {
            server.desk.tell("a", Act::Ask);
            assert_eq!(
                server.next().await,
                Event::Told("a".into(), r#"{"action":"accept","content":{}}"#.into())
            );
            // The client comes back for what is said after the server hung up.
            server.desk.tell("a", Act::HangUp(Duration::from_millis(1)));
        }
        server.desk.tell("a", Act::Progress(2.0));
        server.desk.tell("a", Act::Finish(json!({ "held": "a" })));
        assert_eq!(server.next().await, Event::Ended("a".into()));
        assert_eq!(done(calling).await.unwrap()["held"], "a");
        // A server lets newer progress stand for older.
        let heard = heard.lock().unwrap().join(" ");
        assert!(
            heard.contains(r#"{"data":"ä","level":"info"}"#) && heard.ends_with(" 2"),
            "{era:?}: {heard}"
        );
        let said = done(call(&client, "echo", json!({ "n": 1.50 }), CallOptions::default())).await.unwrap();
        assert_eq!(said["echo"], json!({ "n": 1.5 }));
        client.close(Duration::from_secs(20)).await;
    }
}

// shows: CAN-01, CAN-02, LEG-27
#[tokio::test]
async fn can_02_a_cancel_stops_the_handler_in_both_eras() {
    for (era, spoken) in [(Wish::Modern, Era::Modern), (Wish::Legacy, Era::Legacy)] {
        let mut server = Server::start().await;
        let client = client(&server, era);
        let first = done(call(&client, "caller", json!({}), CallOptions::default())).await.unwrap();
        assert_eq!(first["revision"] == "2026-07-28", spoken == Era::Modern);
        let options = CallOptions::default();
        let cancel = options.cancel.clone();
        let calling = call(&client, "held", json!({ "as": "a" }), options);
        assert_eq!(server.next().await, Event::Began("a".into()));
        cancel.cancel();
        let error = done(calling).await.unwrap_err();
        assert!(matches!(error, Error::Local { category: Category::ClientCancelled, .. }), "{error:?}");
        server.is_stopped("a").await;
        client.close(Duration::from_secs(20)).await;
    }
}

// shows: HTTP-23, SSE-10
#[tokio::test]
async fn http_05_many_calls_run_side_by_side_and_each_has_its_own_answer() {
    for era in [Wish::Modern, Wish::Legacy] {
        let mut server = Server::start().await;
        let client = client(&server, era);
        let names: Vec<String> = (0..20).map(|at| at.to_string()).collect();
        let calling: Vec<_> = names
            .iter()
            .map(|name| call(&client, "held", json!({ "as": name }), CallOptions::default()))
            .collect();
        for _ in &names {
            assert!(matches!(server.next().await, Event::Began(_)));
        }
        for name in names.iter().rev() {
            server.desk.tell(name, Act::Finish(json!({ "held": name })));
        }
        for (name, calling) in names.iter().zip(calling) {
            assert_eq!(done(calling).await.unwrap()["held"], *name);
        }
        client.close(Duration::from_secs(20)).await;
    }
}

// shows: LEG-59
#[tokio::test]
async fn leg_59_credentials_and_the_sessions_id_are_in_nothing_that_is_shown() {
    let settings = HttpSettings {
        headers: vec![("Authorization".to_owned(), "Bearer secret".to_owned())],
        ..HttpSettings::default()
    };
    assert!(!format!("{settings:?}").contains("secret"));
    let server = Server::start().await;
    let url = format!("http://{}/mcp?secret", server.address);
    let builder = Client::of_url(&url).unwrap().http(settings).unwrap();
    assert!(!format!("{builder:?}").contains("secret"));
    // Its path is another one's, so it gets an error.
    let url = url.replace("/mcp", "/secret");
    let error = Client::of_url(&url)
        .unwrap()
        .build()
        .call_tool("echo", "{}", CallOptions::default())
        .await
        .unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
}
