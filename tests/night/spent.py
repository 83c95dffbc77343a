"""CPU of a process and all that it started, by the kernel's own count."""

import os
from contextlib import suppress

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_of(pid):
    """Return its seconds of CPU with those of its processes, also of those that have ended."""
    seconds, left = 0.0, [pid]
    while left:
        one = left.pop()
        with suppress(OSError):
            with open(f"/proc/{one}/stat", encoding="utf-8") as file:  # noqa: PTH123 - read within microseconds, often
                seconds += sum(map(int, file.read().rpartition(")")[2].split()[11:15])) / _TICK
            for thread in os.listdir(f"/proc/{one}/task"):  # noqa: PTH208 - the same
                with open(f"/proc/{one}/task/{thread}/children", encoding="utf-8") as file:  # noqa: PTH123 - the same
                    left += map(int, file.read().split())
    return seconds
