"""Permits as a state machine of atomic requests, searched through every interleaving.

A dispatch puts messages and wakes slots, and drains follow permits, step by step in any order. How many slots a depth
takes, and how many tasks of a slot may run, is decided by `shared.dequeue.permits` itself; a slot has one task here,
for what the tasks of one process agree upon is searched by itself (tests/dequeue/test_counting.py).

Without `by_signal` any drain may begin with any slot at any time, which stands for every lost, doubled, late or forged
signal and for every tick; and it may end before any step, which leaves its lease and its message to time. With it every
signal comes, once or twice, and nobody ends early.

Over: more tasks run than the cap allows.
Stuck: everybody ends here, time passes, one tick runs, what it wakes runs to its end, and a message is left or lost.
Polls: a drain makes a second empty receive.
Slow: everybody is done, every signal came, and a message waits for a tick.
"""

from dataclasses import dataclass
from typing import NamedTuple

from shared.dequeue.permits import SlotPlan
from tests.model.search import replaced, walk

IDLE, LEASE, RECEIVE, WORK = "idle", "lease", "receive", "work"
RELEASE, LOOK, HAND_OVER, SEND, LET_GO = "release", "look", "hand over", "send", "let go"
PUT, LIST = "put", "list"
FREE, HELD, LEFT = "free", "held", "left"


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: A drain runs the tasks of a slot only while it has the slot's lease.
    leases_the_slot: bool = True
    #: A slot beyond the cap runs nothing, whatever permit there is for it.
    asks_what_its_slot_may_run: bool = True
    #: A holder stops before its lease can end.
    stops_in_time: bool = True
    gives_up_at_an_empty_receive: bool = True
    deletes_after_the_work: bool = True
    #: Slot 0 looks once more, and does so when its lease is released.
    looks_again: bool = True
    looks_after_the_release: bool = True
    #: Permits are sent when the messages are there.
    wakes_after_the_put: bool = True
    #: A slot is released before its next permit is sent.
    releases_before_it_hands_over: bool = True
    tick_tops_up: bool = True
    #: Whoever wakes looks at the slots that are held after its put, not at those that were before.
    lists_after_the_put: bool = True


@dataclass(frozen=True)
class Scope:
    """Who takes part."""

    messages: int = 3
    drains: int = 3
    slots: int = 3
    cap: int = 2
    by_signal: bool = False

    @property
    def fleet(self):
        """How many tasks a depth calls for: one a message, within the cap, one a slot."""
        return SlotPlan(rule=lambda depth: depth, cap=lambda: self.cap, tasks=1)


class Drained(NamedTuple):
    """One drain: its step, its slot, whether it has the lease, and its empty receives since it saw a message."""

    step: str = IDLE
    slot: int = -1
    owns: bool = False
    empties: int = 0


class State(NamedTuple):
    """One point of one history."""

    #: Messages that can be received, and those whose holder is gone.
    visible: int
    hidden: int
    #: Messages that were put, and those whose work was done.
    put: int
    done: int
    #: The number of the dispatch's step, what it has to put, and the slots that it saw held.
    dispatch: tuple
    leases: tuple
    drains: tuple
    signals: tuple


def first_state(scope):
    """Nothing has happened."""
    return State(
        0, 0, 0, 0, (0, scope.messages, ()), (FREE,) * scope.slots, (Drained(),) * scope.drains, (0,) * scope.slots
    )


def held(state):
    """Return the slots that a list would show."""
    return tuple(slot for slot, lease in enumerate(state.leases) if lease != FREE)


def program(rules):
    """Return the order in which a dispatch does the three things for each message."""
    if not rules.wakes_after_the_put:
        return LIST, SEND, PUT
    return (PUT, LIST, SEND) if rules.lists_after_the_put else (LIST, PUT, SEND)


def dispatch_steps(rules, scope, state):
    """Yield what one step of the dispatch can lead to."""
    number, left, seen = state.dispatch
    if not left:
        return
    step = program(rules)[number]
    after = (number + 1, left, held(state) if step == LIST else seen)
    state = state._replace(dispatch=after if number < len(program(rules)) - 1 else (0, left - 1, ()))
    if step == PUT:
        state = state._replace(visible=state.visible + 1, put=state.put + 1)
    if step == SEND:
        state = woken(scope, state, seen, left)
        yield state._replace(signals=tuple(min(2, signals * 2) for signals in state.signals))
    yield state


def woken(scope, state, seen, depth):
    """Return the state after permits were sent for the slots that a depth takes and nobody was seen to hold."""
    slots = range(scope.fleet.slots(depth)) if scope.by_signal else ()
    for slot in slots:
        if slot not in seen:
            state = state._replace(signals=replaced(state.signals, slot, min(2, state.signals[slot] + 1)))
    return state


def beginnings(rules, scope, state, index):
    """Yield how an idle drain begins."""
    for slot in range(scope.slots):
        if scope.by_signal and not state.signals[slot]:
            continue
        after = state
        if scope.by_signal:
            after = state._replace(signals=replaced(state.signals, slot, state.signals[slot] - 1))
        may = scope.fleet.allowance(slot) or not rules.asks_what_its_slot_may_run
        yield going_on(after, index, Drained(LEASE, slot) if may else Drained())


def going_on(state, index, drain, **changed):
    """Return the state with one drain's next step."""
    return state._replace(drains=replaced(state.drains, index, drain), **changed)


def drain_steps(rules, scope, state, index):
    """Yield what one step of a drain can lead to."""
    drain = state.drains[index]
    yield STEPS[drain.step](rules, state, index)
    if drain.step == RECEIVE and scope.by_signal:
        # The time may be up before any receive.
        step = HAND_OVER if rules.releases_before_it_hands_over else SEND
        yield going_on(state, index, drain._replace(step=step))


def _leased(rules, state, index):
    drain = state.drains[index]
    if not rules.leases_the_slot:
        return going_on(state, index, drain._replace(step=RECEIVE))
    if state.leases[drain.slot] != FREE:
        return going_on(state, index, Drained())
    leases = replaced(state.leases, drain.slot, HELD)
    return going_on(state, index, drain._replace(step=RECEIVE, owns=True), leases=leases)


def _received(rules, state, index):
    drain = state.drains[index]
    if state.visible:
        return going_on(state, index, drain._replace(step=WORK, empties=0), visible=state.visible - 1)
    empties = drain.empties + 1
    if not rules.gives_up_at_an_empty_receive:
        return going_on(state, index, drain._replace(empties=min(empties, 2)))
    step = RELEASE if rules.looks_after_the_release else LOOK
    return going_on(state, index, drain._replace(step=step, empties=empties))


def _worked(_rules, state, index):
    drain = state.drains[index]
    return going_on(state, index, drain._replace(step=RECEIVE), done=state.done + 1)


def _gave_up(rules, state, index):
    drain = state.drains[index]
    looks = drain.slot == 0 and rules.looks_again and rules.looks_after_the_release
    return going_on(_released(state, drain), index, drain._replace(step=LOOK, owns=False) if looks else Drained())


def _looked(rules, state, index):
    drain = state.drains[index]
    if not rules.looks_after_the_release:
        return going_on(state, index, drain._replace(step=RECEIVE if state.visible else RELEASE, empties=0))
    return going_on(state, index, Drained(LEASE, drain.slot) if state.visible else Drained())


def _let_go(_rules, state, index):
    drain = state.drains[index]
    return going_on(_released(state, drain), index, drain._replace(step=SEND, owns=False))


def _sent(_rules, state, index):
    drain = state.drains[index]
    signals = replaced(state.signals, drain.slot, min(2, state.signals[drain.slot] + 1))
    # Where it still has the slot, as a bug has it, it lets go now, and does not look again.
    after = drain._replace(step=LET_GO) if drain.owns else Drained()
    return going_on(state, index, after, signals=signals)


def _ended(_rules, state, index):
    return going_on(_released(state, state.drains[index]), index, Drained())


def _released(state, drain):
    if not drain.owns:
        return state
    return state._replace(leases=replaced(state.leases, drain.slot, FREE))


STEPS = {
    LEASE: _leased,
    RECEIVE: _received,
    WORK: _worked,
    RELEASE: _gave_up,
    LOOK: _looked,
    HAND_OVER: _let_go,
    SEND: _sent,
    LET_GO: _ended,
}


def ends(rules, state, index):
    """Yield what the end of a process before its next step leaves, and what time makes of what was left."""
    drain = state.drains[index]
    if drain.step == IDLE:
        return
    leases = replaced(state.leases, drain.slot, LEFT) if drain.owns else state.leases
    hidden = state.hidden + (drain.step == WORK and rules.deletes_after_the_work)
    yield going_on(state, index, Drained(), leases=leases, hidden=hidden)
    if drain.owns and not rules.stops_in_time:
        yield going_on(state, index, drain._replace(owns=False), leases=replaced(state.leases, drain.slot, FREE))


def passings(state):
    """Yield what time does: leases of the dead end, and their messages can be seen again."""
    for slot, lease in enumerate(state.leases):
        if lease == LEFT:
            yield state._replace(leases=replaced(state.leases, slot, FREE))
    if state.hidden:
        yield state._replace(hidden=state.hidden - 1, visible=state.visible + 1)


def successors(rules, scope, state):
    """Yield every state that one step, or one end of a process, leads to."""
    yield from dispatch_steps(rules, scope, state)
    if not scope.by_signal:
        yield from passings(state)
    for index, drain in enumerate(state.drains):
        if drain.step == IDLE:
            yield from beginnings(rules, scope, state, index)
        else:
            yield from drain_steps(rules, scope, state, index)
            if not scope.by_signal:
                yield from ends(rules, state, index)


def harm(rules, scope, state):
    """Return what is wrong in a state, or nothing."""
    running = [drain for drain in state.drains if drain.step in {RECEIVE, WORK}]
    if len(running) > scope.cap:
        return "over"
    if any(drain.empties > 1 for drain in state.drains):
        return "polls"
    if is_stuck(rules, scope, state):
        return "stuck"
    return "slow" if scope.by_signal and is_slow(state) else ""


def is_stuck(rules, scope, state):
    """Return whether a message is lost, or left behind when all end here, time passes and one tick runs."""
    at_work = sum(drain.step == WORK for drain in state.drains)
    visible = state.visible + state.hidden + (at_work if rules.deletes_after_the_work else 0)
    if state.done + visible < state.put:
        return True
    permits = scope.fleet.slots(visible) if rules.tick_tops_up else 0
    return bool(visible) and not permits


def is_slow(state):
    """Return whether everybody is done, every signal came, and a message waits for the tick all the same."""
    is_over = not any(state.signals) and not state.dispatch[1] and all(drain.step == IDLE for drain in state.drains)
    return is_over and state.visible > 0


def canonical(state):
    """Return the one state that stands for all which differ only in which drain is which."""
    return state._replace(drains=tuple(sorted(state.drains)))


def search(scope, rules=Rules()):
    """Walk through every reachable state, and stop at the first harm."""

    def look(state):
        found = harm(rules, scope, state)
        return found, () if found else successors(rules, scope, state)

    return walk(first_state(scope), canonical, look)
