"""A server over stdio that misbehaves as its first argument says; its second is the folder that it writes to."""
import json
import pathlib
import sys

MODE, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
DISCOVERED = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}


def note(file, text):
    with (FOLDER / file).open("a") as out:
        out.write(text + "\n")


def answer(id, **members):
    print(json.dumps({"jsonrpc": "2.0", "id": id, **members}), flush=True)


def text(words):
    return {"resultType": "complete", "content": [{"type": "text", "text": words}]}


def call(id, params):
    arguments = params.get("arguments", {})
    if params["name"] == "ask":
        note("asked", json.dumps({"id": id, **{k: params[k] for k in ("inputResponses", "requestState") if k in params}}))
        if "inputResponses" not in params:
            question = {"method": "elicitation/create", "params": {"message": "sure?"}}
            required = {"resultType": "input_required", "inputRequests": {"sure": question}, "requestState": '{"n": 1.0}'}
            return answer(id, result=required)
        return answer(id, result=text("asked"))
    if params["name"] == "where":
        if "inputResponses" not in params:
            required = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list", "params": {}}}}
            return answer(id, result=required)
        roots = [root["uri"] for root in params["inputResponses"]["r"]["roots"]]
        return answer(id, result=text(" ".join(roots)))
    if params["name"] == "later":
        note("rounds", params.get("requestState", "first"))
        return answer(id, result={"resultType": "input_required", "requestState": "loaded"})
    if params["name"] == "fail":
        sys.exit(3)
    if params["name"] == "strange":
        return answer(id, result={"resultType": "strange"})
    # A key is enforced here: what it did is never done again.
    key = arguments.get("key")
    done = (FOLDER / "done").read_text().split() if (FOLDER / "done").exists() else []
    if key is None or key not in done:
        note("executed", "x")
        if key is not None:
            note("done", key)
    if not (FOLDER / "lost").exists():
        note("lost", "x")
        sys.exit(3)
    answer(id, result=text("done"))


note("started", MODE)
for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    note("methods", str(method))
    if method == "server/discover":
        if MODE == "exits":
            sys.exit(1)
        if MODE in ("legacy", "future"):
            answer(id, error={"code": -32000, "message": "not initialized"})
        else:
            answer(id, result=DISCOVERED)
    elif method == "initialize":
        note("initialize", json.dumps(params))
        version = "2099-01-01" if MODE == "future" else "2025-06-18"
        answer(id, result={"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}})
    elif method == "notifications/initialized":
        if MODE == "legacy":
            print(json.dumps({"jsonrpc": "2.0", "id": "ping-1", "method": "ping"}), flush=True)
    elif method == "tools/call":
        if MODE == "legacy":
            note("params", json.dumps(params))
        call(id, params)
    elif method is None:
        note("responses", line.strip())
