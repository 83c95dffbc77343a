"""What the jobs of `tests.benchmarks.work` do that end their process, or call the bank, as the app's own processes load it."""

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Self

import aiohttp

from shared.errors import Later
from shared.workloads import Line
from shared.workloads.billing import UsageRecord
from tests.benchmarks.work_bank import GOOD, LATER
from tests.benchmarks.work_checker import number_of

#: The setting with the address of the bank, and the seconds until a call of it has failed.
BANK, PATIENCE = "WORK_BANK", 10.0
#: The memory of an instance as infra deploys it, in bytes.
DEPLOYED_MEMORY = 2 << 30
CRIMES: Mapping[str, Callable[[], Any]] = {
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(1),
    "memory": lambda: len(b"x" * (3 << 30)),
}


class Sums:
    """Adds up quantities."""

    name, transaction, partial, sums = "sums", UsageRecord, Decimal, ("quantity",)

    @classmethod
    def configured(cls, _settings: Mapping[str, str]) -> Self:
        """Return it."""
        return cls()

    def combine(self, mapped: list[Decimal]) -> Decimal:
        """Add up."""
        return sum(mapped, Decimal())

    def merge(self, left: Decimal, right: Decimal) -> Decimal:
        """Add up."""
        return left + right

    def finish(self, partial: Decimal) -> Iterator[Line]:
        """Yield the sum."""
        yield Line({"quantity": str(partial)})


class Criminal(Sums):
    """Does what the plan of a transaction names, in a process that has as little memory as a deployed one."""

    name = "criminal"

    @classmethod
    def configured(cls, _settings: Mapping[str, str]) -> Self:
        """Return it."""
        read, page = os.sysconf, os.sysconf("SC_PAGE_SIZE")
        os.sysconf = lambda name: DEPLOYED_MEMORY // page if name == "SC_PHYS_PAGES" else read(name)
        return cls()

    def map(self, usage: UsageRecord, _number: int) -> Decimal:
        """Do it."""
        if usage.plan in CRIMES:
            CRIMES[usage.plan]()
        return usage.quantity


class Calling(Sums):
    """Calls the bank for each transaction."""

    name = "calling"

    def __init__(self, bank: str) -> None:
        self._bank = bank

    @classmethod
    def configured(cls, settings: Mapping[str, str]) -> Self:
        """Return it with the address of the bank."""
        return cls(settings[BANK])

    async def map(self, usage: UsageRecord, _number: int) -> Decimal | Later:
        """Call."""
        return await call_bank(self._bank, number_of(usage.account)) or usage.quantity


class Limited(Calling):
    """Has a limit."""

    name, limits = "limited", {"bank": "100/s"}


async def call_bank(bank: str, number: int, patience: float = PATIENCE) -> Later | None:
    """Call the bank under this number. Return when it wants to be called again, if it does."""
    timeout = aiohttp.ClientTimeout(total=patience)
    call = {"number": number, "process": os.getpid(), "sent": time.monotonic()}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{bank}/charges", json=call) as answer,
        ):
            status, after = answer.status, answer.headers.get("Retry-After", "1")
    except aiohttp.ClientError as error:
        raise ConnectionError(f"the bank does not answer: {type(error).__name__}") from error
    if status == LATER:
        return Later(float(after), "bank: 429")
    if status != GOOD:
        raise ConnectionError(f"the bank answers {status}")
    return None
