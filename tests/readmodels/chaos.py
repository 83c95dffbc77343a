"""A migration of orders by the command, killed in every phase, with live orders and readers beside it.

python -m tests.readmodels.chaos --reads 10000

Every read must find its order, as the order's events up to the version of the answer make it, and at least as new as the
last projection that had ended before the read began. It prints the figures, and fails if one read or row was wrong.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobLeaseClient

from local.azurite.launcher import Azurite
from local.paths import ROOT
from local.provision import provision
from local.stack import settings_for
from servicebus_local.launcher import Broker
from shared.app import RegistrationStores, Stores
from shared.azure import Connections
from shared.eventsourcing import Commit
from shared.messaging import EventRange
from shared.parts import registration
from shared.readmodels import Phase, Slot
from shared.registration import ORDER_MODEL, OrderViews, bodies, fold_order, order_home
from shared.registration.order import calculate
from shared.registration.stored_events import event_of
from shared.topology import topology

SLUICE = Path(sys.executable).parent / "sluice"
PRICES = {"a": Decimal("5.00"), "b": Decimal("7.50")}


class World:
    """The orders of one installation, and how far each is projected."""

    def __init__(self, settings, first):
        self.settings, self.stop, self.counts = settings, threading.Event(), Counter()
        self.events, self.projected, self.faults = {}, {}, []
        self.stores = [RegistrationStores(Stores(Connections.parse(settings))) for _ in range(2)]
        self.projectors = [one.views.projector(ORDER_MODEL) for one in self.stores]
        for number in range(1, first + 1):
            self.place(number)

    def place(self, number):
        """Place an order."""
        body = bodies.OrderPlaced(f"o{number}", number, "c", {"a": 2, "b": 1}, PRICES, datetime.now(UTC))
        self.happen(order_home(f"o{number}"), [body, calculate(body.seats, PRICES)], {"number": number})

    def happen(self, home, bodies_of, fields=None):
        """Have events happen, and be projected by one of two processes."""
        now, expected = datetime.now(UTC), len(self.events.get(home, ()))
        events = tuple(event_of(body, now) for body in bodies_of)
        own = random.choice(self.stores)
        own.homes.commit(Commit(home=home, aggregate="order", expected=expected, events=events, fields=fields))
        stored = tuple(replace(one, version=expected + n + 1) for n, one in enumerate(events))
        self.events[home] = (*self.events.get(home, ()), *stored)
        random.choice(self.projectors).project([EventRange(home, expected + 1, expected + len(stored), stored)])
        self.projected[home] = expected + len(stored)
        self.counts["events"] += len(stored)

    def live(self, pause):
        """Let orders go on until the end."""
        while not self.stop.is_set():
            try:
                if random.random() < 0.2:
                    self.place(len(self.events) + 1)
                else:
                    seats = {"a": random.randint(1, 9), "b": 1}
                    self.happen(
                        random.choice(list(self.events)), [bodies.OrderUpdated(seats, {}), calculate(seats, PRICES)]
                    )
            except Exception as error:  # noqa: BLE001 - told at the end
                self.faults.append(f"live: {error!r}")
                return
            time.sleep(pause)

    def read(self):
        """Read orders until the end, each by its id or by its number, in a process of its own."""
        own = RegistrationStores(Stores(Connections.parse(self.settings)))
        views = OrderViews(own.views.reader(ORDER_MODEL), own.homes, self)
        while not self.stop.is_set():
            home = random.choice(list(self.projected))
            least, number = self.projected[home], int(home.removeprefix("order-o"))
            try:
                found = views.find(f"o{number}") if random.random() < 0.5 else views.find_numbered(number)
            except Exception as error:  # noqa: BLE001 - told at the end
                self.faults.append(f"{home}: {error!r}")
                continue
            self.counts["reads"] += 1
            if fault := self.judge(home, found, least):
                self.faults.append(f"{home}: {fault}")

    def find(self, number):
        """Lead from a number to its home, as the agenda does."""
        return order_home(f"o{number}")

    def judge(self, home, found, least):
        """Return the fault of an answer, or nothing."""
        if found is None:
            return "missing"
        if found.order.version < least:
            return f"shows version {found.order.version} after {least} was projected"
        state = None
        for event in self.events[home][: found.order.version]:
            state = fold_order(state, event)
        same = replace(found.order, stream_version=state.stream_version) == state
        self.counts["with placed_at"] += found.placed_at is not None
        return "" if same and found.placed_at in (None, self.events[home][0].at) else "mixed"


class Migrator:
    """The command, killed when the migration is in a phase."""

    def __init__(self, world):
        self.world, self.kills = world, Counter()

    def phase(self):
        """Return the phase."""
        return self.world.stores[0].views.pointers.read(ORDER_MODEL).phase

    def run(self, step, *, kill_in=None, after=0.0):
        """Type a step. With `kill_in`, kill it as soon as the migration is in that phase, or after some seconds."""
        options = ["--yes"] if step in {"switch", "finish"} else []
        arguments = [SLUICE, "migrate", step, "orders", "--to", "2", *options]
        environment = os.environ | self.world.settings | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        began = time.monotonic()
        while (kill_in or after) and process.poll() is None:
            if (kill_in and self.phase() is kill_in) or (after and time.monotonic() - began > after):
                process.send_signal(signal.SIGKILL)
                self.kills[f"{step} in {self.phase()}"] += 1
                break
            time.sleep(0.02)
        output = process.communicate(timeout=300)[0]
        if process.returncode == -signal.SIGKILL:
            # As a minute does.
            blob = self.world.stores[0].stores.connections.blobs.get_blob_client("settings", "migrate-orders")
            with suppress(AzureError):
                BlobLeaseClient(blob).break_lease(0)
        elif process.returncode:
            self.world.faults.append(f"{step}: {output}")
        print(f"{step}: {self.phase()}", flush=True)  # noqa: T201 - a command prints

    def migrate(self):
        """Take every step, forth, back and forth again."""
        self.run("start", kill_in=Phase.DOUBLING)
        self.run("start", kill_in=Phase.BUILDING)
        self.run("start")
        self.run("verify", after=2.5)
        self.run("verify")
        self.run("switch", kill_in=Phase.SWITCHED)
        self.run("switch")
        self.run("rollback", kill_in=Phase.ROLLED_BACK)
        self.run("rollback")
        self.run("switch")
        self.run("finish", kill_in=Phase.FINISHING)
        self.run("finish")


def main():
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.readmodels.chaos", description=__doc__)
    parser.add_argument("--reads", type=int, default=10_000)
    parser.add_argument("--orders", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two live events")
    options = parser.parse_args()
    broker = Broker.start()
    try:
        with Azurite.start() as azurite:
            provision(azurite.connection_string, topology(parts=[registration()]))
            settings = settings_for(azurite.connection_string, broker.connection_string) | {"SLUICE_REGISTRATION": "on"}
            return report(play(settings, options))
    finally:
        broker.stop()


def play(settings, options):
    """Migrate beside live orders and readers, and return the world with its figures."""
    world = World(settings, options.orders)
    threads = [threading.Thread(target=world.live, args=[options.pause])]
    threads += [threading.Thread(target=world.read) for _ in range(3)]
    for one in threads:
        one.start()
    migrator = Migrator(world)
    try:
        migrator.migrate()
        until = time.monotonic() + timedelta(minutes=5).total_seconds()
        while world.counts["reads"] < options.reads and time.monotonic() < until:
            time.sleep(0.5)
    finally:
        world.stop.set()
        for one in threads:
            one.join()
    world.counts |= {f"killed: {name}": number for name, number in migrator.kills.items()}
    check(world, migrator)
    return world


def check(world, migrator):
    """Compare all rows at the end with the log."""
    rows = [row for page in world.stores[0].views.slots[Slot.B].scan("orders", 2) for row in page]
    world.counts["rows"] = len(rows)
    for row in rows:
        if row.seen != len(world.events[row.home]):
            world.faults.append(f"{row.home}: its row has seen {row.seen} of {len(world.events[row.home])}")
    if len(rows) != len(world.events) or list(world.stores[0].views.slots[Slot.A].old_rows("orders")):
        world.faults.append(f"{len(rows)} rows of {len(world.events)} orders, or rows of the former version")
    if migrator.phase() is not Phase.DONE:
        world.faults.append(f"the migration is {migrator.phase()}")


def report(world):
    """Print the figures; the status says whether all was right."""
    for name, number in sorted(world.counts.items()):
        print(f"{name}: {number}")  # noqa: T201 - a command prints
    print(f"faults: {len(world.faults)}", *world.faults[:20], sep="\n")  # noqa: T201 - a command prints
    return 1 if world.faults or world.counts["reads"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
