"""What follows from the messages to one home, as one commit. It makes no request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from shared.errors import DuplicateError, RefusedError, SluiceError
from shared.eventsourcing import Commit, Event, Fields, Home
from shared.messaging import Command, command_id
from shared.processes.agenda import shard_of_home
from shared.processes.cases import Case, CaseOutcome
from shared.processes.decisions import Process, ProcessDecision, ReplyClass, Timeout
from shared.processes.outgoing import Unsent
from shared.processes.rows import restore_process, store_process

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
