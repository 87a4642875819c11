"""A server over stdio that many tasks call at once, and that fails now and then. Its arguments: its own name, the
tenant that it was started for, and a folder for what must happen only once."""
import asyncio
import json
import pathlib
import sys

NAME, TENANT, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
DISCOVERED = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
# Nobody asks for these: they are for whoever guesses.
TOKENS = []


def send(**members):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **members}) + "\n")
    sys.stdout.flush()


def progress(token, value, message):
    send(method="notifications/progress", params={"progressToken": token, "progress": value, "message": message})


async def call(id, params):
    arguments, meta = params["arguments"], params["_meta"]
    who = f"{NAME} {TENANT} {arguments['task']} {arguments['call']}"
    token, fault = meta["progressToken"], arguments["fault"]
    result = {"resultType": "complete", "content": [{"type": "text", "text": who}]}
    progress(token, 1, who)
    # Out of order: those with an odd number overtake the others.
    await asyncio.sleep(0.002 if arguments["call"] % 2 else 0.01)
    if fault == "outage":
        await asyncio.sleep(3600)
    if fault == "lost":
        return
    if fault == "crash" and not (FOLDER / f"{NAME}-{TENANT}-crashed").exists():
        (FOLDER / f"{NAME}-{TENANT}-crashed").touch()
        sys.stdout.write('{"jsonrpc": "2.0", "id": ' + str(id) + ', "result": {"content": [{"te')
        sys.stdout.flush()
        sys.exit(7)
    if fault == "stray":
        send(id=1_000_000 + id, result=result)
        send(id=str(id), error={"code": -32000, "message": "not yours"})
        sys.stdout.write("a line that is no message\n")
    if fault == "foreign":
        progress("p-999999", 5, "nobody's")
        for token in TOKENS[-1:]:
            progress(token, 1e9, "an old one's")
    progress(token, 2, who)
    send(id=id, result=result)
    TOKENS.append(token)
    if fault == "twice":
        send(id=id, result={**result, "content": [{"type": "text", "text": "a second answer"}]})
        progress(token, 3, "after the end")


async def main():
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running = set()
    while line := await reader.readline():
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "server/discover":
            send(id=id, result=DISCOVERED)
        elif method == "tools/list":
            tool = {"name": f"of_{NAME}_{TENANT}", "inputSchema": {"type": "object"}}
            send(id=id, result={"resultType": "complete", "ttlMs": 60000, "cacheScope": "private", "tools": [tool]})
        elif method == "tools/call":
            task = loop.create_task(call(id, message["params"]))
            running.add(task)
            task.add_done_callback(running.discard)


asyncio.run(main())
