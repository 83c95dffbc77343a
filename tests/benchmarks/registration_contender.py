"""What a contender of the registration benchmark brings: its entities, its functions, and its door for customers.

Every process of the benchmark builds its own contender from the settings of the run.
"""

import asyncio
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Self, TypeAlias

from azure.servicebus import ServiceBusReceivedMessage
from servicebus_local.entities import Namespace

from shared.azure import Connections

#: The conference that all orders are for, and its one type of seats.
CONFERENCE, SEAT_TYPE, PRICE = "conference-1", "standard", "500.00"
#: Everybody gets seats: each order makes all steps.
QUOTA = 1_000_000
#: The code of every customer.
CODE = "benchmark-code"
#: Seconds between two looks of a waiting customer, as `wait` of a GET has them.
_PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
Handle: TypeAlias = Callable[[Sequence[ServiceBusReceivedMessage]], object]
#: Is told the orders whose answer a view shows from now on.
Answered: TypeAlias = Callable[[Iterable[str]], None]


class Seen(NamedTuple):
    """What a customer sees of an order."""

    is_priced: bool
    is_answered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of a worker process: where its messages come from, and what it does with them."""

    handle: Handle
    queue: str = ""
    topic: str = ""
    subscription: str = ""
    has_sessions: bool = False
    #: Messages of one call.
    most: int = 1000
    #: Calls at the same time in one process.
    at_once: int = 1


class Contender(ABC):
    """One contender in one process."""

    who: ClassVar[str]
    #: Beside the connections.
    settings: ClassVar[Mapping[str, str]] = {}

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.opened = ExitStack()
        self.connections = self.opened.enter_context(Connections.parse(settings))

    @staticmethod
    @abstractmethod
    def entities() -> Namespace:
        """Return the entities of its bus."""

    @staticmethod
    @abstractmethod
    def prepare(storage: str) -> None:
        """Make what it stores into."""

    @abstractmethod
    def open_conference(self) -> None:
        """Make the conference, with more seats than anybody wants."""

    @abstractmethod
    def functions(self, answered: Answered) -> Sequence[Function]:
        """Return what a worker process runs."""

    @abstractmethod
    async def place(self, order: str, gate: str | None = None) -> None:
        """Place an order for two seats."""

    @abstractmethod
    async def look(self, order: str) -> Seen:
        """Read an order as its customer does."""

    async def wait(self, order: str, until: float) -> Seen:
        """Wait for the answer until this time, as a customer does: by looking again and again, if nothing better is there."""
        for pause in itertools.chain(_PAUSES, itertools.repeat(_PAUSES[-1])):
            await asyncio.sleep(pause)
            seen = await self.look(order)
            if seen.is_answered or time.monotonic() > until:
                return seen
        raise AssertionError("the pauses have no end")

    def close(self) -> None:
        """Close what was opened."""
        self.opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def content_of(message: ServiceBusReceivedMessage) -> bytes:
    """Return the body of a message."""
    return b"".join(message.body)
