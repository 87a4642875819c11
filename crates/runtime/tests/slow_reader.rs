//! A peer that does not read what is said to it costs what one peer may cost, and nobody else anything
//! (G9, G11, D-17, ruling 17).
//!
//! Nothing is timed: what has to happen before the next step is waited for by its own sign.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::core::exchange::{Progress, Reply};
use steadfast::core::sse::queue;
use steadfast::server::{Answering, Caller, Context, Level, Options, Request, Service, http, stdio};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What `chatty` says: 40 MB, of which the buffers of a stream take 1 MiB.
const ENTRIES: u64 = 20_000;
const ENTRY_BYTES: usize = 2_000;
/// Far above what one stream, 100 small answers and the allocator need; far below what `chatty` says.
const GROWTH_KIB: u64 = 16 << 10;
const OTHERS: usize = 100;

/// One test at a time: they look at what the whole process holds.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Tools `chatty`, `echo` and `big`; says which handler ended, and whether it was told to stop.
struct Talk {
    ended: mpsc::UnboundedSender<(String, bool)>,
}

fn talk() -> (Arc<Talk>, mpsc::UnboundedReceiver<(String, bool)>) {
    let (ended, seen) = mpsc::unbounded_channel();
    (Arc::new(Talk { ended }), seen)
}

impl Service for Talk {
    fn knows(&self, method: &str, _caller: &Caller) -> bool {
        method == "tools/call"
    }

    fn answer(&self, request: Request, context: Context) -> Answering {
        let ended = self.ended.clone();
        Box::pin(async move {
            let params: Value = serde_json::from_str(&request.params).unwrap();
            let name = params["name"].as_str().unwrap().to_owned();
            let arguments = &params["arguments"];
            let result = match name.as_str() {
                "chatty" => {
                    let entry = json!("x".repeat(ENTRY_BYTES));
                    let endless = arguments["endless"] == true;
                    for step in 1..=if endless { u64::MAX } else { ENTRIES } {
                        context.log(Level::Info, None, &entry);
                        context.progress(Progress::of(step as f64).unwrap());
                        if endless {
                            // Paused time goes on only when everything waits.
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        } else {
                            tokio::task::yield_now().await;
                        }
                        if context.cancelled().is_cancelled() {
                            break;
                        }
                    }
                    json!({ "said": ENTRIES })
                }
                "big" => json!({ "text": "y".repeat(arguments["bytes"].as_u64().unwrap() as usize) }),
                _ => json!({ "echo": arguments }),
            };
            let _ = ended.send((name, context.cancelled().is_cancelled()));
            Reply::Result(Bytes::from(result.to_string()))
        })
    }
}

fn call(id: u64, name: &str, arguments: Value) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/logLevel": "debug",
        "progressToken": id,
    });
    let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

fn echo(id: u64) -> String {
    call(id, "echo", json!({ "n": id, "text": "z".repeat(1_000) }))
}

/// Nobody is disconnected for want of reading, however slow the machine.
fn patient() -> Options {
    Options { write_stall: Duration::from_secs(3_600), ..Options::default() }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The peer's end of a pipe that holds next to nothing.
struct Pipe {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Pipe {
    fn open(service: Arc<Talk>, options: Options) -> Self {
        let (ours, theirs) = tokio::io::duplex(4 << 10);
        let (reader, writer) = tokio::io::split(theirs);
        let server = tokio::spawn(stdio::serve(reader, writer, service, options, pending()));
        let (reader, writer) = tokio::io::split(ours);
        Self { reader: BufReader::new(reader), writer, server }
    }

    async fn send(&mut self, line: &str) {
        self.writer.write_all(line.as_bytes()).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).await.unwrap() > 0, "the server has gone");
        serde_json::from_str(&line).unwrap()
    }

    async fn answer(&mut self) -> Value {
        loop {
            let message = self.next().await;
            if message.get("id").is_some() {
                return message;
            }
        }
    }
}

/// Lets everything else on this thread run until it waits.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn is_marked(answer: &Value) -> bool {
    answer["result"]["_meta"]["steadfast/refetch"] == true
}

// shows: F008
#[tokio::test(flavor = "multi_thread")]
async fn d_17_on_stdio_a_slow_reader_of_a_chatty_call_gets_every_answer_in_bounded_memory() {
    let _alone = ALONE.lock().await;
    let (service, mut ended) = talk();
    let mut pipe = Pipe::open(service, patient());
    let before = resident_kib();
    pipe.send(&call(0, "chatty", json!({}))).await;
    for id in 1..=OTHERS as u64 {
        pipe.send(&echo(id)).await;
    }
    // Not one byte is read until all handlers have ended.
    for _ in 0..=OTHERS {
        ended.recv().await.unwrap();
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB, "{grown} KiB wait for a peer that does not read");

    let (mut said, mut answers) = (0, 0);
    while answers <= OTHERS {
        let message = pipe.next().await;
        match message["id"].as_u64() {
            None => said += 1,
            Some(0) => {
                answers += 1;
                assert_eq!(message["result"]["said"], ENTRIES);
                assert!(is_marked(&message), "what was lost is said");
            }
            Some(id) => {
                answers += 1;
                assert_eq!(message["result"]["echo"]["n"], id);
                assert!(!is_marked(&message), "G11: nothing of the others was lost");
            }
        }
    }
    assert!(said > 0 && said < ENTRIES, "{said} entries arrived");
    // The connection is as good as new.
    pipe.send(&echo(7)).await;
    assert_eq!(pipe.next().await["id"], 7);
}

#[tokio::test(start_paused = true)]
async fn ruling_17_on_stdio_a_peer_that_never_reads_is_disconnected() {
    let _alone = ALONE.lock().await;
    let stall = Duration::from_secs(30);
    for name in ["chatty", "big"] {
        let (service, mut ended) = talk();
        let options = Options { write_stall: stall, ..Options::default() };
        let mut pipe = Pipe::open(service, options);
        let start = tokio::time::Instant::now();
        pipe.send(&call(0, name, json!({ "bytes": 100_000, "endless": true }))).await;
        let refused = pipe.server.await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::TimedOut, "{name}: {refused}");
        assert!(start.elapsed() >= stall && start.elapsed() < 2 * stall, "{name}: {:?}", start.elapsed());
        let (_, stopped) = ended.recv().await.unwrap();
        assert_eq!(stopped, name == "chatty", "what still runs is told to stop");
    }
}

#[tokio::test]
async fn ruling_17_answers_that_nobody_reads_stay_under_way() {
    let _alone = ALONE.lock().await;
    let (service, mut ended) = talk();
    let mut pipe = Pipe::open(service, Options { max_in_flight: 3, ..patient() });
    // Each is larger than the pipe; the first goes to the writer, which holds it until it is read.
    for id in 0..4 {
        pipe.send(&call(id, "big", json!({ "bytes": 100_000 }))).await;
        ended.recv().await.unwrap();
        settle().await;
    }
    for id in 10..20 {
        pipe.send(&echo(id)).await;
    }
    // That they were refused is only told to whoever reads; that they did not run is known here.
    pipe.send("{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"ping\"}").await;
    let mut seen = Vec::new();
    while seen.len() < 15 {
        let answer = pipe.answer().await;
        seen.push((
            answer["id"].as_u64().unwrap(),
            answer["error"]["data"]["steadfast/error"]["category"].clone(),
        ));
    }
    assert!(ended.try_recv().is_err(), "a refused call does not run");
    let refused = seen.iter().filter(|(_, category)| category == "queue_full").count();
    assert_eq!(refused, 10, "{seen:?}");
    pipe.send(&echo(30)).await;
    assert_eq!(pipe.answer().await["result"]["echo"]["n"], 30, "once read, there is room again");
}

#[tokio::test]
async fn ruling_17_large_answers_that_nobody_reads_are_bounded_together() {
    const ANSWER_BYTES: usize = 7 << 20;
    const LIMIT: usize = 28 << 20;
    let _alone = ALONE.lock().await;
    let (service, mut ended) = talk();
    let mut pipe = Pipe::open(service, Options { max_buffered_bytes: LIMIT, ..patient() });
    let before = resident_kib();
    let text = "w".repeat(ANSWER_BYTES);
    for id in 0..40 {
        pipe.send(&call(id, "echo", json!({ "text": text }))).await;
        settle().await;
    }
    pipe.send("{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"ping\"}").await;
    let grown = resident_kib().saturating_sub(before);
    // What is being read and what is being written come on top, and what the allocator keeps: still half of what was
    // to be said.
    let bound = (40 / 2 * ANSWER_BYTES) >> 10;
    assert!(grown < bound as u64, "{grown} KiB wait, {bound} may");

    let (mut answered, mut told) = (0, 0);
    loop {
        let answer = pipe.answer().await;
        let error = &answer["error"]["data"]["steadfast/error"];
        match (answer["id"].as_u64(), error["category"].as_str()) {
            (Some(99), _) => break,
            (Some(_), None) => answered += 1,
            (Some(_), Some("buffers_full")) => {
                told += 1;
                assert_eq!(error["outcome"], "executed");
                assert!(answer["error"]["message"].as_str().unwrap().contains(" bytes"), "{answer}");
            }
            (Some(_), Some("queue_full")) => {
                told += 1;
                assert_eq!(error["outcome"], "not_executed");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(answered >= LIMIT / ANSWER_BYTES - 1 && told > 0, "{answered} answered, {told} told why not");
    while ended.try_recv().is_ok() {}
}

#[tokio::test]
async fn f065_an_answer_too_large_for_a_message_is_an_error_that_names_its_size() {
    let _alone = ALONE.lock().await;
    let (service, _ended) = talk();
    let options = Options { buffer: queue::Limits::new(8, 1 << 20, 10_000).unwrap(), ..patient() };
    let mut pipe = Pipe::open(Arc::clone(&service), options);
    pipe.send(&call(1, "big", json!({ "bytes": 20_000 }))).await;
    let over_stdio = pipe.answer().await;

    let server = Http::serve(service, options).await;
    let mut connection = Stream::open(server.address).await;
    connection.post(&call(1, "big", json!({ "bytes": 20_000 }))).await;
    let over_http = connection.answer().await;
    for answer in [over_stdio, over_http] {
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(text.contains("20045 bytes and 10000 are allowed"), "{text}");
        assert_eq!(answer["error"]["data"]["steadfast/error"]["outcome"], "executed");
    }
}

/// A server at a loopback port.
struct Http {
    address: SocketAddr,
    _server: tokio_util::task::AbortOnDropHandle<std::io::Result<()>>,
}

impl Http {
    async fn serve(service: Arc<Talk>, options: Options) -> Self {
        let listener = http::Listener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.address();
        let server = tokio::spawn(listener.serve("/mcp", service, options, pending()));
        Self { address, _server: tokio_util::task::AbortOnDropHandle::new(server) }
    }
}

/// A connection that carries one request, and whose kernel keeps little for a peer that does not read.
struct Stream {
    stream: BufReader<TcpStream>,
}

impl Stream {
    async fn open(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        Self { stream: BufReader::new(socket.connect(address).await.unwrap()) }
    }

    async fn post(&mut self, body: &str) {
        let request: Value = serde_json::from_str(body).unwrap();
        let (method, name) = (&request["method"], &request["params"]["name"]);
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
             mcp-method: {}\r\nmcp-name: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            method.as_str().unwrap(),
            name.as_str().unwrap(),
            body.len()
        );
        self.stream.write_all(head.as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// The final response, in whichever form it comes.
    async fn answer(&mut self) -> Value {
        self.try_answer().await.expect("an answer")
    }

    /// As [`Self::answer`]; `None` where the connection ends without one.
    async fn try_answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            match self.stream.read_line(&mut line).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
            let message = line.strip_prefix("data: ").unwrap_or(&line);
            if let Some(message) =
                serde_json::from_str::<Value>(message).ok().filter(|it| it.get("id").is_some())
            {
                return Some(message);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d_17_over_http_a_stalled_connection_hurts_nobody_and_gets_its_answer_at_last() {
    let _alone = ALONE.lock().await;
    let (service, mut ended) = talk();
    let server = Http::serve(service, patient()).await;
    let before = resident_kib();
    let mut slow = Stream::open(server.address).await;
    slow.post(&call(0, "chatty", json!({}))).await;
    for id in 1..=OTHERS as u64 {
        let mut other = Stream::open(server.address).await;
        other.post(&echo(id)).await;
        let answer = other.answer().await;
        assert_eq!((&answer["id"], &answer["result"]["echo"]["n"]), (&json!(id), &json!(id)));
        assert!(!is_marked(&answer));
    }
    for _ in 0..=OTHERS {
        ended.recv().await.unwrap();
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB, "{grown} KiB wait for a peer that does not read");
    let answer = slow.answer().await;
    assert_eq!(answer["result"]["said"], ENTRIES);
    assert!(is_marked(&answer), "what was lost is said");
}

/// Calls in real time until the answer is a result: a kernel's buffers must fill before anything stalls.
async fn until_answered(server: &Http, body: &str) {
    for _ in 0..6_000 {
        let mut other = Stream::open(server.address).await;
        other.post(body).await;
        if other.answer().await["result"].is_object() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("there was no room again within a minute");
}

fn big(id: u64) -> String {
    call(id, "big", json!({ "bytes": BIG_BYTES }))
}

/// More than any kernel keeps for a peer.
const BIG_BYTES: usize = 15 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn ruling_17_over_http_a_peer_that_never_reads_is_disconnected() {
    let _alone = ALONE.lock().await;
    for (deaf_call, other) in [(call(0, "chatty", json!({})), echo(1)), (big(0), big(1))] {
        let (service, mut ended) = talk();
        // There is room for one of either.
        let options = Options {
            write_stall: Duration::from_millis(200),
            max_in_flight: 1,
            max_buffered_bytes: BIG_BYTES + BIG_BYTES / 2,
            ..Options::default()
        };
        let server = Http::serve(service, options).await;
        let mut deaf = Stream::open(server.address).await;
        deaf.post(&deaf_call).await;
        ended.recv().await.unwrap();
        until_answered(&server, &other).await;
        assert_eq!(deaf.try_answer().await, None, "what it reads now is no whole answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ruling_17_over_http_large_answers_that_nobody_reads_are_bounded_together() {
    let _alone = ALONE.lock().await;
    let (service, _ended) = talk();
    let options = Options { max_buffered_bytes: 2 * BIG_BYTES + BIG_BYTES / 2, ..patient() };
    let server = Http::serve(service, options).await;
    let mut deaf = Vec::new();
    for id in 0..2 {
        let mut stream = Stream::open(server.address).await;
        stream.post(&big(id)).await;
        // No more than that it is there.
        assert_eq!(stream.line().await, "HTTP/1.1 200 OK");
        deaf.push(stream);
    }
    let mut third = Stream::open(server.address).await;
    third.post(&big(2)).await;
    let refused = third.answer().await;
    let error = &refused["error"]["data"]["steadfast/error"];
    assert_eq!((&error["category"], &error["outcome"]), (&json!("buffers_full"), &json!("executed")));
    // What is small still fits.
    until_answered(&server, &echo(3)).await;
    for stream in &mut deaf {
        assert_eq!(stream.answer().await["result"]["text"].as_str().unwrap().len(), BIG_BYTES);
    }
    until_answered(&server, &big(4)).await;
}
