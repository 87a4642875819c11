"""A modern server over stdio whose process fails as a tool's name says; its first argument is the folder it writes to."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path(sys.argv[1])
MODE = sys.argv[2] if len(sys.argv) > 2 else ""
DISCOVERED = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
SLEEP = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
# An answer under every id that the next process may be asked by, as long as somebody listens.
LATE = """
import json, sys, time
for round in range(100):
    for id in range(int(sys.argv[1]) + 1, 100):
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "late": True}}), flush=True)
    time.sleep(0.02)
"""


def note(file, text):
    with (FOLDER / file).open("a") as out:
        out.write(f"{text}\n")


def answer(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", **result}}), flush=True)


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


before = (FOLDER / "pids").read_text().split() if (FOLDER / "pids").exists() else []
if any(runs(pid) for pid in before):
    note("overlaps", os.getpid())
note("pids", os.getpid())
if MODE == "dies":
    print("no licence found", file=sys.stderr, flush=True)
    sys.exit(4)
for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "server/discover":
        if MODE != "slow":
            answer(id, DISCOVERED)
    elif method == "notifications/cancelled":
        note("cancelled", params["requestId"])
        if MODE == "fragile":
            sys.exit(9)
    elif method == "tools/call":
        note("calls", params["name"])
        match params["name"]:
            case "echo":
                answer(id, {"content": [], "pid": os.getpid()})
            case "crash":
                print("out of luck", file=sys.stderr, flush=True)
                os._exit(3)
            case "hang":
                pass
            case "wedge":
                note("wedged", os.getpid())
                time.sleep(600)
            case "family":
                # A child of its own, one that leaves the group, and one whose parent is gone.
                family = [
                    subprocess.Popen([sys.executable, "-I", "-S", "-c", SLEEP]),
                    subprocess.Popen([sys.executable, "-I", "-S", "-c", SLEEP], start_new_session=True),
                ]
                orphan = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-I', '-S', '-c', {SLEEP!r}], stdout=2).pid)"
                made = subprocess.run([sys.executable, "-I", "-S", "-c", orphan], capture_output=False, stdout=subprocess.PIPE, start_new_session=True)
                pids = [process.pid for process in family] + [int(made.stdout)]
                for pid in pids:
                    note("pids", pid)
                answer(id, {"content": [], "pids": pids})
            case "late":
                subprocess.Popen([sys.executable, "-I", "-S", "-c", LATE, str(id)], stdin=subprocess.DEVNULL, start_new_session=True)
                os._exit(3)
