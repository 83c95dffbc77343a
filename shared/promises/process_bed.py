"""A bed for a process under trial: homes, agenda and clock in memory, and nothing of Azure.

It decides by the runtime's own function. State and bodies go through JSON, and due times are in whole seconds, as they
are when they are stored. What is stored here is also sent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from shared.processes import (
    Case,
    CaseOutcome,
    Command,
    Commit,
    Event,
    Head,
    Home,
    Incoming,
    Process,
    Timeout,
    make_draft,
    restore_process,
)

State = TypeVar("State")
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)


class ProcessBed(Generic[State]):
    """The homes of one kind of process, for a test of one thread. Its clock moves by `move` alone."""

    def __init__(self, process: Process[State], now: datetime = _BEGIN) -> None:
        """Take the process, and the time at which the test begins."""
        self._process, self.now = process, now
        #: All commands that were sent, in order.
        self.commands: list[Command] = []
        self._homes: dict[str, Home] = {}
        #: As in the table, a home has one timeout for a second: a later one replaces it.
        self._agenda: dict[tuple[datetime, str], str] = {}

    def give(  # noqa: PLR0913 - the parts of a message
        self,
        home: str,
        kind: str,
        body: Mapping[str, Any] | None = None,
        *,
        generation: int = 0,
        id: str = "",  # noqa: A002 - as in the message
        times: int = 1,
    ) -> CaseOutcome[State]:
        """Give a home a message so many times, as a bus may, and return the last outcome. Raises the refusal of any."""
        message = Incoming(kind=kind, body=_store(body or {}), at=self.now, id=id, generation=generation)
        outcomes = [self._handle(home, message) for _ in range(times)]
        return outcomes[-1]

    def move(self, time: timedelta) -> None:
        """Let time pass. Each timeout comes when it is due, and twice, as it may from two instances."""
        end = self.now + time
        while due := sorted(row for row in self._agenda if row[0] <= end):
            at, home = due[0]
            self.now = max(self.now, at)
            message = Incoming(kind=self._agenda.pop(due[0]), body={}, at=at)
            for _ in range(2):
                self._handle(home, message)
        self.now = end

    def state(self, home: str) -> State:
        """Return the state of a home, as it comes back from what is stored."""
        return restore_process(self._process, self._homes.get(home))[0]

    def events(self, home: str) -> Sequence[Event]:
        """Return all events of a home, in order."""
        return self._homes[home].events if home in self._homes else ()

    def _handle(self, key: str, message: Incoming) -> CaseOutcome[State]:
        home, cases = self._homes.get(key), [Case(home=key, message=message)]
        published = home.head.version if home else 0
        draft, again = (make_draft(self._process, "", cases, home, published, self.now) for _ in range(2))
        (outcome,) = draft.outcomes
        if outcome.error is not None:
            raise outcome.error
        if (draft.commit, draft.timeouts, draft.dropped) != (again.commit, again.timeouts, again.dropped):
            raise AssertionError(f"decide made two decisions of the same {message.kind!r} for {key!r}: it must be pure")
        if draft.commit is not None:
            self._homes[key] = _commit(home, draft.commit)
            self.commands += [command for command in draft.unsent.commands if command.version > published]
        self._agenda |= {_row(key, timeout): timeout.name for timeout in draft.timeouts}
        for timeout in draft.dropped:
            self._agenda.pop(_row(key, timeout), None)
        return outcome


def _row(home: str, timeout: Timeout) -> tuple[datetime, str]:
    return timeout.due.replace(microsecond=0), home


def _commit(home: Home | None, commit: Commit) -> Home:
    events, inbox = (home.events, home.inbox) if home else ((), {})
    new = tuple(
        replace(event, version=version, body=_store(event.body))
        for version, event in enumerate(commit.events, commit.expected + 1)
    )
    fields = home.head.fields if home else commit.fields or {}
    head = Head(version=commit.expected + len(new), published=commit.published, fields=fields)
    return Home(commit.home, head, (*events, *new), _store(commit.process or {}), {**inbox, **commit.inbox})


def _store(document: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))
