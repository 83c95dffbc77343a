"""Homes in memory, under the same contract as those in a table: for trials, and for tests of the machinery above."""

import itertools
from dataclasses import replace
from threading import Lock

from shared.errors import ConflictError, DuplicateError
from shared.processes import Commit, Event, Head, Heads, Home, Memento
from shared.processes.table_homes import encode_commit


class MemoryHomes:
    """Homes for one process; safe from several threads."""

    def __init__(self, page: int = 1000) -> None:
        self._homes: dict[str, Home] = {}
        self._mementos: dict[str, Memento] = {}
        self._nonces = itertools.count(1)
        self._page = page
        self._lock = Lock()

    def load(self, key: str, after: int = 0) -> Home | None:
        """Return the home with its events above a version."""
        with self._lock:
            home = self._homes.get(key)
            return home and replace(home, events=home.events[after:])

    def read_tail(self, key: str, after: int) -> list[Event]:
        """Return the events above a version."""
        home = self.load(key, after)
        return list(home.events) if home else []

    def read_head(self, key: str) -> Head | None:
        """Return the head."""
        home = self.load(key)
        return home.head if home else None

    def read_memento(self, key: str) -> Memento | None:
        """Return the memento."""
        with self._lock:
            return self._mementos.get(key)

    def find_noted(self, key: str, id_: str) -> str | None:
        """Return the content of an outside id."""
        home = self.load(key)
        return home.inbox.get(id_) if home else None

    def commit(self, commit: Commit) -> Head:
        """Write everything, if the version is the expected one and the ids are new."""
        head = Head(
            version=commit.expected + len(commit.events),
            published=commit.published,
            nonce=f"n{next(self._nonces)}",
            aggregate=commit.aggregate,
            fields=commit.fields or {},
        )
        head = replace(head, last=encode_commit(commit, head).last)
        with self._lock:
            home = self._homes.get(commit.home) or Home(commit.home, Head())
            if home.head.version != commit.expected:
                raise ConflictError(f"{commit.home} is at {home.head.version}, not at {commit.expected}")
            for id_, content in commit.inbox.items():
                if id_ in home.inbox:
                    raise DuplicateError(f"{id_} is in {commit.home}", id=id_, is_same=home.inbox[id_] == content)
            versions = itertools.count(commit.expected + 1)
            new = tuple(
                replace(event, version=version) for event, version in zip(commit.events, versions, strict=False)
            )
            fields = home.head.fields if commit.fields is None else commit.fields
            process = home.process if commit.process is None else commit.process
            inbox = {**home.inbox, **commit.inbox}
            self._homes[commit.home] = Home(
                commit.home, replace(head, fields=fields), home.events + new, process, inbox
            )
            if commit.memento is not None:
                self._mementos[commit.home] = commit.memento
            return head

    def heads(self, prefix: str, cursor: str = "") -> Heads:
        """Return a page of heads."""
        with self._lock:
            keys = sorted(key for key in self._homes if key.startswith(prefix) and key > cursor)
            page = keys[: self._page]
            return Heads(
                tuple((key, self._homes[key].head) for key in page), page[-1] if len(page) == self._page else None
            )
