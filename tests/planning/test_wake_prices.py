"""What the policies of waking cost: by their own code, for dispatches that are made up here."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from shared.dequeue.permits import Notify, SlotPlan
from shared.usage.bill import load
from tools.planning.wake_prices import CHUNKS_OF_A_PUT, Dispatch, wakings

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
#: Mizonov's steps: 10, 50, 100 tasks; four of them a slot.
FLEET = SlotPlan(rule=lambda depth: 10 if depth < 100 else 50 if depth < 1_000 else 100, cap=lambda: 100, tasks=4)
DISPATCHES = st.lists(
    st.builds(
        Dispatch,
        st.integers(0, 1_440).map(lambda minute: NOON + minute * MINUTE),
        st.integers(1, 2_000),
        st.timedeltas(timedelta(0), timedelta(hours=2)),
    ),
    max_size=10,
)


def of(dispatches, policy):
    """What this policy does for them."""
    return next(one for one in wakings(dispatches, FLEET) if one.policy is policy)


def test_one_dispatch_to_an_idle_app():
    """20 chunks call for 10 tasks, three slots: three permits are enough, and one for each chunk is 17 too many."""
    once = [Dispatch(NOON, 20, MINUTE)]
    for policy in (Notify.FIRST, Notify.DEPTH, Notify.BURST):
        assert (of(once, policy).permits, of(once, policy).in_vain) == (3, 0)
    assert (of(once, Notify.EACH).permits, of(once, Notify.EACH).in_vain) == (20, 17)
    assert of(once, Notify.EACH).amount(4, load()) > of(once, Notify.BURST).amount(4, load())


def test_who_looks_at_the_depth_pays_for_looking():
    """A request a put and queue; the others ask nothing before."""
    large = [Dispatch(NOON, 5 * CHUNKS_OF_A_PUT, MINUTE)]
    looks = {one.policy: one.depth_looks for one in wakings(large, FLEET, work_queues=3)}
    assert looks == {Notify.EACH: 0, Notify.FIRST: 15, Notify.DEPTH: 15, Notify.BURST: 0}


def test_a_second_dispatch_while_the_first_runs_wakes_only_who_is_missing():
    """By burst what the greater depth calls for; by `first` nobody, which is what it is for."""
    two = [Dispatch(NOON, 50, MINUTE), Dispatch(NOON + MINUTE / 2, 50, MINUTE)]
    assert of(two, Notify.FIRST).permits == of(two[:1], Notify.FIRST).permits
    assert of(two, Notify.BURST).permits == of(two[:1], Notify.BURST).permits


@pytest.mark.parametrize("policy", list(Notify))
@given(DISPATCHES)
def test_no_policy_leaves_work_without_anybody_and_only_one_wakes_in_vain(policy, dispatches):
    """As long as every permit arrives; the tick is for those that do not."""
    found = of(dispatches, policy)
    assert found.missed == 0
    assert policy is Notify.EACH or found.in_vain == 0
    assert found.in_vain <= found.permits
