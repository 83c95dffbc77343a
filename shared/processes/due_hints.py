"""Hints that something of a shard is due: one scheduled message for each slot of time, for all timeouts in it.

A hint that is lost costs time, and no timeout: the tick reads the agenda too.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import ceil
from threading import Lock
from typing import Final

import msgspec
from azure.servicebus import ServiceBusMessage
from msgspec import Struct

from shared.azure import FAILURES, BusSender, Destination
from shared.decoding import make_decoder
from shared.processes.agenda import SHARDS
from shared.telemetry import describe_error, events, tell

#: Parts of the time that a timeout may be late, and the shortest slot: the due times of rows are whole seconds.
_SLOTS: Final = 12
_SHORTEST: Final = timedelta(seconds=1)
#: Slots of which a process remembers that it sent their hints.
_REMEMBERED: Final = 10_000


class _Due(Struct, frozen=True, tag_field="kind", tag="due"):
    shard: int


class _Wrapper(Struct, frozen=True):
    sluice: _Due


_decoder: Final = make_decoder(_Wrapper)


def due_shards(bodies: Sequence[bytes]) -> list[int]:
    """Return the shards that hints name, each once. Any other message names none."""
    found = set()
    for body in bodies:
        with suppress(ValueError, RecursionError):
            found.add(_decoder.decode(body).sluice.shard)
    return sorted(found & set(range(SHARDS)))


class DueHints:
    """Schedules the hints of one process. Several threads may use it."""

    def __init__(self, sender: BusSender, to: Destination, lateness: timedelta) -> None:
        """Take the queue, and how late a timeout may be followed: slots are a twelfth of it."""
        self._sender, self._to = sender, to
        self._slot = max(_SHORTEST, lateness / _SLOTS).total_seconds()
        self._sent: set[tuple[int, int]] = set()
        self._lock = Lock()

    def __call__(self, shard: int, due: datetime) -> None:
        """Have somebody look at a shard at the end of the slot, unless this process did so before."""
        slot = ceil(due.timestamp() / self._slot)
        with self._lock:
            if (shard, slot) in self._sent:
                return
            if len(self._sent) >= _REMEMBERED:
                self._sent.clear()
            self._sent.add((shard, slot))
        body = msgspec.json.encode({"sluice": _Due(shard)})
        message = ServiceBusMessage(body, message_id=f"due-{shard}-{slot}", content_type="application/json")
        try:
            self._sender.send(self._to, [message], at=datetime.fromtimestamp(slot * self._slot, UTC))
        except FAILURES as error:
            tell(events.HINT_UNSCHEDULED, error=describe_error(error))
