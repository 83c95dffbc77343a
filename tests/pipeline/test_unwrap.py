"""One rule for every reader of a body: the same message in any of its forms is the same message to each of them."""

import base64
import json

import pytest

from shared.azure.connections import Connections
from shared.grammar import room_job
from shared.messages import Result, encode, unwrap
from shared.parked.entry import chunk_key, result_key
from shared.parked.parking import Parking, drain_poison, park_dead_result
from shared.pipeline.accept import Accepted
from shared.pipeline.settle import Received, sort
from tests.parked.stages import stages
from tests.pipeline.test_orphans import Night, next_night
from tests.process.world import World as ChunkWorld
from tools.local.paths import ROOT

FORMS = {
    "plain": bytes,
    "base64": base64.b64encode,
    "base64 and a newline": lambda body: base64.b64encode(body) + b"\n",
    "newline first": lambda body: b"\n" + body,
}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    """Each form in which a portal, a .NET program or a shell sends a message."""
    return request.param


@pytest.fixture
def chunk(provisioned):
    """One chunk of ten sales that waits to be processed."""
    return ChunkWorld(provisioned)


def test_it_is_accepted(world, process, form):
    """A submission becomes a job."""
    assert process().accept(form(world.submission()), "m-1") is Accepted.DISPATCHED


def test_it_is_processed(chunk, form):
    """A chunk is run."""
    chunk.deliver(body=form(chunk.body))
    assert [one.accepted.items for one in chunk.sent] == [10]


def test_it_is_settled(form):
    """A result is credited to its job."""
    ((arrived,),) = sort([Received(form(encode(Result(job="nightly", chunk=2, revision=1))), "m-1")]).groups
    assert (arrived.result.job, arrived.result.chunk) == ("nightly", 2)


def test_it_is_parked(chunk, form):
    """A chunk that fails has its own entry, with the bytes as they came."""
    chunk.workload.fault = lambda _sale: 1 / 0
    chunk.deliver(count=5, body=form(chunk.body))
    with chunk.process() as process:
        assert process.parked.body(chunk.entry) == form(chunk.body)


def test_it_is_drained(chunk, form):
    """A chunk on a poison queue and a dead result have the entries of their job."""
    with chunk.process() as process:
        queue, sent = process.connections.queues.create_queue(f"work-{chunk.job[-12:]}-poison"), []
        parking = Parking(process.parked, chunk.clock, stages(send=sent.append))
        queue.send_message(form(chunk.body).decode())
        drain_poison(queue, parking, process.attempts)
        park_dead_result(parking, form(encode(Result(job=chunk.job, chunk=3, revision=1))), "m-2", "too many")
        keys = {entry.key for entry in process.parked.entries(chunk.job)}
    assert keys == {chunk_key(0, 1), result_key(3, 1)}
    assert [one.job for one in sent] == [chunk.job]


def test_a_drained_submission_is_listed_under_its_job(chunk, form):
    """The claim is read out of any form."""
    with chunk.process() as process:
        room = chunk.job[-12:]
        queue = process.connections.queues.create_queue(f"submissions-{room}-poison")
        queue.send_message(form(json.dumps({"sluice": {"job": chunk.job, "items": [{}]}}).encode()).decode())
        drain_poison(queue, Parking(process.parked, chunk.clock, stages()), process.attempts)
        assert len(list(process.parked.claiming(room_job(room, chunk.job)))) == 1


def test_what_it_names_is_no_orphan(azurite, form, monkeypatch):
    """A file that a parked submission names stays."""
    with Connections(azurite.connection_string) as connections:
        night = Night(connections, next_night(monkeypatch))
        night.payloads.upload_blob("uploads/named.gz", b"a line\n")
        night.park(form(b'{"sluice": {"v": 2, "payload": {"blob": "uploads\\/named.gz"}}}'))
        assert night.sweep() == ["uploads/named.gz"]


@pytest.mark.parametrize("body", [b"", b"rubbish", b"e30", b"\xff\xfe", base64.b64encode(b"no JSON")])
def test_what_is_in_no_such_form_stays_as_it_is(body):
    """A reader then says what is wrong with the bytes that were sent."""
    assert unwrap(b" " + body + b"\n") == body


def test_nothing_else_in_the_source_decodes_a_body():
    """A second rule would park or replay another message than the one that was read."""
    decoders = {
        str(module.relative_to(ROOT))
        for package in ("shared", "functions", "capabilities", "tools/cli")
        for module in (ROOT / package).rglob("*.py")
        if "b64decode" in module.read_text() or "a2b_base64" in module.read_text()
    }
    assert decoders == {
        "shared/messages.py",
        # The bytes of a payload or of a chunk, within a message that was read.
        "shared/payload/submission.py",
        "shared/payload/reading.py",
        # The content of a result, within a message that was read.
        "shared/pipeline/results.py",
        # The bytes of a message as they were kept, whole: whatever reads it unwraps it as another one.
        "shared/parked/overflow.py",
        # The header by which Azure says who is logged in.
        "capabilities/console/azure_login.py",
        # It reads nothing: it looks for an access code in what no rule can read, and removes it.
        "capabilities/registration/parked_orders.py",
    }
