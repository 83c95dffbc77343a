"""The queues and the topic of the bus that the checks need, as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

#: The shortest lock and the shortest window of duplicates that the service takes: a run waits for their ends.
LOCK: Final = timedelta(seconds=5)
WINDOW: Final = timedelta(seconds=20)
#: The shortest time after which the service removes an unused entity by itself: nothing of a killed run stays.
UNUSED: Final = timedelta(minutes=5)
#: The name before each entity of a run.
PREFIX: Final = "sluice-doctor"
#: The property of a message that the filters compare.
COLOUR: Final = "colour"


@dataclass(frozen=True, slots=True)
class QueueWish:
    """A queue of the bus."""

    name: str
    max_deliveries: int = 10
    sessions: bool = False
    #: None: no duplicate detection.
    window: timedelta | None = None


@dataclass(frozen=True, slots=True)
class TopicWish:
    """A topic, and its subscriptions with the one value of the property that each one passes."""

    name: str
    passes: Mapping[str, str]


DUPLICATES: Final = QueueWish("duplicates", window=WINDOW)
LOCKS: Final = QueueWish("locks")
LATE: Final = QueueWish("late")
DEAD: Final = QueueWish("dead", max_deliveries=3)
TIMES: Final = QueueWish("times")
LIVES: Final = QueueWish("lives")
SESSIONS: Final = QueueWish("sessions", sessions=True)
COLOURS: Final = TopicWish("colours", {"red": "red", "blue": "blue"})
QUEUES: Final = (DUPLICATES, LOCKS, LATE, DEAD, TIMES, LIVES, SESSIONS)
TOPICS: Final = (COLOURS,)
