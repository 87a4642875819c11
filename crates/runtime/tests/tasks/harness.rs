//! A server whose tools are worked by hand, on a store whose clock is moved by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::core::exchange::Reply;
use steadfast::core::hop::{Revision, Transport};
use steadfast::core::ledger::Stamp;
use steadfast::core::subscription::Filter;
use steadfast::core::task::TaskOwner;
use steadfast::core::time::{Instant, Wall};
use steadfast::server::toolkit::tasks::{
    Done, TaskOptions, TaskPolicy, TaskSupport, Tasks, Worker, Workshop,
};
use steadfast::server::{
    Answer, Answering, Caller, Capabilities, Changes, Context, Listening, Objection, Options, Request,
    Service, stdio,
};
use steadfast_store::{Clock, Ledger};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The capabilities of a modern client that knows tasks and can be asked.
pub(crate) const ABLE: &str = r#"{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// A clock that stands where the test put it.
#[derive(Clone, Default)]
pub(crate) struct HandClock(Arc<Mutex<Duration>>);

impl HandClock {
    pub(crate) fn wait(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Clock for HandClock {
    fn stamp(&self) -> Stamp {
        let up = *self.0.lock().unwrap();
        let wall = Wall::from_unix_millis(1_785_747_600_000).saturating_add(up);
        Stamp { boot: 1, up: Instant::ZERO.saturating_add(up), wall }
    }
}

/// A call that began, for the test to work on.
pub(crate) struct Begun {
    pub(crate) tool: String,
    pub(crate) params: Value,
    pub(crate) worker: Worker,
    done: oneshot::Sender<Done>,
}

impl Begun {
    pub(crate) fn finish(self, result: Value) {
        let _ = self.done.send(Done::Answered(Reply::Result(Bytes::from(result.to_string()))));
    }

    pub(crate) fn fail(self, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message }).to_string();
        let _ = self.done.send(Done::Answered(Reply::Error(Bytes::from(error))));
    }

    pub(crate) fn panic(self) {
        drop(self.done);
    }
}

/// Tools by name: `at_once`, `later` (a task after an hour, or once it asks), `soon` (after a millisecond), `only`
/// (required), `never`; `write` and `resumable` are as `at_once`. Each stops when it is cancelled, but `stubborn`.
pub(crate) struct Server {
    pub(crate) tasks: Tasks,
    changes: Changes,
    begun: mpsc::UnboundedSender<Begun>,
}

pub(crate) fn policy(tool: &str) -> Option<TaskPolicy> {
    let optional = |after| TaskSupport::Optional { after };
    let support = match tool {
        "at_once" | "write" | "resumable" | "stubborn" => optional(Duration::ZERO),
        "later" => optional(Duration::from_secs(3_600)),
        "soon" => optional(Duration::from_millis(1)),
        "only" => TaskSupport::Required,
        "never" => TaskSupport::Never,
        _ => return None,
    };
    Some(TaskPolicy {
        support,
        ttl: Duration::from_secs(60),
        poll_interval: Duration::from_millis(500),
        writes: tool == "write",
        resumes: tool == "resumable",
    })
}

impl Server {
    async fn work(self: Arc<Self>, tool: String, params: Value, worker: Worker) -> Done {
        let (done, mut finished) = oneshot::channel();
        let stop = worker.context().cancelled().clone();
        let stubborn = tool == "stubborn";
        let _ = self.begun.send(Begun { tool, params, worker, done });
        tokio::select! {
            biased;
            done = &mut finished => done.expect("as it was asked to"),
            () = stop.cancelled(), if !stubborn => Done::Stopped,
        }
    }
}

impl Workshop for Server {
    fn policy(&self, operation: &str) -> Option<TaskPolicy> {
        policy(operation)
    }

    fn resume(&self, request: Request, worker: Worker) -> Option<Pin<Box<dyn Future<Output = Done> + Send>>> {
        let params: Value = serde_json::from_str(&request.params).unwrap();
        let this =
            Server { tasks: self.tasks.clone(), changes: self.changes.clone(), begun: self.begun.clone() };
        Some(Box::pin(Arc::new(this).work(params["name"].as_str().unwrap().into(), params, worker)))
    }
}

/// The server behind an endpoint.
#[derive(Clone)]
pub(crate) struct Served(pub(crate) Arc<Server>);

impl Service for Served {
    fn knows(&self, method: &str, caller: &Caller) -> bool {
        matches!(method, "initialize" | "tools/call" | "subscriptions/listen") || Tasks::knows(method, caller)
    }

    fn object(
        &self,
        request: &Request,
        caller: &Caller,
        _headers: &dyn steadfast::server::MirroredParams,
    ) -> Option<Objection> {
        Tasks::object(request, caller)
    }

    fn answer(&self, request: Request, context: Context) -> Answering {
        let server = Arc::clone(&self.0);
        Box::pin(async move {
            if let Some(answer) = server.tasks.answer(&request, &context).await {
                return answer;
            }
            if request.method == "initialize" {
                let result = json!({
                    "protocolVersion": context.caller().revision.as_str(),
                    "capabilities": { "tasks": Tasks::legacy_capability(context.caller()) },
                    "serverInfo": { "name": "hand", "version": "1" },
                });
                return Reply::Result(Bytes::from(result.to_string()));
            }
            let params: Value = serde_json::from_str(&request.params).unwrap();
            let tool = params["name"].as_str().unwrap().to_owned();
            let tasks = server.tasks.clone();
            let work = |worker| server.work(tool.clone(), params, worker);
            tasks.run(&tool, policy(&tool).unwrap(), &request.params, &context, work).await
        })
    }

    fn listen(
        &self,
        caller: &Caller,
        wanted: Filter,
    ) -> Pin<Box<dyn Future<Output = Option<Listening>> + Send>> {
        let (server, caller) = (Arc::clone(&self.0), caller.clone());
        Box::pin(async move {
            let tasks = server.tasks.grant(&caller, wanted.tasks).await;
            Some(server.changes.listen(Filter { tasks, ..Filter::default() }))
        })
    }
}

/// One process on a file: its server, and the calls that begin there.
pub(crate) struct Process {
    pub(crate) served: Served,
    begun: mpsc::UnboundedReceiver<Begun>,
    /// As long as somebody works on it.
    _folder: Arc<tempfile::TempDir>,
}

/// A file and its clock.
pub(crate) struct Bench {
    pub(crate) clock: HandClock,
    folder: Arc<tempfile::TempDir>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { clock: HandClock::default(), folder: Arc::new(tempfile::tempdir().unwrap()) }
    }

    /// Takes the table of tasks away, as a broken disk might.
    pub(crate) fn break_store(&self) {
        let ledger =
            Ledger::open(self.folder.path().join("t.db"), steadfast_store::Options::default()).unwrap();
        ledger.prepare("DROP TABLE steadfast_task").unwrap();
    }

    pub(crate) fn start(&self) -> Process {
        self.start_with(100)
    }

    /// A process whose callers may have so many unfinished tasks.
    pub(crate) fn start_with(&self, max_open: u32) -> Process {
        let options = steadfast_store::Options { clock: Arc::new(self.clock.clone()), ..Default::default() };
        let store = Ledger::open(self.folder.path().join("t.db"), options).unwrap().tasks();
        let options = TaskOptions {
            max_open,
            min_ttl: Duration::from_secs(5),
            max_ttl: Duration::from_secs(3_600),
            look_every: Duration::from_millis(5),
            sweep_every: Duration::from_millis(5),
        };
        let changes = Changes::new();
        let tasks = Tasks::new(store, changes.clone(), "hand", options);
        let (sender, begun) = mpsc::unbounded_channel();
        let server = Arc::new(Server { tasks, changes, begun: sender });
        let tools: Weak<Server> = Arc::downgrade(&server);
        server.tasks.tend(tools);
        Process { served: Served(server), begun, _folder: Arc::clone(&self.folder) }
    }
}

impl Process {
    pub(crate) async fn begun(&mut self) -> Begun {
        tokio::time::timeout(LIMIT, self.begun.recv()).await.expect("no call began").unwrap()
    }

    /// That no call began so far.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.begun.try_recv().is_err()
    }

    pub(crate) async fn ask(&self, caller: &Caller, method: &str, params: Value) -> Result<Value, Value> {
        self.ask_in(&Context::detached(caller.clone()), method, params).await
    }

    pub(crate) async fn ask_in(
        &self,
        context: &Context,
        method: &str,
        params: Value,
    ) -> Result<Value, Value> {
        let request = Request { method: method.into(), params: params.to_string() };
        read(self.served.answer(request, context.clone()).await)
    }

    pub(crate) async fn call(&self, caller: &Caller, tool: &str) -> Result<Value, Value> {
        self.ask(caller, "tools/call", json!({ "name": tool, "arguments": {} })).await
    }

    /// Calls a tool that becomes a task; gives the task's id.
    pub(crate) async fn create(&self, caller: &Caller, tool: &str) -> String {
        let created = self.call(caller, tool).await.unwrap();
        assert_eq!(created["resultType"], "task", "{created}");
        created["taskId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn get(&self, caller: &Caller, id: &str) -> Value {
        self.ask(caller, "tasks/get", json!({ "taskId": id })).await.unwrap()
    }

    /// The task once it has this status.
    pub(crate) async fn until(&self, caller: &Caller, id: &str, status: &str) -> Value {
        let mut last = Value::Null;
        for _ in 0..(LIMIT.as_millis() / PAUSE.as_millis()) {
            last = self.get(caller, id).await;
            if last["status"] == status {
                return last;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("not {status} but {last}");
    }
}

/// How long something that must happen may take; far more than it does.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) fn read(answer: Answer) -> Result<Value, Value> {
    match answer {
        Reply::Result(result) => Ok(serde_json::from_slice(&result).unwrap()),
        Reply::Error(error) => Err(serde_json::from_slice(&error).unwrap()),
    }
}

/// A modern caller that knows tasks.
pub(crate) fn able(principal: &str) -> Caller {
    Caller {
        principal: TaskOwner { tenant: "t".into(), principal: principal.into() },
        capabilities: Capabilities::from_json(ABLE),
        ..Caller::local(Transport::Http)
    }
}

/// The one who speaks over lines, and knows tasks.
pub(crate) fn local() -> Caller {
    Caller { principal: Caller::local(Transport::Stdio).principal, ..able("") }
}

/// A caller of a legacy revision.
pub(crate) fn legacy(principal: &str, revision: Revision) -> Caller {
    Caller { revision, capabilities: Capabilities::from_json(r#"{"elicitation":{}}"#), ..able(principal) }
}

/// The context of an exchange whose cancel switch the test holds.
pub(crate) fn exchange(caller: &Caller) -> (Context, CancellationToken) {
    let cancelled = CancellationToken::new();
    (Context::detached(caller.clone()).outliving(cancelled.clone()), cancelled)
}

/// The other end of a connection of lines.
pub(crate) struct Peer {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Peer {
    pub(crate) fn connect(process: &Process) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let service = Arc::new(process.served.clone());
        tokio::spawn(stdio::serve(reader, writer, service, Options::default(), std::future::pending()));
        let (reader, writer) = tokio::io::split(ours);
        Self { reader: BufReader::new(reader), writer }
    }

    pub(crate) async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    /// A modern request of a client that knows tasks.
    pub(crate) async fn ask(&mut self, id: &str, method: &str, mut params: Value) {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = serde_json::from_str(ABLE).unwrap();
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    /// The handshake of 2025-11-25.
    pub(crate) async fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "peer", "version": "1" },
        });
        self.send(json!({ "jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params })).await;
        let answer = self.next().await;
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        answer
    }

    /// A request of the session.
    pub(crate) async fn ask_legacy(&mut self, id: &str, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Value {
        let mut line = String::new();
        tokio::time::timeout(LIMIT, self.reader.read_line(&mut line)).await.expect("nothing came").unwrap();
        serde_json::from_str(&line).unwrap()
    }
}
