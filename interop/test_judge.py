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

    def signal(self, *entries, era="legacy", transport="http"):
        return judge.signal(self.record(entries), era, transport)

    def test_our_client_gives_up_once_and_nothing_else(self):
        def call(id, value):
            return ("client", {"id": id, "method": "tools/call", "params": {"arguments": {"it": value}}})

        def told(id):
            return ("client", {"method": "notifications/cancelled", "params": {"requestId": id}})

        aborted, timed_out = call(1, judge.ABORTED_STEPS), call(2, judge.TIMED_OUT_STEPS)
        marks = call(3, judge.MARK), call(4, judge.TIMED_OUT_MARK)
        self.assertIsNone(self.signal(aborted, told(1), timed_out, told(2), *marks))
        self.assertIn("[1, 0]", self.signal(aborted, told(1), timed_out, *marks))
        self.assertIn("[2, 1]", self.signal(aborted, told(1), told(1), timed_out, told(2), *marks))
        self.assertIn("other requests", self.signal(aborted, timed_out, told(1), told("2"), *marks))
        self.assertIn("2 calls with 1001", self.signal(aborted, told(1), call(5, 1001), timed_out, told(2), *marks))
        self.assertIn("0 calls with 1002", self.signal(aborted, told(1), *marks))
        self.assertIn("posted", self.signal(aborted, told(1), timed_out, *marks, era="modern"))
        self.assertIn("left open", self.signal(aborted, timed_out, *marks, era="modern"))

    def test_a_closed_stream_is_a_signal_only_before_the_next_call(self):
        def entry(connection, **what):
            return json.dumps({"who": "client", "connection": connection, **what})

        def call(id, value):
            return json.dumps({"id": id, "method": "tools/call", "params": {"arguments": {"it": value}}}) + "\n"

        lines = [
            entry(1, text=call(1, judge.ABORTED_STEPS)),
            entry(1, end="closed"),
            entry(2, text=call(2, judge.MARK)),
            entry(2, text=call(3, judge.TIMED_OUT_STEPS)),
            entry(2, end="closed"),
            entry(3, text=call(4, judge.TIMED_OUT_MARK)),
        ]
        path = self.record([])
        path.write_text("\n".join(lines))
        self.assertIsNone(judge.signal(path, "modern", "http"))
        lines[4], lines[5] = lines[5], lines[4]
        path.write_text("\n".join(lines))
        self.assertIn("{1002} steps were left open", judge.signal(path, "modern", "http"))

    def test_an_id_is_used_once_and_its_type_counts(self):
        first, second = ("client", {"id": 1, "method": "a"}), ("client", {"id": "1", "method": "a"})
        self.assertIsNone(judge.ids(self.record([first, second])))
        self.assertIn("twice", judge.ids(self.record([first, second, first])))

    def test_a_task_is_made_and_seen_to_its_end(self):
        made = ("server", {"id": 1, "result": {"resultType": "task", "taskId": "t", "status": "working"}})
        nested = ("server", {"id": 1, "result": {"task": {"taskId": "t", "status": "working"}}})
        seen = ("server", {"id": 2, "result": {"taskId": "t", "status": "completed"}})
        other = ("server", {"id": 2, "result": {"taskId": "u", "status": "completed"}})
        for first in (made, nested):
            self.assertIsNone(judge.task(self.record([first, seen])))
            self.assertIsNotNone(judge.task(self.record([first, other])))
        self.assertIsNotNone(judge.task(self.record([seen])))

    def test_the_era_is_told_by_handshake_and_metadata(self):
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        probe = ("client", {"id": 0, "method": "server/discover", "params": {"_meta": meta}})
        shake = ("client", {"id": 1, "method": "initialize", "params": {}})
        old, new = ("client", {"id": 2, "method": "a"}), ("client", {"id": 2, "method": "a", "params": {"_meta": meta}})
        for entries, era in (([probe, shake, old], "legacy"), ([probe, new], "modern")):
            self.assertIsNone(judge.era(self.record(entries), era))
            self.assertIsNotNone(judge.era(self.record(entries), {"legacy": "modern", "modern": "legacy"}[era]))
        self.assertIn("went on without", judge.era(self.record([probe, shake, new]), "legacy"))


if __name__ == "__main__":
    unittest.main()
