"""A job with lines beside an instance of the release before: it waits for a newer one, and parks nothing."""

from dataclasses import replace
from functools import partial

import pytest
from msgspec import structs

from shared.azure.connections import Connections
from shared.messages import LINES_VERSION, STREAMS_VERSION, ChunkMessage, Result, Results, encode
from shared.payload import Limits
from shared.pipeline.finish_blobs import SHARDS, FinishPlan, SegmentBlobs
from shared.pipeline.results import pack_result
from shared.pipeline.streams import LINES, StreamWriter
from shared.versions import READS
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import Plan
from tests.golden import values
from tests.process.limits_process import Calling

#: A body that each stage of before gets about such a job.
CHUNK = ChunkMessage(
    job="rated", chunk=0, revision=1, workload="rated", codec="plain", frames=[], first_id=1, inline="e30K", lines=True,
    v=LINES_VERSION,
)  # fmt: skip
RESULT = Result(job="rated", chunk=0, revision=1, blob="rated/1/0", hash="0" * 64, length=9, lines=3, v=STREAMS_VERSION)
PLAIN = Result(job="plain", chunk=0, revision=1, blob="plain/1/0", hash="0" * 64, length=9)


@pytest.fixture
def before(release):
    """The modules of the release before."""
    find, _ = release
    if find("versions").READS["chunk"] >= READS["chunk"]:
        pytest.skip("this release knows lines")
    return find


def test_a_chunk_with_lines_waits_for_a_newer_worker(before):
    """It would make a result without them, silently."""
    delivery = before("messages").Delivery(queue="work-00", message_id="m", body=encode(CHUNK), count=1)
    with pytest.raises(before("errors").NewerVersionError, match="chunk of version 3"):
        before("pipeline.process")._read(delivery)


def test_a_result_with_lines_waits_for_a_newer_settler_and_its_neighbours_do_not(before):
    """It would write a row that does not say where the lines are."""
    received = before("pipeline.results").Received(body=encode(Results(results=[PLAIN, RESULT])), id="m")
    found = before("pipeline.settle").sort([received])
    assert [one.result.job for group in found.groups for one in group] == ["plain"]
    assert ["result of version 2" in one.found for one in found.newer] == [True]
    assert found.unreadable == ()


def test_a_row_keeps_its_lines_when_a_settler_of_before_writes_it(before):
    """A column that it does not know: a job's row is written by whoever credits a chunk."""
    entities = before("ledger.entities")
    row = {"PartitionKey": "rated", "RowKey": "job", "content_hash": "x", "workload": "rated", "state": "running"}
    row |= {
        "accepted_at": "2026-11-20T12:00:00+00:00",
        "declared": "{}",
        "totals": "{}",
        "requests": "{}",
        "lines": True,
    }
    assert entities.job_entity(entities.job_of(row, ""))["lines"] is True


ASIDE = structs.replace(CHUNK, lines=False, aside=True)
EXTENDS = structs.replace(PLAIN, content="x", blob=None, extends="1" * 64, v=STREAMS_VERSION)


def test_a_replay_of_what_was_set_aside_waits_for_a_newer_worker(before):
    """It would run the whole chunk."""
    delivery = before("messages").Delivery(queue="work-00", message_id="m", body=encode(ASIDE), count=1)
    with pytest.raises(before("errors").NewerVersionError, match="chunk of version 3"):
        before("pipeline.process")._read(delivery)


def test_a_result_that_extends_another_waits_for_a_newer_settler(before):
    """It would drop it as a duplicate, so that the replay had no effect."""
    received = before("pipeline.results").Received(body=encode(EXTENDS), id="m")
    found = before("pipeline.settle").sort([received])
    assert (found.groups, ["result of version 2" in one.found for one in found.newer]) == ((), [True])


def test_rows_keep_what_is_set_aside_when_a_settler_of_before_writes_them(before):
    """Columns that it does not know."""
    entities = before("ledger.entities")
    row = {"PartitionKey": "rated", "RowKey": "job", "content_hash": "x", "workload": "rated", "state": "running"}
    row |= {"accepted_at": "2026-11-20T12:00:00+00:00", "declared": "{}", "totals": "{}", "requests": "{}"}
    assert entities.job_entity(entities.job_of({**row, "aside": 3}, ""))["aside"] == 3


def test_a_stored_result_with_lines_waits_for_a_newer_finish(before):
    """It would publish the job without them."""
    writer = StreamWriter()
    writer.add(b'{"number":7}\n', 1)
    packed = pack_result(values.LINED_CHUNK, replace(values.LINED_RAN, streams={LINES: writer.close()}), Limits())
    content = before("pipeline.results").unpack_result("rated/1/7", packed.first)
    with pytest.raises(before("errors").NewerVersionError, match="chunk result of version 2"):
        before("pipeline.results").read_result(content)


def test_a_plan_with_more_cuts_than_shards_waits_for_a_newer_finish(before):
    """It would look for a shard of each cut."""
    storage = MemoryStorage()
    with Connections(storage.connection_string, transport=partial(storage.transport, Plan())) as connections:
        container = connections.blobs.get_container_client("results")
        SegmentBlobs(container, "big", 1).put_plan(FinishPlan.make([(0, 1)], cuts=2 * SHARDS))
        with pytest.raises(before("errors").NewerVersionError, match="finish plan of version 3"):
            before("pipeline.segments").SegmentBlobs(container, "big", 1).find_plan()


def test_limits_count_for_newer_workers_alone(before):
    """It starts with such a workload, and calls without turns: docs/workloads.md and CHANGELOG say when limits may be set."""
    assert before("workloads.registry").Workloads([Calling()]).find("calling").limits == {"bank": "100/s"}
    with pytest.raises(ModuleNotFoundError):
        before("pipeline.failing.call_limits")
