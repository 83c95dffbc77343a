"""Every setting of the app, parsed once from a mapping. Only `function_app` reads the environment.

SETTINGS is the one list: the sample file, the documentation's table and Bicep are checked against it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from typing import Self

from shared.azure import BUS_SETTING, STORAGE_SETTING, Setting
from shared.capability import CAPABILITIES, Chosen, choose, find, line_of, names_of_settings
from shared.dequeue import Notify, When
from shared.errors import SettingsError
from shared.grammar import Rate, read_limits, read_rooms
from shared.names import find_switched, misspelt, unread
from shared.parked import DEFAULT_POLICY, PoisonPolicy
from shared.telemetry import TelemetryChoice
from shared.topology import MOST_WORK_QUEUES, Entities, rooms as entities_of_rooms, topology
from shared.values import SettingReader, problems_of

#: The workload that comes with Sluice.
BILLING = "shared.workloads.billing:Billing"


class Dequeue(StrEnum):
    """The reader of the work queues. Only one of the two, or the host's scaler would start instances for both."""

    TRIGGER = "trigger"
    PUSH = "push"


def _optional(name: str, what: str, value: str) -> Setting:
    """Return a setting whose default is its local value too."""
    return Setting(name, what, value, default=value)


def _poison(name: str, what: str, value: float) -> Setting:
    return _optional(f"SLUICE_POISON_{name}", f"poison: {what}", f"{value:g}")


SETTINGS = (
    STORAGE_SETTING,
    BUS_SETTING,
    _optional("SLUICE_WORK_QUEUES", "work queues that chunks are spread over, 1 to 100", "1"),
    _optional(
        "SLUICE_ROOMS",
        "rooms of publishers that do not trust each other, separated by commas: small letters, digits and single hyphens",
        "",
    ),
    _optional("SLUICE_CHUNK_ITEMS", "transactions of a chunk: `auto` (1000 to 8000, by job) or 1 to 100000", "auto"),
    _optional("SLUICE_MERGED_MIB", "MiB of JSON that the merged partial of a job may have, 1 to 1024", "16"),
    _optional(
        "SLUICE_CHUNK_OVERDUE_SECONDS",
        "how long a job may be silent before the tick puts its chunks again, 60 to 86400",
        "600",
    ),
    # Not below 8: a message on the host's poison queue lives for 7 days, and is parked from there.
    _optional(
        "SLUICE_RETENTION_DAYS", "how long a finished job keeps its payload, results and chunk rows, 8 to 3650", "30"
    ),
    _optional("SLUICE_WORKLOADS", "the workloads that jobs may name, as `module:Class`, separated by commas", BILLING),
    _optional(
        "SLUICE_LIMITS",
        "rates of limits, in place of those in the classes of workloads: `bank=50/s`, separated by commas",
        "",
    ),
    _optional(
        "SLUICE_DEQUEUE",
        "what takes work off the work queues: `push` (signals wake instances) or `trigger` (the host polls the storage queue `wake`, once a minute when idle)",
        "push",
    ),
    _optional(
        "SLUICE_NOTIFY",
        "push: which puts on a work queue send permits: `each`, `first`, `depth` or `burst`",
        "burst",
    ),
    _optional("SLUICE_NOTIFY_WHEN", "push: permits go `before` or `after` the put", "after"),
    _optional("SLUICE_PERMIT_TASKS", "tasks of a slot, which one instance runs at a time, 1 to 32", "4"),
    _optional(
        "SLUICE_BUDGET_PER_DAY",
        "what the app's own requests may cost on a day, in the currency of the prices: slows work down; or `none`",
        "none",
    ),
    _optional(
        "SLUICE_TELEMETRY",
        "spans and metrics: `off`, `otel` (OpenTelemetry's provider of the process) or `print` (spans in the log)",
        "off",
    ),
    _poison("DELIVERIES", "an unknown failure is parked at this delivery, 1 to 99", DEFAULT_POLICY.deliveries),
    _poison(
        "LATER",
        "a transaction that its service does not answer is parked after so many tries, 1 to 99",
        DEFAULT_POLICY.later,
    ),
    _poison(
        "PAUSE_PERCENT", "a job pauses if more of its chunks are parked, 0 to 100", 100 * DEFAULT_POLICY.pause_share
    ),
    _poison("PAUSE_CHUNKS", "... and if more than so many are parked, 0 to 1000000", DEFAULT_POLICY.pause_chunks),
    _poison(
        "PAUSE_ITEM_PERCENT",
        "a job pauses if more of its transactions are parked one by one, 0 to 100",
        100 * DEFAULT_POLICY.pause_item_share,
    ),
    _poison("PAUSE_ITEMS", "... and if more than so many are parked, 0 to 1000000000", DEFAULT_POLICY.pause_items),
    _optional(CAPABILITIES, "the capabilities that are on, by name or as `module:NAME`, separated by commas", ""),
    # No default: the host reads it by its name in the trigger, and does not know this list.
    Setting("SLUICE_TICK_SCHEDULE", "when the app's one timer runs, an NCRONTAB expression in UTC", "0 * * * * *"),
)
NAMES = frozenset(setting.name for setting in SETTINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The parsed settings of the app."""

    work_queues: int
    #: Without the common room. Each is a queue, a container and a function.
    rooms: tuple[str, ...]
    #: None: as many as suit the job.
    chunk_items: int | None
    #: Bytes.
    merged_most: int
    chunk_overdue: timedelta
    retention: timedelta
    #: Rates that replace those of the workloads, by limit.
    limits: Mapping[str, Rate]
    dequeue: Dequeue
    notify: Notify
    notify_when: When
    permit_tasks: int
    #: Of a worker that polls.
    #: When a message is poison, and when a job has too many of them.
    poison: PoisonPolicy
    #: None: no budget.
    budget_per_day: Decimal | None
    telemetry: TelemetryChoice
    #: Those that the line names, each with its choice.
    capabilities: tuple[Chosen, ...]
    #: Why, by name, of those that the app runs without although they are wanted.
    left_out: Mapping[str, str]
    #: The text of SLUICE_WORKLOADS. The app that runs them loads them.
    workloads: str
    #: Names that begin like a setting and that nothing reads, each with its remedy.
    unread: Mapping[str, str]

    @property
    def entities(self) -> tuple[Entities, ...]:
        """The entities that this installation has beside the base of the topology."""
        return (entities_of_rooms(self.rooms), *chain.from_iterable(one.entities for one in self.capabilities))

    def capability(self, name: str) -> Chosen | None:
        """Return the capability of this name, or None where it is off."""
        return next((one for one in self.capabilities if one.name == name), None)

    @classmethod
    def parse(cls, environ: Mapping[str, str]) -> Self:
        """Return the settings, or raise one error that names every fault in them."""
        problems = [problem for setting in SETTINGS for problem in problems_of(setting, environ)]
        read = SettingReader(SETTINGS, environ, problems.append)
        work_queues = read.whole_number("SLUICE_WORK_QUEUES", 1, MOST_WORK_QUEUES)
        rooms = read_rooms("SLUICE_ROOMS", read.text("SLUICE_ROOMS"), problems.append)
        chunk_items = read.whole_number_or("auto", "SLUICE_CHUNK_ITEMS", 1, 100_000)
        merged = read.whole_number("SLUICE_MERGED_MIB", 1, 1024)
        overdue = read.whole_number("SLUICE_CHUNK_OVERDUE_SECONDS", 60, 86_400)
        retention = read.whole_number("SLUICE_RETENTION_DAYS", 8, 3650)
        limits = read_limits("SLUICE_LIMITS", read.text("SLUICE_LIMITS"), problems.append)
        dequeue = read.one_of("SLUICE_DEQUEUE", Dequeue)
        notify = read.one_of("SLUICE_NOTIFY", Notify)
        notify_when = read.one_of("SLUICE_NOTIFY_WHEN", When)
        permit_tasks = read.whole_number("SLUICE_PERMIT_TASKS", 1, 32)
        poison = _poison_policy(read)
        budget = read.amount_or_none("SLUICE_BUDGET_PER_DAY")
        telemetry = read.one_of("SLUICE_TELEMETRY", TelemetryChoice)
        chosen = choose(line_of(environ), SETTINGS, environ, problems.append)
        left_out = {one.name: one.fault for one in chosen if one.fault}
        capabilities = tuple(one for one in chosen if not one.fault)
        for name, fault in find_switched(environ, line_of(environ)).items():
            if find(name).capability.may_fail:
                left_out[name] = fault
            else:
                problems.append(fault)
        known = NAMES | names_of_settings(capabilities)
        problems += misspelt(environ, known)
        if not problems:
            of_capabilities = chain.from_iterable(one.entities for one in capabilities)
            problems += _check_entities(work_queues, [entities_of_rooms(rooms), *of_capabilities])
        if problems:
            raise SettingsError("; ".join(problems))
        return cls(
            work_queues=work_queues,
            rooms=rooms,
            chunk_items=chunk_items,
            merged_most=merged * 1024 * 1024,
            chunk_overdue=timedelta(seconds=overdue),
            retention=timedelta(days=retention),
            limits=limits,
            dequeue=dequeue,
            notify=notify,
            notify_when=notify_when,
            permit_tasks=permit_tasks,
            poison=poison,
            budget_per_day=budget,
            telemetry=telemetry,
            capabilities=capabilities,
            left_out=left_out,
            workloads=environ.get("SLUICE_WORKLOADS", "").strip() or BILLING,
            unread=unread(environ, known),
        )


def _poison_policy(read: SettingReader) -> PoisonPolicy:
    def number(name: str, lowest: int, highest: int) -> int:
        return read.whole_number(f"SLUICE_POISON_{name}", lowest, highest)

    # The host moves a message away at its hundredth delivery.
    deliveries = number("DELIVERIES", 1, 99)
    share, chunks = number("PAUSE_PERCENT", 0, 100) / 100, number("PAUSE_CHUNKS", 0, 1_000_000)
    item_share, items = number("PAUSE_ITEM_PERCENT", 0, 100) / 100, number("PAUSE_ITEMS", 0, 1_000_000_000)
    return PoisonPolicy(
        deliveries=deliveries,
        later=number("LATER", 1, 99),
        pause_share=share,
        pause_chunks=chunks,
        pause_item_share=item_share,
        pause_items=items,
    )


def _check_entities(work_queues: int, entities: Sequence[Entities]) -> Iterator[str]:
    try:
        topology(work_queues, entities)
    except ValueError as error:
        yield str(error)
