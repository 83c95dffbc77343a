"""host.json as frozen values: defaults and ranges are those of the real host, which refuses to start outside them."""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from functions_local_host.configuration import Section, flatten, overrides

#: The default. In the environment Development exactly this value becomes `DEVELOPMENT_POLL`, also if host.json says it.
LONGEST_POLL, DEVELOPMENT_POLL = timedelta(minutes=1), timedelta(seconds=2)
#: How a functionTimeout or a lock renewal says "no limit".
UNLIMITED_TIMEOUT, UNLIMITED_RENEWAL = "-1", timedelta(milliseconds=-1)
_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "information": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "none": logging.CRITICAL + 1,
}


class HostJsonError(ValueError):
    """Raised when host.json holds what the host refuses. One line per problem."""


def _processors() -> int:
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """`extensions.queues`: how storage queues are polled."""

    batch_size: int = 16
    new_batch_threshold: int = field(default_factory=lambda: 8 * _processors())
    max_polling_interval: timedelta = LONGEST_POLL
    #: The wait after a failed run only; the lease of a run is the listener's.
    visibility_timeout: timedelta = timedelta(0)
    max_dequeue_count: int = 5
    #: "base64" or "none"
    message_encoding: str = "base64"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusOptions:
    """`extensions.serviceBus`: how queues and subscriptions of the bus are received from."""

    prefetch_count: int = 0
    auto_complete_messages: bool = True
    #: None: without end
    max_auto_lock_renewal_duration: timedelta | None = timedelta(minutes=5)
    max_concurrent_calls: int = field(default_factory=lambda: 16 * _processors())
    max_concurrent_sessions: int = 8
    max_concurrent_calls_per_session: int = 1
    max_message_batch_size: int = 1000
    min_message_batch_size: int = 1
    max_batch_wait_time: timedelta = timedelta(seconds=30)
    #: `clientRetryOptions.tryTimeout` stands in when it is not set.
    session_idle_timeout: timedelta = timedelta(minutes=1)
    try_timeout: timedelta = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SingletonOptions:
    """`singleton`: the leases by which one instance of many runs a listener."""

    lock_period: timedelta = timedelta(seconds=15)
    listener_lock_period: timedelta = timedelta(seconds=60)
    listener_lock_recovery_polling_interval: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """All of host.json that this host acts on."""

    queues: QueueOptions
    bus: BusOptions
    singleton: SingletonOptions
    route_prefix: str = "api"
    #: None: no limit
    function_timeout: timedelta | None = timedelta(minutes=30)
    #: by category, lower case, for instance {"function": 20}
    log_levels: Mapping[str, int] = field(default_factory=dict)
    #: the local allow-list; None: every function
    functions: frozenset[str] | None = None
    warnings: tuple[str, ...] = ()

    def log_level(self, category: str) -> int:
        """Return the level of the longest configured category that covers this one."""
        parts = category.lower().split(".")
        candidates = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        return next((self.log_levels[c] for c in [*candidates, "default"] if c in self.log_levels), logging.INFO)


def load_host_json(path: Path, settings: Mapping[str, str]) -> HostOptions:
    """Return the values of host.json after the overrides of the application settings. A missing file is all defaults."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        document = {"version": "2.0"}
    except ValueError as error:
        raise HostJsonError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise HostJsonError(f"{path.name} holds a {type(document).__name__}, expected an object")
    return parse_host_json(document, settings)


def parse_host_json(document: Mapping[str, Any], settings: Mapping[str, str]) -> HostOptions:
    """Return the options of one host.json document, or raise with every problem in it."""
    problems: list[str] = []
    root = Section(flatten(document) | overrides(settings), "", problems)
    if document.get("version") != "2.0":
        root.refuse(f"version is {document.get('version')!r}, the host takes only '2.0'")
    extensions = root.section("extensions")
    queues, bus = extensions.section("queues"), extensions.section("serviceBus")
    options = HostOptions(
        queues=_queues(queues, _is_development(settings)),
        bus=_bus(bus),
        singleton=_singleton(root.section("singleton")),
        route_prefix=extensions.section("http").text("routePrefix", "api").strip("/"),
        function_timeout=_timeout(root),
        log_levels=_log_levels(document, root),
        functions=frozenset(document["functions"]) if "functions" in document else None,
        warnings=tuple(_warnings(root, queues, bus)),
    )
    if problems:
        raise HostJsonError("\n".join(f"host.json: {problem}" for problem in problems))
    return options


def _is_development(settings: Mapping[str, str]) -> bool:
    return settings.get("AZURE_FUNCTIONS_ENVIRONMENT", "").lower() == "development"


def _queues(section: Section, is_development: bool) -> QueueOptions:  # noqa: FBT001  # private, one caller
    batch_size = section.integer("batchSize", 16, 1, 32)
    longest = section.span("maxPollingInterval", LONGEST_POLL, timedelta(milliseconds=100))
    return QueueOptions(
        batch_size=batch_size,
        new_batch_threshold=section.integer("newBatchThreshold", batch_size // 2 * _processors(), 0),
        max_polling_interval=DEVELOPMENT_POLL if is_development and longest == LONGEST_POLL else longest,
        visibility_timeout=section.span("visibilityTimeout", timedelta(0), most=timedelta(days=7)),
        max_dequeue_count=section.integer("maxDequeueCount", 5, 1),
        message_encoding=section.choice("messageEncoding", "base64", ("base64", "none")),
    )


def _bus(section: Section) -> BusOptions:
    section.choice("transportType", "amqpTcp", ("amqpTcp",))
    if section.flag("enableCrossEntityTransactions", default=False):
        section.refuse("enableCrossEntityTransactions is true, this host has no transactions")
    retry = section.section("clientRetryOptions")
    try_timeout = retry.span("tryTimeout", timedelta(minutes=1), timedelta(milliseconds=100))
    renewal = section.span("maxAutoLockRenewalDuration", timedelta(minutes=5), UNLIMITED_RENEWAL)
    options = BusOptions(
        prefetch_count=section.integer("prefetchCount", 0, 0),
        auto_complete_messages=section.flag("autoCompleteMessages", default=True),
        max_auto_lock_renewal_duration=None if renewal < timedelta(0) else renewal,
        max_concurrent_calls=section.integer("maxConcurrentCalls", 16 * _processors(), 1),
        max_concurrent_sessions=section.integer("maxConcurrentSessions", 8, 1),
        max_concurrent_calls_per_session=section.integer("maxConcurrentCallsPerSession", 1, 1),
        max_message_batch_size=section.integer("maxMessageBatchSize", 1000, 1),
        min_message_batch_size=section.integer("minMessageBatchSize", 1, 1),
        max_batch_wait_time=section.span(
            "maxBatchWaitTime", timedelta(seconds=30), most=timedelta(minutes=2, seconds=30)
        ),
        session_idle_timeout=section.span("sessionIdleTimeout", try_timeout, timedelta(milliseconds=1)),
        try_timeout=try_timeout,
    )
    if options.min_message_batch_size > options.max_message_batch_size:
        section.refuse("minMessageBatchSize is above maxMessageBatchSize")
    return options


def _singleton(section: Section) -> SingletonOptions:
    shortest, longest = timedelta(seconds=15), timedelta(seconds=60)
    return SingletonOptions(
        lock_period=section.span("lockPeriod", shortest, shortest, longest),
        listener_lock_period=section.span("listenerLockPeriod", longest, shortest, longest),
        listener_lock_recovery_polling_interval=section.span(
            "listenerLockRecoveryPollingInterval", longest, timedelta(seconds=15)
        ),
    )


def _timeout(root: Section) -> timedelta | None:
    if root.text("functionTimeout") == UNLIMITED_TIMEOUT:
        return None
    return root.span("functionTimeout", timedelta(minutes=30), timedelta(seconds=1))


def _log_levels(document: Mapping[str, Any], root: Section) -> dict[str, int]:
    section = root.section("logging").section("logLevel")
    categories = document.get("logging", {}).get("logLevel", {})
    return {name.lower(): _LEVELS[section.choice(name, "information", tuple(_LEVELS))] for name in categories}


def _warnings(root: Section, *sections: Section) -> list[str]:
    found = [
        f"host.json: {path} is not a setting of this extension, it is ignored" for s in sections for path in s.unknown()
    ]
    if root.section("concurrency").text("dynamicConcurrencyEnabled", "false").lower() == "true":
        found.append("host.json: dynamic concurrency is not done by this host, the fixed limits hold")
    if root.section("retry").text("strategy"):
        found.append("host.json: retry policies are not done by this host, a failure goes straight to the trigger")
    return found
