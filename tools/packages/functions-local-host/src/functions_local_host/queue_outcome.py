"""The fate of a storage queue message, decided over plain data."""

from dataclasses import dataclass
from enum import Enum, auto

_POISON_SUFFIX = "-poison"
#: The longest queue name that storage takes.
_LONGEST_NAME = 63


class Admission(Enum):
    """The fate of a message that was just received."""

    RUN = auto()
    POISON = auto()
    #: No poison queue to move it to: it stays invisible until its lease ends.
    LEAVE = auto()


class Settlement(Enum):
    """The fate of a message whose run has ended."""

    DELETE = auto()
    RELEASE = auto()
    POISON = auto()
    LEAVE = auto()


@dataclass(frozen=True, slots=True)
class PoisonRule:
    """How often a message may run, and where it goes then. `queue` is None where there is no poison queue."""

    max_dequeue_count: int
    queue: str | None

    def admit(self, dequeue_count: int, *, is_decodable: bool) -> Admission:
        """Decide before a run: a message received too often, or in another encoding, is not run."""
        if is_decodable and dequeue_count <= self.max_dequeue_count:
            return Admission.RUN
        return Admission.LEAVE if self.queue is None else Admission.POISON

    def settle(self, dequeue_count: int, *, is_ok: bool) -> Settlement:
        """Decide after a run. Without a poison queue a failed message waits for the end of its lease."""
        if is_ok:
            return Settlement.DELETE
        if self.queue is None:
            return Settlement.LEAVE
        return Settlement.POISON if dequeue_count >= self.max_dequeue_count else Settlement.RELEASE


def poison_queue_of(queue: str) -> str | None:
    """Return the name of a queue's poison queue, or None for a poison queue itself and for a name that leaves no room."""
    name = queue + _POISON_SUFFIX
    return None if queue.endswith(_POISON_SUFFIX) or len(name) > _LONGEST_NAME else name
