"""The official Python client against `shop`: client.py --era modern|legacy --stderr FILE (--url URL | --command JSON).

Prints one line a check, as interop/run reads them.
"""

import argparse
import json
import pathlib
import time
import warnings
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning

TASKS = "io.modelcontextprotocol/tasks"
WIDGETS = "inventory://widget"
PATIENCE_S = 10

# The legacy era uses what the library has marked as gone from the modern one.
warnings.simplefilter("ignore", MCPDeprecationWarning)


class Created(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str


class GetTask(types.Request[dict[str, Any], Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: dict[str, Any]
    name_param = "taskId"


class Task(types.Result):
    status: str
    result: types.CallToolResult | None = None
    error: dict[str, Any] | None = None


class Tasks(ClientExtension):
    """The tasks extension, as a host would add it: a created task is followed to its end."""

    identifier = TASKS

    def __init__(self):
        self.followed = []

    def claims(self):
        return [ResultClaim(result_type="task", model=Created, resolve=self.follow)]

    async def follow(self, created, context):
        with anyio.fail_after(PATIENCE_S):
            while True:
                get = GetTask(params={"taskId": created.task_id})
                task = await context.session.send_request(get, Task)
                self.followed.append(task.status)
                if task.status == "completed":
                    return task.result
                if task.status not in ("working", "submitted"):
                    raise AssertionError(f"the task ended as {task.status}: {task.error}")
                await anyio.sleep(0.02)


class Checks:
    def __init__(self, client, tasks, era, stderr):
        self.client, self.tasks, self.modern, self.stderr = client, tasks, era == "modern", stderr
        self.updated = anyio.Event()

    async def stopped(self, steps):
        """The handler itself says on stderr that it saw the cancel; the number of steps tells the calls apart."""
        with anyio.fail_after(PATIENCE_S):
            while f" of {steps} steps" not in self.stderr.read_text():
                await anyio.sleep(0.02)

    async def list(self):
        names = {tool.name for tool in (await self.client.list_tools()).tools}
        missing = {"echo", "count_slowly", "reserve_inventory", "long_job", "ask_name"} - names
        assert not missing, f"no tools {missing}"

    async def call(self):
        result = await self.client.call_tool("echo", {"word": "grüße", "n": 1})
        assert not result.is_error and "grüße" in text(result), result

    async def progress(self):
        seen = []

        async def on_progress(progress, total, message):
            seen.append(progress)

        arguments = {"steps": 5, "step_ms": 30}
        result = await self.client.call_tool("count_slowly", arguments, progress_callback=on_progress)
        assert not result.is_error, result
        assert len(seen) >= 2, f"{len(seen)} progress notifications"
        assert all(a < b for a, b in zip(seen, seen[1:])), f"not rising: {seen}"

    async def abort(self):
        answer = None
        with anyio.CancelScope() as scope:

            async def on_progress(progress, total, message):
                scope.cancel()

            arguments = {"steps": 1001, "step_ms": 50}
            answer = await self.client.call_tool("count_slowly", arguments, progress_callback=on_progress)
        assert answer is None, "the call was answered"
        await self.stopped(1001)
        # interop/run reads the wire from here on: steps of 50 ms would show by now.
        await self.client.call_tool("echo", {"mark": "after the abort"})
        await anyio.sleep(0.3)
        await self.client.call_tool("echo", {"mark": "long after the abort"})

    async def timeout(self):
        began = time.monotonic()
        try:
            await self.client.call_tool("count_slowly", {"steps": 1002, "step_ms": 50}, read_timeout_seconds=0.3)
        except Exception as error:  # the library's own kinds of timeout differ by transport
            assert "time" in str(error).lower(), f"expected the client's own timeout: {error}"
        else:
            raise AssertionError("the call was answered")
        assert time.monotonic() - began < PATIENCE_S
        await self.stopped(1002)

    async def subscription(self):
        before = await self.stock()
        if self.modern:
            async with self.client.listen(resource_subscriptions=[WIDGETS]) as events:
                await self.reserve()
                with anyio.fail_after(PATIENCE_S):
                    event = await anext(events)
                assert event == ResourceUpdated(uri=WIDGETS), event
        else:
            await self.client.subscribe_resource(WIDGETS)
            await self.reserve()
            with anyio.fail_after(PATIENCE_S):
                await self.updated.wait()
            await self.client.unsubscribe_resource(WIDGETS)
        assert await self.stock() != before, "the resource reads as before"

    async def on_message(self, message):
        if isinstance(message, types.ResourceUpdatedNotification) and str(message.params.uri) == WIDGETS:
            self.updated.set()

    async def reserve(self):
        arguments = {"sku": "widget", "quantity": 1, "tenant": "interop"}
        result = await self.client.call_tool("reserve_inventory", arguments)
        assert not result.is_error, result

    async def stock(self):
        return (await self.client.read_resource(WIDGETS)).contents[0].text

    async def task(self):
        result = await self.client.call_tool("long_job", {"steps": 3, "step_ms": 30})
        assert self.tasks.followed, "the call was answered without a task"
        assert not result.is_error and result.content, result

    async def question(self):
        result = await self.client.call_tool("ask_name", {})
        assert "Ada" in text(result), result


async def on_elicitation(context, params):
    field = next(iter(params.requested_schema["properties"]))
    return types.ElicitResult(action="accept", content={field: "Ada"})


def text(result):
    return "\n".join(getattr(item, "text", "") for item in result.content)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--era", choices=["modern", "legacy"], required=True)
    parser.add_argument("--stderr", type=pathlib.Path, required=True)
    parser.add_argument("--url")
    parser.add_argument("--command", type=json.loads)
    options = parser.parse_args()

    server = options.url
    if options.command:
        server = StdioServerParameters(command=options.command[0], args=options.command[1:])
    tasks = Tasks()
    checks = Checks(None, tasks, options.era, options.stderr)
    client = Client(
        server,
        mode="auto" if options.era == "modern" else "legacy",
        elicitation_callback=on_elicitation,
        message_handler=checks.on_message,
        extensions=[tasks],
    )
    async with client:
        version = client.protocol_version
        assert (version == "2026-07-28") == (options.era == "modern"), f"negotiated {version}"
        checks.client = client
        names = ["list", "call", "progress", "abort", "timeout", "subscription", "task", "question"]
        if options.era == "legacy":
            names.remove("task")
        for name in names:
            try:
                await getattr(checks, name)()
                print(f"ok {name}", flush=True)
            except Exception as error:
                why = " ".join(f"{type(error).__name__} {error}".split())
                print(f"failed {name}: {why}", flush=True)


if __name__ == "__main__":
    anyio.run(main)
