"""Who is slowed: shares with floors, rests bounded by the lock, and a broker that refuses above a limit."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.azure import Pushback
from shared.azure.connections import PATIENCE
from shared.errors import BudgetSpentError, NewerVersionError
from shared.processes import Pace, PaceLane, begin_in_time
from shared.processes.publisher import rest_after, share
from shared.telemetry import events
from shared.topology import BATCH_SECONDS, GUARD

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
FLOORS = {PaceLane.FIRST: 0.5, PaceLane.PROCESSES: 0.25, PaceLane.READ_MODELS: 0.1}
#: Operations that one batch of a lane makes in a second of work, and all lanes at full rate.
RATE = 100
FULL = RATE * len(FLOORS)
#: Seconds of one step of the simulation.
STEP = 0.05


class HandClock:
    """A clock that the test moves."""

    def __init__(self):
        self.seconds = 0.0

    def now(self):
        """Return the moment."""
        return NOON + timedelta(seconds=self.seconds)

    def monotonic(self):
        """Return the same in seconds."""
        return self.seconds

    def of_reply(self, named):
        """Return the moment."""
        return self.now()

    def sleep(self, seconds):
        """Let time pass."""
        self.seconds += seconds


@pytest.mark.parametrize("bearable", [n / 32 for n in range(1, 33)])
def test_no_lane_falls_below_its_floor_nor_behind_one_that_is_less_urgent(bearable):
    """At every share that a namespace may have."""
    shares = [share(lane, bearable) for lane in PaceLane]
    assert shares == sorted(shares, reverse=True)
    assert all(share(lane, bearable) >= floor for lane, floor in FLOORS.items())
    assert max(shares) <= 1.0


def test_at_full_rate_nobody_rests():
    """And no clock is asked to wait."""
    clock = HandClock()
    pace = Pace(Pushback(clock), clock, clock.sleep)
    for lane in PaceLane:
        with pace(lane, lock=30):
            clock.seconds += 1
    assert clock.seconds == 3


def test_a_rest_follows_the_work_and_ends_with_a_third_of_the_lock():
    """The batch is completed only after it."""
    assert rest_after(2.0, 0.25, lock=60) == 6.0
    assert rest_after(10.0, 0.1, lock=30) == 10.0
    assert rest_after(10.0, 1.0, lock=30) == 0.0


def test_a_batch_that_failed_rests_until_its_time_is_over():
    """So an outage uses up one delivery in that time, however fast it fails. Its error is not held back."""
    clock = HandClock()
    pushback = Pushback(clock)
    pushback.slow("bus")
    pace = Pace(pushback, clock, clock.sleep)(PaceLane.PROCESSES, lock=18)
    with pytest.raises(KeyError), pace:
        clock.sleep({}["gone"])
    assert clock.seconds == BATCH_SECONDS


def test_a_batch_begins_no_part_after_its_time():
    """What was begun is done; the rest comes again."""
    clock, begun = HandClock(), []
    with pytest.raises(BudgetSpentError, match="could not begin 3 of 7 parts of a batch within 7 s"):
        _work_on(begin_in_time(range(7), 2, clock), begun, clock)
    assert begun == [0, 1, 2, 3]


def _work_on(parts, begun, clock):
    for some in parts:
        begun += some
        clock.seconds += 4


def test_a_batch_and_one_request_without_an_answer_end_before_the_lock():
    """Else another process would settle the same while this one still does."""
    assert GUARD.total_seconds() > BATCH_SECONDS + PATIENCE


def test_what_is_newer_comes_again_after_half_of_the_lock(told):
    """The bus delivers it again at once: it would come a thousand times before a newer instance is there."""
    clock = HandClock()
    with pytest.raises(NewerVersionError), Pace(Pushback(clock), clock, clock.sleep)(PaceLane.FIRST, lock=60):
        raise NewerVersionError("a message of the bus is a commands of version 2")
    assert clock.seconds == 30
    assert [one["found"] for one in told(events.NEWER_VERSION)] == ["a message of the bus is a commands of version 2"]


def run(limit, seconds=600):
    """Run the three lanes side by side against a broker that refuses above `limit` operations a second.

    Each lane works a second, rests as its pace says, and works again. Returns the part of the time that each worked,
    and the part of the time in which the broker refused.
    """
    clock = HandClock()
    pushback = Pushback(clock)
    pace = Pace(pushback, clock, clock.sleep)
    works_until, rests_until = dict.fromkeys(FLOORS, 0.0), dict.fromkeys(FLOORS, 0.0)
    steps, worked, refused = round(seconds / STEP), dict.fromkeys(FLOORS, 0), 0
    for step in range(steps):
        clock.seconds = now = step * STEP
        for lane in FLOORS:
            if rests_until[lane] <= now:
                works_until[lane] = now + 1
                rests_until[lane] = now + 1 + rest_after(1.0, pace.share(lane), lock=60)
        busy = [lane for lane in FLOORS if now < works_until[lane]]
        for lane in busy:
            worked[lane] += 1
        if len(busy) * RATE > limit:
            refused += 1
            pushback.slow("bus")
        # Transfers ask how many may be under way: by that the share grows while it is used.
        pushback.limit(16, 16, "bus/order-events")
    return {lane: times / steps for lane, times in worked.items()}, refused / steps


@pytest.mark.parametrize("limit", [0, 120, 250])
def test_the_floors_hold_against_a_broker_that_refuses(limit):
    """Whatever it bears: nothing at all, hardly more than one lane, or nearly everything."""
    worked, refused = run(limit)
    assert refused > 0
    for lane, floor in FLOORS.items():
        # A lane begins at whole steps.
        assert worked[lane] >= floor * (1 - STEP), (lane, worked)
    assert worked[PaceLane.FIRST] >= worked[PaceLane.PROCESSES] >= worked[PaceLane.READ_MODELS]


def test_a_broker_that_bears_everything_slows_nobody():
    """The control of the test above."""
    assert run(FULL) == (dict.fromkeys(FLOORS, 1.0), 0)


def test_slowing_lessens_what_is_refused():
    """A broker that bears a third refuses fewer seconds than if all lanes went on."""
    _, refused = run(RATE)
    assert refused < 0.6
