"""A process that never gets through with its first message: `drain_process SETTINGS PERMIT` follows one permit.

`drain_process SETTINGS QUEUE` is a worker, which receives its permits, and takes its messages from that queue.
"""

import json
import sys
import time

from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.dequeue.drain import Drain, PermitWorker
from shared.dequeue.permits import BlobSlots, SlotPlan
from shared.dequeue.work_queue import WorkQueue
from shared.signals import BusPermits

CAP, TASKS, VISIBILITY = 4, 1, 2


def drain_of(connections, handle, queue="work-00"):
    """Return a drain of a fleet of four tasks, in slots of one."""
    clock = SystemClock()
    return Drain(
        sources=[WorkQueue(connections.queues.get_queue_client(queue), clock, VISIBILITY)],
        handle=handle,
        fleet=SlotPlan(rule=lambda depth: CAP, cap=lambda: CAP, tasks=TASKS),
        slots=BlobSlots(connections.blobs.get_container_client("permits"), clock),
        send=BusPermits(connections),
        clock=clock,
        visibility=VISIBILITY,
    )


def main(settings, what):
    """Begin, say so, and stay."""

    def handle(_delivery):
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        time.sleep(600)

    with Connections.parse(json.loads(settings)) as connections:
        if what.startswith("{"):
            drain_of(connections, handle).on_signal(what.encode())
        else:
            PermitWorker(connections, drain_of(connections, handle, what), lanes=1).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
