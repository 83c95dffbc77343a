"""Runs writers one storage operation at a time, in an order that the test chooses."""

import threading
from collections.abc import Callable, Sequence
from enum import StrEnum

from shared.azure import OptimisticStore, Snapshot
from shared.errors import StorageUnavailableError


class Fault(StrEnum):
    """What goes wrong with one operation."""

    FAILS_BEFORE = "fails before it has an effect"
    FAILS_AFTER = "its reply is lost"
    REFUSED_FALSELY = "is refused without an effect"
    REFUSED_AFTER = "is refused by its own success, as after a repetition by the client library"


def _taken() -> threading.Lock:
    """Return a lock that another thread will release: half of a semaphore's CPU, and there are millions of turns."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Turns:
    """Lets exactly one writer do exactly one operation at a time."""

    def __init__(self, writers: int) -> None:
        self._go = [_taken() for _ in range(writers)]
        self._arrived = [_taken() for _ in range(writers)]
        self._running = set(range(writers))

    def arrive(self, writer: int) -> None:
        """Wait for this writer's turn."""
        self._arrived[writer].release()
        self._go[writer].acquire()

    def run(self, programs: Sequence[Callable[[], None]], schedule: Sequence[int]) -> None:
        """Start the programs and give turns by the schedule, then in rotation, until all have ended."""

        def whole(writer: int, program: Callable[[], None]) -> None:
            try:
                program()
            finally:
                self._running.discard(writer)
                self._arrived[writer].release()

        threads = [threading.Thread(target=whole, args=job) for job in enumerate(programs)]
        for writer, thread in enumerate(threads):
            thread.start()
            self._arrived[writer].acquire()
        turn = 0
        while self._running:
            wanted = schedule[turn] if turn < len(schedule) else turn
            running = sorted(self._running)
            writer = wanted if wanted in self._running else running[turn % len(running)]
            self._go[writer].release()
            self._arrived[writer].acquire()
            turn += 1
        for thread in threads:
            thread.join()


class SteppedStore:
    """A store whose every operation waits for its writer's turn, and one of which meets a fault."""

    def __init__(self, store: OptimisticStore, turns: Turns, writer: int, plan: list[Fault | None]) -> None:
        self._store, self._turns, self._writer = store, turns, writer
        #: What happens to this writer's coming operations; nothing when it has run out.
        self._plan = plan

    @property
    def name(self) -> str:
        """The name of the store behind."""
        return self._store.name

    def read(self) -> Snapshot | None:
        """Read when it is this writer's turn."""
        fault = self._step()
        if fault is not None:
            raise StorageUnavailableError("injected")
        return self._store.read()

    def try_write(self, value: bytes, etag: str | None) -> str | None:
        """Write when it is this writer's turn."""
        fault = self._step()
        if fault is Fault.FAILS_BEFORE:
            raise StorageUnavailableError("injected")
        if fault is Fault.REFUSED_FALSELY:
            return None
        written = self._store.try_write(value, etag)
        if fault is Fault.FAILS_AFTER:
            raise StorageUnavailableError("injected")
        return None if fault is Fault.REFUSED_AFTER else written

    def beside(self, name: str) -> "SteppedStore":
        """Return the store beside, under the same turns."""
        return SteppedStore(self._store.beside(name), self._turns, self._writer, self._plan)

    def _step(self) -> Fault | None:
        self._turns.arrive(self._writer)
        return self._plan.pop(0) if self._plan else None
