"""What the record of a run shows, each as None if it holds, else why not."""

import json

import wire

# How the checks are known in the record: the call that is aborted, the one that times out, and what is called next.
ABORTED_STEPS = 1001
TIMED_OUT_STEPS = 1002
MARK = "after the abort"
TIMED_OUT_MARK = "after the timeout"


def order(record):
    """Each call's progress rises as it is written, whatever a client makes of it afterwards."""
    latest = {}
    for who, message in wire.messages(record):
        if who == "server" and message.get("method") == "notifications/progress":
            token, value = message["params"]["progressToken"], message["params"]["progress"]
            if value <= latest.get(token, float("-inf")):
                return f"{value} after {latest[token]} for {token!r}"
            latest[token] = value
    return None if latest else "the record shows no progress"


def silence(record, era, transport):
    """Nothing about the aborted call may be written once a later call was answered; and the right signal was sent."""
    call = token = marked = None
    told = later_answered = False
    for who, message in wire.messages(record):
        method, params = message.get("method"), message.get("params") or {}
        if who == "client" and method == "tools/call":
            arguments = params.get("arguments") or {}
            if arguments.get("steps") == ABORTED_STEPS:
                call, token = message["id"], (params.get("_meta") or {}).get("progressToken")
            if arguments.get("mark") == MARK:
                marked = message["id"]
        if who == "client" and method == "notifications/cancelled":
            told |= params.get("requestId") == call
        if who != "server" or call is None:
            continue
        answer = message.get("id") if "method" not in message else None
        about = method == "notifications/progress" and params.get("progressToken") == token
        if answer == call:
            return f"the aborted call was answered: {json.dumps(message)}"
        if about and later_answered:
            return f"written after the abort: {json.dumps(message)}"
        later_answered |= marked is not None and answer == marked
    if not later_answered:
        return "the record shows no call after the abort"
    posts_nothing = (era, transport) == ("modern", "http")
    if told == posts_nothing:
        return f"notifications/cancelled was {'sent' if told else 'not sent'} in {era} over {transport}"
    return None


def signal(record, era, transport):
    """Whether our client gave up the aborted and the timed-out call by what its transport and era have for that, each
    once, named no other request, and sent neither call again."""
    calls, listens, told, closed, left_open = {}, set(), [], set(), set()
    for who, connection, message in wire.entries(record):
        method, params = message.get("method"), message.get("params") or {}
        if who == "server":
            continue
        if "end" in message:
            closed.add(connection)
        elif method == "tools/call":
            values = (params.get("arguments") or {}).values()
            for known in (ABORTED_STEPS, TIMED_OUT_STEPS, MARK, TIMED_OUT_MARK):
                if known in values:
                    calls.setdefault(known, []).append((message["id"], connection))
            for given_up, mark in ((ABORTED_STEPS, MARK), (TIMED_OUT_STEPS, TIMED_OUT_MARK)):
                # At its end a client closes everything: by its next call it must have closed this one.
                if mark in values and given_up in calls and calls[given_up][0][1] not in closed:
                    left_open.add(given_up)
        elif method == "subscriptions/listen":
            listens.add(message["id"])
        elif method == "notifications/cancelled":
            told.append(params.get("requestId"))
    for known in (ABORTED_STEPS, TIMED_OUT_STEPS, MARK, TIMED_OUT_MARK):
        if len(calls.get(known, [])) != 1:
            return f"the record shows {len(calls.get(known, []))} calls with {known!r}"
    given_up = [calls[ABORTED_STEPS][0][0], calls[TIMED_OUT_STEPS][0][0]]
    if strangers := set(told) - set(given_up) - listens:
        return f"notifications/cancelled named other requests: {strangers}"
    if (era, transport) == ("modern", "http"):
        if told:
            return "notifications/cancelled was posted, which this transport has not"
        return f"the streams of the calls of {left_open} steps were left open" if left_open else None
    counts = [told.count(call) for call in given_up]
    return None if counts == [1, 1] else f"the two calls were given up by {counts} notifications/cancelled"


def ids(record):
    """No two requests of the client may share an id."""
    seen = set()
    for who, message in wire.messages(record):
        if who == "client" and "method" in message and "id" in message:
            # 1 and "1" are two ids.
            if (key := repr(message["id"])) in seen:
                return f"the id {key} was used twice"
            seen.add(key)
    return None if seen else "the record shows no request"


def task(record):
    """A call was answered by a task, which was asked for by its id until it was completed."""
    made, completed = set(), False
    for who, message in wire.messages(record):
        result = message.get("result") if who == "server" else None
        if isinstance(result, dict) and "method" not in message:
            if result.get("resultType") == "task" and "status" in result:
                made.add(result.get("taskId"))
            elif "task" in result:
                made.add(result["task"].get("taskId"))
            else:
                completed |= result.get("taskId") in made and result.get("status") == "completed"
    return None if completed else "the record shows no task to its end"


def era(record, wanted):
    """Which era was spoken: by the handshake, or by what each request says of itself."""
    shaken, modern = False, 0
    for who, message in wire.messages(record):
        if who == "client" and "id" in message:
            shaken |= message.get("method") == "initialize"
            # The question that the era is found out by says so of itself in any case.
            described = "io.modelcontextprotocol/protocolVersion" in ((message.get("params") or {}).get("_meta") or {})
            modern += described and message.get("method") != "server/discover"
    if wanted == "modern":
        return "the client made a handshake" if shaken else None if modern else "no request says its revision"
    return None if shaken and not modern else "the client made no handshake, or went on without it"
