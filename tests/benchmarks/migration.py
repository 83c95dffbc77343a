"""A migration of orders by the command, killed in every phase, while orders go on at a steady rate and customers read.

`make bench ARGS="--only migration"` prints the table, puts it into docs/appendix/processes.md, and fails if one read or row was
wrong, if a checksum differs, or if the orders did not go on at the rate.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobLeaseClient
from servicebus_local.launcher import Broker

from capabilities.registration.entities import registration
from capabilities.registration.views import ORDER_MODEL
from shared.readmodels import READERS_KEEP, Phase, Slot
from shared.topology import topology
from tests.benchmarks.document import write
from tests.benchmarks.registration_steady import LEAST_RATE
from tests.readmodels.live_orders import READERS, World
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import settings_for

DOCUMENT = ROOT / "docs" / "appendix" / "processes.md"
SLUICE = Path(sys.executable).parent / "sluice"
#: The commands that a run types, and the seconds that one may take to have its share of the reads.
STEPS, PATIENCE = 12, 300.0
#: Of the stated rate: less was not the load that the table names.
LEAST_OF_RATE = 0.95


class Migrator:
    """The command, killed when the migration is in a phase."""

    def __init__(self, world, reads):
        self.world, self.kills, self.verified = world, Counter(), {}
        self.reads, self.steps = reads, 0

    def phase(self):
        """Return the phase."""
        return self.world.stores[0].views.pointers.read(ORDER_MODEL).phase

    def run(self, step, *, kill_in=None, after=0.0, shown=None):
        """Type a step, and have this step's share of the reads. `shown` is the version that readers must see from then on.

        With `kill_in`, kill it as soon as the migration is in that phase, or after some seconds.
        """
        options = {"switch": ["--yes"], "finish": ["--yes"], "verify": ["--json"]}.get(step, [])
        self.world.shown = None if step in {"switch", "rollback"} else self.world.shown
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
        output = process.communicate(timeout=900)[0]
        if process.returncode == -signal.SIGKILL:
            # As a minute does.
            blob = self.world.stores[0].stores.connections.blobs.get_blob_client("settings", "migrate-orders")
            with suppress(AzureError):
                BlobLeaseClient(blob).break_lease(0)
        elif process.returncode:
            self.world.faults.append(f"{step}: {output}")
        elif step == "verify":
            self.verified = json.loads(output)
        self.read_on(step, shown)

    def read_on(self, step, shown):
        """Wait until every reader knows the pointer, and until this step has its share of all reads."""
        self.steps += 1
        if shown:
            time.sleep(READERS_KEEP.total_seconds() + 1)
            self.world.shown = shown
        until, enough = time.monotonic() + PATIENCE, self.reads * self.steps // STEPS
        while self.world.counts["reads"] < enough and time.monotonic() < until:
            time.sleep(0.2)
        say(f"{step}: {self.phase()}, {self.world.counts['reads']:,} reads, {self.world.counts['placed']:,} orders")

    def migrate(self):
        """Take every step, forth, back and forth again."""
        self.run("start", kill_in=Phase.DOUBLING)
        self.run("start", kill_in=Phase.BUILDING)
        self.run("start")
        self.run("verify", after=2.5)
        self.run("verify")
        self.run("switch", kill_in=Phase.SWITCHED)
        self.run("switch", shown=2)
        self.run("rollback", kill_in=Phase.ROLLED_BACK)
        self.run("rollback", shown=1)
        self.run("switch", shown=2)
        self.run("finish", kill_in=Phase.FINISHING)
        self.run("finish")


def main(arguments=()):
    """Run it, print the table, and say what is wrong."""
    parser = argparse.ArgumentParser(prog="migration", description=__doc__)
    parser.add_argument("--rate", type=float, default=LEAST_RATE / 2, help="orders a second; half of the goal")
    parser.add_argument("--reads", type=int, default=10_000)
    parser.add_argument("--orders", type=int, default=500, help="that are there before the migration")
    options = parser.parse_args(arguments)
    broker = Broker.start()
    try:
        with Azurite.start() as azurite:
            provision(azurite.connection_string, topology(entities=[registration()]))
            settings = settings_for(azurite.connection_string, broker.connection_string) | {
                "SLUICE_CAPABILITIES": "registration"
            }
            world, migrator = play(settings, options)
    finally:
        broker.stop()
    table = markdown(world, migrator, options)
    say(table)
    say("\n".join(world.faults[:20]))
    write(DOCUMENT, "migration", table)
    return int(bool(world.faults))


def play(settings, options):
    """Migrate beside live orders and readers, and return both with what they found."""
    world = World(settings, options.orders)
    migrator = Migrator(world, options.reads)
    world.start(options.rate)
    try:
        migrator.migrate()
    finally:
        world.end()
    check(world, migrator, options)
    return world, migrator


def check(world, migrator, options):
    """Compare all rows at the end with the log, and the figures with what the table promises."""
    rows = [row for page in world.stores[0].views.slots[Slot.B].scan("orders", 2) for row in page]
    world.counts["rows"] = len(rows)
    for row in rows:
        if row.seen != len(world.events[row.home]):
            world.faults.append(f"{row.home}: its row has seen {row.seen} of {len(world.events[row.home])}")
    if len(rows) != len(world.events) or list(world.stores[0].views.slots[Slot.A].old_rows("orders")):
        world.faults.append(f"{len(rows)} rows of {len(world.events)} orders, or rows of the former version")
    if migrator.phase() is not Phase.DONE:
        world.faults.append(f"the migration is {migrator.phase()}")
    if not migrator.verified or migrator.verified["checksum_of_rows"] != migrator.verified["checksum_of_log"]:
        world.faults.append(f"the checksums: {migrator.verified}")
    if world.counts["reads"] < options.reads:
        world.faults.append(f"{world.counts['reads']:,} reads, it must be {options.reads:,}")
    if world.rate < options.rate * LEAST_OF_RATE:
        world.faults.append(f"{world.rate:.1f} orders/s, it must be {options.rate:g}")


def markdown(world, migrator, options):
    """Return the table of the documentation."""
    counts, verified = world.counts, migrator.verified
    checksums = [verified.get(f"checksum_of_{of}", "none") for of in ("rows", "log")]
    lines = [
        ("what", "found"),
        ("---", "---"),
        ("orders/s while it migrated, wanted", f"{world.rate:.1f}, {options.rate:g}"),
        ("orders before, placed meanwhile", f"{world.first:,}, {counts['placed']:,}"),
        ("events meanwhile and before", f"{counts['events']:,}"),
        (f"reads by {READERS} readers", f"{counts['reads']:,}"),
        (
            "... answered by version 1, by version 2",
            f"{counts['reads of version 1']:,}, {counts['reads of version 2']:,}",
        ),
        ("reads and rows that were wrong, missing, mixed or failed", f"{len(world.faults):,}"),
        ("commands killed (SIGKILL)", ", ".join(migrator.kills)),
        ("rows that `verify` compared", f"{verified.get('verified_rows', 0):,}"),
        ("checksum of the rows, of the log", ", ".join(f"`{one}`" for one in checksums)),
        (
            "after `rollback`, all answers by version 1; after `switch`, by version 2",
            "yes" if not world.faults else "no",
        ),
        ("rows at the end, equal to the log", f"{counts['rows']:,}"),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def say(text):
    """Print at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
