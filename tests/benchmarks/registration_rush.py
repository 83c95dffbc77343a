"""A rush on one hot conference: orders a second to the reservation's answer, and the requests of each order."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.benchmarks.registration_goals import Finding, Goal, say
from tests.benchmarks.registration_port import Port
from tests.benchmarks.registration_sluice import Sluice
from tests.benchmarks.registration_stage import Cost, Stage, staged

FASTER: Final = 5.0
MOST_STORAGE, MOST_BUS = 6.0, 2.0
_GATE: Final = "on-sale"


@dataclass(frozen=True, slots=True)
class Rush:
    """One rush."""

    who: str
    orders: int
    seconds: float
    cost: Cost

    @property
    def rate(self) -> float:
        """Orders a second."""
        return self.orders / self.seconds

    def row(self) -> tuple[str, ...]:
        """Return its row in the table."""
        storage, bus = self.cost.storage.total() / self.orders, self.cost.bus.total() / self.orders
        each = sum(self.cost.cpu.values()) / self.orders * 1000
        return self.who, f"{self.orders:,}", f"{self.rate:.1f}", f"{storage:.1f}", f"{bus:.1f}", f"{each:.0f}"


def measure(orders: int) -> Finding:
    """Run both, and Sluice behind a gate as well."""
    with staged(Sluice) as stage:
        at_once = _rush(stage, orders)
        released = _released(stage, orders)
    with staged(Port) as stage:
        port = _rush(stage, orders)
    times = released.rate / port.rate
    note = f"Held orders were placed before their gate was opened: released, {times:.1f} times as many are answered as by the port."
    return Finding("rush", _table([at_once, released, port]), _goals(at_once, released, port), note)


def _rush(stage: Stage, orders: int) -> Rush:
    before = stage.cost()
    placed = stage.place(orders)
    return _ended(stage, f"{stage.kind.who}, placed at once", placed.orders, placed.begin, before)


def _released(stage: Stage, orders: int) -> Rush:
    sluice = stage.own
    assert isinstance(sluice, Sluice)
    sluice.open_gate(_GATE, is_open=True)
    sluice.open_gate(_GATE, is_open=False)
    placed = stage.place(orders, gate=_GATE)
    before = stage.settle()
    begin = time.monotonic()
    sluice.open_gate(_GATE, is_open=True)
    return _ended(stage, f"{stage.kind.who}, held and released", placed.orders, begin, before)


def _ended(stage: Stage, who: str, orders: Sequence[str], begin: float, before: Cost) -> Rush:
    stage.await_answers(orders)
    cost = stage.settle().since(before)
    seconds = max(stage.answered[order] for order in orders) - begin
    found = Rush(who, len(orders), seconds, cost)
    say(f"{who}: {found.rate:.1f} orders/s, {cost.failures} calls failed")
    explain(who, cost, len(orders))
    return found


def explain(who: str, cost: Cost, orders: int) -> None:
    """Print the requests of an order by kind, and who took the CPU."""
    for name, counts in (("storage", cost.storage), ("bus", cost.bus)):
        each = ", ".join(f"{kind} {number / orders:.2f}" for kind, number in counts.most_common())
        say(f"{who}, {name}: {each}")
    say(f"{who}, CPU ms an order: " + ", ".join(f"{by} {cpu / orders * 1000:.1f}" for by, cpu in cost.cpu.items()))


def _table(rushes: Sequence[Rush]) -> list[Sequence[str]]:
    head = (
        "rush on one conference",
        "orders",
        "orders/s to the answer",
        "storage requests",
        "bus operations",
        "CPU, ms",
    )
    return [head, *(one.row() for one in rushes)]


def _goals(at_once: Rush, released: Rush, port: Rush) -> list[Goal]:
    storage, bus = (part.total() / released.orders for part in (released.cost.storage, released.cost.bus))
    return [
        Goal.least("placed at once, against the port", at_once.rate / port.rate, FASTER, "x"),
        Goal.most("storage requests of an order in a rush", storage, MOST_STORAGE),
        Goal.most("bus operations of an order in a rush", bus, MOST_BUS),
    ]
