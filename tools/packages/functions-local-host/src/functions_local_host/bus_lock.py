"""Keeps the lock of a message or of a session while its function runs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusReceiver
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError, SessionLockLostError

from functions_local_host.waiting import is_set_within

_log = logging.getLogger(__name__)

#: How long before its end a lock is renewed; a lock that is shorter than twice this is renewed at half of the remaining time.
LEAD = timedelta(seconds=10)
#: How long one renewal may take: a dead connection must not hold up the settlement that waits for it.
_RENEWAL_SECONDS = 10.0
_SHORTEST_WAIT = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock held by this host: when it ends, and how to have it last longer."""

    name: str
    until: Callable[[], datetime | None]
    renew: Callable[[], Awaitable[object]]


def message_lock(receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> Lock:
    """Return the lock of one message."""
    return Lock(
        f"message {message.message_id!r}",
        lambda: message.locked_until_utc,
        lambda: receiver.renew_message_lock(message, timeout=_RENEWAL_SECONDS),
    )


def session_lock(receiver: ServiceBusReceiver) -> Lock:
    """Return the lock of the session that a receiver has accepted."""
    session = receiver.session
    return Lock(
        f"session {session.session_id!r}",
        lambda: session.locked_until_utc,
        lambda: session.renew_lock(timeout=_RENEWAL_SECONDS),
    )


def renewal_wait(remaining: timedelta) -> timedelta:
    """Return the wait before the renewal of a lock that has this much left."""
    return max(remaining - min(LEAD, remaining / 2), _SHORTEST_WAIT)


@asynccontextmanager
async def renewed(lock: Lock, longest: timedelta | None) -> AsyncIterator[None]:
    """Renew the lock until the context ends, but for no longer than `longest`. None is without end."""
    ended = asyncio.Event()
    renewing = asyncio.create_task(_renew_until(ended, lock, longest))
    try:
        yield
    finally:
        ended.set()
        await renewing


async def _renew_until(ended: asyncio.Event, lock: Lock, longest: timedelta | None) -> None:
    end = None if longest is None else datetime.now(UTC) + longest
    is_held = True
    while is_held and (until := lock.until()) is not None:
        now = datetime.now(UTC)
        wait = renewal_wait(until - now)
        if end is not None and now + wait > end:
            _log.info("the lock of %s is renewed no longer: maxAutoLockRenewalDuration is over", lock.name)
            return
        if await is_set_within(ended, wait):
            return
        is_held = await _renew(lock)


async def _renew(lock: Lock) -> bool:
    """Return whether the lock may still be held."""
    try:
        await lock.renew()
    except (MessageLockLostError, SessionLockLostError) as error:
        _log.warning("the lock of %s is lost, it may run a second time: %s", lock.name, type(error).__name__)
        return False
    except (ServiceBusError, ValueError) as error:
        _log.warning("renewing the lock of %s failed: %s", lock.name, type(error).__name__)
        until = lock.until()
        return until is not None and until > datetime.now(UTC)
    return True
