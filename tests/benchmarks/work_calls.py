"""The parts of `tests.benchmarks.work` about calls to others. A bank in a process of its own judges by its own log."""

import logging
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final, Self

from shared.parked import DEFAULT_POLICY
from shared.telemetry import events
from tests.benchmarks.work_bank import LATER, Bank, Call, most_in
from tests.benchmarks.work_deployed import ended, publish
from tests.benchmarks.work_outlaws import BANK, PATIENCE, Calling, Limited, call_bank
from tests.benchmarks.work_part import Part
from tests.benchmarks.work_stack import Deployed, Killing, deployed
from tests.process.test_later import CONCURRENCY, Night
from tests.process.world import Sales

#: The job of which one call always times out, and which.
ITEMS, BAD, CALLS = 500, 490, 511
#: Without the service: hours of a given clock, the calls of a delivery at most, and the sizes of the jobs.
HOURS, CALLS_OF_A_DELIVERY, SIZES = 3, 52, (500, 10)
#: The seconds of an answer 429, and those within which a call that had begun before still comes.
AFTER, GRACE = 7.0, 0.5
#: The limit a second, the least mean, transactions of those jobs, and seconds between two kills.
RATE, LEAST, LIMITED, KILLS_EVERY = 100, 75, 6_000, 20.0
#: Where the numbers of the transactions of `Night` begin; and how long its calls wait for an answer.
_FIRST, _SHORT = 100, 2.0
_WORKLOADS: Final = ",".join(f"tests.benchmarks.work_outlaws:{one.__name__}" for one in (Calling, Limited))
_HEAD = ("what", "must be", "found")
_STALLED = re.compile(rf"{re.escape(events.TRANSACTIONS_STALLED.name)} ")


class _Alarms(logging.Handler):
    """Counts the lines that alert; a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self.lines, self._logger = 0, logging.getLogger("sluice")

    def __enter__(self) -> Self:
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        self.lines += record.getMessage().startswith(f"{events.TRANSACTIONS_STALLED.name} ")


def calls(_items: int) -> Part:
    """Run chunks by a given clock, then jobs on the deployed app."""
    part = Part(_HEAD)
    with Bank() as bank, _Alarms() as alarms:
        _always_times_out(part, bank, alarms)
    for items in SIZES:
        with Bank() as bank, _Alarms():
            _three_hours(part, bank, items)
    with Bank() as bank, deployed(_settings(bank), instances=2) as stack:
        _later(part, bank, stack)
    for kills in (False, True):
        with Bank() as bank, deployed(_settings(bank), instances=2) as stack:
            _limit(part, bank, stack, kills=kills)
    return part


def waits(_items: int) -> Part:
    """Run the job of which one call always times out on the deployed app, whose clock is that of the machine: for 45 minutes."""
    part, began = Part(_HEAD), time.monotonic()
    with Bank() as bank, deployed(_settings(bank), instances=2) as stack:
        bank.turn(never=[BAD])
        publish(stack, "calling", "calling", ITEMS)
        found = ended(stack, "calling", "completed_with_parked")
        alarms = len(_STALLED.findall(stack.host.log.read_text()))
        _judge_one(
            part, "on the deployed app", bank.read(), (found["accepted"]["items"], found["parked"]["items"]), alarms
        )
    part.said += f"It took {(time.monotonic() - began) / 60:.0f} minutes. "
    return part


def _settings(bank: Bank) -> dict[str, str]:
    return {"SLUICE_WORKLOADS": _WORKLOADS, BANK: bank.address}


class _Asking(Sales):
    """Calls the bank for each sale. `Night` reads its calls."""

    concurrency = CONCURRENCY

    def __init__(self, bank: Bank, patience: float) -> None:
        super().__init__()
        self._bank, self._patience, self.calls = bank, patience, list[int]()

    async def map(self, sale: Any, number: int) -> Any:
        """Call."""
        self.calls.append(number)
        await call_bank(self._bank.address, number - _FIRST, self._patience)
        return super().map(sale, number)


def _always_times_out(part: Part, bank: Bank, alarms: _Alarms) -> None:
    bank.turn(never=[BAD])
    night = Night(ITEMS, lambda _clock: _Asking(bank, _SHORT))
    night.run()
    parked = night.aside
    found = (night.sent[-1].accepted.items, parked.items if parked.reason == "later:TimeoutError" else 0)
    _judge_one(part, "by a given clock", bank.read(), found, alarms.lines)


def _judge_one(part: Part, where: str, log: Sequence[Call], found: tuple[int, int], alarms: int) -> None:
    of_bad = sum(one.number == BAD for one in log)
    is_right = len(log) == CALLS and of_bad == DEFAULT_POLICY.later and found == (ITEMS - 1, 1) and alarms > 0
    _note(
        part,
        f"{ITEMS} calls, of which one always times out, {where}",
        f"{CALLS} calls, 1 parked, an alert before",
        f"{len(log)} calls, {of_bad} of that one; {found[0]} accepted, {found[1]} parked; {alarms} lines of the alert before",
        is_right=is_right,
    )


def _three_hours(part: Part, bank: Bank, items: int) -> None:
    bank.turn(is_away=True)
    night = Night(items, lambda _clock: _Asking(bank, PATIENCE))
    deliveries = night.run(HOURS * 3_600)
    nothing = (night.entry, night.aside, night.sent) == (None, None, [])
    outage = len(bank.read())
    bank.turn()
    night.run()
    after = Counter(one.number for one in bank.read()[outage:])
    passed = night.sent[-1].accepted.items == items and after == Counter(range(items))
    most = min(items, CALLS_OF_A_DELIVERY)
    _note(
        part,
        f"{HOURS} hours without the service, by a given clock, {items} transactions",
        f"nothing parked, at most {most} calls of a delivery",
        f"{'nothing' if nothing else 'something'} parked, {outage} calls of {len(deliveries)} deliveries, at most {max(deliveries)} of one; "
        f"then {items if passed else 'not'} accepted, each by one call",
        is_right=nothing and passed and sum(deliveries) == outage and max(deliveries) <= most,
    )


def _later(part: Part, bank: Bank, stack: Deployed) -> None:
    bank.turn(later=ITEMS // 2, seconds=AFTER)
    publish(stack, "calling", "calling", ITEMS)
    found = ended(stack, "calling", "complete")
    log = bank.read()
    (said,) = [one for one in log if one.answer == LATER]
    early = [one for one in log if one.process == said.process and GRACE < one.at - said.at < AFTER]
    again = [one.at - said.at for one in log if one.number == said.number and one.at > said.at]
    _note(
        part,
        f"one answer 429 with `Retry-After: {AFTER:g}`, of {ITEMS}, on the deployed app",
        f"no call of that process for {AFTER:g} s, {ITEMS + 1} calls",
        f"{len(early)} calls before, the next one of that transaction after {min(again):.1f} s; {len(log)} calls, "
        f"{found['accepted']['items']} accepted",
        is_right=not early and len(log) == ITEMS + 1 and min(again) >= AFTER,
    )


def _limit(part: Part, bank: Bank, stack: Deployed, *, kills: bool) -> None:
    with ExitStack() as beside:
        publish(stack, "limited", "limited", LIMITED)
        killing = beside.enter_context(Killing(stack.host, KILLS_EVERY)) if kills else None
        found = ended(stack, "limited", "complete")
        killed = killing.kills if killing else 0
    log = bank.read()
    most, took = most_in(1.0, [one.at for one in log]), log[-1].at - log[0].at
    sent = most_in(1.0, sorted(one.sent for one in log))
    mean = len(log) / took
    is_right = (
        most <= RATE and found["accepted"]["items"] == LIMITED and {one.number for one in log} >= {*range(LIMITED)}
    )
    _note(
        part,
        f"`limits = {RATE}/s`, {LIMITED:,} transactions, two instances, {'a SIGKILL each ' + f'{KILLS_EVERY:.0f} s' if kills else 'no kills'}",
        f"at most {RATE} calls in any second" + ("" if kills else f", {LEAST} a second on average"),
        f"{most} in a second at most, {sent} by when they began, {mean:.0f} a second on average, {len(log):,} calls of {len({one.process for one in log})} "
        f"processes in {took:.0f} s" + (f", {killed} kills" if kills else ""),
        is_right=is_right and (kills or mean >= LEAST),
    )


def _note(part: Part, what: str, must: str, found: str, *, is_right: bool) -> None:
    part.rows.append((what, must, found))
    if not is_right:
        part.breaches.append(f"{what}: {found}")
