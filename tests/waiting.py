"""Waiting for what another process does."""

import time

#: Seconds; a generous end for a busy machine.
DEADLINE = 90


def until(look, seconds=DEADLINE):
    """Return what the look finds, as soon as it finds something."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"nothing was found within {seconds} s"
        time.sleep(0.1)
    return found
