"""A server for as long as a `with` lasts, ended by its process id."""

import contextlib
import pathlib
import re
import signal
import subprocess
import time

LISTENING = re.compile(r"listening on (http://\S+)")
START_LIMIT_S = 20
END_LIMIT_S = 10


class Failed(Exception):
    """The server did not do what every run needs of it; the text says what."""


def http(binary, arguments, stderr: pathlib.Path):
    """Yields the URL of `BINARY serve ARGUMENTS --http 127.0.0.1:0`, which must end well; its stderr goes to the file."""
    return listening([binary, "serve", *arguments, "--http", "127.0.0.1:0"], stderr, ends_with=[0])


@contextlib.contextmanager
def listening(command, stderr: pathlib.Path, ends_with):
    """Yields the URL that the command tells on its stderr, which goes to the file; SIGTERM must end it with such a code."""
    with stderr.open("wb") as log:
        child = subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL)
    try:
        yield _address(child, stderr)
        _end(child, ends_with)
    finally:
        # Only what went wrong above leaves it running.
        if child.poll() is None:
            child.kill()
            child.wait()


def _address(child, stderr: pathlib.Path) -> str:
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        text = stderr.read_text()
        if found := LISTENING.search(text):
            return found[1]
        if child.poll() is not None:
            raise Failed(f"the server ended with {child.returncode} before it listened: {text.strip()}")
        time.sleep(0.02)
    raise Failed(f"the server told no address on stderr within {START_LIMIT_S} s")


def _end(child, ends_with):
    if child.poll() is not None:
        raise Failed(f"the server ended by itself, with {child.returncode}")
    child.send_signal(signal.SIGTERM)
    try:
        code = child.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"the server still ran {END_LIMIT_S} s after SIGTERM") from None
    if code not in ends_with:
        raise Failed(f"the server ended with {code} on SIGTERM")
