"""Kills of processes that have something of an order in hand, from its place over HTTP to its views.

Between the write of the order and the send of its command no message comes again for it.
"""

import json
import os
import signal
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from azure.servicebus import ServiceBusMessage

from shared.azure import Connections
from tests.benchmarks.recovery_traps import TRAPS, Traps
from tests.chaos.stack import wait_until
from tests.chaos.unsteady import LATE, NOTES, TWICE
from tests.outside.customer import Customer
from tests.waiting import until
from tools.local.stack import StackOptions, running

PATIENCE, CODE = 900, "recovery-code"
#: Seats of the conference, and of an order. Few are left in the end, so that nobody keeps an answer about them.
QUOTA, SEATS = 25, 2


class OrderBench:
    """One stack with registration and two instances, and its kills."""

    def __init__(self, stack, folder, trap):
        self._stack, self._folder, self._traps, self._trap = stack, folder, Traps(folder / "traps"), trap
        self._customer, self.orders = Customer(stack.host.base_url, ""), []
        with (
            Connections.parse(stack.settings) as connections,
            connections.bus_client() as bus,
            bus.get_queue_sender("conferences") as sender,
        ):
            sender.send_messages(_offer())
        until(lambda: self._sold() is not None)

    def kill(self, number):
        """Place an order, end the process that has it in hand, and wait until its seats are reserved. Return both times."""
        order = f"o-{number}"
        self.orders.append(order)
        self._traps.arm(self._trap)
        asking = Thread(target=self._place, args=(order,), daemon=True)
        asking.start()
        what, pid = wait_until(lambda: self._caught(number), PATIENCE, lambda: f"nothing of {order} is in hand")
        os.killpg(os.getpgid(int(pid)), signal.SIGKILL)
        at = time.time()
        again = wait_until(lambda: self._went(what, at), PATIENCE, lambda: f"{order} does not go on")
        wait_until(lambda: self._is_reserved(order), PATIENCE, lambda: f"{order} has no seats")
        return again - at, time.time() - at

    def breaches(self):
        """Yield what is wrong with the seats: each order has its own once."""
        expected = SEATS * len(self.orders)
        found = until(lambda: self._sold() if self._sold() >= expected else None)
        if found != expected:
            yield f"{found} seats are taken, expected {expected}"

    def _place(self, order):
        # The process that has the request is killed.
        with suppress(OSError):
            self._customer.place(order, {"whole": SEATS}, access_code=CODE)

    def _is_reserved(self, order):
        with suppress(OSError):
            found = self._customer.show(order, CODE)
            return found.status == 200 and found.body["state"] == "reserved"
        return False

    def _sold(self):
        with suppress(OSError):
            found = self._customer.ask("GET", "/api/conferences/pycon")
            if found.status == 200:
                whole = found.body["seats"]["whole"]
                return whole["quota"] - whole["remaining"]
        return None

    def _caught(self, number):
        return next((words[2:4] for words in self._notes("caught")[number:]), None)

    def _went(self, what, at):
        return min(
            (float(words[4]) for words in self._notes("went") if words[2] == what and float(words[4]) >= at),
            default=None,
        )

    def _notes(self, kind):
        path = self._folder / "notes"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [words for words in lines if words[:2] == [kind, self._trap]]


def _offer():
    seats = {"whole": {"price": "5.00", "quota": QUOTA}}
    return ServiceBusMessage(
        json.dumps({"sluice": {"kind": "conference", "id": "c-1", "conference": "pycon", "seats": seats}})
    )


@contextmanager
def benched_orders(trap):
    """Start a stack at the deployed locks and yield the bench of a stage."""
    with tempfile.TemporaryDirectory(prefix="sluice-recovery-") as name:
        folder = Path(name)
        (folder / "traps").mkdir()
        settings = {
            "SLUICE_CAPABILITIES": "registration",
            "SLUICE_WORKLOADS": "tests.benchmarks.recovery_traps:Trapped",
            NOTES: str(folder / "notes"),
            TWICE: "0",
            LATE: "0",
            TRAPS: str(folder / "traps"),
        }
        with running(StackOptions(instances=2, settings=settings, words=("--longest-pause", "1"))) as stack:
            yield OrderBench(stack, folder, trap)
