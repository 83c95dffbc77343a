"""Compares host.json and settings with the values that Sluice relies on. Pure: both come as data."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.azure import HOST_STORAGE
from shared.cron import DAYS, HOUR, MINUTE, MONTHS, CronField, read_field
from shared.errors import ScheduleRefusedError
from tools.cli.doctor import Finding, State

_OVERRIDE: Final = re.compile(r"AzureFunctionsJobHost(?:__|:)(.+)", re.IGNORECASE)
_DISABLED: Final = re.compile(r"AzureWebJobs[._](.+)[._]Disabled", re.IGNORECASE)
_THREADS: Final = "PYTHON_THREADPOOL_THREAD_COUNT"
_SCHEDULE: Final = "SLUICE_TICK_SCHEDULE"
#: Threads that a worker has by itself on an instance of one CPU.
_FEW_THREADS: Final = 5
#: The app parks a message at its 99th delivery at the latest.
_DELIVERIES: Final = 100
_QUEUES: Final = "extensions.queues."
_BUS: Final = "extensions.servicebus."


@dataclass(frozen=True, slots=True)
class _Promise:
    """A value of host.json that Sluice relies on."""

    key: str
    #: The host's own value, where neither file nor setting has one.
    default: str
    wanted: str
    holds: Callable[[str], bool]
    consequence: str


def _is(wanted: str) -> Callable[[str], bool]:
    return lambda found: found.lower() == wanted


_PROMISES: Final = (
    _Promise(
        f"{_QUEUES}messageEncoding",
        "base64",
        "none",
        _is("none"),
        "the host takes each message for Base64 and refuses it, and no job begins",
    ),
    _Promise(
        f"{_QUEUES}maxDequeueCount",
        "5",
        f"{_DELIVERIES} or more",
        lambda found: _number(found) >= _DELIVERIES,
        "the host gives up messages before the app has parked them by their reason",
    ),
    _Promise(
        f"{_BUS}prefetchCount",
        "0",
        "0",
        _is("0"),
        "locks run out while messages wait in an instance, and they are delivered a second time",
    ),
    _Promise(
        f"{_BUS}autoCompleteMessages",
        "true",
        "true",
        _is("true"),
        "no message is ever done: each one is delivered again until it is a dead letter",
    ),
)
#: What does not happen while a function is disabled.
_WITHOUT: Final[Mapping[str, str]] = {
    "accept_hinted": "submissions of rooms wait for the tick",
    "accept_submission": "no job begins",
    "health": "a load balancer takes the app for dead",
    "park_dead": "what failed for good is not listed by `sluice parked list`",
    "release_gate": "opened gates release nothing before the tick",
    "settle_results": "no job ends",
    "tick": "nothing that is overdue is found, and nothing old is removed",
}
#: Instances of `sluice worker` may do its work.
_MAY_BE_OFF: Final = "drain_work"


def is_of_app(settings: Mapping[str, str]) -> bool:
    """Return whether these are the settings of the app, and not only those of a person: they say where its host stores."""
    return any(name.partition("__")[0] == HOST_STORAGE for name in settings)


def judge_host(host_json: Mapping[str, Any] | None, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each value of host.json that Sluice relies on, with its override. None: there is no file here."""
    file = {} if host_json is None else dict(_flat("", host_json))
    overrides = {
        re.sub("__|:", ".", found[1]).lower(): (name, text.strip())
        for name, text in settings.items()
        if (found := _OVERRIDE.fullmatch(name))
    }

    def value(key: str, default: str) -> tuple[str, str]:
        return overrides.get(key.lower()) or ("host.json", file.get(key.lower(), default))

    for one in _PROMISES:
        if host_json is None and one.key.lower() not in overrides:
            continue
        where, text = value(one.key, one.default)
        problem = ""
        if not one.holds(text):
            problem = f"is {text} by {where}, expected {one.wanted}, so {one.consequence}: {_mend(where)}"
        yield _finding("host.json", one.key, problem)
    if host_json is not None:
        taken = [
            value(f"{_QUEUES}{key}", default)[1] for key, default in (("batchSize", "16"), ("newBatchThreshold", "8"))
        ]
        yield _threads(sum(map(_number, taken)), settings.get(_THREADS, "").strip())


def _threads(messages: int, given: str) -> Finding:
    threads = _number(given) if given else _FEW_THREADS
    problem = ""
    if threads < messages:
        said = f"is {given}" if given else f"is not set, and a worker has {_FEW_THREADS} or 6 threads"
        problem = (
            f"{said}, but an instance takes {messages} messages at a time, so they wait in it while other instances have "
            f"none: set {_THREADS}={messages}, or lower batchSize in host.json"
        )
    return _finding("setting", _THREADS, problem)


def judge_functions(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each function that the settings disable."""
    for name, text in settings.items():
        found = _DISABLED.fullmatch(name)
        if not found or text.strip().lower() not in {"true", "1"}:
            continue
        if found[1] == _MAY_BE_OFF:
            yield Finding("function", found[1], note=f"{name} is {text}: right where `sluice worker` does its work")
        else:
            consequence = _WITHOUT.get(found[1], "what it listens to waits")
            yield _finding("function", found[1], f"does not run, for {name} is {text}, so {consequence}: remove {name}")


def judge_schedule(settings: Mapping[str, str]) -> Finding:
    """Return the finding about the schedule of the tick."""
    text = settings.get(_SCHEDULE, "")
    if fault := fault_of_schedule(text):
        fault = (
            f"is {text!r}: {fault}, so nothing that is overdue is found in time: set it to '0 * * * * *', once a minute"
        )
    return _finding("setting", _SCHEDULE, fault)


def fault_of_schedule(text: str) -> str:
    """Return the fault of an NCRONTAB expression, or nothing. It has six fields."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"it has {len(fields)} fields, expected second, minute, hour, day, month and weekday"
    try:
        for field, found in zip(_FIELDS, fields, strict=True):
            read_field(field, found)
    except ScheduleRefusedError as error:
        return str(error)
    return ""


#: The host takes any beginning of a name, and no 7 for Sunday. A test compares this with the local host.
_FIELDS: Final = (
    CronField("second", 0, 59),
    MINUTE,
    HOUR,
    CronField("day", 1, 31),
    CronField("month", 1, 12, MONTHS, letters=1),
    CronField("weekday", 0, 6, DAYS, letters=1),
)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else -1


def _flat(prefix: str, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}".lower(), str(value)


def _mend(where: str) -> str:
    return "correct it there" if where == "host.json" else f"remove {where}"


def _finding(kind: str, name: str, problem: str) -> Finding:
    return Finding(kind, name, problem, State.DIFFERS if problem else State.OK)
