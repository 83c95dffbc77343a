"""What Sluice does with a bursty day, beside others' ways of running tasks.

    python -m tests.benchmarks.concurrency          (part of `make bench`; writes its table into docs/appendix/concurrency.md)

Virtual time and no randomness but seeds: the same figures on every machine.
"""

from collections.abc import Sequence
from pathlib import Path

from shared.concurrency.rules import BUILT_IN, Ratio, Rule, Rules
from shared.simulation.simulator import SEED, WAKE, Push, Simulation, bursty_day
from shared.usage.bill import load, price
from tests.benchmarks import document
from tests.benchmarks.rivals import Fixed, Host, Keda, Seed

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "appendix" / "concurrency.md"
PRICES = load()
#: A rival is as fast as the fastest one when its p95 is at most a tenth above.
AS_FAST = 1.1
#: What the price may be of that of the cheapest rival that is as fast.
GOAL = 0.7
OTHER_SEEDS = range(1, 21)


def main(_arguments: Sequence[str] = ()) -> int:
    """Replay, print the tables, write them into the page; 1 when the goal was missed."""
    day = bursty_day(SEED)
    ours, rivals = compared(day)
    found, table = verdict(ours, rivals), outcomes(day, [ours, replayed(day, eager()), *rivals])
    others = elsewhere()
    tables = f"{table}\n\n{found.words}\n\n{others}"
    print(tables)  # noqa: T201 - commands print
    document.write(DOCUMENT, "concurrency", tables)
    return int(not found.is_reached)


def elsewhere():
    """Return how the other seeds end."""
    ends = [verdict(*compared(bursty_day(seed))) for seed in OTHER_SEEDS]
    worst = max(one.slower for one in ends)
    return (
        f"The same on {len(ends)} other seeds ({OTHER_SEEDS[0]} to {OTHER_SEEDS[-1]}): the goal is reached on "
        f"{sum(one.is_reached for one in ends)} of them; at the worst the p95 is {worst:.1%} above the best of the others, "
        f"and everywhere Sluice is at least {min(one.less for one in ends):.1%} cheaper than who is as fast."
    )


def sluice():
    """Return Sluice as it comes."""
    return Push(BUILT_IN, "Sluice, push, built-in rules")


def eager():
    """Return Sluice with a rule that allows a task for each message, up to the same bound."""
    return Push(Rules(1, (Rule("eager", (), Ratio(1)),)), "Sluice, push, one task per message")


def rivals():
    """Return the others, each new."""
    return [Fixed(10), Fixed(50), Fixed(100), Host(), Keda(), Seed(BUILT_IN)]


def replayed(day, strategy):
    """Return what became of a day."""
    return Simulation(day, strategy).run()


def compared(day):
    """Return what became of a day under Sluice, and under each of the others."""
    return replayed(day, sluice()), [replayed(day, rival) for rival in rivals()]


def paid(outcome):
    """Return the price of storage requests and bus operations together."""
    return price(outcome.usage, PRICES).total


class Verdict:
    """Whether the goal is reached, in words and figures."""

    def __init__(self, ours, best, cheapest):
        self.is_reached = ours.delay(95) <= best.delay(95) and paid(ours) <= GOAL * float(paid(cheapest))
        self.slower = ours.delay(95) / best.delay(95) - 1
        self.less = 1 - float(paid(ours) / paid(cheapest))
        self.words = (
            f"Goal: a p95 no worse than the best of the others ({best.delay(95):.3f} s, {best.name}), Sluice has "
            f"{ours.delay(95):.3f} s; and at least {1 - GOAL:.0%} cheaper than the cheapest of those that are as fast "
            f"(p95 within a tenth of the best: {cheapest.name}), Sluice is {self.less:.1%} cheaper. "
            f"{'Reached.' if self.is_reached else 'Missed.'}"
        )


def verdict(ours, others):
    """Compare with the fastest, and with the cheapest of those that are as fast."""
    best = min(others, key=lambda one: one.delay(95))
    fast = [one for one in others if one.delay(95) <= AS_FAST * best.delay(95)]
    return Verdict(ours, best, min(fast, key=paid))


def outcomes(day, found):
    """Return the table of a day."""
    rows = [
        (
            one.name,
            f"{one.delay(50):.2f} s",
            f"{one.delay(95):.2f} s",
            str(one.most_tasks),
            f"{one.count() - one.count('bus'):,}",
            f"{one.count('bus'):,}",
            f"{paid(one):.4f}",
        )
        for one in found
    ]
    intro = (
        f"A **synthetic** day (`sluice tune trace --synthetic {day.header.seed}`): {day.header.note}, 100 tasks at most. "
        f"It is assumed that an instance that is woken receives after {WAKE:g} s. Prices: {PRICES}."
    )
    columns = ("who", "p50", "p95", "most tasks", "storage requests", "bus operations", "price of the day")
    return f"{intro}\n\n{_table(columns, rows)}"


def _table(columns, rows):
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    raise SystemExit(main())
