"""The judgement must be able to fail: records made by hand. `python3 -m unittest discover interop`."""

import json
import pathlib
import tempfile
import unittest

import judge

CALL = ("client", {"id": 7, "method": "tools/call", "params": {
    "name": "count_slowly", "arguments": {"steps": judge.ABORTED_STEPS}, "_meta": {"progressToken": "p"}}})
CANCELLED = ("client", {"method": "notifications/cancelled", "params": {"requestId": 7}})
MARK = ("client", {"id": 8, "method": "tools/call", "params": {"name": "echo", "arguments": {"mark": judge.MARK}}})
MARKED = ("server", {"id": 8, "result": {}})


def progress(value):
    return ("server", {"method": "notifications/progress", "params": {"progressToken": "p", "progress": value}})


class Judge(unittest.TestCase):
    def record(self, entries, body=lambda message: json.dumps(message) + "\n"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "wire.jsonl"
        lines = [json.dumps({"who": who, "connection": 0, "text": body(message)}) for who, message in entries]
        path.write_text("\n".join(lines) + "\n")
        return path

    def silence(self, *entries, era="legacy", transport="http"):
        return judge.silence(self.record(entries), era, transport)

    def test_silence_holds_where_nothing_follows(self):
        # What crossed the cancel on its way is no fault.
        self.assertIsNone(self.silence(CALL, progress(1), CANCELLED, progress(2), MARK, MARKED))
        self.assertIsNone(self.silence(CALL, progress(1), MARK, MARKED, era="modern"))

    def test_a_late_event_and_any_answer_break_the_silence(self):
        self.assertIn("written after", self.silence(CALL, CANCELLED, MARK, MARKED, progress(3)))
        for answer in ({"id": 7, "result": {}}, {"id": 7, "error": {"code": -32800, "message": "cancelled"}}):
            self.assertIn("was answered", self.silence(CALL, CANCELLED, ("server", answer), MARK, MARKED))

    def test_the_signal_must_fit_era_and_transport(self):
        self.assertIn("not sent", self.silence(CALL, MARK, MARKED))
        self.assertIn("not sent", self.silence(CALL, MARK, MARKED, era="modern", transport="stdio"))
        self.assertIn("was sent", self.silence(CALL, CANCELLED, MARK, MARKED, era="modern"))

    def test_a_record_without_a_call_after_the_abort_shows_nothing(self):
        self.assertIn("no call after", self.silence(CALL, CANCELLED))

    def test_progress_must_rise_for_each_token(self):
        self.assertIsNone(judge.order(self.record([progress(1), progress(2)])))
        self.assertIn("1 after 1", judge.order(self.record([progress(1), progress(1)])))
        self.assertIn("no progress", judge.order(self.record([CALL])))

    def test_messages_are_found_in_http_and_across_reads(self):
        def sse(message):
            return f"HTTP/1.1 200 OK\r\n\r\n: keepalive\n\ndata: {json.dumps(message)}\n\n"

        self.assertIn("1 after 2", judge.order(self.record([progress(2), progress(1)], sse)))
        whole = json.dumps(progress(5)[1])
        path = self.record([("server", whole[:20]), ("server", whole[20:])], lambda half: half)
        self.assertIsNone(judge.order(path))


if __name__ == "__main__":
    unittest.main()
