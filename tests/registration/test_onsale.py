"""A small slice of the on-sale benchmark: processes die in the midst of their work, and every order is answered once."""

import pytest

from capabilities.registration.roll_check import FirstAnswer, check_roll
from tests.benchmarks.onsale import Report, Sale, explain, run


@pytest.mark.ci("processes that die, or a stack of its own")
def test_a_rush_for_few_seats_oversells_nothing_although_processes_die():
    """Each dies after it started orders, obeyed commands or heard answers, and before its messages are completed."""
    report = run(Sale(orders=60, seats=20, kill_after=None, deadly=("start", "sell", "hear"), lock_seconds=30))
    assert report.problems() == []
    assert report.kills == 3


@pytest.mark.ci("processes that die, or a stack of its own")
def test_a_bus_that_gives_batches_backwards_lets_no_order_get_the_seats_of_an_earlier_one():
    """Two processes, and more starts than one message has. Commands to seats come as they were sent: backwards twice is forwards."""
    sale = Sale(orders=160, seats=40, workers=2, kill_after=None, kills=0, backward=("start",))
    report = run(sale)
    assert report.problems() == []
    assert report.overtaking == 0
    assert report.disordered["start"] > 0


def test_the_report_objects_to_what_must_not_be():
    """Seats that were not sold or sold twice, orders without an answer, and a run without a kill."""
    report = Report(Sale(orders=4, seats=3), granted=4)
    report.states.update({"reserved": 2, "placed": 2})
    assert report.problems() == [
        "4 seats went, it must be 3",
        "2 orders have no answer",
        "no process was killed",
    ]


def test_a_kill_shortly_before_explains_an_inversion_and_nothing_else_does():
    """Order z got a seat at the second 300, and y, which has an earlier place, none at 301."""
    outcome = check_roll("xyz", {name: FirstAnswer(n, {"a": n % 2}) for n, name in {1: "x", 4: "y", 3: "z"}.items()})
    told = {"x": {"overtaken_by": []}, "y": {"overtaken_by": ["z"]}, "z": {"place": 3, "overtaken_by": []}}
    at = {1: 100.0, 3: 300.0, 4: 301.0}
    for killed_at, since, is_explained in [
        ((299.0,), "1 s", True),
        ((200.0,), "100 s", False),
        ((302.0,), "inf s", False),
    ]:
        said = f"order z (place 3) got the seats of y, {since} after a kill"
        assert list(explain(outcome, told, at, killed_at)) == [(said, is_explained)]
