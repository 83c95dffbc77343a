"""One attempt at a delivered message: done, tried again later, or parked because trying again is of no use.

A late delivery is noted before its work and after it, so that a message which kills its worker is known by deliveries
that began and never ended.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from shared.errors import StorageUnavailableError
from shared.parked.attempts import Attempts
from shared.pipeline.failure import KILLER_PARKS_AT, NOTED_FROM, KillerError, Mark, killed_its_worker, nature_of, parks


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One delivery of a message by the host."""

    queue: str
    message_id: str
    body: bytes
    #: 1 for the first; it counts what was handed out, not what was worked on.
    count: int


class Deliveries:
    """Attempts at the deliveries of one kind of message."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def attempt(self, note: str, count: int, work: Callable[[], object], park: Callable[[Exception], object]) -> None:
        """Do the work or park it; raises what is worth another delivery."""
        is_noted = count >= NOTED_FROM
        if count >= KILLER_PARKS_AT and killed_its_worker(self._attempts.of(note), count):
            park(KillerError(f"{count} deliveries, and the process ended each time before the work did"))
        else:
            if is_noted:
                self._attempts.note(note, count, Mark.BEGUN)
            self._do_or_park(note, count, work, park)
        if is_noted:
            # What became of the work is stored; a note that stays is never looked at again.
            with suppress(StorageUnavailableError):
                self._attempts.forget(note)

    def _do_or_park(
        self, note: str, count: int, work: Callable[[], object], park: Callable[[Exception], object]
    ) -> None:
        try:
            work()
        except Exception as error:
            if count >= NOTED_FROM:
                # An outage may keep this from being noted. One such delivery looks like a death, and one is too few.
                with suppress(StorageUnavailableError):
                    self._attempts.note(note, count, Mark.ENDED)
            if not parks(nature_of(error), count):
                raise
            park(error)
