"""What a process measures of its own work."""

import pytest

from shared.concurrency.following import Gauge
from tests.concurrency.conftest import NOON
from tests.gate.conftest import ManualClock


def test_the_gauge_counts_what_is_done_and_how_long_it_took():
    """However the work ends; the CPU is that between two readings."""
    clock, cpu = ManualClock(NOON), iter([0.0, 3.0, 3.0])
    gauge = Gauge(clock, cpu_seconds=lambda: next(cpu))

    def fail():
        with gauge.working():
            clock.advance(seconds=4)
            raise ValueError(gauge.in_flight)

    with pytest.raises(ValueError, match="1"):
        fail()
    counted = gauge.read()
    assert (counted.in_flight, counted.done, counted.busy, counted.cpu) == (0, 1, 4.0, 0.75)
    assert gauge.read().cpu is None
