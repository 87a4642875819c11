"""A server over `stdio` or `http`, `modern` or `legacy`, that reports progress on every call and never answers it; with
`silent` it answers nothing at all, and a tool `hostile` answers with what a terminal would obey. What comes from the
client stands in the file `heard` of its folder; over HTTP its address in the file `url`."""
import http.server
import json
import pathlib
import sys

TRANSPORT, ERA, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
DISCOVERED = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
INITIALIZED = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "peer", "version": "1"}}
HOSTILE = {"resultType": "complete", "content": [{"type": "text", "text": "red \x1b[31m, bell \x07, line\r\nnext"}]}


def note(text):
    with (FOLDER / "heard").open("a") as heard:
        heard.write(text + "\n")


def replies(message):
    """The answer, or the progress of a call that has none; nothing for a notification."""
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    note(json.dumps({"method": method, "params": {k: v for k, v in params.items() if k in ("requestId", "name")}, "id": id}))
    if id is None or ERA == "silent":
        return None
    if method == "server/discover" and ERA == "modern":
        return {"jsonrpc": "2.0", "id": id, "result": DISCOVERED}
    if method == "initialize":
        return {"jsonrpc": "2.0", "id": id, "result": INITIALIZED}
    if method == "tools/call":
        if params["name"] == "hostile":
            return {"jsonrpc": "2.0", "id": id, "result": HOSTILE}
        progress = {"progressToken": params["_meta"]["progressToken"], "progress": 3, "message": "step\x1b[2J three"}
        if params["name"] == "counts":
            progress["total"] = 20
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
    return {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        reply = replies(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        if reply is None:
            return self.send(202, "text/plain", b"")
        body = json.dumps(reply).encode()
        if reply.get("method") is None:
            return self.send(404 if "error" in reply else 200, "application/json", body)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"data: " + body + b"\n\n")
        self.wfile.flush()
        self.rfile.read(1)
        note("closed")

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(405, "text/plain", b"")

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


if TRANSPORT == "http":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Http)
    (FOLDER / "url").write_text(f"http://127.0.0.1:{server.server_port}/mcp\n")
    server.serve_forever()
else:
    for line in sys.stdin:
        reply = replies(json.loads(line))
        if reply is not None:
            print(json.dumps(reply), flush=True)
