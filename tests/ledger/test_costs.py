"""What settling and finishing cost, in storage requests for each chunk, as docs/ledger.md has it."""

from pathlib import Path

import pytest

from shared.ledger import MOST_ROWS
from tests.faults.plan import Plan
from tests.ledger.world import World

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"
#: Chunks of a job, and the requests per chunk to settle and to finish it.
COSTS = [(10, 0.5, 1.5), (100, 0.08, 0.16), (1000, 0.04, 0.06)]


@pytest.mark.parametrize(("chunks", "to_settle", "to_finish"), COSTS)
def test_what_a_chunk_costs(azurite, chunks, to_settle, to_finish):
    """Results share their blob, their transaction and their reads; the page says the same."""
    plan = Plan()
    world = World(azurite.connection_string, chunks=chunks, transport=plan.transport)
    world.accept()
    before = plan.count
    for first in range(0, chunks, MOST_ROWS):
        world.settle(*(world.result(n, rejected=1) for n in range(first, min(first + MOST_ROWS, chunks))))
    settled = plan.count
    world.finish_all()
    found = round((settled - before) / chunks, 2), round((plan.count - settled) / chunks, 2)
    world.close()
    assert found == (to_settle, to_finish)
    assert f"| {chunks:,} | {to_settle:.2f} | {to_finish:.2f} |" in PAGE.read_text(encoding="utf-8")
