"""The app's one timer: everything that a lost message would have started, from two requests when nothing waits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, TypeAlias

from shared.clock import Clock
from shared.gate.held_work import TAKES_FOR
from shared.pending import Due, Followers
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import place, told
from shared.trying import all_tried
from shared.usage.meter import Cause, because

#: How long a tick begins with further entries behind gates, so that there is time for the jobs after them.
GATES_TAKE: Final = timedelta(seconds=20)

#: Takes the pointers that are due, and the moment by the monotonic clock at which the tick began its work.
Step: TypeAlias = Callable[[Due, float], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The steps of one tick, each of which fails alone; may run twice, late, or side by side with another."""

    followers: Followers
    #: Before the pointers are followed, and after.
    first: Sequence[Step]
    last: Sequence[Step]
    clock: Clock

    def run(self) -> None:
        """Follow everything that is due; raises the first error after everything was tried."""
        with because(Cause.SWEEP):
            all_tried(self._steps(), lambda error: tell(events.TICK_FAILED, error=told(error), at=place(error)))

    def _steps(self) -> Iterator[Callable[[], object]]:
        due = Due()
        yield from self.followers.reads(due)
        began = self.clock.monotonic()
        yield from (partial(step, due, began) for step in self.first)
        yield from self.followers.steps(due, began + TAKES_FOR.total_seconds())
        yield from (partial(step, due, began) for step in self.last)
