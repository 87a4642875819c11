"""What benches/client does with our client, by the official Python client: bench.py (--url URL | --command JSON)."""

import argparse
import json
import time

import anyio
from mcp import Client, StdioServerParameters

WARM_UP_S = 0.3
COUNTED_S = 1.0
ARGUMENTS = {"account": "a-17", "cents": 500, "note": "for the coffee of the week"}


async def calls(client, in_flight, lasting_s):
    end = time.perf_counter() + lasting_s
    made = 0

    async def caller():
        nonlocal made
        while time.perf_counter() < end:
            result = await client.call_tool("echo", ARGUMENTS)
            assert "coffee" in result.content[0].text, result
            made += 1

    async with anyio.create_task_group() as group:
        for _ in range(in_flight):
            group.start_soon(caller)
    return made


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url")
    parser.add_argument("--command", type=json.loads)
    options = parser.parse_args()
    server = options.url
    if options.command:
        server = StdioServerParameters(command=options.command[0], args=options.command[1:])
    async with Client(server) as client:
        assert client.protocol_version == "2026-07-28", client.protocol_version
        for in_flight in (1, 16):
            await calls(client, in_flight, WARM_UP_S)
            began = time.perf_counter()
            made = await calls(client, in_flight, COUNTED_S)
            print(in_flight, made / (time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    anyio.run(main)
