"""`auto`: chunk sizes from a job's size, and from the speed that its workload was last seen at."""

import re
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.azure.connections import Connections
from shared.azure.value_store import BlobStore
from shared.pipeline.plan import LARGEST, LONGEST, SMALLEST, ChunkSizes, Speed, Speeds, choose
from shared.workloads.registry import Workloads
from tests.faults.sales import Sales

PAGE = Path(__file__).parents[2] / "docs" / "workloads.md"


class Asking(Sales):
    """Asks a service for each sale."""

    name = "asking"

    async def map(self, sale, number):
        """As the other does."""
        return super().map(sale, number)


@pytest.fixture
def sizes(provisioned, request):
    """An installation with `auto`, whose speeds are blobs of this test."""
    with Connections(provisioned.connection_string) as connections:
        container, test = (
            connections.blobs.get_container_client("settings"),
            sha256(request.node.name.encode()).hexdigest(),
        )
        speeds = Speeds(lambda name: BlobStore(container, f"speed/{test}/{name}"))
        yield ChunkSizes(None, speeds, Workloads([Sales(), Asking()]))


@pytest.mark.parametrize(
    ("items", "size"), [(1, 1_000), (99_999, 1_000), (100_000, 2_000), (149_999, 2_000), (399_999, 7_000)]
)
def test_a_larger_job_has_larger_chunks(sizes, items, size):
    """Fifty of them, within the bounds."""
    assert sizes.of("sales", items) == size


def test_the_page_has_the_sizes_that_jobs_get(sizes):
    """Each row of its table."""
    rows = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    found = [tuple(int(cell.replace(",", "")) for cell in row) for row in rows]
    assert len(found) == 6
    assert found == [(items, sizes.of("sales", items), -(-items // sizes.of("sales", items))) for items, *_ in found]


def test_a_workload_that_waits_has_smaller_chunks_until_it_is_measured(sizes):
    """8,000 answers of 20 ms, 16 at a time, take ten seconds; a service may be slower than that."""
    assert sizes.of("asking", 1_000_000) == 2_000


def test_a_chunk_takes_fifteen_seconds_at_most_by_the_last_measurement():
    """6 ms each are 2,500 in that time."""
    assert choose(1_000_000, Speed(milliseconds=6_000, items=1_000), is_waiting=True) == 2_000
    assert choose(1_000_000, Speed(milliseconds=100, items=1_000), is_waiting=True) == 8_000
    assert choose(1_000_000, Speed(milliseconds=60_000, items=1_000), is_waiting=False) == 1_000


@given(
    st.integers(1, 10**7),
    st.none() | st.builds(Speed, milliseconds=st.integers(1, 10**12), items=st.integers(1, 10**7)),
    st.booleans(),
)
def test_every_size_is_whole_thousands_within_the_bounds(items, speed, is_waiting):
    """And no larger than the measured speed allows, down to the smallest."""
    size = choose(items, speed, is_waiting=is_waiting)
    assert size % SMALLEST == 0
    assert SMALLEST <= size <= LARGEST
    if speed is not None and size > SMALLEST:
        assert size * speed.milliseconds / speed.items / 1000 <= LONGEST


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, b'{"v": 2, "milliseconds": 1, "items": 1}', b"{}"])
def test_a_measurement_that_cannot_be_read_is_none(sizes, content):
    """It is a hint: no job fails for it."""
    sizes.speeds.store("sales").try_write(content, None)
    assert sizes.of("sales", 1_000_000) == 8_000


def test_a_number_of_the_setting_holds_whatever_was_measured(sizes):
    """Nothing is read for it."""
    assert ChunkSizes(7, None, None).of("sales", 10**7) == 7
    assert ChunkSizes(7, None, None).least == 7
    assert sizes.least == 1_000
