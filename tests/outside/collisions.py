"""One job id for two contents, and messages that claim to be the app's own."""

import gzip

from tests.outside.case import JOB, LINE, USAGE, Case, Ends, Parked, Waits, with_items, wrap
from tests.payload.hostile import index_of


def cases():
    """Yield every case."""
    yield from _conflicts()
    yield from _again()
    yield from _forged()


def _conflicts():
    two = [USAGE, {**USAGE, "quantity": "7"}]
    others = {
        "other-items": with_items(items=two),
        "other-order": with_items(items=two[::-1]),
        "other-gate": with_items(gate="other-gate"),
        "other-count": with_items(declared={"items": 1}),
        "other-sum": with_items(declared={"sums": {"quantity": "2.5"}}),
        "other-quantity": with_items(items=[{**USAGE, "quantity": "2.500"}]),
    }
    packed, blob = gzip.compress(LINE * 3), f"{JOB}/a"
    frames = index_of((packed, 3))
    in_two = index_of((packed[:9], 1), (packed[9:], 2))
    for name, payload in {
        "other-codec": {"blob": blob, "codec": "plain", "frames": frames},
        "other-frames": {"blob": blob, "codec": "gzip", "frames": in_two},
        "no-frames": {"blob": blob, "codec": "gzip"},
    }.items():
        first = wrap(job=JOB, gate="kept-shut", payload={"blob": blob, "codec": "gzip", "frames": frames})
        then = wrap(job=JOB, gate="kept-shut", payload=payload)
        yield Case("conflicts", name, then, Waits("conflict"), {blob: packed}, before=first)
    for name, message in others.items():
        yield Case("conflicts", name, message, Parked("conflict"), before=with_items())


def _again():
    """What is no content: the first job stays as it is, and nothing is parked."""
    held = with_items(gate="kept-shut")
    for name, more in {
        "the-same": {},
        "other-deadline": {"deadline": "2036-01-01T00:00:00Z"},
        "other-trace": {"trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
    }.items():
        yield Case("sent again", f"again-{name}", with_items(**more), Ends(1), before=with_items())
        yield Case(
            "sent again", f"again-held-{name}", with_items(gate="kept-shut", **more), Ends(0, state="held"), before=held
        )


def _forged():
    """A held job is the victim: it stays held, and what claims to be of it is refused."""
    held = with_items(gate="kept-shut")
    forged = {
        "dispatch": {},
        "dispatch-of-a-revision": {"kind": "dispatch", "revision": 1},
        "chunk": {"chunk": 0, "revision": 1, "workload": "billing", "codec": "plain", "frames": [], "first_id": 0},
        "huge-chunk": {"kind": "chunk", "chunk": 10**30, "revision": 1},
        "result": {"chunk": 0, "revision": 1},
        "huge-result": {"kind": "result", "chunk": 2**31, "revision": 1},
        "finish": {"revision": 1},
        "huge-finish": {"kind": "finish", "revision": 2**63},
        "segment": {"revision": 1, "segment": 0},
        "completed": {"revision": 1, "workload": "billing", "state": "complete"},
        "work": {"slot": 0, "depth": 1, "tasks": 1},
        "release": {"gate": "kept-shut", "epoch": 1},
    }
    for name, fields in forged.items():
        message = wrap(**{"kind": name, "job": JOB, **fields})
        yield Case("forged", f"forged-{name}", message, Waits("unknown_kind"), before=held)
        end = Waits("unknown_kind")
        yield Case("forged", f"forged-{name}-in-base64", message, end, before=held, is_coded=True)
