"""How many tasks may run: what a process follows, and what the tick decides."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime

from shared.clock import Clock, SystemClock
from shared.concurrency.depths import QueueDepths
from shared.concurrency.fleet_table import FleetTable
from shared.concurrency.following import Following
from shared.concurrency.foresight import Foresight
from shared.concurrency.gauge import Gauge
from shared.concurrency.recorder import Recorder
from shared.concurrency.rules_blob import RulesBlob
from shared.concurrency.tuning import Tuning, no_budget, no_top_up
from shared.connections import Connections
from shared.settings import Settings
from shared.topology import work_queue_names


def fleet_table(connections: Connections) -> FleetTable:
    """Return what the fleet shares."""
    return FleetTable(connections.tables.get_table_client("decisions"))


def rules_blob(connections: Connections) -> RulesBlob:
    """Return the rules of this installation."""
    return RulesBlob(connections.blobs.get_container_client("settings"))


def recorder(connections: Connections) -> Recorder:
    """Return the traces of this installation."""
    return Recorder(connections.blobs.get_container_client("settings"))


def following(connections: Connections, *, clock: Clock | None = None) -> Following:
    """Return what one process follows; nothing is asked of storage yet."""
    clock = clock or SystemClock()
    return Following(fleet_table(connections), connections.pushback, Gauge(clock), clock)


def foresight(follow: Following, tune: Tuning, wake: Callable[[int, int], AbstractContextManager[None]]) -> Foresight:
    """Return what decides before it wakes."""
    return Foresight(following=follow, decide=tune.foresee, wake=wake, clock=tune.clock)


def tuning(
    connections: Connections,
    settings: Settings,
    *,
    clock: Clock | None = None,
    budget: Callable[[datetime, int], int | None] = no_budget,
    top_up: Callable[[int, int], int] = no_top_up,
) -> Tuning:
    """Return what the tick decides with; nothing is asked of storage yet."""
    clock = clock or SystemClock()
    queues = [connections.queues.get_queue_client(name) for name in work_queue_names(settings.work_queues)]
    return Tuning(
        fleet=fleet_table(connections),
        rules=rules_blob(connections),
        depths=QueueDepths(queues, clock).sample,
        pushback=connections.pushback,
        record=recorder(connections).record,
        clock=clock,
        budget=budget,
        top_up=top_up,
    )
