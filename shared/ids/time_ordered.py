"""64-bit ids that sort by time, for keys where a sequence would say too much or wait for storage.

From the highest bit: 41 of milliseconds since 2025, 12 of a counter, 10 of the node number; so the ids of one node are
evenly spaced and a block of them is a `range`, even across milliseconds.
"""

import asyncio
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final, Self

from shared.clock import Clock, SystemClock
from shared.errors import ClockWentBackError, GeneratorClosedError, SluiceError, WaitExpiredError
from shared.ids import node_lease
from shared.ids.book import Book, Patience
from shared.ids.node_lease import NODES, Lease, LeaseTable
from shared.ids.store import OptimisticStore
from shared.ids.waiting import Flight, take, take_async

EPOCH: Final = datetime(2025, 1, 1, tzinfo=UTC)
#: Ids of one node in one millisecond.
TICKS: Final = 4096


@dataclass(frozen=True, slots=True)
class Moment:
    """What a time-ordered id says."""

    at: datetime
    count: int
    node: int


def read_id(number: int) -> Moment:
    """Return what the id says of its making."""
    ticks, node = divmod(number, NODES)
    milliseconds, count = divmod(ticks, TICKS)
    return Moment(EPOCH + timedelta(milliseconds=milliseconds), count, node)
