"""Accepting: once, the same way every time, and before anything else what cannot be accepted."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from shared.errors import RefusedError, StorageUnavailableError
from shared.gate.state import Reading
from shared.ledger.records import JobState
from shared.pending import JOB_POINTER
from shared.pipeline.accept import Accepted
from tests.faults.plan import UNTOLD, KilledError, Plan
from tests.pipeline.conftest import Process, World

WORK = "work-"


def test_a_submission_without_a_gate_is_planned_and_sent_on_its_way(world, process):
    """The job has a plan, ids for all its transactions, and its chunks are on the work queues: no message in between."""
    assert process().accept(world.submission(26), "m1") is Accepted.DISPATCHED
    job = world.ledger.read(world.job)
    assert (job.items, job.state, job.id_base) == (26, JobState.RUNNING, 1)
    assert [message["kind"] for _, message in world.queues.sent] == ["chunk", "chunk"]


def test_a_submission_behind_a_closed_gate_waits(world, process):
    """It is planned before the release, held, and nothing is sent."""
    assert process().accept(world.submission(gate="nightly"), "m1") is Accepted.HELD
    assert world.ledger.read(world.job).state is JobState.HELD
    assert (world.gates.held, world.queues.sent) == ([("nightly", world.job)], [])


def test_a_gate_that_is_open_lets_it_through(world, process):
    """It is dispatched at once, and its row says by which epoch."""
    world.gates.now = Reading(4, is_open=True)
    assert process().accept(world.submission(26, gate="nightly"), "m1") is Accepted.DISPATCHED
    job = world.ledger.read(world.job)
    assert (job.state, job.passed_epoch, world.gates.held) == (JobState.RUNNING, 4, [])


def test_the_same_submission_dropped_again_runs_once(world, process):
    """A duplicate of a job that is past its gate changes nothing."""
    one = process()
    one.accept(world.submission(), "m1")
    before, sent = world.ledger.read(world.job), len(world.queues.sent)
    assert one.accept(world.submission(), "m2") is Accepted.DUPLICATE
    assert (world.ledger.read(world.job), len(world.queues.sent)) == (before, sent)


def test_dropped_fifty_times_at_once_it_is_one_job(world, process):
    """Of fifty that accept the same submission side by side, all leave one job, one plan, one id range."""
    processes = [process() for _ in range(5)]
    with ThreadPoolExecutor(10) as pool:
        done = pool.map(lambda n: processes[n % 5].accept(world.submission(), f"m{n}"), range(50))
        assert {*done} <= {Accepted.DISPATCHED, Accepted.DUPLICATE}
    job = world.ledger.read(world.job)
    dispatched = {message["job"] for message in world.queues.on(WORK)}
    assert (dispatched, job.chunks, job.items) == ({world.job}, 1, 25)


def test_a_message_of_a_few_bytes_reserves_no_ids(world, process):
    """An index of 800 kB over 10 kB that claims ten million transactions is refused before it has a row or an id."""
    stored = bytes(10_000)
    rows = [[n, 1, 1_000, hashlib.sha256(b"\0").hexdigest()] for n in range(10_000)]
    index = json.dumps(rows, separators=(",", ":")).encode()
    names = [f"{world.job}/{hashlib.sha256(content).hexdigest()}" for content in (stored, index)]
    one = process()
    for name, content in zip(names, (stored, index), strict=True):
        one.connections.blobs.get_container_client("payloads").upload_blob(name, content)
    payload = {"blob": names[0], "codec": "zstd", "index": names[1].split("/")[1]}
    with pytest.raises(RefusedError, match="line_count"):
        one.accept(json.dumps({"sluice": {"job": world.job, "payload": payload}}).encode(), "m1")
    assert world.ledger.read(world.job) is None
    assert one.acceptance.planning.ids.next_ids(1).start == 1


def test_the_same_job_id_with_other_content_is_refused_with_both_hashes(world, process):
    """Never merged: the publisher is told which content has the id and which it sent."""
    one = process()
    one.accept(world.submission(25), "m1")
    first = world.ledger.read(world.job).content_hash
    with pytest.raises(RefusedError, match="conflict") as error:
        one.accept(world.submission(26), "m2")
    assert first in error.value.found
    assert world.ledger.read(world.job).items == 25


def test_an_unknown_workload_is_refused_before_anything_is_written(world, process):
    """The refusal names what is known, and leaves no trace of a job."""
    with pytest.raises(RefusedError, match="unknown_workload"):
        process().accept(world.submission(workload="baking"), "m1")
    assert world.ledger.read(world.job) is None


def test_a_sum_that_nobody_would_prove_is_refused_before_anything_is_written(world, process):
    """A declared sum over a field that the workload does not add up could only end unbalanced."""
    with pytest.raises(RefusedError, match="unknown_sum") as error:
        process().accept(world.submission(declared={"sums": {"weight": "3"}}), "m1")
    assert "billing adds up: quantity" in error.value.found
    assert world.ledger.read(world.job) is None


def test_a_job_that_names_no_id_takes_that_of_its_message(world, process):
    """The least form that a person can type is a job too."""
    process().accept(b'{"sluice": {"items": [{"a": 1}]}}', world.job)
    assert world.ledger.read(world.job).items == 1


def test_a_pointer_leads_to_every_job_before_it_exists(world, process):
    """A job that nobody would look after cannot be: the pointer is written first, and due only later."""
    one = process()
    one.accept(world.submission(), "m1")
    world.clock.advance(minutes=11)
    due = [pointer.id for pointer in one.acceptance.pending.due(world.clock.now()) if pointer.kind == JOB_POINTER]
    assert world.job in due


def requests_of_an_accept(world, process, items):
    """Return how many storage requests accepting takes."""
    plan = Plan()
    process(plan.transport).accept(world.submission(items), "m1")
    return plan.count


@pytest.mark.parametrize("mode", UNTOLD)
@pytest.mark.parametrize(
    ("items", "left"), [(25, ({0}, JobState.DISPATCHING)), (26, ({0, 1}, JobState.RUNNING))], ids=["small", "two"]
)
def test_a_fault_at_any_storage_request_is_made_good_by_the_next_delivery(world, process, mode, items, left):
    """Whatever request fails, and however: accepting again leaves one planned job with ids, and its chunks on their queues."""
    last = requests_of_an_accept(world, process, items)
    assert last >= 2 + len(left[0]), "a pointer, a read and a write of the sequence, the plan of one that is not small"
    for at in range(1, last + 1):
        fresh = World()
        plan = Plan.of(at, mode)
        broken = Process(process.azurite, fresh, plan.transport)
        with suppress(KilledError, StorageUnavailableError):
            broken.accept(fresh.submission(items), "m1")
        assert plan.fired
        after = Process(process.azurite, fresh)
        after.accept(fresh.submission(items), "m1", again=True)
        job = fresh.ledger.read(fresh.job)
        assert (job.plan is not None, job.items, job.id_base is not None) == (True, items, True)
        assert ({message["chunk"] for message in fresh.queues.on(WORK)}, job.state) == left
        broken.connections.close()
        after.connections.close()
