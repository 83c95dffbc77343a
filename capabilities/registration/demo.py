"""The on-sale of `make demo`: 300 orders for 100 seats wait behind a gate and rush in at once, and each is answered."""

import json
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any, Final

from rich.table import Table

from capabilities.registration.public_messages import CONFERENCES_QUEUE
from shared.app import Stores
from shared.azure import BusMessage, BusSender, Connections
from shared.errors import SluiceError

GATE, CONFERENCE = "on-sale", "demo-conference"
SEATS, SOLD_FOR = 100, "500.00"
WANTED: Final = 300
#: Requests at the same time.
_AT_ONCE: Final = 8
SOON = 180.0


def run(base: str, connections: Connections, show: Callable[[Any], None]) -> None:
    """Hold the orders behind a gate, open it, and print what became of them."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        customers = _Customers(base)
        _make_conference(connections, customers)
        began = time.monotonic()
        orders = [f"demo-{number:03}" for number in range(WANTED)]
        list(pool.map(customers.place, orders))
        show(
            f"[green]✓[/green] {WANTED} orders for {SEATS} seats are stored, numbered, and held behind gate {GATE!r} "
            f"({time.monotonic() - began:.1f} s)"
        )
        began = time.monotonic()
        Stores(connections).gate_operator.open(GATE, by="demo", why="the sale begins")
        answers = list(pool.map(customers.wait, orders))
        took = time.monotonic() - began
        show(_tell(answers))
        sold = sum(sum(one["reserved"].values()) for one in answers)
        if sold != SEATS:
            raise SluiceError(f"{sold} seats of {SEATS} went: `sluice seats show {CONFERENCE}` adds them up")
        show(
            f"[green]✓[/green] the gate opened: {WANTED} orders answered ({took:.1f} s): {sold} seats went, none twice"
        )


def _make_conference(connections: Connections, customers: "_Customers") -> None:
    seats = {"whole": {"price": SOLD_FOR, "quota": SEATS}}
    message = {"kind": "conference", "id": "demo", "conference": CONFERENCE, "seats": seats}
    with BusSender(connections) as sender:
        sender.send(CONFERENCES_QUEUE, [BusMessage(body=json.dumps({"sluice": message}).encode())])
    end = time.monotonic() + SOON
    while customers.ask("GET", f"conferences/{CONFERENCE}") is None:
        if time.monotonic() > end:
            raise SluiceError(f"conference {CONFERENCE!r} is not there after {SOON:g} s; look at the host's log")
        time.sleep(0.2)


class _Customers:
    """They ask over HTTP. Several threads may."""

    def __init__(self, base: str) -> None:
        self._base = base

    def place(self, order: str) -> None:
        """Place an order, which waits behind the gate. Every other one wants two seats."""
        wanted = {"whole": 1 + int(order[-1]) % 2}
        body = {"order": order, "conference": CONFERENCE, "seats": wanted, "access_code": _code(order), "gate": GATE}
        if self.ask("POST", "orders", body) is None:
            raise SluiceError(f"order {order!r} was not taken; look at the host's log")

    def wait(self, order: str) -> Mapping[str, Any]:
        """Return an order when it is answered."""
        end = time.monotonic() + SOON
        while time.monotonic() < end:
            found = self.ask("GET", f"orders/{order}?wait=10", order=order)
            if found and found["state"] not in {"held", "placed"}:
                return found
        raise SluiceError(f"order {order!r} has no answer after {SOON:g} s; look at the host's log")

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, order: str = ""
    ) -> Mapping[str, Any] | None:
        """Return the answer of the app, or None if it refuses."""
        request = urllib.request.Request(  # noqa: S310 - our own http address
            f"{self._base}/api/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"X-Access-Code": _code(order)},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - as above
                answer: Mapping[str, Any] = json.loads(reply.read())
                return answer
        except urllib.error.HTTPError as refused:
            if refused.code >= 500:
                raise SluiceError(f"{method} /api/{path} says {refused.code}; look at the host's log") from refused
            return None


def _code(order: str) -> str:
    return f"code-of-{order}"


def _tell(answers: list[Mapping[str, Any]]) -> Table:
    table = Table("orders", "how many", "seats", "total")
    groups = defaultdict[str, list[Mapping[str, Any]]](list)
    for one in answers:
        groups[one["state"]].append(one)
    for state, some in sorted(groups.items()):
        seats = sum(sum(one["reserved"].values()) for one in some)
        total = sum((Decimal(one["total"]) for one in some if one["reserved"]), Decimal("0.00"))
        table.add_row(state.replace("_", " "), str(len(some)), str(seats), f"{total:,}")
    return table
