"""The needs that the steps of a tick find and end, without a request while nothing changes.

A process remembers what it noted. At each full hour it learns what others have noted, so it may end that too. A need
that stands is written again every hour. One that no step found for two hours is over, whichever process noted it.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from threading import Lock
from typing import Final

from shared.clock import Clock
from shared.errors import StorageUnavailableError
from shared.watch.needs import Need, cut_found
from shared.watch.watch_table import Standing, WatchTable

#: A need that stands is written again after this.
_AGAIN: Final = timedelta(hours=1)
#: And is over without that.
_STANDS: Final = timedelta(hours=2)


class TickNeeds:
    """The needs that one process knows. Several threads may use it. Without an answer of storage, the next tick does it."""

    def __init__(self, watch: WatchTable, clock: Clock) -> None:
        self._watch, self._clock = watch, clock
        self._known: dict[tuple[str, str], Need] = {}
        self._lock = Lock()

    def learn(self, standing: Standing) -> None:
        """Learn what stands, and end what is over. One request for each of these."""
        read = {(need.kind, need.about): need for need in standing.needs}
        with self._lock:
            # Of hundreds, not all were read.
            self._known = {**self._known, **read} if standing.more else read
        now = self._clock.now()
        for need in standing.needs:
            if need.until is not None and now > need.until:
                self.clear(need.kind, need.about)

    def find(self, kind: str, about: str) -> Need | None:
        """Return a need that this process knows to stand."""
        with self._lock:
            return self._known.get((kind, about))

    def judge(self, kind: str, about: str, found: str, *, is_grave: bool = True) -> None:
        """Note what a step found, or that it found nothing. One request where that is new, and each hour."""
        if not found:
            self.clear(kind, about)
            return
        now, known, said = self._clock.now(), self.find(kind, about), cut_found(found)
        if known is not None and known.found == said and now - known.at < _AGAIN:
            return
        need = Need(kind, about, said, now, (known and known.since) or now, is_grave, until=now + _STANDS)
        with suppress(StorageUnavailableError):
            self._watch.begin(need)
            with self._lock:
                self._known[kind, about] = need

    def judge_all(self, kind: str, found: Mapping[str, str], *, is_grave: bool = True) -> None:
        """Note all that a step found of a kind: what else stood of it is over."""
        for about, words in found.items():
            self.judge(kind, about, words, is_grave=is_grave)
        self.keep(kind, found)

    def keep(self, kind: str, abouts: Collection[str]) -> None:
        """End the known needs of a kind, but these."""
        with self._lock:
            over = [about for known, about in self._known if known == kind and about not in abouts]
        for about in over:
            self.clear(kind, about)

    def stand(self, kind: str, about: str, found: str, *, is_grave: bool) -> None:
        """Note what only a person ends."""
        now = self._clock.now()
        with suppress(StorageUnavailableError):
            self._watch.begin(Need(kind, about, cut_found(found), now, now, is_grave))

    def clear(self, kind: str, about: str) -> None:
        """End a need if this process knows that it stands."""
        if self.find(kind, about) is None:
            return
        with suppress(StorageUnavailableError):
            self._watch.end(kind, about, self._clock.now())
            with self._lock:
                self._known.pop((kind, about), None)
