"""Warm states of aggregates, kept in the process.

A warm state is not read before a write, because the write is conditional on its version. The thread that takes it has it
alone, so two threads never fold the same state. It is kept again only when everything of it is stored. So a conflict,
a refusal or an exception drops it by itself, and the next thread starts from the store.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final, Generic

from shared.processes.homes import Aggregate, Event, Head, Homes, Memento, State

#: Homes that one process keeps warm: several hot ones, and not all of a large installation.
MOST_WARM: Final = 64


@dataclass(slots=True)
class Warm(Generic[State]):
    """The state of one home at the version of its head."""

    key: str
    state: State
    head: Head
    #: The version of the stored memento, 0 without one.
    stored: int = 0
    #: Whether it was read from the store since it was taken, and so is as new as a read.
    is_fresh: bool = False


class Mementos(Generic[State]):
    """The warm states of one kind of home. Several threads may use it."""

    def __init__(self, homes: Homes, aggregate: Aggregate[State], every: int, most: int = MOST_WARM) -> None:
        """Keep up to `most` states, and store one each `every` events."""
        self._homes, self._aggregate, self._every, self._most = homes, aggregate, every, most
        self._warm: OrderedDict[str, Warm[State]] = OrderedDict()
        self._lock = Lock()

    def take(self, key: str) -> Warm[State]:
        """Return the warm state, which is kept no longer, or read it. A home that does not exist has version 0."""
        with self._lock:
            found = self._warm.pop(key, None)
        return found or self.read(key)

    def read(
        self, key: str, follow: Callable[[State, State, Event], object] = lambda _before, _after, _event: None
    ) -> Warm[State]:
        """Read the state from the store: the memento and the events after it, in two requests. `follow` sees each."""
        memento = self._homes.read_memento(key)
        if memento is None or memento.format != self._aggregate.format:
            memento = None
            state = self._aggregate.initial()
        else:
            state = self._aggregate.unpack(memento.packed)
        stored = 0 if memento is None else memento.version
        home = self._homes.load(key, stored)
        if home is None:
            return Warm(key, state, Head(aggregate=self._aggregate.name), is_fresh=True)
        for event in home.events:
            before, state = state, self._aggregate.fold(state, event)
            follow(before, state, event)
        return Warm(key, state, home.head, stored, is_fresh=True)

    def keep(self, warm: Warm[State]) -> None:
        """Keep a state of which everything is stored. The one that was not used for the longest time goes."""
        warm.is_fresh = False
        with self._lock:
            known = self._warm.get(warm.key)
            if known is None or known.head.version <= warm.head.version:
                self._warm[warm.key] = warm
            self._warm.move_to_end(warm.key)
            while len(self._warm) > self._most:
                self._warm.popitem(last=False)

    def note_published(self, key: str, version: int) -> None:
        """Note that all events up to a version are published. The next commit of the home writes it."""
        with self._lock:
            warm = self._warm.get(key)
            if warm is not None and warm.head.published < version:
                warm.head = replace(warm.head, published=version)

    def pack_if_due(self, warm: Warm[State], version: int) -> Memento | None:
        """Return the memento that goes along with the commit of this version, if so many events passed."""
        if version - warm.stored < self._every:
            return None
        return Memento(version, self._aggregate.format, self._aggregate.pack(warm.state))
