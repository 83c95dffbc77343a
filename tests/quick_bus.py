"""The pauses of the bus library, short.

It looks every 50 ms whether a link is open, and a link that closes waits up to a second for a thread that sleeps. Of a
broker on this machine most of a test would be these pauses. What it sends, and in which order, is the same.
"""

import time

from azure.servicebus import _servicebus_receiver as receiver, _servicebus_sender as sender
from azure.servicebus._pyamqp import client

_LONGEST = 0.005


class _Clock:
    """The module `time` with a sleep that is short."""

    def __getattr__(self, name):
        return getattr(time, name)

    @staticmethod
    def sleep(seconds):
        time.sleep(min(seconds, _LONGEST))


def shorten_pauses():
    """Have the bus library of this process look more often."""
    for module in (client, receiver, sender):
        module.time = _Clock()
