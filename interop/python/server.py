"""A server written with the official Python SDK: server.py (--stdio | --http). It speaks both eras, as its SDK always does.

Its tools are those of `shop` that interop/run-servers needs, and `open_till`, which adds another tool.
"""

import asyncio
import datetime
import json
import socket
import sys
import uuid
from typing import Annotated, Literal

import anyio
import mcp_types as types
import uvicorn
from mcp.server import NotificationOptions
from mcp.server.extension import Extension, MethodBinding, ToolBinding
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    MCPServer,
    Resolve,
    require_client_extension,
)
from pydantic import BaseModel

WIDGETS = "inventory://widget"


class OfTask(types.RequestParams):
    task_id: str


class Tasks(Extension):
    """The tasks extension, which the SDK leaves to others: the call of `long_job` becomes a task."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.tasks, self.running = {}, set()

    def tools(self):
        return [ToolBinding(long_job)]

    def methods(self):
        return [MethodBinding("tasks/get", OfTask, self.get, frozenset({"2026-07-28"}))]

    async def intercept_tool_call(self, params, ctx, call_next):
        if params.name != "long_job":
            return await call_next(ctx)
        require_client_extension(ctx, self.identifier)
        task = {"taskId": str(uuid.uuid4()), "status": "working", "ttlMs": 60_000, "pollIntervalMs": 20}
        task["createdAt"] = task["lastUpdatedAt"] = now()
        self.tasks[task["taskId"]] = task

        async def run():
            result = await call_next(ctx)
            outcome = {"resultType": "complete", **result.model_dump(mode="json", by_alias=True, exclude_none=True)}
            task.update(status="completed", lastUpdatedAt=now(), result=outcome)

        running = asyncio.create_task(run())
        self.running.add(running)
        running.add_done_callback(self.running.discard)
        return {"resultType": "task", **task}

    async def get(self, ctx, params):
        return dict(self.tasks[params.task_id])


def now():
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def long_job(steps: int, step_ms: int) -> str:
    await anyio.sleep(steps * step_ms / 1000)
    return f"{steps} steps done"


mcp = MCPServer("interop-python", version="1.0.0", extensions=[Tasks()])
stock = 1000
tills = 0
subscribed = False


@mcp.tool()
def echo(word: str = "", n: int = 0, mark: str = "") -> str:
    return json.dumps({"word": word, "n": n, "mark": mark}, ensure_ascii=False)


@mcp.tool()
async def count_slowly(steps: int, step_ms: int, ctx: Context) -> str:
    done = 0
    try:
        while done < steps:
            await anyio.sleep(step_ms / 1000)
            done += 1
            await ctx.report_progress(done, steps)
    except anyio.get_cancelled_exc_class():
        print(f"count_slowly was cancelled after {done} of {steps} steps", file=sys.stderr, flush=True)
        raise
    return f"{steps} steps done"


@mcp.resource(WIDGETS)
def widget() -> str:
    return f"{stock} available"


@mcp.tool()
async def reserve_inventory(sku: Literal["widget"], quantity: int, tenant: str, ctx: Context) -> str:
    global stock
    stock -= quantity
    # Each reaches the clients of one era only.
    await ctx.notify_resource_updated(WIDGETS)
    if subscribed:
        await ctx.session.send_resource_updated(WIDGETS)
    return f"{stock} available"


@mcp.tool()
async def open_till(ctx: Context) -> str:
    global tills
    tills += 1
    mcp.add_tool(lambda: "open", name=f"till_{tills}", description="A till.")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return f"till_{tills}"


class Name(BaseModel):
    name: str


async def question() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


@mcp.tool()
async def ask_name(answer: Annotated[ElicitationResult[Name], Resolve(question)]) -> str:
    return f"Hello, {answer.data.name}." if isinstance(answer, AcceptedElicitation) else "Hello, nobody."


async def subscribe(ctx, params):
    global subscribed
    subscribed = ctx.method == "resources/subscribe"
    return types.EmptyResult()


# MCPServer itself has no way to serve the subscriptions of the legacy era, nor to say there that its tools change.
mcp._lowlevel_server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
mcp._lowlevel_server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, subscribe)
declared = mcp._lowlevel_server.create_initialization_options
mcp._lowlevel_server.create_initialization_options = lambda: declared(NotificationOptions(tools_changed=True))

if "--stdio" in sys.argv:
    mcp.run()
else:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(mcp.streamable_http_app(), log_level="warning"))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    server.run(sockets=[listener])
