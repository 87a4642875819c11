"""A server over `stdio` or `http` that fails in the way its tools are named, always with the caller's own words; what it
was asked stands in the file `asked` of its folder, and over HTTP its address in the file `url`."""
import http.server
import json
import pathlib
import sys

TRANSPORT, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
DISCOVERED = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "resources": {}}}


def reply(message, authorization=None):
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    with (FOLDER / "asked").open("a") as asked:
        asked.write(json.dumps({"method": method, "authorization": authorization, "_meta": params.get("_meta")}) + "\n")
    said, words = {"jsonrpc": "2.0", "id": id}, json.dumps(params)
    result = {"resultType": "complete", "content": [{"type": "text", "text": words}], "contents": []}
    tool = params.get("name")
    if method == "server/discover":
        return {**said, "result": DISCOVERED}
    if tool == "fails":
        return {**said, "result": {**result, "isError": True}}
    if tool == "refuses":
        return {**said, "error": {"code": -32602, "message": "bad: " + words, "data": params}}
    if tool == "strange":
        return {**said, "result": {"resultType": "strange", "said": words}}
    if tool == "noisy":
        if TRANSPORT == "stdio":
            print("got " + words, json.dumps({"jsonrpc": "2.0", "id": words, "result": {}}), sep="\n", flush=True)
        return {**said, "result": result}
    if tool == "dies" and not (FOLDER / "died").exists():
        (FOLDER / "died").touch()
        return None
    return {**said, "result": result}


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        said = reply(json.loads(self.rfile.read(int(self.headers["content-length"]))), self.headers["authorization"])
        if said is None:
            self.close_connection = True
            return
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if TRANSPORT == "http":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Http)
    (FOLDER / "url").write_text(f"http://127.0.0.1:{server.server_port}/swordfish\n")
    server.serve_forever()
else:
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") is None:
            continue
        said = reply(message)
        if said is None:
            sys.exit(3)
        print(json.dumps(said), flush=True)
