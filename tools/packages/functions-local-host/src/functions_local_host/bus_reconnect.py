"""Keeps a part of a Service Bus listener going through lost connections and restarts of the broker."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta

from azure.servicebus.exceptions import ServiceBusError

from functions_local_host.bus_run import BusRun
from functions_local_host.waiting import is_set_within

_log = logging.getLogger(__name__)

_SHORTEST_WAIT, _LONGEST_WAIT = timedelta(milliseconds=250), timedelta(seconds=30)
#: Doubling further passes the longest wait.
_MOST_DOUBLINGS = 7
#: How long a connection must have served for its end to count as the first failure again.
_STEADY = timedelta(seconds=30)


def reconnect_wait(failures: int) -> timedelta:
    """Return the wait before the next connection after so many failures in a row."""
    return min(_SHORTEST_WAIT * math.ldexp(1, min(failures, _MOST_DOUBLINGS)), _LONGEST_WAIT)


async def keep_serving(run: BusRun, serve: Callable[[], Awaitable[None]]) -> None:
    """Call `serve` again whenever its connection fails, until the listener stops."""
    loop, failures = asyncio.get_running_loop(), 0
    while not run.stopping.is_set():
        began = loop.time()
        try:
            await serve()
        except (ServiceBusError, OSError, ValueError) as error:
            # ValueError: another task of the connection has shut its receiver down.
            failures = 0 if loop.time() - began > _STEADY.total_seconds() else failures
            wait = reconnect_wait(failures)
            _log.warning(
                "receiving from %s for function %r failed, next try in %g s: %s",
                run.trigger.source,
                run.function.name,
                wait.total_seconds(),
                error,
            )
            await is_set_within(run.stopping, wait)
            failures += 1
