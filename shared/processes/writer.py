"""Many commands of one home: decided in turn on one state, and saved in few transactions.

The events of one command are saved together. A conflict means that another writer was first: the state is read again,
and all that is not saved is decided again, once. A second conflict is left to the redelivery of the commands.

An answer that writes nothing may come from an old state, and no write notices that. A commit proves every answer before
it. A batch without any event reads the head instead. If its version is another one, all is decided again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from shared.errors import CommitTooLargeError, ConflictError, DuplicateError
from shared.processes.homes import (
    MOST_EVENTS,
    Aggregate,
    Asked,
    Commit,
    Decide,
    Event,
    Head,
    Homes,
    Memento,
    OutsideIds,
    State,
    Verdict,
)
from shared.processes.mementos import Mementos, Warm
from shared.telemetry import contain


@dataclass(frozen=True, slots=True)
class SavedCommand:
    """The outcome of one command. Without events and without an error, it changed nothing, and that was proven."""

    events: tuple[Event, ...] = ()
    #: The decision failed, or the command was there already (DuplicateError). The others do not depend on it.
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """The outcomes of all commands, in their order, and the head after them."""

    head: Head
    outcomes: tuple[SavedCommand, ...]


@dataclass(frozen=True, slots=True)
class _Decided:
    """The events of one command, which are saved together."""

    number: int
    events: tuple[Event, ...]
    inbox: OutsideIds

    @property
    def rows(self) -> int:
        return len(self.events) + len(self.inbox)


@dataclass(slots=True)
class _Batch(Generic[State, Asked]):
    """The commands of one call, on their way."""

    commands: Sequence[Asked]
    warm: Warm[State]
    outcomes: dict[int, SavedCommand] = field(default_factory=dict)
    #: Decided since the last commit: what it will save, and what it will prove.
    group: list[_Decided] = field(default_factory=list)
    unproven: dict[int, SavedCommand] = field(default_factory=dict)

    def ids(self) -> dict[str, str]:
        """Return the ids that the next commit will save. The store knows those of earlier commits."""
        return {id_: content for one in self.group for id_, content in one.inbox.items()}

    def start_again(self, warm: Warm[State]) -> None:
        """Go on with a state that was read again. All that was not saved is forgotten."""
        self.warm, self.group, self.unproven = warm, [], {}


class Writer(Generic[State, Asked]):
    """Writes the homes of one aggregate."""

    def __init__(
        self,
        homes: Homes,
        aggregate: Aggregate[State],
        mementos: Mementos[State],
        decide: Decide[State, Asked],
    ) -> None:
        self._homes, self._aggregate, self._mementos, self._decide = homes, aggregate, mementos, decide

    def save(self, key: str, commands: Sequence[Asked]) -> Saved:
        """Decide the commands in turn, and save their events. Raises ConflictError after the second conflict.

        After an error, some commands may be saved, each one whole. The same commands may be given again.
        """
        batch = _Batch[State, Asked](commands, self._mementos.take(key))
        has_lost = False
        while True:
            try:
                self._save_all(batch)
            except ConflictError:
                if has_lost:
                    raise
                has_lost = True
            except _OneRefusedError as refused:
                batch.outcomes[refused.number] = SavedCommand(error=refused.reason)
            else:
                break
            batch.start_again(self._mementos.read(key))
        saved = Saved(batch.warm.head, tuple(batch.outcomes[number] for number in range(len(commands))))
        self._mementos.keep(batch.warm)
        return saved

    def _save_all(self, batch: _Batch[State, Asked]) -> None:
        """Decide all that has no outcome yet, and save it."""
        begun_at = batch.warm.head.version
        for number, command in enumerate(batch.commands):
            if number not in batch.outcomes:
                self._decide_one(batch, number, command)
        if batch.group:
            self._commit_group(batch)
        elif batch.unproven and batch.warm.head.version == begun_at and not batch.warm.is_fresh:
            self._prove(batch.warm)
        batch.outcomes |= batch.unproven

    def _decide_one(self, batch: _Batch[State, Asked], number: int, command: Asked) -> None:
        try:
            with contain():
                verdict = self._decide(batch.warm.state, command)
            _check_verdict(verdict, batch.ids())
        except Exception as error:  # noqa: BLE001 - any failure is this command's own, and the caller judges it
            batch.unproven[number] = SavedCommand(error=error)
            return
        if not verdict.events:
            batch.unproven[number] = SavedCommand()
            return
        if sum(one.rows for one in batch.group) + len(verdict.events) + len(verdict.inbox) > MOST_EVENTS:
            self._commit_group(batch)
        version = batch.warm.head.version + sum(len(one.events) for one in batch.group)
        events = tuple(replace(event, version=version + n) for n, event in enumerate(verdict.events, 1))
        for event in events:
            batch.warm.state = self._aggregate.fold(batch.warm.state, event)
        batch.group.append(_Decided(number, events, verdict.inbox))

    def _commit_group(self, batch: _Batch[State, Asked]) -> None:
        """Save the group. The state is the one after it, so a memento that is due goes along."""
        memento = self._mementos.pack_if_due(batch.warm, batch.group[-1].events[-1].version)
        self._commit(batch, batch.group, memento)
        batch.outcomes |= batch.unproven
        batch.group, batch.unproven = [], {}

    def _commit(self, batch: _Batch[State, Asked], group: Sequence[_Decided], memento: Memento | None) -> None:
        warm = batch.warm
        commit = Commit(
            home=warm.key,
            aggregate=self._aggregate.name,
            expected=warm.head.version,
            former=warm.head.last,
            events=tuple(event for one in group for event in one.events),
            published=warm.head.published,
            inbox={id_: content for one in group for id_, content in one.inbox.items()},
            memento=memento,
        )
        try:
            head = self._homes.commit(commit)
        except DuplicateError as error:
            raise _OneRefusedError(next(one.number for one in group if error.id in one.inbox), error) from error
        except CommitTooLargeError as error:
            if len(group) == 1:
                raise _OneRefusedError(group[0].number, error) from error
            middle = len(group) // 2
            self._commit(batch, group[:middle], None)
            self._commit(batch, group[middle:], memento)
            return
        warm.head = replace(head, fields=warm.head.fields)
        warm.stored = warm.stored if memento is None else memento.version
        batch.outcomes |= {one.number: SavedCommand(one.events) for one in group}

    def _prove(self, warm: Warm[State]) -> None:
        """Raise ConflictError if the answers were decided on an old state."""
        found = self._homes.read_head(warm.key) or Head()
        if found.version != warm.head.version:
            raise ConflictError(
                f"could not answer from version {warm.head.version} of home {warm.key!r}: it is at {found.version}"
            )


class _OneRefusedError(Exception):
    """The store refuses one command. The state is ahead of the store, so the others are decided again without it."""

    def __init__(self, number: int, reason: Exception) -> None:
        super().__init__(str(reason))
        self.number, self.reason = number, reason


def _check_verdict(verdict: Verdict, known: OutsideIds) -> None:
    """Raise an error if a verdict can never be saved, or if its id came with a command of the same call."""
    if verdict.inbox and not verdict.events:
        raise ValueError("a verdict with ids and without events: only the insert of an event guards the write")
    rows = len(verdict.events) + len(verdict.inbox)
    if rows > MOST_EVENTS:
        raise CommitTooLargeError(
            f"one command has {rows} events and ids, a commit takes {MOST_EVENTS}; divide the command"
        )
    for id_, content in verdict.inbox.items():
        if id_ in known:
            raise DuplicateError(f"{id_[:120]!r} came twice", id=id_, is_same=known[id_] == content)
