"""Migration: a model gets a new version while its readers and projectors go on.

Each step may be cut off at any request, and be typed again. The row of the pointer says how far the migration is. All
writes of rows are conditional. Only one migrator works at a time, by a lease.

A new version loses no event, because

- projectors write every event to both versions, from `doubling` on (`projector` says why none is left out);
- the scan of the log begins 10 seconds later, and folds each home up to its head;
- a row is replaced only by one that has seen more.

Neither does a rollback, because live events go to both versions until `finish`.

The steps of a migration as pure functions: from a pointer to the next one, or a refusal that says what to type.

One migrator of a model at a time, by a lease on a blob.

The rehearsal of a migration: what it will read and write, by a sample of homes. It writes nothing.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Final

from azure.storage.blob import ContainerClient

from shared.azure import LEASE_SECONDS, MOST_GROUP_ROWS, expecting_an_answer, try_lease
from shared.clock import Clock
from shared.errors import ContentionError, MigrationRefusedError
from shared.processes import Homes
from shared.readmodels.pointers import SETTLING, ModelPointer, Phase
from shared.readmodels.projection import Model, Projection, View, ViewKey, fold_all, tail
from shared.readmodels.verification import Verification, Verifier
from shared.readmodels.view_stores import ViewStores
from shared.readmodels.view_writer import ViewWriter, call_each, read_homes
from shared.retry import LOST_RACES

#: The command of `sluice migrate` that comes next, and its effect.
_NEXT: Final = {
    Phase.DOUBLING: ("start", "goes on with the build that was cut off"),
    Phase.BUILDING: ("start", "goes on with the build that was cut off"),
    Phase.BUILT: ("verify", "compares every row with the log; `finish` gives the new version up"),
    Phase.VERIFIED: ("switch", "lets readers use it"),
    Phase.SWITCHED: ("finish", "removes the former version; until then, `rollback` goes back to it"),
    Phase.ROLLED_BACK: ("switch", "lets readers use it again; `finish` gives it up"),
    Phase.FINISHING: ("finish", "goes on with the removal that was cut off"),
}
#: Phases in which no migration is at work.
_FREE = (Phase.NONE, Phase.DONE)
#: Phases in which the new version has all events. Either version may be the current one.
_COMPLETE = (Phase.BUILT, Phase.VERIFIED, Phase.SWITCHED, Phase.ROLLED_BACK)


def say_next(pointer: ModelPointer) -> str:
    """Return the command that comes next and its effect, or nothing: no migration is at work."""
    if pointer.phase not in _NEXT or pointer.target is None:
        return ""
    command, effect = _NEXT[pointer.phase]
    return f"{_line(command, pointer, pointer.target)}: {effect}"


def may_begin(pointer: ModelPointer, target: int) -> bool:
    """Check whether a migration to the target would be a new one. Raises MigrationRefusedError if it cannot be begun.

    False: that migration is at work already.
    """
    if pointer.phase is Phase.FINISHING:
        raise _refuse(
            pointer, "start", f"the former one is not finished: {_command('finish', pointer, pointer.target)}"
        )
    if pointer.phase not in _FREE:
        if pointer.target != target:
            raise _refuse(pointer, "start", f"one to version {pointer.target} is at work: finish it first")
        return False
    if pointer.current == target:
        raise _refuse(pointer, "start", f"version {target} is the current one")
    return True


def double(pointer: ModelPointer, target: int) -> ModelPointer:
    """Begin: live events go to the target as well. Its slot is empty."""
    may_begin(pointer, target)
    return replace(
        pointer, phase=Phase.DOUBLING, doubled=target, target=target, is_verified=False, cursor="", figures={}
    )


def build(pointer: ModelPointer) -> ModelPointer:
    """Begin to build, from the first page."""
    return replace(pointer, phase=Phase.BUILDING, cursor="", figures=MappingProxyType({"homes": 0, "events": 0}))


def advance(pointer: ModelPointer, cursor: str | None, homes: int, events: int) -> ModelPointer:
    """Count a page of heads whose homes are built. Without a further page, everything is built."""
    figures = {
        "homes": int(pointer.figures.get("homes", 0)) + homes,
        "events": int(pointer.figures.get("events", 0)) + events,
    }
    return replace(
        pointer, phase=Phase.BUILDING if cursor else Phase.BUILT, cursor=cursor or "", figures=MappingProxyType(figures)
    )


def demand_complete(pointer: ModelPointer, target: int) -> None:
    """Raise MigrationRefusedError unless the target has all events, so that comparing it makes sense."""
    _demand_target(pointer, "verify", target)
    if pointer.phase not in _COMPLETE:
        raise _refuse(pointer, "verify", f"it is not built yet: {_command('start', pointer, target)}")


def judge(pointer: ModelPointer, figures: Mapping[str, int | str], *, is_right: bool) -> ModelPointer:
    """Note the outcome of a comparison. Only a target without a difference may become the current version."""
    phases = {Phase.BUILT: Phase.VERIFIED} if is_right else {Phase.VERIFIED: Phase.BUILT}
    return replace(
        pointer,
        phase=phases.get(pointer.phase, pointer.phase),
        is_verified=is_right,
        figures=MappingProxyType({**pointer.figures, **figures}),
    )


def switch(pointer: ModelPointer, target: int) -> ModelPointer:
    """Make the target the current version. The pointer itself: it is so already."""
    _demand_target(pointer, "switch", target)
    if pointer.phase is Phase.SWITCHED:
        return pointer
    if pointer.phase not in (Phase.VERIFIED, Phase.ROLLED_BACK) or not pointer.is_verified:
        raise _refuse(pointer, "switch", f"it is not verified: {_command('verify', pointer, target)}")
    return replace(_swap(pointer), phase=Phase.SWITCHED)


def roll_back(pointer: ModelPointer, target: int) -> ModelPointer:
    """Make the former version the current one again. The pointer itself: it is so already."""
    _demand_target(pointer, "rollback", target)
    if pointer.phase is Phase.ROLLED_BACK:
        return pointer
    if pointer.phase is not Phase.SWITCHED:
        raise _refuse(pointer, "rollback", f"version {pointer.current} is still the current one")
    return replace(_swap(pointer), phase=Phase.ROLLED_BACK)


def end_doubling(pointer: ModelPointer, target: int) -> ModelPointer:
    """Begin to finish: live events go to the current version only. The pointer itself: it is so already.

    Before the switch, this gives the new version up. After it, the old one.
    """
    _demand_target(pointer, "finish", target)
    if pointer.phase in (Phase.FINISHING, Phase.DONE):
        return pointer
    return replace(pointer, phase=Phase.FINISHING, doubled=None)


def demand_unused(pointer: ModelPointer) -> None:
    """Raise MigrationRefusedError unless the other slot is free to be emptied: no version that is written has it."""
    if pointer.doubled is not None:
        raise _refuse(pointer, "empty a slot in", f"live events go to version {pointer.doubled} in it")


def end(pointer: ModelPointer) -> ModelPointer:
    """End the migration. The other slot is empty."""
    return replace(pointer, phase=Phase.DONE, is_verified=False, cursor="")


def _swap(pointer: ModelPointer) -> ModelPointer:
    if pointer.doubled is None:
        raise _refuse(pointer, "switch", "live events go to one version only, so the other one is behind")
    return replace(pointer, current=pointer.doubled, doubled=pointer.current, slot=pointer.slot.other)


def _demand_target(pointer: ModelPointer, step: str, target: int) -> None:
    if pointer.target is None:
        raise _refuse(pointer, step, f"no migration was begun: {_command('start', pointer, target)}")
    if pointer.target != target:
        raise _refuse(pointer, step, f"the migration leads to version {pointer.target}, not to {target}")


def _command(step: str, pointer: ModelPointer, target: int | None) -> str:
    return f"type `{_line(step, pointer, target)}`"


def _line(step: str, pointer: ModelPointer, target: int | None) -> str:
    return f"sluice migrate {step} {pointer.model} --to {target}"


def _refuse(pointer: ModelPointer, step: str, found: str) -> MigrationRefusedError:
    return MigrationRefusedError(
        f"could not {step} the migration of the read model {pointer.model!r}, whose phase is {str(pointer.phase)!r} and "
        f"whose current version is {pointer.current}: {found}"
    )


#: A lease that was renewed within this time is held for certain.
_RENEW_AFTER: Final = LEASE_SECONDS / 4


@contextmanager
def be_alone(container: ContainerClient, model: str, clock: Clock) -> Iterator[Callable[[], None]]:
    """Hold the lease of a model's migration during the block.

    Yields a function that renews the lease when it is time to, and raises MigrationRefusedError if it was lost. Call it
    before each act that another migrator must not do at the same time.
    """
    name = f"migrate-{model}"
    renewed = clock.monotonic()
    with expecting_an_answer(f"lease the blob {name!r}"):
        lease = try_lease(container, name)
    if lease is None:
        raise MigrationRefusedError(
            f"could not migrate the read model {model!r}: another process does, by the lease of the blob {name!r}. "
            f"If that process has died, its lease ends within {LEASE_SECONDS} seconds: type the command again then"
        )

    def demand() -> None:
        nonlocal renewed
        now = clock.monotonic()
        if now - renewed < _RENEW_AFTER:
            return
        if not lease.renew():
            raise MigrationRefusedError(
                f"could not go on with the migration of the read model {model!r}: the lease of the blob {name!r} was lost, "
                "perhaps to another process; type the command again, it goes on where this one ended"
            )
        renewed = now

    try:
        yield demand
    finally:
        lease.release()


#: Homes that are folded.
SAMPLE: Final = 50


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A row that the new version would have."""

    home: str
    key: ViewKey
    view: View


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The size of a migration, and some of its rows."""

    homes: int
    events: int
    rows: Sequence[SampleRow]
    #: Requests that building and verifying make together, without races with live events.
    requests: int
    #: How long both take at the speed of the sample.
    seconds: float


def rehearse(
    model: Model, projection: Projection, homes: Homes, clock: Clock, report: Callable[[str, int], None]
) -> Rehearsal:
    """Count the homes, and fold a sample of them."""
    began = clock.monotonic()
    rows = sample(projection, homes, model)
    each = (clock.monotonic() - began) / max(len(rows), 1)
    cursor, pages, number, events = "", 0, 0, 0
    while True:
        page = homes.heads(model.homes, cursor)
        pages, number = pages + 1, number + len(page.heads)
        events += sum(head.version for _, head in page.heads)
        report("counted homes", len(page.heads))
        if page.cursor is None:
            break
        cursor = page.cursor
    # Each reads all heads, and the events of each home. Building writes rows and the cursor, verifying reads the rows.
    requests = 2 * (pages + number) + -(-number // MOST_GROUP_ROWS) + pages + -(-number // 1000)
    return Rehearsal(homes=number, events=events, rows=rows, requests=requests, seconds=2 * number * each)


def sample(projection: Projection, homes: Homes, model: Model) -> list[SampleRow]:
    """Fold some homes in memory. An event that the projection cannot read raises its error here, before any write."""
    first = [home for home, _ in islice(homes.heads(model.homes).heads, SAMPLE)]
    found = []
    for home, events in zip(first, call_each(lambda home: homes.read_tail(home, 0), first), strict=True):
        view, key = fold_all(projection, events).view, projection.key(home, events)
        if view is not None and key is not None:
            found.append(SampleRow(home, key, view))
    return found


#: Is notified of the progress: the act, and how many homes or rows are done.
Report = Callable[[str, int], None]


def _say_nothing(_act: str, _done: int) -> None:
    return


class Migration:
    """The steps of the migration of one model to one version."""

    def __init__(
        self,
        model: Model,
        target: int,
        stores: ViewStores,
        *,
        report: Report = _say_nothing,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._model, self._projection, self._target = model, model.projection(target), target
        self._stores, self._report, self._pause = stores, report, pause

    def plan(self) -> Rehearsal:
        """Rehearse: count the homes, and fold a sample of them in memory. Nothing is written."""
        may_begin(self.read(), self._target)
        return rehearse(self._model, self._projection, self._stores.homes, self._stores.clock, self._report)

    def read(self) -> ModelPointer:
        """Return the pointer: how far the migration is."""
        return self._stores.pointers.read(self._model)

    def start(self) -> ModelPointer:
        """Build the target, from where an earlier call was cut off."""
        with self._alone() as demand:
            pointer = self.read()
            if may_begin(pointer, self._target):
                sample(self._projection, self._stores.homes, self._model)
                # Before any projector knows of the target, so that the slot is not filled while it is emptied.
                self._empty(pointer, demand)
                pointer = self._write(double(pointer, self._target))
            if pointer.phase is Phase.DOUBLING:
                self._settle()
                pointer = self._write(build(pointer))
            if pointer.phase is Phase.BUILDING:
                pointer = self._build(pointer, demand)
            return pointer

    def verify(self) -> Verification:
        """Compare every row of the target with the log, and note the outcome."""
        with self._alone() as demand:
            pointer = self.read()
            demand_complete(pointer, self._target)
            slot = self._stores.slots[pointer.slot_of(self._target)]
            former = pointer.doubled if pointer.current == self._target else pointer.current
            other = self._model.projection(self._target if former is None else former)
            verifier = Verifier(
                model=self._model,
                projection=self._projection,
                former=other,
                slot=slot,
                homes=self._stores.homes,
                report=self._report,
                demand=demand,
                pause=self._pause,
            )
            found = verifier.run()
            self._write(judge(pointer, found.figures, is_right=found.is_right))
            return found

    def switch(self) -> ModelPointer:
        """Let readers use the target. One conditional write."""
        return self._change(switch)

    def roll_back(self) -> ModelPointer:
        """Let readers use the former version again. One conditional write."""
        return self._change(roll_back)

    def finish(self) -> ModelPointer:
        """Write the current version only, and empty the other slot."""
        with self._alone() as demand:
            pointer = self._change(end_doubling)
            if pointer.phase is Phase.DONE:
                return pointer
            # Projectors still write the other version for some seconds, and readers may still read it.
            self._settle()
            self._empty(pointer, demand)
            return self._write(end(pointer))

    def _build(self, pointer: ModelPointer, demand: Callable[[], None]) -> ModelPointer:
        """Fold the homes into the target, page by page. After a crash, the page that was cut off is done again."""
        writer = ViewWriter(self._model, self._stores.slots, self._stores.homes)
        slot = pointer.slot_of(self._target)
        while pointer.phase is Phase.BUILDING:
            page = self._stores.homes.heads(self._model.homes, pointer.cursor)
            events = 0
            for batch in read_homes(self._stores.homes, page.heads):
                demand()
                writer.write(self._target, slot, [tail(home, 0, found) for home, found in batch])
                events += sum(len(found) for _, found in batch)
                self._report("built homes", len(batch))
            pointer = self._write(advance(pointer, page.cursor, len(page.heads), events))
        return pointer

    def _empty(self, pointer: ModelPointer, demand: Callable[[], None]) -> None:
        """Remove all rows of the model from the slot that its current version does not have."""
        demand_unused(pointer)
        slot = self._stores.slots[pointer.slot.other]

        def attempt(_number: int) -> bool:
            is_empty = True
            for page in slot.old_rows(self._model.name):
                # After the listing: rows are removed as they were while this process had the lease for certain.
                demand()
                slot.remove(page)
                self._report("removed rows", len(page))
                is_empty = False
            return is_empty

        LOST_RACES.until_done(attempt, f"empty the slot {pointer.slot.other} of {self._model.name!r}")

    def _settle(self) -> None:
        """Wait until every projector and every reader has read the current pointer."""
        self._report("wait until all processes know it", 0)
        self._pause(SETTLING.total_seconds())

    def _change(self, decide: Callable[[ModelPointer, int], ModelPointer]) -> ModelPointer:
        pointer = self.read()
        changed = decide(pointer, self._target)
        return pointer if changed is pointer else self._write(changed)

    def _write(self, pointer: ModelPointer) -> ModelPointer:
        written = self._stores.pointers.try_write(pointer)
        if written is None:
            raise ContentionError(
                f"could not bring the migration of {self._model.name!r} to the phase {str(pointer.phase)!r}: another command "
                f"changed it meanwhile; read `sluice migrate status {self._model.name}`, then type it again"
            )
        return written

    def _alone(self) -> AbstractContextManager[Callable[[], None]]:
        return be_alone(self._stores.leases, self._model.name, self._stores.clock)
