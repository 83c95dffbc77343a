"""A small slice of the gate's benchmark: many waiters in several processes, some of whose pushes are lost."""

import pytest

from tests.benchmarks.gate import Report, Scenario, run


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario("slice", processes=2, waiters=5, rounds=1, spread=1, period=4, warm_up=4, dropped=0.5),
        Scenario("slice", processes=2, waiters=5, rounds=1, spread=1, period=4, warm_up=4, has_bus=False, pulses=True),
    ],
    ids=["lost pushes", "pulses without a bus"],
)
def test_each_waiter_is_released_once_for_an_epoch_and_none_before_it(scenario):
    """Whatever is lost, every waiter passes, in order, and never early."""
    assert run(scenario).problems() == []


def test_the_report_objects_to_what_must_not_be():
    """A waiter that is missing, early, doubled or out of order is named."""
    report = Report(Scenario("x", processes=1, waiters=2, rounds=2), opened={1: 100.0, 2: 200.0})
    for epoch, seen in ((1, 101), (1, 102), (2, 199)):
        report.hear({"waiter": "a", "epoch": epoch, "how": "poll", "late": 1, "seen": seen})
    assert report.problems() == [
        "1 of 2 waiters were released",
        "1 releases before their opening",
        "waiter a was released for epochs [1, 1, 2]",
    ]
