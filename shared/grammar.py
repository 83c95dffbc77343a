"""The grammars of names, rooms and exact numbers.

An accepted name cannot leave its container, however a client normalises paths.

Amounts and sums are exact decimals of one grammar, in messages, payloads and rows alike. As text: digits, with an
optional minus before them, and an optional point with digits behind. JSON numbers have the same bounds. They are added
without rounding.

A room is a publisher that the others do not trust, with a queue and a container of its own.

A rate is a number of calls in a second or a minute, such as 100/s.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow, Rounded
from types import MappingProxyType
from typing import Final

from shared.refusals import Reason, refuse

#: A publisher's name for a job, and the names of workloads and gates.
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
#: A segment neither begins nor ends with a dot: `..` never gets through, and Azure drops dots at the end of a path.
_SEGMENT: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_.=+@,-]*[A-Za-z0-9_=+@,-])?"
BLOB: Final = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT}){{0,15}}")
SHA256: Final = re.compile(r"[0-9a-f]{64}")
LONGEST_BLOB: Final = 512
_ROOM: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
#: With `submissions-` and `-poison` around it, a queue's name stays below the 63 characters of storage.
LONGEST_ROOM: Final = 40
#: Characters of a message's id, subject and correlation id on Service Bus.
LONGEST_ON_BUS: Final = 128
#: Between a room and a job. A publisher's name cannot contain it, so no message claims a job of another room.
_JOIN: Final = "~"
_SHARD, _RUN = "!", "!r"
#: No job has a shard above it; two digits keep the order.
LAST_SHARD: Final = 99


def is_room(text: str) -> bool:
    """Check a room's name. Queues that end in `-poison`, such as `submissions-poison`, belong to the host."""
    reserved = text == "poison" or text.endswith("-poison")
    return len(text) <= LONGEST_ROOM and _ROOM.fullmatch(text) is not None and not reserved


def room_job(room: str, job: str) -> str:
    """Return the internal id of the job that a room's publishers call `job`. The common room is the empty text."""
    return f"{room}{_JOIN}{job}" if room else job


def room_of(job: str) -> str:
    """Return the room of a job from its internal id. Its queue gave the room, the common room is empty."""
    return job.rpartition(_JOIN)[0]


def run_partition(job: str, run_from: int) -> str:
    """Return the partition of a job's totals. A rerun has one of its own, so those of the run before stay.

    `!` is in no job's id, so it is no partition of another job.
    """
    return f"{job}{_RUN}{run_from}" if run_from else job


def shard_partition(job: str, shard: int, run_from: int = 0) -> str:
    """Return the partition of one shard of a job's totals."""
    return f"{run_partition(job, run_from)}{'-' if run_from else _SHARD}{shard:02}"


def end_of_shards(job: str) -> str:
    """Return a key behind each partition of a job's totals, of every run, and before those of any other job."""
    return f"{job}{chr(ord(_SHARD) + 1)}"


def name_of(job: str) -> str:
    """Return the name by which its publisher calls a job, from its internal id."""
    return job.rpartition(_JOIN)[2]


def is_job(text: str) -> bool:
    """Check a job's internal id: a publisher's name, after its room if it has one."""
    room, join, job = text.rpartition(_JOIN)
    return NAME.fullmatch(job) is not None and (not join or is_room(room))


def bus_name(text: str) -> str:
    """Return a job's short name for the bus, which limits its length. Two jobs never share it."""
    if len(text) <= LONGEST_ON_BUS:
        return text
    return f"{text[: LONGEST_ON_BUS - 65]}~{hashlib.sha256(text.encode()).hexdigest()}"


def check_job(job: str) -> str:
    """Return a publisher's name for its job, or refuse it. Internal ids are for `is_job`."""
    if not NAME.fullmatch(job):
        raise refuse(Reason.BAD_JOB, f"the job is called {job[:120]!r}")
    return job


def check_name(kind: str, name: str) -> str:
    """Return the name of a workload or a gate, or refuse it."""
    if not NAME.fullmatch(name):
        raise refuse(Reason.BAD_NAME, f"the {kind} is called {name[:120]!r}")
    return name


def check_blob(name: str) -> str:
    """Return the name of a blob inside the payload container, or refuse it."""
    if len(name) > LONGEST_BLOB or not BLOB.fullmatch(name):
        raise refuse(Reason.BAD_BLOB_NAME, f"the blob is called {name[:120]!r}")
    return name


def check_kept(name: str) -> str:
    """Return the name of a blob that the app keeps for a job, or refuse it."""
    if owner_of(name) is None:
        raise refuse(Reason.BAD_BLOB_NAME, f"the blob is called {name[:160]!r}")
    return name


def owner_of(name: str) -> str | None:
    """Return the only job that may own a blob of this name, or None if any job may."""
    job, _, sha256 = name.partition("/")
    return job if SHA256.fullmatch(sha256) and is_job(job) else None


#: The blob of a stretch, behind the name of its job.
_STRETCH: Final = re.compile(r"stretches/\d{6}")


def owner_of_stretch(name: str) -> str | None:
    """Return the only job that may own a stretch of this name, or None if it is no stretch."""
    job, _, rest = name.partition("/")
    return job if _STRETCH.fullmatch(rest) and is_job(job) else None


def payload_name(job: str, sha256: str) -> str:
    """Return the name of the blob of a job's payload. No other job writes it, and it never has other content."""
    return f"{job}/{sha256}"


#: Enough digits for a thousand million of the largest amounts. A sum that does not fit is an error and not rounded.
_EXACT: Final = Context(prec=100, traps=[DivisionByZero, Inexact, InvalidOperation, Overflow])
#: Sums by name; the mapping is never changed in place.
Amounts = Mapping[str, Decimal]
NO_AMOUNTS: Final[Amounts] = MappingProxyType({})


def amounts(texts: Mapping[str, str]) -> Amounts:
    """Return the decimal of every sum, or raise ValueError for text outside the grammar."""
    return MappingProxyType({name: read_sum(text) for name, text in texts.items()})


def plus(left: Amounts, right: Amounts) -> Amounts:
    """Return the exact sums. A name that one side lacks counts as zero there."""
    return _combine(left, right, _EXACT.add)


def minus(left: Amounts, right: Amounts) -> Amounts:
    """Return the exact differences. A difference of zero is left out, as if it had never been added."""
    return _combine(left, right, _EXACT.subtract)


def texts(values: Amounts) -> dict[str, str]:
    """Return the sums as text without exponents, for messages and rows."""
    return {name: format(value, "f") for name, value in sorted(values.items())}


def _combine(left: Amounts, right: Amounts, operation: Callable[[Decimal, Decimal], Decimal]) -> Amounts:
    if not right:
        return left
    names = sorted({*left, *right})
    both = {name: operation(left.get(name, ZERO), right.get(name, ZERO)) for name in names}
    return MappingProxyType({name: value for name, value in both.items() if value})


#: Digits of one value before and behind the point.
DIGITS, PLACES = 20, 18
#: Digits of a sum before the point: ten million of the largest values have 27.
DIGITS_OF_SUM: Final = 30
ZERO: Final = Decimal(0)
#: A value that would have to be rounded is an error instead.
EXACT: Final = Context(prec=DIGITS_OF_SUM + PLACES, traps=[Inexact, InvalidOperation, Overflow, Rounded])
#: The grammar of a value and of a sum. It has `[0-9]` because `\d` takes the digits of every script.
VALUE: Final = rf"-?[0-9]{{1,{DIGITS}}}(?:\.[0-9]{{1,{PLACES}}})?"
SUM: Final = rf"-?[0-9]{{1,{DIGITS_OF_SUM}}}(?:\.[0-9]{{1,{PLACES}}})?"
_VALUE: Final = re.compile(VALUE)
_SUM: Final = re.compile(SUM)


def read_amount(value: object, field: str) -> Decimal:
    """Return a field's exact value. Null or a missing field is 0. All but a number within bounds is refused."""
    if value is None:
        return ZERO
    if isinstance(value, str) and _VALUE.fullmatch(value):
        # Matched as text first: Decimal would also take forms outside the grammar, like 1_000.
        return Decimal(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and _is_within(Decimal(value)):
        return Decimal(value)
    raise refuse(Reason.BAD_AMOUNT, f"{field} is {str(value)[:50]!r}")


def read_sum(text: str) -> Decimal:
    """Return a sum, or raise ValueError for text outside the grammar."""
    if not _SUM.fullmatch(text):
        raise ValueError(
            f"{text[:70]!r} is not a decimal number of at most {DIGITS_OF_SUM} digits before and {PLACES} behind the point"
        )
    return Decimal(text)


_BOUND: Final = re.compile(r"\d{1,9}|(?:100|\d{1,2}(?:\.\d{1,3})?)%", re.ASCII)


def check_bound(text: str) -> str:
    """Return an upper bound, a whole number or a share in percent, or raise ValueError for another text."""
    if not _BOUND.fullmatch(text):
        raise ValueError(
            f"{text[:50]!r} is no whole number of at most 9 digits, and no share from 0% to 100% like 2.5%"
        )
    return text


def is_share(bound: str) -> bool:
    """Check whether a bound is a share in percent."""
    return bound.endswith("%")


def most_of(bound: str, whole: int) -> int:
    """Return how much of a whole is within a bound."""
    return int(Decimal(bound[:-1]) * whole / 100) if is_share(bound) else int(bound)


def _is_within(number: Decimal) -> bool:
    return number.adjusted() < DIGITS and -int(number.as_tuple().exponent) <= PLACES


#: Upper bound of the rooms; those whose queues a tick looks at in their turn; those whose payloads a day's sweep lists.
MOST_ROOMS, ROOMS_A_TICK, ROOMS_A_DAY = 200, 4, 14


def read_rooms(name: str, text: str, report: Callable[[str], None]) -> tuple[str, ...]:
    """Return the rooms in the setting `name`, and report each fault in its text."""
    rooms = tuple(room.strip() for room in text.split(",")) if text.strip() else ()
    for room in rooms:
        if not is_room(room):
            report(
                f"{name} names the room {room[:100]!r}, expected at most {LONGEST_ROOM} small letters, digits and single "
                "hyphens, not `poison` and not ending in `-poison`, such as team-a"
            )
    if len(set(rooms)) < len(rooms):
        report(f"{name} is {text[:200]!r}: name each room once")
    if len(rooms) > MOST_ROOMS:
        report(f"{name} names {len(rooms)} rooms, expected at most {MOST_ROOMS}")
    return rooms


#: The name of a limit, which is part of the names of blobs.
_LIMIT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_RATE: Final = re.compile(r"([1-9][0-9]{0,3})/(s|min)")
_SECONDS: Final = MappingProxyType({"s": 1, "min": 60})
#: Upper bound of the calls of a rate. A lease is kept for each sixteen of them.
MOST_CALLS: Final = 1600


@dataclass(frozen=True, slots=True)
class Rate:
    """At most so many calls in any so many seconds."""

    calls: int
    seconds: int

    def __str__(self) -> str:
        """Return it as a person writes it."""
        return f"{self.calls}/{next(unit for unit, seconds in _SECONDS.items() if seconds == self.seconds)}"


def read_rate(name: object, text: object) -> Rate:
    """Return the rate of a limit, or raise ValueError that says what is wrong with its name or its text."""
    if not isinstance(name, str) or not _LIMIT.fullmatch(name):
        raise ValueError(
            f"a limit is called {str(name)[:100]!r}, expected at most 40 small letters, digits and hyphens"
        )
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found[1]) > MOST_CALLS:
        raise ValueError(
            f"the limit {name} is {str(text)[:100]!r}, expected 1 to {MOST_CALLS} calls in a second or a minute, such as "
            "100/s or 30/min"
        )
    return Rate(int(found[1]), _SECONDS[found[2]])


def read_limits(name: str, text: str, report: Callable[[str], None]) -> Mapping[str, Rate]:
    """Return the rates in the setting `name`, by limit, and report each fault in its text."""
    found: dict[str, Rate] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        limit, _, rate = map(str.strip, entry.partition("="))
        try:
            if found.setdefault(limit, read := read_rate(limit, rate)) != read:
                report(f"{name} is {text[:200]!r}: name each limit once")
        except ValueError as error:
            report(f"{name}: {error}; write it as bank=100/s")
    return MappingProxyType(found)
