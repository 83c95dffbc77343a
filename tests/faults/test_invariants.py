"""The checks object: to each breach of a promise, made by hand, somebody says so."""

from dataclasses import replace

import pytest
from azure.data.tables import UpdateMode

from shared.app import Stores
from shared.ledger.entities import chunk_key
from shared.pending import PendingTable, Pointer
from tests.faults import crash_points
from tests.faults.campaign import BY_NAME
from tests.faults.invariants import breaches
from tests.faults.journal import Journal
from tests.faults.memory.storage import MemoryStorage
from tests.faults.scenarios import A
from tests.faults.world import World

WAY = BY_NAME["the whole way"]


@pytest.fixture
def world():
    """A world in which one job has gone the whole way."""
    made = World(MemoryStorage(), Journal())
    crash_points._act(WAY, made, crash_points.Plan(note=made.journal.note))
    assert crash_points._recovered(WAY, made) == []
    yield made
    made.close()


def counted_twice(world):
    """Add one chunk's totals again."""
    ledger = Stores(world.observer()).ledger
    job = ledger.read(A)
    ledger.commit(replace(job, totals=job.totals + next(ledger.rows(A)).totals))


def without_a_row(world):
    """Lose a chunk row."""
    world.observer().tables.get_table_client("jobs").delete_entity(A, chunk_key(1))


def without_its_job(world):
    """Lose the job."""
    world.observer().tables.get_table_client("jobs").delete_entity(A, "job")


def without_a_result(world):
    """Lose the blob with a result."""
    row = next(Stores(world.observer()).ledger.rows(A))
    world.observer().blobs.get_blob_client("results", row.blob).delete_blob()


def with_results_of_nobody(world):
    """Leave a blob of results that no row names."""
    world.observer().blobs.get_blob_client("results", f"{A}/groups/stray").upload_blob(b"")


def computed_too_often(world):
    """Run a chunk more often than anything accounts for."""
    for _ in range(9):
        world.journal.note("run", 0)


def without_a_manifest(world):
    """Lose the manifest."""
    world.observer().blobs.get_blob_client("outputs", f"{A}/1/manifest.json").delete_blob()


def still_pending(world):
    """Leave a pointer."""
    PendingTable(world.observer().tables.get_table_client("pending")).add(Pointer("job", world.clock.now(), "job-x"))


def still_on_a_queue(world):
    """Leave a message."""
    world.observer().queues.get_queue_client("work-00").send_message("x", time_to_live=-1)


def other_totals(world):
    """Change what a shop sold."""
    row = {"PartitionKey": A, "RowKey": "x", "amount": "0", "account": "x", "revision": 1}
    world.observer().tables.get_table_client("totals").upsert_entity(row, mode=UpdateMode.REPLACE)


def expiring(world):
    """Put a message that expires."""
    world.journal.note("request", "accept", "POST work-00/messages", {"ttl": "604800"})


def too_early(world):
    """Dispatch before the opening."""
    request = ["request", "accept", "POST work-00/messages", {"ttl": "-1"}]
    world.journal._entries = [request, *world.journal.entries()]


def never_told(world):
    """Forget that anybody was told."""
    world.journal._entries = [entry for entry in world.journal.entries() if "completed" not in entry]


def ids_again(world):
    """Put the sequence back to its beginning."""
    container = world.observer().blobs.get_container_client("ids")
    for name in list(container.list_blob_names()):
        container.delete_blob(name)


#: The worst last: of a job that is gone nothing else can be said.
SPOILT = {
    with_results_of_nobody: "named by no row",
    computed_too_often: "runs of chunks",
    counted_twice: "counted wrong",
    without_a_row: "has rows",
    without_a_result: "the result of chunk 0",
    other_totals: "totals by shop",
    without_a_manifest: "no manifest",
    still_pending: "stuck",
    still_on_a_queue: "left on work-00",
    expiring: "expires",
    too_early: "before its gate",
    never_told: "nobody was told",
    ids_again: "ids again",
    without_its_job: "lost",
}


def test_each_breach_is_named(world):
    """What is spoilt is said, and was not said before."""
    for spoil, said in SPOILT.items():
        assert not any(said in breach for breach in breaches(world, WAY))
        spoil(world)
        assert any(said in breach for breach in breaches(world, WAY)), said
