//! hyper and nothing else, with the same bytes on the wire: what a server costs that promises nothing.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::ours::{ECHOED, NOTICE};
use super::{BURST, EVENTS, process};

/// What may wait: as many as wait with us.
const QUEUE: usize = 256;

type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    process::announce(listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(
            hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer)),
        );
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    let method = request.headers().get("mcp-method").map(|method| method.as_bytes().to_vec());
    let name = request.headers().get("mcp-name").map(|name| name.as_bytes().to_vec());
    // Read and thrown away: the body says what the headers said.
    request.into_body().collect().await?;
    Ok(match (method.as_deref(), name.as_deref()) {
        (Some(b"subscriptions/listen"), _) => {
            let (events, body) = stream();
            // Nobody speaks again, and the stream stays open.
            events.try_send(Bytes::from_static(ACKNOWLEDGED.as_bytes())).expect("an empty queue");
            tokio::spawn(async move { events.closed().await });
            body
        }
        (_, Some(b"echo")) => {
            let mut response = Response::new(Full::from(ECHOED).boxed_unsync());
            response.headers_mut().insert("content-type", "application/json".parse().expect("a value"));
            response
        }
        (_, name) => {
            let (events, body) = stream();
            let burst = if name == Some(b"burst") { BURST } else { 1 };
            tokio::spawn(emit(events, burst));
            body
        }
    })
}

async fn emit(events: mpsc::Sender<Bytes>, burst: usize) {
    for event in 0..EVENTS {
        let text = if burst > 1 {
            let [before, after] = NOTICE;
            format!(
                "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{before}{event}{after}}}\n\n"
            )
        } else {
            format!(
                "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":\"token-1\",\"progress\":{event}}}}}\n\n"
            )
        };
        if events.send(Bytes::from(text)).await.is_err() {
            return;
        }
        if event % burst == burst - 1 {
            tokio::task::yield_now().await;
        }
    }
}

fn stream() -> (mpsc::Sender<Bytes>, Response<Body>) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut response = Response::new(Events { receiver }.boxed_unsync());
    response.headers_mut().insert("content-type", "text/event-stream".parse().expect("a value"));
    (sender, response)
}

/// Sends what is ready in one piece.
struct Events {
    receiver: mpsc::Receiver<Bytes>,
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(first) = std::task::ready!(self.receiver.poll_recv(context)) else {
            return Poll::Ready(None);
        };
        let Ok(second) = self.receiver.try_recv() else { return Poll::Ready(Some(Ok(Frame::data(first)))) };
        let mut ready = BytesMut::from(&first[..]);
        ready.extend_from_slice(&second);
        while let Ok(next) = self.receiver.try_recv() {
            ready.extend_from_slice(&next);
        }
        Poll::Ready(Some(Ok(Frame::data(ready.freeze()))))
    }
}

const ACKNOWLEDGED: &str = concat!(
    r#"data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"#,
    r#"{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"}}}"#,
    "\n\n"
);
