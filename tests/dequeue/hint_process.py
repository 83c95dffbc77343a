"""A process that follows one hint and never gets through with its first message: `hint_process CONNECTION QUEUE`."""

import sys
import time
from functools import partial

from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.dequeue.hint_follower import HintFollower
from shared.dequeue.listener import sweep
from shared.dequeue.work_queue import WorkQueue

VISIBILITY = 2


def follower_of(connections, handle, queue):
    """Return a follower of hints on one queue."""
    clock = SystemClock()
    return HintFollower(
        sources=[WorkQueue(connections.queues.get_queue_client(queue), clock, VISIBILITY)],
        sweep=partial(sweep, clock=clock, visibility=VISIBILITY),
        handle=handle,
        park=lambda delivery: None,
        send_hint=lambda queue: None,
        monotonic=clock.monotonic,
    )


def main(connection_string, queue):
    """Begin, say so, and stay."""

    def handle(delivery, _until):
        sys.stdout.write(f"begun {delivery.body.decode()}\n")
        sys.stdout.flush()
        time.sleep(600)

    with Connections(connection_string) as connections:
        follower_of(connections, handle, queue).on_hint()


if __name__ == "__main__":
    main(*sys.argv[1:])
