"""One history of a job under one fault: settled, parked in part, finished, replayed, finished again; then the proof."""

from datetime import timedelta

from shared.errors import SluiceError
from shared.ledger import JobState
from shared.ledger.records import FINISHED
from shared.pending import FINISH_POINTER, OUTBOX_POINTER, PendingTable
from shared.pipeline.dispatch import FinishCall
from shared.pipeline.finish import Ending
from tests.faults.plan import KilledError, Plan
from tests.ledger.world import MemoryWorld

#: One fault and its repetitions by the clients cannot take more deliveries than this.
MOST_DELIVERIES = 5


class StuckError(AssertionError):
    """Raised when something is never done, however often it is delivered."""


class History:
    """Plays the host: delivers until it works, and follows what is due."""

    def __init__(self, plan: Plan, *, counts_deliveries: bool):
        self.plan = plan
        # Without the count of deliveries a message seems new: as when the bus has lost everything and the chunks are
        # put again.
        self._counts = counts_deliveries
        self.world = MemoryWorld(plan, segment_chunks=2)

    def run(self):
        """Play the whole history and check what must hold at its end."""
        world = self.world
        try:
            world.accept()
            results = [world.result(n) for n in range(3)]
            self.settle(results[0], results[1])
            self.settle(results[1], world.lost(2))
            self.come_to_rest()
            assert world.check().state is JobState.COMPLETED_WITH_PARKED
            self.settle(results[2])
            self.come_to_rest()
            self.check_end()
        finally:
            world.close()

    def settle(self, *results):
        """Deliver a batch of results until it is settled."""
        self._deliver(lambda attempt: self.world.settle(*results, deliveries=attempt + 1 if self._counts else 1))
        self.world.check()

    def come_to_rest(self):
        """Deliver finish messages and follow pointers until there are none."""
        for _ in range(MOST_DELIVERIES):
            self._finish_all()
            # One that is left for a state that never came is followed and put off, as long as the job is open.
            for pointer in list(self._pending().due(self._later())):
                self._deliver(lambda _, pointer=pointer: self._follow(pointer))
            if not self.world.sent and self.world.job().state in FINISHED:
                return
        raise StuckError("the job is not finished however often its pointers are followed")

    def _finish_all(self):
        sent = self.world.sent
        while sent:
            self._deliver(lambda _: self.world.finisher().finish(sent[0]))
            sent.pop(0)
            self.world.check()

    def _follow(self, pointer):
        world = self.world
        if pointer.kind == FINISH_POINTER:
            job, _, _ = pointer.id.partition(":")
            FinishCall(world._send, world.pending, world.clock).repeat(pointer, world.ledger.read(job))
        elif pointer.kind == OUTBOX_POINTER:
            world.finisher()._tools.outbox.follow(pointer)

    def _deliver(self, handle):
        for attempt in range(MOST_DELIVERIES):
            try:
                return handle(attempt)
            except (KilledError, SluiceError):
                self.plan.revive()
                self.world.clock.seconds += 1
        raise StuckError(f"not done after {MOST_DELIVERIES} deliveries")

    def check_end(self):
        """Assert that everything was counted, published and told."""
        world = self.world
        found = world.check()
        assert (found.state, found.revision, found.done) == (JobState.COMPLETE, 2, 3)
        assert {event.revision for event in world.told} == {1, 2}, "every revision is told of"
        assert world.checked_ledger.unsent("nightly") == []
        assert self._deliver(lambda _: world.finish(2)) is Ending.NOTHING_TO_DO

    def _pending(self):
        return PendingTable(self.world.table("pending", self.world.direct))

    def _later(self):
        return self.world.clock.now() + timedelta(days=1)
