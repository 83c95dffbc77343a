"""The requests of a small job by stage, in memory, as `docs/cost.md` has them."""

import re
from collections import Counter

import pytest

from tests.faults.journal import Journal
from tests.faults.memory.storage import MemoryStorage
from tests.faults.world import INLINE, World, sales
from tools.local.paths import ROOT

#: The row of a stage in the page, and its requests in 0.4.0 and now.
_ROW = re.compile(r"^\| (submit|accept|process|settle|finish|receives|sum) \|[^|]*\| (\d+) \| (\d+) \|$", re.MULTILINE)
#: By push no message is taken over from the host, which receives and deletes none of these.
_OF_A_TRIGGER = re.compile(r"PUT (submissions|work-00)/messages/<id>")
#: Of the submission, the chunk and the finish message.
_RECEIVES = 3
MOST = 36


def count(world):
    """Return the requests of each stage so far, without those of triggers and of the host that plays them."""
    requests = [(stage, site) for stage, site, *_ in world.journal.entries("request")]
    return Counter(stage for stage, site in requests if stage != "host" and not _OF_A_TRIGGER.fullmatch(site))


@pytest.fixture
def counted():
    """The requests of a job that comes alone, when its process has accepted another before."""
    world = World(MemoryStorage(), Journal())
    with world.app() as app:
        for job in ("first", "second"):
            before = count(world)
            app.submit(job, sales("x", "w"), limits=INLINE)
            app.host().run()
        found = dict(count(world) - before) | {"receives": _RECEIVES}
    world.close()
    return found | {"sum": sum(found.values())}


def test_the_page_has_the_requests_of_a_small_job(counted):
    """Each stage, and no more than this in all."""
    rows = {stage: int(now) for stage, _, now in _ROW.findall((ROOT / "docs" / "cost.md").read_text())}
    assert counted == rows
    assert counted["sum"] <= MOST
