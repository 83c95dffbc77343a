"""The tools of a check: places of its own in each service, time, and a notebook."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Final, Protocol

from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableClient
from azure.servicebus import ServiceBusClient
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueClient

from shared.azure import is_refused
from tools.conformance.belongings import UncheckableError
from tools.conformance.bus_wishes import QueueWish, TopicWish
from tools.conformance.judgement import Notebook

DONE: Final = "done"
_CLIENT_ERRORS: Final = range(400, 500)
#: Its reply says that the bytes are still those of the ETag.
_NOT_MODIFIED: Final = 304


@dataclass(frozen=True, slots=True)
class Site:
    """Makes what a check needs, and removes it after the run."""

    #: Returns a container, and the prefix of the names that a check may use there.
    container: Callable[[], tuple[ContainerClient, str]]
    #: Returns a table, and the prefix of the partitions that a check may use there.
    table: Callable[[], tuple[TableClient, str]]
    #: Returns an empty queue for one check.
    queue: Callable[[str], QueueClient]
    #: Opens a client of the bus. The caller closes it.
    bus: Callable[[], ServiceBusClient]
    #: Return the name of a queue with these rules, or of a topic with these subscriptions.
    bus_queue: Callable[[QueueWish], str]
    bus_topic: Callable[[TopicWish], str]


class Pace:
    """Waits of all checks, which an interruption ends at once."""

    def __init__(self) -> None:
        self._stopped = Event()

    def wait(self, seconds: float) -> None:
        """Wait, or raise UncheckableError if the run is to end."""
        if self._stopped.wait(seconds):
            raise UncheckableError("the run was interrupted")

    def stop(self) -> None:
        """End every wait, those to come too."""
        self._stopped.set()


@dataclass(frozen=True, slots=True)
class Scene:
    """The tools of one check."""

    site: Site
    notes: Notebook
    pace: Pace
    #: Random text: marks messages of this run.
    nonce: str


class Check(Protocol):
    """Tries properties of one service."""

    def __call__(self, scene: Scene) -> None:
        """Note observations, or raise what stands in the way."""
        ...


@dataclass(frozen=True, slots=True)
class CheckEntry:
    """A check, with the properties that it observes."""

    run: Check
    keys: Sequence[str]


def outcome(call: Callable[[], Any]) -> str:
    """Return the answer of a service: done, or the status of its refusal. A login that may not is an obstacle."""
    try:
        call()
    except HttpResponseError as error:
        if is_refused(error) or error.status_code not in {*_CLIENT_ERRORS, _NOT_MODIFIED}:
            raise
        return f"refused with {error.status_code}"
    return DONE
