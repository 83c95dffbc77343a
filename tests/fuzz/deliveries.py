"""One message or blob in an installation at work, in memory: whatever it is, it ends, and what is others' stays as it was."""

import base64
import json
import re
from contextlib import suppress
from datetime import datetime

import shared.azure.connections
import shared.parked.parking
from shared.errors import SluiceError
from shared.payload.frames import Codec
from shared.pipeline.settle import Received
from shared.signals import Hint
from shared.workloads.billing import Billing
from shared.workloads.registry import Workloads
from tests.faults.host import HIDDEN, bury_dead_letter
from tests.faults.journal import Journal
from tests.faults.memory.storage import MemoryStorage
from tests.faults.sales import Sales
from tests.faults.world import GATE, World, sales
from tests.fuzz.at_the_door import lines_of, rows_of, stored_frame, submission
from tests.fuzz.grammar import encoded, mutated, spelt
from tests.fuzz.inside import _gate_case, _result_case, _rules_case, _work_case
from tests.fuzz.target import ACCEPTED, CODES, Target

#: A job that waits behind its gate, one whose chunks are under way, one that is complete.
HELD, UNDER_WAY, DONE = "victim", "nightly", "job-0"
JOBS = (HELD, UNDER_WAY, DONE)
#: `docs/parked.md`: what is not understood is parked at the fifth delivery, what kills its worker at the tenth.
MOST_DELIVERIES = 10
#: No message of a queue can have these.
_NOT_CARRIED = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
DOORS = ("submissions", "submissions-poison")
_worlds = []


class Installation:
    """An app over storage in memory, brought back to the same beginning for each case."""

    def __init__(self):
        shared.azure.connections.PAUSE = 0.001
        shared.parked.parking._HIDDEN = HIDDEN
        self.world = World(MemoryStorage(), Journal())
        self.world.workloads = Workloads([Sales(), Billing()])
        self.app = self.world.app()
        self._prepare()
        self._saved = self.world.save()

    def _prepare(self):
        for job, gate in ((DONE, None), (HELD, GATE), (UNDER_WAY, None)):
            self.app.submit(job, sales("x", "y", "x"), gate=gate)
            if job == UNDER_WAY:
                self.app.host(hold_back=["work-00"]).run()
            else:
                self.app.host().run()
        self._queue("work-00").clear_messages()

    def _queue(self, name):
        return self.app.connections.queues.get_queue_client(name)

    def begin(self):
        """Be as it was in the beginning."""
        blobs = self.world.storage._services["blob"]
        ids = blobs.content["ids"]
        self.world.journal._entries.clear()
        self.world.restore(self._saved)
        # A process that has given ids refuses to begin with older ones.
        blobs.content["ids"] = ids

    def put(self, queue, body):
        """Put a message, as Base64 where a queue could not carry its bytes."""
        text = body.decode("utf-8", "replace")
        if text.encode() != body or _NOT_CARRIED.search(text) or len(body) > 48_000:
            text = base64.b64encode(body[:48_000]).decode()
        self._queue(queue).send_message(text)

    def blob(self, container, name, content):
        """Write a blob."""
        self.app.connections.blobs.get_container_client(container).upload_blob(name, content, overwrite=True)

    def row(self, table, fields):
        """Write a row as it is."""
        self.app.connections.tables.get_table_client(table).upsert_entity(fields)

    def work(self):
        """Let the host, then the timer, then both again do what there is to do."""
        self.app.host().run()
        self.app.tick()
        self.app.host().run()

    def rows(self, table):
        """Return the rows of a table by their keys."""
        return dict(self.world.storage._services["table"].content[table])

    def check(self, *, is_door, is_gated):
        """Hold that everything ended, under a name of the pages, and that others' jobs are as they were."""
        left = {name: count for name, count in self.world.depths().items() if count}
        assert not left, f"still there: {left}"
        raised = [tuple(entry) for entry in self.world.journal.entries("raised")]
        assert not raised, f"raised: {sorted(set(raised))}"
        reasons = []
        for (job, key), row in self.rows("parked").items():
            if job == "~attempts":
                continue
            assert row["reason"] in CODES, f"parked as {row['reason']}: {row.get('found')}"
            assert not is_door or job not in JOBS, f"parked under a job that is another's: {job} {key}"
            reasons.append(row["reason"])
        if is_gated:
            states = {job: self.rows("jobs")[job, "job"]["state"] for job in JOBS}
            assert states == {HELD: "held", UNDER_WAY: "running", DONE: "complete"}, f"others' jobs moved: {states}"
        new = {job: row["state"] for (job, key), row in self.rows("jobs").items() if key == "job" and job not in JOBS}
        assert set(new.values()) <= {"held", "complete", "completed_with_parked", "unbalanced"}, f"a job stays: {new}"
        return min(reasons, default=ACCEPTED)


def installation():
    """Return the one of this process."""
    if not _worlds:
        _worlds.append(Installation())
    return _worlds[0]


def close():
    """Close the one of this process."""
    while _worlds:
        ended = _worlds.pop()
        ended.app.close()
        ended.world.close()


def _case(rng):
    where = rng.choice(list(_MAKERS))
    return (where.encode(), *_MAKERS[where](rng))


def _submission(rng):
    fields = {**submission(rng), "job": rng.choice(["a", "b", "c", HELD, UNDER_WAY, DONE])}
    content = b""
    if "blob" in fields.get("payload", {}):
        codec, lines = rng.choice(list(Codec)), lines_of(rng, 4)
        content = stored_frame(rng, lines, codec)
        with_index = rng.random() < 0.5
        fields["payload"] = {"blob": f"{fields['job']}/{'0' * 64}", "codec": codec.value}
        fields["payload"] |= {"frames": rows_of([(content, len(lines))])} if with_index else {}
        fields.pop("declared", None)
    return encoded(spelt(mutated({"sluice": fields}, rng, 0.5), rng), rng, 0.15), content


def _internal(rng):
    fields = {
        "kind": rng.choice(["chunk", "finish", "segment", "shard", "dispatch", "result", "completed"]),
        "job": rng.choice([*JOBS, "a"]),
    }
    fields |= {"chunk": rng.randrange(3), "revision": 1} if fields["kind"] in {"chunk", "result", "finish"} else {}
    if fields["kind"] == "chunk":
        row = rows_of([(b"{}\n", 1)])
        fields |= {"workload": "billing", "codec": "plain", "frames": row, "first_id": 1, "inline": "e30K"}
    return encoded(spelt(mutated({"sluice": fields}, rng, 0.6), rng), rng, 0.15), b""


def _at_door(rng):
    return _submission(rng) if rng.random() < 0.8 else _internal(rng)


def _at_work(rng):
    return (*_work_case(rng), b"") if rng.random() < 0.5 else _internal(rng)


def _result(rng):
    return (*_result_case(rng), b"")


def _subject(rng):
    hint = {"subject": rng.choice([GATE, "other"]), "since": "", "job": "", "epoch": 1}
    hint |= rng.choice([{}, {"job": rng.choice(JOBS)}, {"since": HELD}])
    return spelt(mutated(hint, rng, 0.6), rng).encode("utf-8", "replace"), b""


def _gate(rng):
    return (*_gate_case(rng), b"")


def _rules(rng):
    return (*_rules_case(rng), b"")


def _held(rng):
    row = {"epoch": rng.randrange(3), "queue": "work-00", "message": "e30=", "held_at": "2026-11-20T12:00:00Z"}
    return spelt(mutated(row, rng, 0.8), rng).encode("utf-8", "replace"), b""


def _do(where, body, content):
    app = installation()
    app.begin()
    door = where.decode() in DOORS
    _ACTS.get(where.decode(), _message)(app, where.decode(), body, content)
    app.work()
    return app.check(is_door=door, is_gated=door or where == b"signals")


def _message(app, where, body, content):
    with suppress(ValueError, KeyError, TypeError):
        name = json.loads(body)["sluice"]["payload"]["blob"]
        if content and re.fullmatch(r"[a-z0-9/.-]{1,100}", name):
            app.blob("payloads", name, content)
    app.put(where, body)


def _on_the_bus(app, where, body, _content):
    if where == "dead letters":
        bury_dead_letter(app.app, body)
        return
    # With a result of another job, which must be settled whatever the one beside it is.
    other = json.dumps({"sluice": {"kind": "result", "job": "nobody", "chunk": 0, "revision": 1}}).encode()
    for deliveries in range(1, MOST_DELIVERIES + 1):
        received = [Received(body, "message-1", deliveries), Received(other, "message-2", deliveries)]
        with suppress(SluiceError):
            app.app.app.settle(received)
            break
    else:
        raise AssertionError("a result is delivered again and again")
    assert any(job == "nobody" or row.get("claimed") == "nobody" for (job, _), row in app.rows("parked").items())


def _signal(app, _where, body, _content):
    try:
        hint = json.loads(body)
    except ValueError:
        hint = None
    if isinstance(hint, dict):
        app.app.app.release(Hint.of(str(hint.get("subject", "")), hint))


def _gate_blob(app, _where, body, _content):
    app.blob("gates", GATE, body)
    _beside(app, lambda: app.app.app.release(Hint(GATE)))


def _rules_blob(app, _where, body, _content):
    app.blob("settings", "rules", body)


def _held_row(app, _where, body, _content):
    try:
        row = json.loads(body)
    except ValueError:
        return
    if isinstance(row, dict) and all(isinstance(value, str | int | float | bool) for value in row.values()):
        with suppress(Exception):
            app.row("held", {**row, **_typed(row), "PartitionKey": GATE, "RowKey": "odd"})
    _beside(app, lambda: None)


def _typed(row):
    """Return the columns that are no text in a table, where they can be what they are."""
    typed = {}
    with suppress(KeyError, TypeError, ValueError):
        typed["message"] = row["message"].encode()
        typed["held_at"] = datetime.fromisoformat(row["held_at"])
    return typed


def _beside(app, act):
    """What is wrong in one place keeps no other from being served: what lies on a poison queue is parked all the same."""
    app.put("work-00-poison", b"{}")
    act()
    with suppress(SluiceError):
        app.app.tick()
    assert not app.world.depths(["work-00-poison"])["work-00-poison"], "the rest of the tick did not run"
    # The operator repairs it.
    app.app.connections.blobs.get_container_client("gates").upload_blob(GATE, _CLOSED, overwrite=True)
    with suppress(Exception):
        app.app.connections.tables.get_table_client("held").delete_entity(GATE, "odd")


_CLOSED = json.dumps(
    {"v": 1, "epoch": 0, "state": "closed", "opened_by": "", "why": "", "at": None, "once": False, "scheduled": None}
    | {"nonce": "", "changes": []}
)
_MAKERS = {
    "submissions": _at_door,
    "submissions-poison": _at_door,
    "work-00": _at_work,
    "work-00-poison": _at_work,
    "results": _result,
    "dead letters": _result,
    "signals": _subject,
    "gate blob": _gate,
    "rules blob": _rules,
    "held row": _held,
}
_ACTS = {
    "results": _on_the_bus,
    "dead letters": _on_the_bus,
    "signals": _signal,
    "gate blob": _gate_blob,
    "rules blob": _rules_blob,
    "held row": _held_row,
}
DELIVERIES = (Target("deliveries", _case, _do, 8_000),)
