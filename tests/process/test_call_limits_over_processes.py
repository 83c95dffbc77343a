"""A limit of 100 calls a second over two real processes, one of which is killed again and again."""

import subprocess
import sys
import uuid
from threading import Thread

import pytest

from shared.azure.connections import Connections
from tests.process.limits_process import __name__ as program
from tests.waiting import until

RATE = 100


class Caller:
    """A process, and the times of its calls."""

    def __init__(self, storage, container):
        self.process = subprocess.Popen(
            [sys.executable, "-m", program, storage, container], stdout=subprocess.PIPE, text=True
        )
        self.times = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        self.times.extend(float(line) for line in self.process.stdout if line.endswith("\n"))

    def kill(self):
        """End it in whatever it does."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()


@pytest.mark.ci("half a minute, of which most is the time until the leases of killed processes end")
def test_no_second_has_more_calls_than_the_limit_whoever_is_killed(azurite):
    """Any window of a second: before a kill, across it, and when the lots of the dead are taken again."""
    storage, container = azurite.connection_string, f"permits-{uuid.uuid4().hex[:12]}"
    with Connections(storage) as connections:
        connections.blobs.create_container(container)
    callers = [Caller(storage, container) for _ in range(2)]
    try:
        until(lambda: callers[0].times and callers[1].times)
        for kill in range(3):
            # More than a second's worth, by whoever has lots.
            before = sum(len(one.times) for one in callers)
            until(lambda before=before: sum(len(one.times) for one in callers) >= before + 4 * RATE)
            callers[kill % 2].kill()
            callers.append(Caller(storage, container))
            callers[kill % 2], callers[-1] = callers[-1], callers[kill % 2]
        until(lambda: len(callers[0].times) >= RATE and len(callers[1].times) >= RATE)
    finally:
        for one in callers:
            one.kill()
    times = sorted(time for one in callers for time in one.times)
    assert len(times) >= 12 * RATE
    assert all(later - sooner >= 1 for sooner, later in zip(times, times[RATE:], strict=False))
    print(f"{len(times) / (times[-1] - times[0]):.0f} calls a second")  # noqa: T201 - for a report
