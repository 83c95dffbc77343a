"""Runs processes: load, decide, note, commit, send, remove the note.

The note is written before the home, and a reminder is sent before it. So whoever gets the reminder finds a home whose
writer ended between its commit and its sends, and so does the tick. A message that comes again is a no-op, and sends what its home has unsent: that is what a redelivery is for.

What follows from the messages to one home, as one commit. It makes no request.

The row of a process: its format, its state, and the commands that are not yet known to be sent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from shared.clock import Clock
from shared.errors import (
    ConflictError,
    DecisionFailedError,
    DuplicateError,
    LaterFormatError,
    NotPublishedError,
    RefusedError,
    SluiceError,
)
from shared.processes.agenda import Agenda, AgendaRow, Alias, Note, TimeoutRow, notes_of, shard_of_home
from shared.processes.bodies import Command, command_id
from shared.processes.decisions import Belief, Case, CaseOutcome, Handled, Process, ProcessDecision, ReplyClass, Timeout
from shared.processes.homes import Commit, Event, Fields, Home, Homes
from shared.processes.outgoing import Outgoing, Unsent
from shared.telemetry import contain, describe_error, place
from shared.versions import convert

S = TypeVar("S")
_COMMANDS: Final = "commands"


def restore_process(process: Process[S], home: Home | None) -> tuple[S, tuple[Command, ...]]:
    """Return the state of a home's process, and its unsent commands. Raises LaterFormatError: a newer app wrote the row."""
    if home is None or home.process is None:
        return process.restore(None, home), ()
    stored = home.process
    format_ = int(stored["format"])
    if format_ > process.format:
        raise LaterFormatError(
            f"could not read the process of home {home.key!r}: its row has format {format_}, this program knows "
            f"{process.format}; update the app. The row is unchanged"
        )
    state = stored["state"] if format_ == process.format else process.upgrade(stored["state"], format_)
    return process.restore(state, home), commands_in(home)


def commands_in(home: Home) -> tuple[Command, ...]:
    """Return the commands in the row of a home's process, if it has one. They may be sent already."""
    return () if home.process is None else convert(home.process[_COMMANDS], tuple[Command, ...])


def store_process(process: Process[S], state: S, unsent: Sequence[Command]) -> Mapping[str, Any]:
    """Return the row, in the format of today: a row of an earlier one is rewritten with the next write."""
    commands = [msgspec.to_builtins(command) for command in unsent]
    return {"format": process.format, "state": process.store(state), _COMMANDS: commands}


State = TypeVar("State")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Generic[State]):
    """The commit of one home, if there is one, and what goes with it."""

    key: str
    cases: Sequence[Case]
    outcomes: Sequence[CaseOutcome[State]]
    #: Of the head, now or after the commit.
    fields: Fields
    #: None: nothing changes. The home may have something unsent nevertheless.
    commit: Commit | None
    #: After the commit.
    unsent: Unsent
    timeouts: Sequence[Timeout] = ()
    dropped: Sequence[Timeout] = ()
    #: False: the home could not be read or written.
    is_sound: bool = True

    @property
    def new_number(self) -> int | None:
        """The number that leads to the home, if the commit makes it."""
        return self.cases[0].number if self.commit and not self.commit.expected else None

    @property
    def shard(self) -> int:
        """The shard of the home's rows in the agenda."""
        return shard_of_home(self.key, self.fields)


def draft_of_failure(cases: Sequence[Case], error: SluiceError) -> Draft[Any]:
    """Return the draft of a home that could not be read or written: every case has the error."""
    key = cases[0].home
    outcomes: list[CaseOutcome[Any]] = [CaseOutcome(case=case, error=error) for case in cases]
    return Draft(
        key=key, cases=cases, outcomes=outcomes, commit=None, fields={}, unsent=Unsent(key, 0, 0, ()), is_sound=False
    )


def make_draft(  # noqa: PLR0913, PLR0917 - the process, its home, and what came for it
    process: Process[State],
    aggregate: str,
    cases: Sequence[Case],
    home: Home | None,
    published: int,
    now: datetime,
) -> Draft[State]:
    """Decide on the messages to one home in turn. `published` is what the sender knows of the home."""
    state, unsent = restore_process(process, home)
    version, fields = (home.head.version, home.head.fields) if home else (0, cases[0].fields)
    inbox: dict[str, str] = {}
    outcomes: list[CaseOutcome[State]] = []
    taken: list[ProcessDecision[State]] = []
    for case in cases:
        try:
            decision = process.decide(state, case.message, now)
            if _is_known({**(home.inbox if home else {}), **inbox}, decision, case):
                decision = ProcessDecision(state=state, reply=ReplyClass.DUPLICATE)
        except (RefusedError, DuplicateError) as error:
            outcomes.append(CaseOutcome(case=case, state=state, home=home, error=error))
            continue
        state = decision.state
        inbox |= decision.inbox
        taken.append(decision)
        outcomes.append(
            CaseOutcome(case=case, state=state, home=home, reply=decision.reply, is_written=bool(decision.own))
        )
    events = tuple(event for decision in taken for event in decision.own)
    after = version + len(events)
    commands = _number(cases[0].home, after, [command for decision in taken for command in decision.commands])
    kept = (*(command for command in unsent if command.version > published), *commands)
    new = tuple(replace(event, version=version + number) for number, event in enumerate(events, 1))
    return Draft(
        key=cases[0].home,
        cases=cases,
        outcomes=outcomes,
        fields=fields,
        commit=Commit(
            home=cases[0].home,
            aggregate=aggregate,
            expected=version,
            former=home.head.last if home else "",
            events=events,
            published=published,
            fields=None if home else fields,
            process=store_process(process, state, kept),
            commands=tuple(map(_identify, commands)),
            inbox=inbox,
        )
        if events
        else None,
        unsent=Unsent(cases[0].home, after, published, (*_above(home, published), *new), kept),
        timeouts=[timeout for decision in taken for timeout in decision.timeouts],
        dropped=[timeout for decision in taken for timeout in decision.dropped],
    )


def _is_known(inbox: Mapping[str, str], decision: ProcessDecision[State], case: Case) -> bool:
    """Check whether an id of the decision came before with the same content. Raises DuplicateError for another content."""
    for id_, content in decision.inbox.items():
        if id_ in inbox:
            if inbox[id_] == content:
                return True
            message = f"{id_} came to home {case.home!r} before with other content; use another id"
            raise DuplicateError(message, id=id_, is_same=False)
    return False


def _number(home: str, version: int, commands: Sequence[Command]) -> list[Command]:
    return [
        replace(command, version=version, id=command_id(home, version, position))
        for position, command in enumerate(commands)
    ]


def _identify(command: Command) -> Fields:
    return {"id": command.id, "kind": command.kind, "to": command.to, "generation": command.generation}


def _above(home: Home | None, version: int) -> tuple[Event, ...]:
    return tuple(event for event in home.events if event.version > version) if home else ()


_In = TypeVar("_In")
_Out = TypeVar("_Out")
#: Homes that one call loads and stores at the same time.
PARALLEL: Final = 8
#: Homes that are stored and sent before more are begun. The first do not wait for the last of a large batch, and a
#: process that ends in the midst of one leaves little unsent.
MOST_HOMES: Final = 200
#: Messages of one home that go into one commit: their events must fit.
_MOST_CASES: Final = 10


class Runtime(Generic[State]):
    """Runs one kind of process. Several threads may use it."""

    def __init__(  # noqa: PLR0913 - the process, its stores, and the way to the bus
        self,
        process: Process[State],
        aggregate: str,
        homes: Homes,
        agenda: Agenda,
        outgoing: Outgoing,
        *,
        clock: Clock,
        remove: Callable[[Sequence[AgendaRow]], object],
        hint: Callable[[int, datetime], object] = lambda _shard, _due: None,
        remind: Callable[[datetime], object] = lambda _due: None,
    ) -> None:
        """Take the process, and the name of the aggregate in the heads of its homes.

        `remove` removes rows of the agenda, now or soon. `hint` has somebody look at a shard when something is due, and
        `remind` at every shard when notes are due.
        """
        self._process, self._aggregate, self._homes = process, aggregate, homes
        self._agenda, self._outgoing, self._clock = agenda, outgoing, clock
        self._remove, self._hint, self._remind = remove, hint, remind

    def handle(
        self, cases: Sequence[Case], then: Callable[[Handled[State]], object] = lambda _handled: None
    ) -> Handled[State]:
        """Handle the cases, those of one home in their order, and homes side by side.

        What fails for one home is the error of its outcomes, and stops no other home. `then` does what belongs to the
        homes, before their notes go: if it fails, the tick resumes them.
        """
        outcomes: dict[int, CaseOutcome[State]] = {}
        done: list[AgendaRow] = []
        not_sent: NotPublishedError | None = None
        for some in _rounds(cases):
            drafts, rows, failed = self._handle(some)
            outcomes |= {id(outcome.case): outcome for draft in drafts for outcome in draft.outcomes}
            done += rows
            not_sent = not_sent or failed
        handled = Handled([outcomes[id(case)] for case in cases], not_sent)
        then(handled)
        self._remove(done)
        return handled

    def _handle(
        self, groups: Sequence[Sequence[Case]]
    ) -> tuple[list[Draft[State]], list[AgendaRow], NotPublishedError | None]:
        """Return what became of each home, the rows of the agenda that are done, and why not all was sent."""
        drafts = _in_parallel(self._draft, groups)
        notes = self._note([draft for draft in drafts if draft.commit])
        drafts = _in_parallel(partial(self._store, notes), drafts)
        sound = [draft for draft in drafts if draft.is_sound]
        try:
            self._outgoing.send([draft.unsent for draft in sound])
        except NotPublishedError as error:
            return drafts, [], error
        unsure = {draft.key for draft in drafts if not draft.is_sound}
        for draft in sound:
            for timeout in draft.timeouts:
                self._hint(draft.shard, timeout.due)
        done: list[AgendaRow] = [note for note in notes if not unsure & note.homes.keys()]
        return drafts, [*done, *(row for draft in sound for row in _rows(draft, draft.dropped))], None

    def _draft(self, cases: Sequence[Case]) -> Draft[State]:
        """Decide on the believed home, or on the stored one."""
        believed = cases[0].believed
        if not isinstance(believed, Belief):
            draft = self._decide(cases, lambda: believed)
            # The commit proves a belief. Without one, the answer could be wrong.
            if draft.commit:
                return draft
        return self._decide(cases, lambda: self._homes.load(cases[0].home))

    def _decide(self, cases: Sequence[Case], find: Callable[[], Home | None]) -> Draft[State]:
        key = cases[0].home
        try:
            home = find()
            published = self._outgoing.find_published(key, home.head.published if home else 0)
            with contain():
                return make_draft(self._process, self._aggregate, cases, home, published, self._clock.now())
        except SluiceError as error:
            return draft_of_failure(cases, error)
        except Exception as error:  # noqa: BLE001 - one message that nobody can decide on must not stop the others
            return draft_of_failure(cases, DecisionFailedError(_tell(cases, error)))

    def _store(self, notes: list[Note], draft: Draft[State]) -> Draft[State]:
        """Commit the draft. After a conflict, decide once more on what is stored now."""
        try:
            return self._commit(draft)
        except (ConflictError, DuplicateError):
            draft = self._decide(draft.cases, lambda: self._homes.load(draft.key))
        except SluiceError as error:
            return draft_of_failure(draft.cases, error)
        try:
            # The first note may be removed before this commit comes: the version that it names is there already.
            notes += self._note([draft] if draft.commit else [])
            return self._commit(draft)
        except SluiceError as error:
            return draft_of_failure(draft.cases, error)

    def _commit(self, draft: Draft[State]) -> Draft[State]:
        if draft.commit:
            self._homes.commit(draft.commit)
        return draft

    def _note(self, drafts: Sequence[Draft[State]]) -> list[Note]:
        """Write the notes of these homes, their timeouts and aliases: one transaction a shard."""
        now = self._clock.now()
        rows: list[AgendaRow] = [row for draft in drafts for row in _rows(draft, draft.timeouts)]
        rows += [Alias(draft.new_number, draft.key) for draft in drafts if draft.new_number is not None]
        # Where there are other rows, each note goes into the transaction of its home's. Else one shard serves all.
        targets: dict[int, dict[str, int]] = {}
        for draft in drafts:
            targets.setdefault((draft if rows else drafts[0]).shard, {})[draft.key] = draft.unsent.version
        number = drafts[0].new_number if len(drafts) == 1 else None
        for shard, homes in targets.items():
            rows += notes_of(shard, homes, now, number)
        notes = [row for row in self._agenda.write(rows) if isinstance(row, Note)]
        for due in {note.due for note in notes}:
            self._remind(due)
        return notes


def _tell(cases: Sequence[Case], error: Exception) -> str:
    kinds = ", ".join(sorted({case.message.kind for case in cases}))
    return (
        f"could not decide on {kinds} for home {cases[0].home!r}: {describe_error(error)} at {place(error)}; the home is "
        "unchanged. This is a defect of the process: report it"
    )


def _rows(draft: Draft[State], timeouts: Sequence[Timeout]) -> Iterator[TimeoutRow]:
    return (TimeoutRow(draft.shard, timeout.due, draft.key, timeout.name) for timeout in timeouts)


def _rounds(cases: Sequence[Case]) -> Iterator[list[list[Case]]]:
    """Yield the cases by home: some homes at a time, and a few cases of each."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.home, []).append(case)
    for begin in range(0, max(map(len, groups.values()), default=0), _MOST_CASES):
        some = [part for group in groups.values() if (part := group[begin : begin + _MOST_CASES])]
        yield from (some[first : first + MOST_HOMES] for first in range(0, len(some), MOST_HOMES))


def _in_parallel(act: Callable[[_In], _Out], given: Sequence[_In]) -> list[_Out]:
    if len(given) < 2:
        return [act(one) for one in given]
    with ThreadPoolExecutor(PARALLEL) as pool:
        return [each.result() for each in [pool.submit(copy_context().run, act, one) for one in given]]
