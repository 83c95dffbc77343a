"""SLUICE_CHUNK_ITEMS through the whole app: as many chunks as it says, whoever cut the frames, and every total exact."""

import math
from dataclasses import replace
from decimal import Decimal

import pytest

from shared.ledger.records import JobState
from shared.publish import Publisher, encode_all
from tests.e2e.test_pipeline import lines_of
from tests.faults.memory.storage import MemoryStorage
from tests.faults.sales import Sales
from tests.faults.world import SETTINGS
from tests.pipeline.whole_app import WholeApp

TRANSACTIONS = 5_000


@pytest.fixture(scope="module")
def storage():
    """A storage that nobody else uses."""
    return MemoryStorage()


@pytest.fixture
def ran(storage):
    """Run a job with a setting, and return it with the ids in its outputs."""

    def run(form, chunk_items, count=TRANSACTIONS):
        app = WholeApp(storage.connection_string, storage=storage, settings=replace(SETTINGS, chunk_items=chunk_items))
        name = f"{form}-{chunk_items}"
        with app.metered, app.others:
            FORMS[form](app, name, [{"shop": f"s{n % 7}", "amount": f"{n}.25"} for n in range(count)])
            app.work_off()
            job = app.read(name)
            lines = lines_of(app.others, name, job.revision)
            return job, sorted(line["id"] for part in lines.values() for line in part if "id" in line)

    return run


def publish(app, job, transactions):
    """Send them as the library does, in its frames."""
    queue = app.others.queues.get_queue_client("submissions")
    payloads = app.others.blobs.get_container_client("payloads")
    Publisher(queue, payloads).submit(job=job, transactions=transactions, workload="sales", sums=["amount"])


def upload(app, job, transactions):
    """Send a plain file, which the app cuts into frames."""
    text = b"".join(line + b"\n" for _, line in encode_all(transactions))
    app.others.blobs.get_blob_client("payloads", f"uploads/{job}").upload_blob(text)
    total = sum(n * 100 + 25 for n in range(len(transactions)))
    declared = f'{{"items": {len(transactions)}, "sums": {{"amount": "{total // 100}.{total % 100:02}"}}}}'
    app.others.queues.get_queue_client("submissions").send_message(
        f'{{"sluice": {{"job": "{job}", "workload": "sales", "declared": {declared}, '
        f'"payload": {{"blob": "uploads/{job}"}}}}}}'
    )


FORMS = {"frames": publish, "file": upload}
LARGE = 100_000


class Slow(Sales):
    """Takes ten milliseconds a sale, by the clock of the run."""

    clock = None

    def map(self, sale, number):
        """Let the time pass."""
        self.clock.advance(milliseconds=10)
        return super().map(sale, number)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk_items", [100, 999, 1000, 2500])
def test_a_job_has_as_many_chunks_as_the_setting_says(ran, form, chunk_items):
    """5,000 transactions: the declared count and sums are proven, and no id is there twice or missing."""
    job, ids = ran(form, chunk_items)
    assert (job.state, job.problem) == (JobState.COMPLETE, None)
    assert job.chunks == math.ceil(TRANSACTIONS / chunk_items)
    assert job.totals.accepted.items == TRANSACTIONS
    assert job.totals.accepted.sums["amount"] == Decimal(sum(n * 100 + 25 for n in range(TRANSACTIONS))) / 100
    assert ids == list(range(job.id_base, job.id_base + TRANSACTIONS))


@pytest.mark.parametrize("form", FORMS)
def test_a_chunk_may_be_one_transaction(ran, form):
    """The least that the setting allows."""
    job, _ = ran(form, 1, count=40)
    assert (job.state, job.chunks, job.totals.accepted.items) == (JobState.COMPLETE, 40, 40)


def test_large_jobs_have_large_chunks_and_smaller_ones_once_they_were_slow(storage):
    """`auto`: 2,000 for 100,000 transactions; by the speed of the first job, 15 seconds are 1,500, so the next has 1,000."""
    slow = Slow()
    app = WholeApp(
        storage.connection_string, storage=storage, settings=replace(SETTINGS, chunk_items=None), workload=slow
    )
    slow.clock = app.clock
    chunks = {}
    with app.metered, app.others:
        for form, name in (("frames", "large-1"), ("file", "large-2")):
            FORMS[form](app, name, [{"shop": "s", "amount": f"{n}.25"} for n in range(LARGE)])
            app.work_off()
            job = app.read(name)
            assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, LARGE)
            chunks[form] = job.chunks
    assert chunks == {"frames": 50, "file": 100}
