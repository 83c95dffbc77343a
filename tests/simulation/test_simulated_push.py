"""The replay counts what the real thing requests: one drain on real storage beside one in virtual time."""

from collections import Counter
from datetime import timedelta

import pytest

from shared.azure.connections import Connections
from shared.azure.meter import usage_of
from shared.clock import SystemClock
from shared.concurrency.rules import BUILT_IN, Rule, Rules, RuleStep
from shared.concurrency.tuning import Stretch, Trace, TraceHeader
from shared.dequeue.drain import Drain, Drained
from shared.dequeue.permits import CONTAINER, BlobSlots
from shared.dequeue.permits import SlotPlan as Permits
from shared.dequeue.work_queue import WorkQueue
from shared.messages import Permit, encode_permit
from shared.simulation.simulator import DAY, Push, Simulation


@pytest.mark.parametrize("messages", [1, 3])
def test_a_drain_requests_what_the_replay_counts(fleet, provisioned, messages):
    """Its lease, its receives, a delete for each message, its last look and its release.

    Request for request, but for empty receives of tasks that ask at the same moment, one for each further task.
    """
    with Connections(provisioned.connection_string) as connections:
        clock = SystemClock()
        queue = connections.queues.get_queue_client(fleet.queue.queue_name)
        slots = BlobSlots(connections.blobs.get_container_client(CONTAINER), clock)
        # A slot that was never used costs two requests more, once and for ever.
        slots.lease(0).release()
        drain = Drain(
            sources=[WorkQueue(queue, clock, 30)],
            handle=lambda _delivery: None,
            fleet=Permits(rule=lambda depth: depth, cap=lambda: 100, tasks=4),
            slots=slots,
            send=len,
            clock=clock,
        )
        fleet.put(messages)
        before = Counter(usage_of(connections.meter.tally))
        assert drain.on_signal(encode_permit(Permit(slot=0, depth=messages, tasks=messages))) is Drained.GAVE_UP
        real = Counter(usage_of(connections.meter.tally)) - before
    counted = _replayed(messages) - _replayed(0) - Counter({"queue": messages})
    found = Counter()
    for charge, number in real.items():
        found[charge.meter] += number
    assert found["blob-other"] == counted["blob-other"]
    assert counted["queue"] <= found["queue"] <= counted["queue"] + messages - 1


def _replayed(messages):
    """Return what a replay of so many messages counts, by what it is billed as."""
    stretches = [Stretch(at=DAY, arrived=messages, latency=0.001)]
    outcome = Simulation(Trace(TraceHeader(), stretches), Push(BUILT_IN)).run()
    counted = Counter()
    for charge, number in outcome.usage.items():
        # What the tick asks for while the job counts as open is not the drain's.
        if charge.cause != "sweep":
            counted[charge.meter] += number
    return counted


def test_whoever_runs_is_not_woken_again():
    """A second put while the slot's tasks work sends no permit: one is sent, received and completed."""
    rules = Rules(1, (Rule("four", (), RuleStep(4)),), most=4)
    stretches = [Stretch(at=DAY + timedelta(seconds=second), arrived=8, latency=5.0) for second in (0, 1)]
    assert Simulation(Trace(TraceHeader(), stretches), Push(rules)).run().count("bus") == 3
