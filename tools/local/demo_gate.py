"""The gate's part of `make demo`: work waits, a signal releases it, and a worker elsewhere hears of it."""

import threading
import time

from shared.app import Stores
from shared.azure import Connections
from shared.gate import Receipt
from shared.waiting import Release
from tools.local.errors import StackError
from tools.local.stack import Stack

GATE, QUEUE = "demo", "demo-released"
ENTRIES = 50
#: A minute and a half: if the signal is lost the app's timer comes once a minute.
SOON = 90.0


def held_work_is_released(stack: Stack) -> str:
    """Hold some work behind a gate, open it, and see the app put everything on its queue."""
    with Connections.parse(stack.settings) as connections:
        house = Stores(connections)
        connections.queues.create_queue(QUEUE).close()
        for number in range(ENTRIES):
            house.held_work.hold(GATE, f"job-{number:02}", QUEUE, f'{{"job": {number}}}')
        began = time.monotonic()
        with Release(connections, GATE) as worker:
            heard = _Heard(worker)
            house.gate_operator.open(GATE, by="demo", why="to show it", once=True)
            count = _released(connections)
            receipt = heard()
        took = time.monotonic() - began
    return (
        f"{count} entries held, opened, and on their queue after {took:.1f} s; a worker elsewhere was released "
        f"by {receipt.how.value} after {receipt.lag.total_seconds():.2f} s; once: it closes by itself"
    )


class _Heard:
    """A worker that waits in a thread. A call returns its receipt."""

    def __init__(self, worker: Release) -> None:
        self._receipts: list[Receipt] = []
        self._thread = threading.Thread(target=lambda: self._receipts.append(worker.wait(SOON)))
        self._thread.start()

    def __call__(self) -> Receipt:
        self._thread.join()
        if not self._receipts:
            raise StackError(f"the worker that waited for gate {GATE!r} was not released within {SOON:g} s")
        return self._receipts[0]


def _released(connections: Connections) -> int:
    end = time.monotonic() + SOON
    with connections.queues.get_queue_client(QUEUE) as queue:
        while (found := queue.get_queue_properties().approximate_message_count or 0) < ENTRIES:
            if time.monotonic() > end:
                raise StackError(f"only {found} of {ENTRIES} held entries were released within {SOON:g} s")
            time.sleep(0.1)
    return found
