"""A table of runs against peers, one row each, every check of which holds, failed or is left out with a reason."""

import argparse
import collections
import dataclasses
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

import served

CLIENT_LIMIT_S = 90


@dataclasses.dataclass
class Row:
    peer: str
    era: str
    transport: str
    # The checks that must hold, and those that cannot be made, with the reason.
    wanted: list
    left_out: dict
    # Given a folder of its own: check -> None if it held, else why not.
    play: Callable[[pathlib.Path], dict]

    @property
    def title(self):
        return f"{self.peer} {self.era} {self.transport}"


def said(command, folder):
    """What a client prints of its checks, `ok NAME` or `failed NAME: WHY` a line; `end` if it ended badly."""
    with (folder / "client.stderr").open("wb") as log:
        run = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, timeout=CLIENT_LIMIT_S
        )
    found = {}
    for line in run.stdout.splitlines():
        verdict, _, rest = line.partition(" ")
        name, _, why = rest.partition(": ")
        if verdict in ("ok", "failed"):
            found[name] = None if verdict == "ok" else why
    if run.returncode != 0:
        found["end"] = f"the client ended with {run.returncode}: {_last_line(folder / 'client.stderr')}"
    return found


def _last_line(file):
    lines = file.read_text(errors="replace").strip().splitlines()
    telling = [line for line in lines if "Error: " in line] or lines
    return telling[-1].strip() if telling else "it said nothing"


def main(doc, program, peers, rows):
    """Plays all `rows(binary)`, where `program` says what the binary is; returns the exit code."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path, help=program)
    parser.add_argument("--only", default="", help="run only what contains this text, as `python 2.3.0 modern stdio`")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the records of every run in this folder")
    arguments = parser.parse_args()
    name = pathlib.Path(sys.argv[0]).name

    count = collections.Counter()
    print(f"{peers:<20} {'era':<7} {'over':<6} {'passed':>6} {'of':>3}")
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows(arguments.binary.resolve()):
            if arguments.only in row.title:
                folder = (arguments.keep or pathlib.Path(scratch)) / row.title.replace(" ", "-")
                folder.mkdir(parents=True)
                _play(row, folder, count)
    print(f"interop {name}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or not count["passed"] else 0


def _play(row, folder, count):
    try:
        found = row.play(folder)
    except (served.Failed, subprocess.TimeoutExpired, OSError) as fault:
        found = {"end": str(fault)}
    # What did not run has failed, and so has what nobody expected.
    bad = {check: why for check in row.wanted if (why := found.get(check, "did not run")) is not None}
    bad |= {check: why or "held, and no row wants it" for check, why in found.items() if check not in row.wanted}
    passed = len(row.wanted) - len(bad.keys() & set(row.wanted))
    count["passed"] += passed
    count["failed"] += len(bad)
    count["skipped"] += len(row.left_out)
    print(f"{row.peer:<20} {row.era:<7} {row.transport:<6} {passed:>6} {len(row.wanted):>3}", flush=True)
    for check, why in bad.items():
        print(f"    FAILED {check}: {why}")
    for check, why in row.left_out.items():
        print(f"    skipped {check}: {why}")
