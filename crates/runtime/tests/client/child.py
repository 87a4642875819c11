"""A modern server over stdio whose process fails as a tool's name says; its first argument is the folder it writes to."""
import json
import os
import sys
import time

FOLDER = sys.argv[1]
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
    with open(f"{FOLDER}/{file}", "a") as out:
        out.write(f"{text}\n")


def answer(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", **result}}), flush=True)


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


if os.path.exists(f"{FOLDER}/pids"):
    with open(f"{FOLDER}/pids") as before:
        if any(runs(pid.strip()) for pid in before):
            note("overlaps", os.getpid())
note("pids", os.getpid())
if MODE == "dies":
    print("no licence found", file=sys.stderr, flush=True)
    sys.exit(4)
for line in sys.stdin:
    message = json.loads(line)
    note("methods", message.get("method"))
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "server/discover":
        if MODE != "slow":
            answer(id, DISCOVERED)
            if MODE == "asks":
                print(json.dumps({"jsonrpc": "2.0", "id": "asked", "method": "ping"}), flush=True)
                print(json.dumps({"jsonrpc": "2.0", "id": "again", "method": "roots/list"}), flush=True)
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
            case "family" | "family-and-hang" as tool:
                import subprocess
                # A child of its own, one that leaves the group, and one whose parent is gone.
                family = [
                    subprocess.Popen([sys.executable, "-I", "-S", "-c", SLEEP]),
                    subprocess.Popen([sys.executable, "-I", "-S", "-c", SLEEP], start_new_session=True),
                ]
                orphan = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-I', '-S', '-c', {SLEEP!r}], stdout=subprocess.DEVNULL).pid)"
                made = subprocess.run([sys.executable, "-I", "-S", "-c", orphan], stdout=subprocess.PIPE, start_new_session=True)
                pids = [process.pid for process in family] + [int(made.stdout)]
                for pid in pids:
                    note("pids", pid)
                note("calls", "made")
                if tool == "family":
                    answer(id, {"content": [], "pids": pids})
            case "late":
                import subprocess
                subprocess.Popen([sys.executable, "-I", "-S", "-c", LATE, str(id)], stdin=subprocess.DEVNULL, start_new_session=True)
                os._exit(3)
note("methods", "the end")
