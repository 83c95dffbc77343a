"""A small slice of the on-sale benchmark: processes die in the midst of their work, and every order is answered once."""

import pytest

from tests.benchmarks.onsale import Report, Sale, run


@pytest.mark.ci("processes that die, or a stack of its own")
def test_a_rush_for_few_seats_oversells_nothing_although_processes_die():
    """Each dies after it started orders, obeyed commands or heard answers, and before its messages are completed."""
    report = run(Sale(orders=60, seats=20, kill_after=None, deadly=("start", "sell", "hear"), lock_seconds=5))
    assert report.problems() == []
    assert report.kills == 3


def test_the_report_objects_to_what_must_not_be():
    """Seats that were not sold or sold twice, orders without an answer or out of their turn, and a run without a kill."""
    report = Report(Sale(orders=4, seats=3), granted=4)
    report.states.update({"reserved": 2, "placed": 2})
    assert report.problems() == [
        "4 seats went, it must be 3",
        "2 orders have no answer",
        "no process was killed",
    ]
