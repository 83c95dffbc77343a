"""The places that a run made: noted before they are made, removed in the end, and named where that failed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Condition
from typing import Final

from azure.core.exceptions import AzureError, ResourceNotFoundError

_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Belonging:
    """Something that a run made, or may have made."""

    kind: str
    name: str
    remove: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that is still there, or may be, and why."""

    kind: str
    name: str
    why: str


class Belongings:
    """The belongings of one run."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._kept: list[Belonging] = []
        #: Whether nothing is made any more.
        self.is_over = False
        #: How many are being made.
        self._making = 0

    def keep(self, kind: str, name: str, remove: Callable[[], object]) -> None:
        """Note something before it is made: if the reply is lost or the run ends, it is removed all the same."""
        with self._changed:
            if self.is_over:
                raise UncheckableError("the run is over")
            self._kept.append(Belonging(kind, name, remove))

    def make(self, kind: str, name: str, make: Callable[[], object], remove: Callable[[], object]) -> None:
        """Note something, and make it. Its removal waits for that: it would find nothing, and the rest would stay."""
        with self._changed:
            self.keep(kind, name, remove)
            self._making += 1
        try:
            make()
        finally:
            with self._changed:
                self._making -= 1
                self._changed.notify_all()

    def forget(self, kind: str, name: str) -> None:
        """Take back a note: the service refused to make it."""
        with self._changed:
            self._kept = [one for one in self._kept if (one.kind, one.name) != (kind, name)]

    def remove(self) -> list[Leftover]:
        """Remove everything, and return those that remain. A second interruption leaves the rest, by name.

        Checks that go on make nothing any more.
        """
        with self._changed:
            self.is_over = True
        pending = {id(one): one for one in self._kept}
        left: list[Leftover] = []

        def try_one(one: Belonging) -> None:
            try:
                one.remove()
            except ResourceNotFoundError:
                pass
            except AzureError as error:
                left.append(Leftover(one.kind, one.name, first_line(error)))
            pending.pop(id(one), None)

        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._making)
            for _ in pool.map(try_one, self._kept):
                pass
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            left += [Leftover(one.kind, one.name, "interrupted while removing") for one in list(pending.values())]
        else:
            pool.shutdown()
        return sorted(left, key=lambda one: (one.kind, one.name))


class UncheckableError(Exception):
    """A check cannot go on. The text says why, for people."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error: the rest of a service's answer is for its makers."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
