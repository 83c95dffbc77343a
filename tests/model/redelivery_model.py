"""What becomes of a permit, and of the work behind it, when its drain is killed: second by second, and without any tick.

A drain has leased its slot and has one message in work. Three clocks run from its death: the lock of its permit, the
lease of its slot, and the time for which its message is hidden. Each began at some renewal, so the search begins with
every combination. Then a second drain gets the permit. It may come late, and be killed itself at any second. How long it
stays, and whether it looks again, is decided by `shared.dequeue.drain` itself, with the constants of the topology.

Instead of a kill the first drain may lose the bus alone: its permit comes again, while it works on and keeps its lease.

Slow: the permit is gone, nobody is at work, and the message waits for a tick.
Over: two drains run the tasks of one slot.
"""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from shared.dequeue.drain import PATIENCE, Drained, goes_on, stays_for
from shared.topology import GUARD, LEASE_SECONDS, LOOKS_EVERY, PERMITS, RENEW_AFTER, SIGNAL_LIFE, topology
from tests.model.search import walk

LOCK = int(GUARD.total_seconds())
LIFE = int(SIGNAL_LIFE.total_seconds())
[QUEUE] = [queue for queue in topology().bus.queues if queue.name == PERMITS]
#: Seconds by which a drain that lives may get its permit late.
LATE = 2
#: Drains that may be killed, the first one included.
KILLS = 2


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: A permit that comes again is known by its deliveries, and its drain stays.
    counts_deliveries: bool = True
    stays_at_a_leased_slot: bool = True
    stays_at_an_empty_receive: bool = True
    #: The permit is completed when its drain has ended, and not when it was received.
    completes_at_the_end: bool = True
    #: A lease ends by time alone.
    waits_for_the_lease: bool = True
    lease: int = LEASE_SECONDS
    hidden: int = LOCK
    life: int = LIFE
    most_deliveries: int = QUEUE.delivery.max_delivery_count


class Second(NamedTuple):
    """One second of one history. Of each clock: the seconds that are left."""

    #: The life of the permit. It is gone at 0, but for the drain that has it.
    life: int
    deliveries: int
    #: The lock of the permit while somebody has it, or had it.
    lock: int
    lease: int
    hidden: int
    #: What the second drain is at: nothing, a look, or the message.
    step: str
    #: Seconds since it began.
    since: int
    late: int
    kills: int
    #: The first drain lost the bus alone, and lives.
    is_cut_off: bool
    is_over: bool = False
    is_done: bool = False


NOTHING, LOOK, WORK = "nothing", "look", "work"


def deaths(rules):
    """Yield every moment of the first drain's end: how old its permit is, and how long ago each renewal was."""
    ages = (0, int(PATIENCE) // 2, int(PATIENCE))
    locks, hidden = range(LOCK // 2, LOCK + 1), range(rules.hidden // 2, rules.hidden + 1, max(1, rules.hidden // LOCK))
    leases = range(rules.lease - int(RENEW_AFTER), rules.lease + 1)
    for age, lock, lease, hides, is_cut_off in product(ages, locks, leases, hidden, (False, True)):
        kills = 0 if is_cut_off else KILLS - 1
        # The permit that was completed at its receive does not come again.
        life = rules.life - age if rules.completes_at_the_end else 0
        yield Second(max(0, life), 1, lock, lease, hides, NOTHING, 0, LATE, kills, is_cut_off)


def passed(state):
    """Return the state a second later. What is in the hands of a drain that lives is renewed."""
    is_working = state.step == WORK or state.is_cut_off
    return state._replace(
        life=max(0, state.life - 1),
        lock=state.lock if state.step != NOTHING else max(0, state.lock - 1),
        lease=state.lease if is_working else max(0, state.lease - 1),
        hidden=state.hidden if is_working else max(0, state.hidden - 1),
        since=state.since + int(LOOKS_EVERY) if state.step != NOTHING else 0,
    )


def killed(rules, state):
    """Yield the states after the end of the second drain. It has just renewed its lease, and its lock now or long ago."""
    lease, hidden = (rules.lease, rules.hidden) if state.step == WORK else (state.lease, state.hidden)
    for lock in (LOCK // 2, LOCK):
        left = state._replace(step=NOTHING, since=0, lock=lock, lease=lease, hidden=hidden, kills=state.kills - 1)
        yield left if rules.completes_at_the_end else left._replace(life=0)


def looked(rules, state):
    """Yield what a look of the second drain leads to: the message, another look, or its end."""
    if state.lease and rules.waits_for_the_lease:
        outcome, may_go_on = Drained.TAKEN, rules.stays_at_a_leased_slot
    elif state.hidden and not state.is_cut_off:
        outcome, may_go_on = Drained.GAVE_UP, rules.stays_at_an_empty_receive
    else:
        yield state._replace(step=WORK, is_over=state.is_cut_off)
        return
    stays = stays_for(state.deliveries if rules.counts_deliveries else 1)
    if may_go_on and goes_on(outcome, state.since, stays):
        yield passed(state)
    else:
        yield state._replace(step=NOTHING, life=0)


def successors(rules, state):
    """Yield what may come next."""
    if state.step == LOOK:
        yield from looked(rules, state)
    elif state.step == WORK:
        # The end of the work, and another second of it, are alike to everybody but the one who is killed in it.
        yield state._replace(step=NOTHING, life=0, is_done=True)
    elif state.life and not state.lock:
        if state.deliveries < rules.most_deliveries:
            yield state._replace(step=LOOK, since=0, deliveries=state.deliveries + 1)
        else:
            yield state._replace(life=0)
        if state.late:
            yield passed(state)._replace(late=state.late - 1)
    elif state.life:
        yield passed(state)
    if state.step != NOTHING and state.kills:
        yield from killed(rules, state)


def harm(state):
    """Return what is wrong in a state, or nothing."""
    if state.is_over:
        return "over"
    is_left = not (state.life or state.is_done or state.is_cut_off) and state.step == NOTHING
    return "slow" if is_left else ""


def search(rules=Rules()):
    """Walk through every reachable state, and stop at the first harm."""

    def look(state):
        if state is None:
            return "", deaths(rules)
        found = harm(state)
        return found, () if found or state.is_done else successors(rules, state)

    return walk(None, lambda state: state, look)
