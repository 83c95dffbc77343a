"""Orders at a steady rate: requests at 20 a second, and the highest rate at which every customer is served in time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.benchmarks.registration_contender import Contender
from tests.benchmarks.registration_goals import Finding, Goal, say
from tests.benchmarks.registration_load import Experience, slowest
from tests.benchmarks.registration_port import Port
from tests.benchmarks.registration_rush import explain
from tests.benchmarks.registration_sluice import Sluice
from tests.benchmarks.registration_stage import Cost, Stage, staged

#: Orders a second, of which the next is tried while everybody is served in time.
RATES: Final[dict[type[Contender], tuple[int, ...]]] = {
    Sluice: (20, 30, 40, 50, 60, 80),
    Port: (4, 6, 8, 10, 15, 20, 30),
}
COUNTED_AT, MOST_STORAGE, MOST_BUS = 20, 12.0, 16.0
#: Seconds within which a customer is to be answered, and the rate that is to be borne.
WITHIN, LEAST_RATE = 5.0, 30.0


@dataclass(frozen=True, slots=True)
class Step:
    """One rate."""

    who: str
    rate: int
    experiences: Sequence[Experience]
    cost: Cost

    @property
    def is_borne(self) -> bool:
        """True if every order was readable, priced and answered in time."""
        return all(max(one) <= WITHIN for one in self.experiences)

    def row(self) -> tuple[str, ...]:
        """Return its row in the table."""
        orders = len(self.experiences)
        priced, answered = (sorted(one[part] for one in self.experiences) for part in (0, 1))
        times = (slowest(priced, 0.99), slowest(answered, 0.5), slowest(answered, 0.99), answered[-1])
        counts = (self.cost.storage.total() / orders, self.cost.bus.total() / orders)
        each = sum(self.cost.cpu.values()) / orders * 1000
        verdict = "yes" if self.is_borne else "no"
        return (
            self.who,
            f"{self.rate}",
            *(f"{n:.2f}" for n in times),
            verdict,
            *(f"{n:.1f}" for n in counts),
            f"{each:.0f}",
        )


_HEAD: Final = (
    "at a steady rate",
    "orders/s",
    "priced, p99 s",
    "answered, p50 s",
    "p99 s",
    "longest, s",
    f"all in {WITHIN:g} s",
    "storage requests",
    "bus operations",
    "CPU, ms",
)


def measure(seconds: int) -> Finding:
    """Raise the rate of each contender until somebody waits for too long."""
    steps: dict[type[Contender], list[Step]] = {kind: [] for kind in RATES}
    for kind, rates in RATES.items():
        with staged(kind) as stage:
            for rate in rates:
                steps[kind].append(_step(stage, rate, seconds))
                if not steps[kind][-1].is_borne:
                    break
    highest = {kind: max((one.rate for one in found if one.is_borne), default=0) for kind, found in steps.items()}
    counted = next(one for one in steps[Sluice] if one.rate == COUNTED_AT)
    orders = len(counted.experiences)
    goals = [
        Goal.most("storage requests of an order at 20/s", counted.cost.storage.total() / orders, MOST_STORAGE),
        Goal.most("bus operations of an order at 20/s", counted.cost.bus.total() / orders, MOST_BUS),
        Goal.least(f"orders/s that are all served in {WITHIN:g} s", highest[Sluice], LEAST_RATE),
    ]
    note = f"Each rate for {seconds} s. The port bears {highest[Port]} orders/s."
    return Finding("steady", [_HEAD, *(one.row() for found in steps.values() for one in found)], goals, note)


def _step(stage: Stage, rate: int, seconds: int) -> Step:
    before = stage.cost()
    placed = stage.place(rate * seconds, rate=rate)
    # What waits behind the customers who gave up belongs to this step, and not to the next.
    stage.await_answers(placed.orders)
    step = Step(stage.kind.who, rate, placed.experiences, stage.settle().since(before))
    say(" | ".join(step.row()))
    explain(f"{step.who} at {rate}/s", step.cost, len(placed.orders))
    return step
