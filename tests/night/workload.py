"""The work of one night, as the app's own processes load it. It notes when a chunk begins, and fails where it is written so.

A transaction is `{"id", "account", "units", "do"}`; `do` is empty or says what happens to it.
"""

import asyncio
import os
import threading
import time
from decimal import Decimal
from pathlib import Path

import aiohttp
from msgspec import Struct

from sluice import __version__
from sluice.workloads import Line, Rejected, Total

#: Settings of this campaign: a file of notes, the bank's address, a file that is there once the faults are mended.
NOTES, BANK, REPAIRED = "NIGHT_NOTES", "NIGHT_BANK", "NIGHT_REPAIRED"


class Usage(Struct):
    """A transaction."""

    id: str
    account: str
    units: Decimal
    do: str = ""


class Notes:
    """Lines that several processes append to one file."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._last = threading.local()

    def note(self, workload, usage, number):
        """Note the first transaction of a run of neighbours: that is where a chunk, or a part of one, begins."""
        if number != getattr(self._last, "number", None):
            os.write(self._file, f"{time.time():.6f} {workload} {__version__} {usage.id}\n".encode())
        self._last.number = number + 1


class Plain:
    """Adds up units by account. An instance of 0.4.0 knows all that it uses."""

    name, transaction, partial, sums = "plain", Usage, dict[str, Decimal], ("units",)

    @classmethod
    def configured(cls, settings):
        """Return it with the files of the campaign."""
        made = cls()
        made.notes, made.repaired = Notes(settings[NOTES]), Path(settings[REPAIRED])
        return made

    def map(self, usage, number):
        """Do what the transaction says."""
        self.notes.note(self.name, usage, number)
        if usage.do == "reject":
            return Rejected("not_wanted")
        if usage.do == "slow":
            time.sleep(0.002)
        elif usage.do not in {"", "slow"} and not self.repaired.exists():
            fail(usage.do)
        return usage.account, usage.units

    def combine(self, mapped):
        """Add up by account."""
        partial = {}
        for account, units in mapped:
            partial[account] = partial.get(account, 0) + units
        return partial

    def merge(self, left, right):
        """Add up two partials."""
        return {account: left.get(account, 0) + right.get(account, 0) for account in left | right}

    def finish(self, partial):
        """Yield a line and a total for each account."""
        for account, units in sorted(partial.items()):
            yield Line({"account": account, "units": str(units)})
            yield Total(account, {"units": str(units)})


class Rate(Plain):
    """The same, and a line of each transaction."""

    name = "rate"

    def lines(self, usage, number, value):
        """Yield the proof that this transaction was accepted."""
        yield Line({"id": usage.id, "account": usage.account, "units": str(usage.units)})


class Invoice(Rate):
    """The same on another name, for jobs that are made from others."""

    name = "invoice"


class Charge(Rate):
    """Calls the bank for each transaction, which keeps a log of its own."""

    name, limits = "charge", {"bank": "100/s"}

    @classmethod
    def configured(cls, settings):
        """Return it with the bank's address."""
        made = super().configured(settings)
        made.bank = settings[BANK]
        return made

    async def map(self, usage, number):
        """Charge once under the number of the transaction, which may happen twice."""
        self.notes.note(self.name, usage, number)
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
            session.post(self.bank, json={"id": usage.id, "number": number}) as answer,
        ):
            if answer.status != 200:
                raise ConnectionError(f"the bank answers {answer.status}")
        return usage.account, usage.units


def fail(how):
    """Fail in one of the ways in which work fails."""
    if how == "raise":
        raise KeyError(how)
    if how == "exit":
        raise SystemExit(3)
    if how == "cancel":
        raise asyncio.CancelledError
    if how == "die":
        os._exit(9)
