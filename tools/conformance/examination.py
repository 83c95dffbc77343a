"""One run: the chosen checks side by side, so that those that wait wait together. Then it removes what it made."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from queue import SimpleQueue
from threading import Thread
from typing import Final

from azure.core.exceptions import AzureError
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError

from shared.azure import Connections, is_refused
from tools.conformance import blob_checks, message_checks, queue_checks, session_checks, table_checks
from tools.conformance.belongings import Belonging, Belongings, Leftover, UncheckableError, first_line
from tools.conformance.bus_site import ROLE, BusSite
from tools.conformance.judgement import Finding, Notebook, State, judge
from tools.conformance.leftovers import find_leftovers
from tools.conformance.properties import BLOB, BUS, PROPERTIES, QUEUE, TABLE
from tools.conformance.scene import CheckEntry, Pace, Scene, Site
from tools.conformance.storage_site import StorageSite

CHECKS: Final = (
    *session_checks.CHECKS,
    *message_checks.CHECKS,
    *blob_checks.CHECKS,
    *queue_checks.CHECKS,
    *table_checks.CHECKS,
)
#: The role that has every right that the checks of a service need.
_ROLES: Final = {
    BLOB: "Storage Blob Data Contributor",
    TABLE: "Storage Table Data Contributor",
    QUEUE: "Storage Queue Data Contributor",
    BUS: ROLE,
}


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of a run, and the places that it could not remove."""

    findings: Sequence[Finding]
    left: Sequence[Leftover]
    #: The app's own places in which it worked, under names of its own, because the login may make none.
    borrowed: Sequence[str]
    #: Places of runs that were killed, which this one removed.
    swept: Sequence[Belonging]

    @property
    def ok(self) -> bool:
        """True if every property was checked and holds, and nothing is left."""
        return not self.left and all(one.state is State.HOLDS for one in self.findings)


def examine(
    connections: Connections, keys: Iterable[str], now: datetime, nonce: str, on_progress: Callable[[int, int], object]
) -> Report:
    """Sweep places of killed runs, and check these properties. `on_progress` gets the numbers of ended checks and of all."""
    wanted = [key for key in PROPERTIES if key in set(keys)]
    chosen = [one for one in CHECKS if not set(one.keys).isdisjoint(wanted)]
    notes, pace, belongings = Notebook(), Pace(), Belongings()
    storage, bus = StorageSite(connections, nonce, belongings), BusSite(connections, nonce, belongings)
    site = Site(storage.container, storage.table, storage.queue, bus.bus, bus.bus_queue, bus.bus_topic)
    scene = Scene(site, notes, pace, nonce)
    otherwise, swept, old = "its check ended early", list[Belonging](), Belongings()
    try:
        swept += find_leftovers(connections, now)
        for one in swept:
            old.keep(one.kind, one.name, one.remove)
        _run_all(chosen, scene, on_progress)
    except KeyboardInterrupt:
        otherwise = "the run was interrupted"
    left = [*old.remove(), *belongings.remove()]
    remaining = {(one.kind, one.name) for one in left}
    swept = [one for one in swept if (one.kind, one.name) not in remaining]
    return Report(judge(wanted, notes.observations, notes.obstacles, otherwise), left, storage.borrowed, swept)


def _run_all(chosen: Sequence[CheckEntry], scene: Scene, on_progress: Callable[[int, int], object]) -> None:
    ended: SimpleQueue[CheckEntry] = SimpleQueue()
    for one in chosen:
        # After an interruption neither the run nor the process waits for a check that listens to the bus.
        Thread(target=_run, args=(one, scene, ended), daemon=True).start()
    try:
        for number in range(1, len(chosen) + 1):
            ended.get()
            on_progress(number, len(chosen))
    except BaseException:
        scene.pace.stop()
        raise


def _run(one: CheckEntry, scene: Scene, ended: "SimpleQueue[CheckEntry]") -> None:
    try:
        with _blocking(one, scene.notes):
            one.run(scene)
    finally:
        ended.put(one)


@contextmanager
def _blocking(one: CheckEntry, notes: Notebook) -> Iterator[None]:
    try:
        yield
    except UncheckableError as error:
        notes.block(one.keys, str(error))
    except (ServiceBusAuthenticationError, ServiceBusAuthorizationError) as error:
        notes.block(one.keys, _refusal(BUS, error))
    except AzureError as error:
        service = PROPERTIES[one.keys[0]].service
        notes.block(one.keys, _refusal(service, error) if is_refused(error) else f"no answer: {first_line(error)}")
    except Exception as error:  # noqa: BLE001 - an answer that the library cannot read is no reason to stop the others
        notes.block(one.keys, f"an answer that the library cannot read: {type(error).__name__}: {first_line(error)}")


def _refusal(service: str, error: Exception) -> str:
    return f"your login may not (role {_ROLES[service]}): {first_line(error)}"
