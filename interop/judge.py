"""What the record of a run shows, each as None if it holds, else why not."""

import json

import wire

# How the clients' abort check is known in the record: the call it aborts, and the first one that it makes afterwards.
ABORTED_STEPS = 1001
MARK = "after the abort"


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
