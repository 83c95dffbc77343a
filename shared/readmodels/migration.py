"""Migration: a model gets a new version while its readers and projectors go on.

Each step may be cut off at any request, and be typed again. The row of the pointer says how far the migration is. All
writes of rows are conditional. Only one migrator works at a time, by a lease.

A new version loses no event, because

- projectors write every event to both versions, from `doubling` on (`projector` says why none is left out);
- the scan of the log begins 10 seconds later, and folds each home up to its head;
- a row is replaced only by one that has seen more.

Neither does a rollback, because live events go to both versions until `finish`.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from shared.errors import ContentionError
from shared.readmodels import migration_steps as steps
from shared.readmodels.log_pages import read_homes
from shared.readmodels.lone_migrator import be_alone
from shared.readmodels.pointers import SETTLING, ModelPointer, Phase
from shared.readmodels.projection import Model, tail
from shared.readmodels.rehearsal import Rehearsal, rehearse, sample
from shared.readmodels.verification import Verification, Verifier
from shared.readmodels.view_stores import ViewStores
from shared.readmodels.view_writer import ViewWriter
from shared.retry import LOST_RACES

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
        steps.may_begin(self.read(), self._target)
        return rehearse(self._model, self._projection, self._stores.homes, self._stores.clock, self._report)

    def read(self) -> ModelPointer:
        """Return the pointer: how far the migration is."""
        return self._stores.pointers.read(self._model)

    def start(self) -> ModelPointer:
        """Build the target, from where an earlier call was cut off."""
        with self._alone() as demand:
            pointer = self.read()
            if steps.may_begin(pointer, self._target):
                sample(self._projection, self._stores.homes, self._model)
                # Before any projector knows of the target, so that the slot is not filled while it is emptied.
                self._empty(pointer, demand)
                pointer = self._write(steps.double(pointer, self._target))
            if pointer.phase is Phase.DOUBLING:
                self._settle()
                pointer = self._write(steps.build(pointer))
            if pointer.phase is Phase.BUILDING:
                pointer = self._build(pointer, demand)
            return pointer

    def verify(self) -> Verification:
        """Compare every row of the target with the log, and note the outcome."""
        with self._alone() as demand:
            pointer = self.read()
            steps.demand_complete(pointer, self._target)
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
            self._write(steps.judge(pointer, found.figures, is_right=found.is_right))
            return found

    def switch(self) -> ModelPointer:
        """Let readers use the target. One conditional write."""
        return self._change(steps.switch)

    def roll_back(self) -> ModelPointer:
        """Let readers use the former version again. One conditional write."""
        return self._change(steps.roll_back)

    def finish(self) -> ModelPointer:
        """Write the current version only, and empty the other slot."""
        with self._alone() as demand:
            pointer = self._change(steps.end_doubling)
            if pointer.phase is Phase.DONE:
                return pointer
            # Projectors still write the other version for some seconds, and readers may still read it.
            self._settle()
            self._empty(pointer, demand)
            return self._write(steps.end(pointer))

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
            pointer = self._write(steps.advance(pointer, page.cursor, len(page.heads), events))
        return pointer

    def _empty(self, pointer: ModelPointer, demand: Callable[[], None]) -> None:
        """Remove all rows of the model from the slot that its current version does not have."""
        steps.demand_unused(pointer)
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
