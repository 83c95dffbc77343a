"""Turns under a trigger as a state machine: processes that start at any moment, and a decision that changes.

How many tasks of a slot may run is decided by `shared.dequeue.permits` itself. A step is one request, or one thing that a
process does between two of them: read the decision, lease a slot, begin a message, end one, release a slot, end early.
The decision may change between any two steps.

Over: more is in work than any decision that some process still follows allows, or the one in force.
"""

from dataclasses import dataclass
from typing import NamedTuple

from shared.dequeue.permits import SlotPlan
from tests.model.search import replaced, walk

FREE = -1
#: A slot whose process ended: storage gives it to nobody until its time is over.
LEFT = -2
UNREAD = 0


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: A process runs messages only under slots that it has leased.
    leases: bool = True
    #: A process that has read no decision takes part in one task of the whole fleet.
    one_while_unread: bool = True
    #: A slot is released only while the messages in work do not need it.
    keeps_what_it_uses: bool = True
    #: The slots share the decision exactly: none rounds its part up.
    shares_exactly: bool = True


@dataclass(frozen=True)
class Scope:
    """Who takes part."""

    processes: int = 2
    decisions: tuple = (1, 3)
    tasks: int = 2
    slots: int = 2
    changes: int = 2


class Process(NamedTuple):
    """One process: the decision that it follows, and its messages in work."""

    read: int = UNREAD
    running: int = 0


class State(NamedTuple):
    """One point of one history."""

    decision: int
    changes: int
    processes: tuple
    #: The process that has each slot.
    slots: tuple


def first_state(scope):
    """Work has come, its decision is in force, and no process knows it."""
    return State(scope.decisions[0], scope.changes, (Process(),) * scope.processes, (FREE,) * scope.slots)


def cap(rules, scope, process):
    """Return what a process believes that the fleet may run."""
    return process.read or (1 if rules.one_while_unread else scope.slots * scope.tasks)


def share(rules, scope, slot, believed):
    """Return how many tasks of a slot may run."""
    exact = SlotPlan(rule=lambda depth: depth, cap=lambda: believed, tasks=scope.tasks).allowance(slot)
    return exact if rules.shares_exactly or not exact else scope.tasks


def allowed(rules, scope, state, index, without=None):
    """Return how many messages a process may have in work."""
    believed = cap(rules, scope, state.processes[index])
    if not rules.leases:
        return believed
    own = (slot for slot, owner in enumerate(state.slots) if owner == index and slot != without)
    return sum(share(rules, scope, slot, believed) for slot in own)


def successors(rules, scope, state):
    """Yield every state that one step leads to."""
    others = [decision for decision in scope.decisions if decision != state.decision]
    for decision in others if state.changes else ():
        yield state._replace(decision=decision, changes=state.changes - 1)
    for slot, owner in enumerate(state.slots):
        if owner == LEFT:
            yield state._replace(slots=replaced(state.slots, slot, FREE))
    for index in range(scope.processes):
        yield from steps_of(rules, scope, state, index)


def steps_of(rules, scope, state, index):
    """Yield what one step of a process, or its end, leads to."""
    process = state.processes[index]
    yield changed(state, index, process._replace(read=state.decision))
    if process.running < allowed(rules, scope, state, index):
        yield changed(state, index, process._replace(running=process.running + 1))
    if process.running:
        yield changed(state, index, process._replace(running=process.running - 1))
    for slot, owner in enumerate(state.slots):
        if owner == FREE:
            yield state._replace(slots=replaced(state.slots, slot, index))
        is_spare = process.running <= allowed(rules, scope, state, index, without=slot)
        if owner == index and (is_spare or not rules.keeps_what_it_uses):
            yield state._replace(slots=replaced(state.slots, slot, FREE))
    # It is killed, and another one starts in its place.
    left = tuple(LEFT if owner == index else owner for owner in state.slots)
    yield changed(state, index, Process())._replace(slots=left)


def changed(state, index, process):
    """Return the state with one process changed."""
    return state._replace(processes=replaced(state.processes, index, process))


def harm(scope, state):
    """Return what is wrong in a state, or nothing."""
    in_work = sum(process.running for process in state.processes)
    # While a decision was read, it may have fallen since: what it allowed may still be in work.
    most = max(scope.decisions) if state.changes < scope.changes else state.decision
    return "over" if in_work > most else ""


def search(scope, rules=Rules()):
    """Walk through every reachable state, and stop at the first harm."""

    def look(state):
        found = harm(scope, state)
        return found, () if found else successors(rules, scope, state)

    return walk(first_state(scope), lambda state: state, look)
