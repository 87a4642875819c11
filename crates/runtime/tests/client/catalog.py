"""A server over stdio that offers what the file state.json in its folder says, and keeps account of what it is asked.

state.json: {"legacy": the server's version, if it knows the handshake only, method: {"pages": [[item, ...], ...], "cursors": [...], "hints": {...},
"errors": {place of the page: error}, "notices": n}, "call": {tool: result}, "read": {uri: result}}. Cursors are those
that lead on from each page; absent, they are "1", "2" and so on. The tools that control it: `say` sends the notices in
its arguments, `hold` holds back the answers to the methods in its arguments from now on, `release` lets all go.
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(sys.argv[1])
MODERN = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
HELD, HOLDING = [], set()


def send(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)


def account(line):
    with (FOLDER / "asked").open("a") as out:
        out.write(line + "\n")


def page(method, params, of):
    cursor = params.get("cursor")
    pages = of["pages"]
    cursors = of.get("cursors", [str(at + 1) for at in range(len(pages) - 1)])
    at = 0 if cursor is None else len(pages) if cursor not in cursors else cursors.index(cursor) + 1
    if of.get("loop") and cursor is not None:
        at = int(cursor) % len(pages)
    if str(at) in of.get("errors", {}):
        return {"error": of["errors"][str(at)]}
    if at >= len(pages):
        return {"error": {"code": -32602, "message": "no such cursor"}}
    hints = of.get("hints", {})
    hints = hints[at] if isinstance(hints, list) else hints
    member = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"}
    result = {"resultType": "complete", member.get(method, "resourceTemplates"): pages[at], **hints}
    if at < len(cursors):
        result["nextCursor"] = cursors[at]
    return {"result": result}


def call(id, params, state):
    name, arguments = params["name"], params.get("arguments", {})
    account(f"tools/call {name}")
    done = {"resultType": "complete", "content": []}
    if name == "say":
        for method, of in arguments["notices"]:
            send(method="notifications/" + method, params=of)
    elif name == "hold":
        HOLDING.update(arguments["methods"])
    elif name == "release":
        HOLDING.clear()
        while HELD:
            answer(*HELD.pop(0))
    elif name == "die":
        sys.exit(0)
    else:
        done = state.get("call", {}).get(name, done)
    send(id=id, result=done)


def answer(id, method, params):
    state = json.loads((FOLDER / "state.json").read_text())
    if method == "tools/call":
        call(id, params, state)
    elif method == "resources/read":
        result = state["read"][params["uri"]]
        send(id=id, result=result[1] if isinstance(result, list) and "inputResponses" in params else
             result[0] if isinstance(result, list) else result)
    elif method in state:
        for _ in range(state[method].get("notices", 0)):
            send(method=f"notifications/{method.split('/')[0]}/list_changed", params={})
        send(id=id, **page(method, params, state[method]))
    else:
        send(id=id, error={"code": -32601, "message": "unknown method"})


for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "server/discover":
        state = json.loads((FOLDER / "state.json").read_text())
        if "legacy" in state:
            send(id=id, error={"code": -32000, "message": "not initialized"})
        else:
            send(id=id, result=MODERN)
    elif method == "initialize":
        state = json.loads((FOLDER / "state.json").read_text())
        info = {"name": "old", "version": state["legacy"]}
        send(id=id, result={"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info})
    elif id is not None and method is not None:
        if method != "tools/call":
            account(" ".join([method, *(str(params[k]) for k in ("cursor", "uri") if k in params)]))
        name = params.get("name", "")
        if method in HOLDING or f"tools/call {name}" in HOLDING:
            HELD.append((id, method, params))
        else:
            answer(id, method, params)
