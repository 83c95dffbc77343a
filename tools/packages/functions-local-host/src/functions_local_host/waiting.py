"""Waiting for an event, with an upper bound."""

import asyncio
from datetime import timedelta


async def is_set_within(event: asyncio.Event, wait: timedelta) -> bool:
    """Return whether the event was set before the wait was over."""
    try:
        async with asyncio.timeout(wait.total_seconds()):
            return await event.wait()
    except TimeoutError:
        return False
