"""Waiting for what another thread or process does."""

import time

from azure.servicebus import ServiceBusMessageState

#: Seconds. On a busy machine all takes as long as it takes: this only ends what would never end.
LIMIT = 600


def until(look, pause=0.1):
    """Return what the look finds, as soon as it finds something."""
    end = time.monotonic() + LIMIT
    while not (found := look()):
        assert time.monotonic() < end, f"nothing was found within {LIMIT} s"
        time.sleep(pause)
    return found


def take(receiver, most=50):
    """Return what the bus holds for a receiver. It looks first, because no time tells that nothing comes.

    It asks again and again: the library waits to the end of a wait for a message that its other thread, which keeps the
    connection alive, has received for it.
    """
    end = time.monotonic() + LIMIT
    while any(one.state is ServiceBusMessageState.ACTIVE for one in receiver.peek_messages(250, sequence_number=1)):
        if found := receiver.receive_messages(most, max_wait_time=1):
            return found
        assert time.monotonic() < end, f"a message was there and not received within {LIMIT} s"
    return []
