"""Settling and finishing on what the other stages really write: results of the billing workload, and parked messages."""

import json
from collections import Counter
from decimal import Decimal

import pytest

from shared.clock import SystemClock
from shared.ledger import JobState
from shared.messages import ChunkMessage, Result
from shared.parked.cause_index import CauseIndex
from shared.parked.entry import EntryState
from shared.parked.overflow import Overflow
from shared.parked.parked_table import ParkedTable
from shared.payload import Limits
from shared.pipeline.outputs import run_in_parts
from shared.pipeline.results import ResultStore, pack_result
from shared.workloads.billing import Billing
from tests.ledger.world import World

PER_CHUNK = 50


@pytest.fixture
def world(azurite):
    """A billing job of four chunks."""
    made = World(azurite.connection_string, chunks=4, workload=Billing(), segment_chunks=3)
    made.accept(items=4 * PER_CHUNK, declared={"quantity": Decimal(sum(map(quantity, range(4 * PER_CHUNK))))})
    yield made
    made.close()


def quantity(number):
    """Return what transaction `number` used; every tenth one is on a plan that nobody knows."""
    return number % 17 + 1


def lines(chunk):
    """Return the transactions of a chunk as a publisher writes them."""
    numbers = range(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK)
    return [
        json.dumps(
            {"account": f"a{n % 5}", "plan": "nobody knows" if n % 10 == 0 else "premium", "quantity": quantity(n)}
        ).encode()
        for n in numbers
    ]


def processed(world, number):
    """Run and store a chunk as the Processors do, and return its message."""
    chunk = ChunkMessage(
        job="nightly",
        chunk=number,
        revision=1,
        workload="billing",
        codec="plain",
        frames=[],
        first_id=number * PER_CHUNK,
    )
    ran = run_in_parts(Billing(), [lines(number)], chunk.first_id, Limits())
    stored = ResultStore(world.container("results")).put(pack_result(chunk, ran, Limits()))
    return Result(
        job=chunk.job,
        chunk=chunk.chunk,
        revision=chunk.revision,
        blob=stored.name,
        hash=stored.hash,
        accepted=stored.result.accepted,
        rejected=stored.result.rejected,
    )


def test_a_billing_job_is_settled_and_finished_from_what_processors_store(world):
    """Invoices, rejections and control totals come out as a loop over the same lines adds them up."""
    world.settle(*(processed(world, n) for n in range(4)))
    world.finish_all()
    found = world.job()
    assert (found.state, found.problem) == (JobState.COMPLETE, None)
    good = [n for n in range(4 * PER_CHUNK) if n % 10]
    assert (found.totals.accepted.items, found.totals.rejected.items) == (len(good), 20)
    assert found.totals.rejected.sums == {"quantity": Decimal(sum(quantity(n) for n in range(0, 200, 10)))}
    rejected = world.lines("rejected")
    assert [line["number"] for line in rejected] == list(range(0, 200, 10))
    assert Counter(line["reason"] for line in rejected) == {"unknown_plan": 20}
    invoices = world.lines("output")
    assert sum(Decimal(line["quantity"]) for line in invoices) == sum(map(quantity, good))
    assert world.manifest()["totals"] == len(
        [row for row in world.table("totals").list_entities() if row["RowKey"] != "!fence"]
    )


def test_a_bad_message_is_parked_where_operators_look(world):
    """The entry says its stage and reason, its bytes can be replayed, and the same message again is the same entry."""
    tables, blobs = world.direct["tables"], world.direct["blobs"]
    run_name = world.names["jobs"].removeprefix("jobs")
    with tables.create_table(f"parked{run_name}") as table, blobs.create_container(f"parked{run_name}") as container:
        index = CauseIndex(tables.create_table(f"causes{run_name}"), "one")
        world.parked = ParkedTable(table, container, index, Overflow(container, index, SystemClock()))
        for _ in range(2):
            assert world.settle(processed(world, 0), b"{not json").parked == 1
        (entry,) = world.parked.entries()
        assert (entry.stage, entry.reason, entry.queue) == ("settle", "result_unreadable", "results")
        assert entry.state is EntryState.OPEN
        assert world.parked.body(entry) == b"{not json"
    assert world.job().done == 1
