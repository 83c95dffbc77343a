"""A chunk of a halted job: its message is dropped, and of calls that wait none begins any more."""

import asyncio

from msgspec import structs

from shared.messages import encode
from shared.parked.parking import mark_again
from tests.faults.plan import Plan
from tests.process.world import Sales


class Asking(Sales):
    """Asks another service about each transaction."""

    concurrency = 2

    def __init__(self):
        super().__init__()
        self.called, self.after = [], lambda: None

    async def map(self, transaction, number):
        """Wait for an answer."""
        self.called.append(number)
        await asyncio.sleep(0)
        self.after()
        return super().map(transaction, number)


def test_a_message_below_the_halt_row_is_dropped_without_a_request(world):
    """Nothing is read, nothing is run, nothing is noted."""
    world.halts, plan = 1, Plan()
    world.deliver(plan=plan)
    assert (world.sent, world.entry, plan.kinds) == ([], None, [])


def test_the_notes_of_a_message_that_is_dropped_go_with_it(world):
    """Else its job would be shown as failing for ever."""
    world.halts, plan = 1, Plan()
    world.deliver(count=4, plan=plan)
    assert (world.sent, plan.kinds) == ([], ["DELETE parked"])


def test_what_a_resume_put_runs(world):
    """It carries the number of the halt."""
    world.halts, world.body = 1, encode(structs.replace(world.message, halts=1))
    world.deliver()
    assert len(world.sent) == 1


def test_what_a_person_replays_runs_while_its_job_is_paused(world):
    """The cause is mended and the chunk replayed, then the job is resumed."""
    world.halts = 7
    world.deliver(body=mark_again(world.body))
    assert len(world.sent) == 1


def test_no_call_begins_after_the_halt_is_seen(world):
    """Those under way end. The message is gone: a resume puts its chunk again."""
    world.workload = workload = Asking()

    def see():
        if len(workload.called) == 4:
            world.halts = 1

    world.look_beside = see
    world.deliver()
    assert (len(workload.called), world.sent, world.entry) == (4, [], None)
