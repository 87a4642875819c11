#!/usr/bin/env python3
"""Stands between a client and the server, passes every byte on and records what each side said, in order.

`wire.py RECORD COMMAND…` is a stdio server that runs COMMAND; `Tcp` is a port in front of another port.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading


class Record:
    """A file of one JSON object a line: who (`client` or `server`), on which connection, and the text or the end."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.lock = threading.Lock()

    def write(self, who, connection, **what):
        with self.lock:
            self.file.write(json.dumps({"who": who, "connection": connection, **what}) + "\n")
            self.file.flush()


def messages(path):
    """The JSON-RPC messages of a record, in order, as (who, message); an `end` is passed on as it is."""
    return ((who, message) for who, _, message in entries(path))


def entries(path):
    """As `messages`, with the number of the connection: (who, connection, message)."""
    halves = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            side = (entry["who"], entry["connection"])
            if "text" not in entry:
                yield *side, {"end": entry["end"]}
                continue
            # A message is a line on stdio, an SSE data line, or the whole body of a POST or an answer.
            rest = halves.pop(side, "") + entry["text"]
            for part in rest.splitlines():
                start = part.removeprefix("data:").lstrip()
                if not start.startswith("{"):
                    continue
                try:
                    yield *side, json.JSONDecoder().raw_decode(start)[0]
                except ValueError:
                    halves[side] = part


class Tcp:
    """A port of 127.0.0.1 in front of `target` for as long as the `with` lasts."""

    def __init__(self, target, record):
        self.target, self.record = target, record
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        number = 0
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            number += 1
            server = socket.create_connection(self.target)
            for who, source, sink in (("client", client, server), ("server", server, client)):
                threading.Thread(target=self._pump, args=(who, number, source, sink), daemon=True).start()

    def _pump(self, who, number, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.record.write(who, number, text=data.decode(errors="replace"))
                # What a server still says to a client that left is the very thing to be recorded.
                with contextlib.suppress(OSError):
                    sink.sendall(data)
        self.record.write(who, number, end="closed")
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def tapped(url, path):
    """Yields the URL by which the server at `url` is reached through a port that records."""
    host, port = url.split("/")[2].rsplit(":", 1)
    with Tcp((host, int(port)), Record(path)) as tap:
        yield url.replace(f"{host}:{port}", f"127.0.0.1:{tap.port}", 1)


def stdio_tap(command, path, stderr):
    """The command line of a stdio server that records and runs the command, whose stderr is added to the file."""
    # The shell does so whatever the client does with the stderr of its child.
    shell = ["sh", "-c", 'file=$1; shift; exec "$@" 2>>"$file"', "sh", stderr, *command]
    return [sys.executable, __file__, *map(str, [path, *shell])]


def ended_badly(path, well=(0,)):
    """How a recorded stdio server ended, if not as it ends well."""
    ends = [message["end"] for _, message in messages(path) if "end" in message]
    return None if ends and all(end in well for end in ends) else f"the server ended with {ends}"


def stdio(path, command):
    """Runs the command; ends as it ends."""
    record = Record(path)
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    # A client that gives up on the server ends this process: the server must hear of it.
    signal.signal(signal.SIGTERM, lambda *_: child.send_signal(signal.SIGTERM))

    def forward():
        for line in sys.stdin.buffer:
            record.write("client", 0, text=line.decode(errors="replace"))
            with contextlib.suppress(OSError):
                child.stdin.write(line)
                child.stdin.flush()
        with contextlib.suppress(OSError):
            child.stdin.close()

    threading.Thread(target=forward, daemon=True).start()
    for line in child.stdout:
        record.write("server", 0, text=line.decode(errors="replace"))
        with contextlib.suppress(OSError):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    code = child.wait()
    record.write("server", 0, end=code)
    # Not sys.exit: the thread may still wait for a client that keeps our stdin open.
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    stdio(sys.argv[1], sys.argv[2:])
