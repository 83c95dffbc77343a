"""Judges from outside who learned or changed what of orders, and which answers tell apart what must look alike.

It knows docs/formats.md and imports nothing of the project, so that it cannot share a mistake with it.
"""

import base64
import json
from collections import defaultdict

#: Seconds before which no answer may come that tells of a wrong code, or could tell of one by its time.
HELD_BACK = 0.25
#: Headers that differ from answer to answer and say nothing of orders.
_SILENT = {"date", "server"}


def forms(secret):
    """Return the forms in which a secret may be written: as it is, in hexadecimal digits, in Base64."""
    raw = secret.encode()
    return {raw, raw.hex().encode(), base64.b64encode(raw).rstrip(b"="), base64.urlsafe_b64encode(raw).rstrip(b"=")}


def leaks(secrets, content):
    """Yield the secrets that a content has in one of their forms."""
    yield from (secret for secret in secrets if any(form in content for form in forms(secret)))


def breaches(record):
    """Yield what is wrong.

    `asked` has each request of somebody who may not: its answer, and what was wanted of it. `kept` has each order twice, as who
    may read it did before and after. `shown` is all else that anybody may read. `dropped` has each message with the
    reason under which it must be parked, and `parked` what was. `born` are the orders that may exist, `told` the events.
    """
    yield from _answers(record["asked"], record["secrets"])
    yield from _alike(record["asked"])
    for where, content in record["shown"].items():
        yield from (f"{where} shows {_name(record, secret)}" for secret in leaks(record["secrets"], content))
    for order, (before, after) in record["kept"].items():
        if before != after:
            yield f"{order} was {before}, is {after}"
    yield from _parked(record["dropped"], record["parked"])
    told = json.dumps(record["told"]).encode()
    yield from (f"the events tell {_name(record, secret)}" for secret in leaks(record["secrets"], told))
    homes = {stream["home"] for message in record["told"] for stream in message["streams"]}
    found = {home.removeprefix("order-") for home in homes if home.startswith("order-")}
    yield from (f"{order} exists, and nobody may have placed it" for order in sorted(found - set(record["born"])))
    yield from (f"{order} is told by no event" for order in sorted(set(record["born"]) - found))


def _name(record, secret):
    # Not the secret itself: what is wrong is printed.
    return record["secrets"][secret]


def _answers(asked, secrets):
    for one in asked:
        said = json.loads(one["body"]) if one["body"][:1] == b"{" else {}
        if (one["status"], said.get("reason", "")) not in one["wanted"]:
            yield f"{one['name']}: it was answered {one['status']} {said.get('reason', '')!r}, not by {one['wanted']}"
        whole = one["body"] + repr(one["headers"]).encode()
        # Who sent a secret learns nothing by its echo.
        unsent = {secret for secret in secrets if secret not in one["sent"]}
        yield from (f"{one['name']}: its answer tells {secrets[secret]}" for secret in leaks(unsent, whole))
        if one["is_slow"] and one["seconds"] < HELD_BACK:
            yield f"{one['name']}: it was answered after {one['seconds']:.3f} s, not held back"


def _alike(asked):
    """Yield groups whose answers differ in more than the name that each request had in it."""
    groups = defaultdict(dict)
    for one in asked:
        if one["alike"]:
            headers = sorted((key.lower(), text) for key, text in one["headers"].items() if key.lower() not in _SILENT)
            shape = _without(one["order"], one["body"]), [pair for pair in headers if pair[0] != "content-length"]
            groups[one["alike"]].setdefault(repr((one["status"], shape)), one["name"])
    for group, shapes in groups.items():
        if len(shapes) > 1:
            yield f"{group}: {len(shapes)} different answers, to {sorted(shapes.values())}: {sorted(shapes)}"


def _without(order, body):
    return body.replace(order.encode(), b"ORDER") if order else body


def _parked(dropped, parked):
    reasons = defaultdict(set)
    for name, reason in parked:
        reasons[name].add(reason)
    for name, reason in dropped.items():
        if reasons[name] != ({reason} if reason else set()):
            yield f"{name}: it is parked as {sorted(reasons[name])}, not as {reason or 'nothing'}"
    yield from (f"{name} is parked, and nobody dropped it" for name in sorted(reasons.keys() - dropped.keys()))
