//! A client over byte streams that are no pipes of a child, against the server of this crate over the same.

mod common;

use std::io;
use std::os::unix::net::UnixStream as Socket;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Event, Probe, Probed};
use serde_json::Value;
use steadfast::client::{CallOptions, Category, Client, Config, Error, Opened, Streams};
use steadfast::core::error::Outcome;
use steadfast::server::{Options, stdio};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// The server's end of one, and the task that serves it.
type Connection = (Socket, JoinHandle<io::Result<()>>);

/// A server on a Unix socket, and the tasks that serve its connections.
struct Served {
    folder: tempfile::TempDir,
    connections: Arc<Mutex<Vec<Connection>>>,
    _accepting: JoinHandle<()>,
}

impl Served {
    fn start(probe: &Arc<Probe>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let (served, probe) = (Arc::clone(&connections), Arc::clone(probe));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let socket = stream.into_std().unwrap();
                let stream = UnixStream::from_std(socket.try_clone().unwrap()).unwrap();
                let (reader, writer) = stream.into_split();
                let service = Arc::new(Probed(Arc::clone(&probe)));
                let serving =
                    stdio::serve(reader, writer, service, Options::default(), std::future::pending());
                served.lock().unwrap().push((socket, tokio::spawn(serving)));
            }
        });
        Self { folder, connections, _accepting: accepting }
    }

    fn client(&self) -> Client {
        let path = self.folder.path().join("socket");
        let open = move || -> Opened {
            let path = path.clone();
            Box::pin(async move {
                let (reader, writer) = UnixStream::connect(path).await?.into_split();
                Ok(Streams { reader: Box::new(reader), writer: Box::new(writer) })
            })
        };
        Client::of_streams(open).config(Config { name: "socket".to_owned(), ..Config::default() }).build()
    }
}

async fn call(client: &Client, tool: &str) -> Result<Value, Error> {
    let answered = client.call_tool(tool, r#"{"as":"it"}"#, CallOptions::default()).await?;
    Ok(serde_json::from_slice(&answered.result).unwrap())
}

// shows: STD-23, STD-24, STD-11, CAN-03
#[tokio::test]
async fn std_22_a_socket_is_spoken_to_as_pipes_are_and_a_cancel_is_a_message_on_it() {
    let (probe, mut events) = Probe::new();
    let served = Served::start(&probe);
    let client = served.client();
    assert_eq!(call(&client, "echo").await.unwrap()["echo"]["as"], "it");
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let (cancelled, ()) = tokio::join!(client.call_tool("hold", r#"{"as":"it"}"#, options), async {
        assert_eq!(events.recv().await, Some(Event::Began("it".into())));
        cancel.cancel();
    });
    assert!(matches!(cancelled, Err(Error::Local { category: Category::ClientCancelled, .. })));
    assert_eq!(events.recv().await, Some(Event::Stopped("it".into())), "and the connection lives");
    assert_eq!(call(&client, "echo").await.unwrap()["echo"]["as"], "it");
    // The server sees the end of its input and ends by itself.
    client.close(Duration::from_secs(5)).await;
    let (_, connection) = served.connections.lock().unwrap().remove(0);
    connection.await.unwrap().unwrap();
}

// shows: STD-15, STD-16, RTY-02
#[tokio::test]
async fn std_18_the_end_of_a_stream_is_the_end_of_its_requests_and_the_next_one_is_opened() {
    let (probe, mut events) = Probe::new();
    let served = Served::start(&probe);
    let client = served.client();
    let calling = {
        let client = client.clone();
        tokio::spawn(async move { call(&client, "hold").await })
    };
    assert_eq!(events.recv().await, Some(Event::Began("it".into())));
    served.connections.lock().unwrap()[0].0.shutdown(std::net::Shutdown::Both).unwrap();
    let error = calling.await.unwrap().unwrap_err();
    let Error::Transport { category, outcome, sentence, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*category, *outcome), (Category::TransportLost, Outcome::Unknown));
    assert!(sentence.contains("its connection was closed by the other end"), "{sentence}");
    assert_eq!(call(&client, "echo").await.unwrap()["echo"]["as"], "it");
    client.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn rty_01_streams_that_cannot_be_opened_leave_the_call_unexecuted_and_it_is_tried_again() {
    let tries = Arc::new(AtomicU32::new(0));
    let tried = Arc::clone(&tries);
    let open = move || -> Opened {
        tried.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Err(io::ErrorKind::ConnectionRefused.into())))
    };
    let client = Client::of_streams(open).build();
    let error = call(&client, "echo").await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotExecuted);
    assert!(error.to_string().contains("no connection to server server: connection refused"), "{error}");
    assert_eq!(tries.load(Ordering::Relaxed), 3, "nothing of it ever left");
    client.close(Duration::from_secs(1)).await;
}
