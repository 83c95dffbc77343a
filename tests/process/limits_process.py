"""A process that runs chunks with a limit of 100 a second, one after another: `limits_process STORAGE CONTAINER`.

It says the time of each call, by the clock of the machine, which all processes share.
"""

import os
import sys
import time
from contextlib import suppress

from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.dequeue.permits import BlobSlots
from shared.errors import NoSlotError
from shared.pipeline.failing.call_limits import CallLimits
from shared.workloads.isolate import Calls
from shared.workloads.registry import isolate_lines
from tests.process.world import Sales

LINES = [b'{"shop": "a", "amount": "1.10"}'] * 1000


class Calling(Sales):
    """Sales whose calls have a limit."""

    name, limits = "calling", {"bank": "100/s"}


def main(storage, container):
    """Call until this process is killed."""
    with Connections(storage) as connections:
        clock = SystemClock()
        limits = CallLimits(BlobSlots(connections.blobs.get_container_client(container), clock), clock, {})
        while True:
            with suppress(NoSlotError), limits.pace(Calling()) as turns:
                begin = turns.begin

                def begin_and_say(begin=begin):
                    now = time.monotonic()
                    has_begun = begin()
                    if has_begun:
                        os.write(1, b"%.6f\n" % now)
                    return has_begun

                turns.begin = begin_and_say
                isolate_lines(Calling(), LINES, range(1, 1 + len(LINES)), calls=Calls(turns=turns))


if __name__ == "__main__":
    main(*sys.argv[1:])
