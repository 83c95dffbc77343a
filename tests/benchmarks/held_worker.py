"""One process of the benchmark of a release: an instance that gets signals, or the one whose timer ticks.

It may be killed at any moment. So it writes each line of its record before what the line says happens.
"""

import json
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from azure.servicebus import AutoLockRenewer, ServiceBusReceiver

from shared.app import App, Stores
from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.settings import Settings
from shared.signals import Hint
from shared.workloads.registry import Workloads
from tests.benchmarks.fleet import Record

#: Signals that an instance handles at the same time, as host.json says.
AT_ONCE = 4
TICK_EVERY = 60.0
#: The longest renewal of a signal's lock, as host.json says.
RENEWED_FOR = 300


class Shifted(SystemClock):
    """A clock that is ahead by so many seconds, and so is what it takes for the clock of storage."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.ahead = timedelta(seconds=seconds)

    def now(self) -> datetime:
        """Return the time of day, and so much more."""
        return super().now() + self.ahead

    def of_reply(self, named: datetime | None) -> datetime:
        """Return the time that a reply named, and so much more."""
        return super().now() + self.ahead if named is None else named + self.ahead


class RecordingStores(Stores):
    """Stores that write down each message before it is put."""

    record: Record

    def put(self, queue: str, message: str) -> Any:
        """Write it down, put it, and return what storage said."""
        self.record.write("put", queue=queue, message=message)
        return super().put(queue, message)


@dataclass(frozen=True)
class Role:
    """What one process does."""

    settings: dict[str, str]
    record: str
    #: Seconds by which its clock is ahead.
    ahead: float
    ticks: bool = False


def build_app(connections: Connections, values: dict[str, str], record: Record, clock: Shifted) -> App:
    """Build the app of one process, whose puts are written down."""
    settings = Settings.parse(values)
    stores = RecordingStores(connections, clock=clock)
    stores.record = record
    return App(connections, settings, Workloads.load(settings.workloads, values), stores=stores)


def main() -> None:
    """Work until killed."""
    role = Role(**json.loads(sys.argv[1]))
    record = Record(Path(role.record))
    with Connections.parse(role.settings) as connections:
        app = build_app(connections, role.settings, record, Shifted(role.ahead))
        if role.ticks:
            _tick(app, record)
        threads = [threading.Thread(target=_listen, args=(connections, app, record)) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        record.write("ready")
        for thread in threads:
            thread.join()


def _tick(app: App, record: Record) -> None:
    while True:
        began = time.monotonic()
        with record.invocation("tick"):
            app.tick()
        time.sleep(max(0.0, began + TICK_EVERY - time.monotonic()))


def _listen(connections: Connections, app: App, record: Record) -> None:
    with (
        connections.bus_client() as bus,
        AutoLockRenewer(max_lock_renewal_duration=RENEWED_FOR) as renewer,
        bus.get_subscription_receiver("signals", "release", auto_lock_renewer=renewer) as receiver,
    ):
        while True:
            for message in receiver.receive_messages(max_message_count=1, max_wait_time=5):
                _handle(app, record, receiver, message)


def _handle(app: App, record: Record, receiver: ServiceBusReceiver, message: Any) -> None:
    said = {key.decode(): value for key, value in (message.application_properties or {}).items()}
    hint = Hint.of(message.subject, {k: v.decode() if isinstance(v, bytes) else v for k, v in said.items()})
    with record.invocation("signal") as found:
        done = app.stages.releaser.on_signal(hint)
        found |= {"slice": hint.slice, "put": done.put, "failed": done.failed, "left": bool(done.left)}
    receiver.complete_message(message)


if __name__ == "__main__":
    main()
