"""How soon idle work is begun, and what a burst takes: `python -m tests.benchmarks.dequeue`; tables in docs/appendix/dequeue.md.

The host's triggers at their default interval need five minutes by themselves: they must be idle first.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from shared.gate.receipts import percentile
from tests.benchmarks import dequeue_entries as entry_points
from tests.benchmarks import document
from tests.benchmarks.dequeue_burst import MESSAGES, WORK, Burst, by_pull
from tests.benchmarks.dequeue_burst import by_push as burst_by_push
from tests.benchmarks.dequeue_latency import by_polling, by_push, by_trigger

DOCUMENT = Path("docs/appendix/dequeue.md")
RULE = 100
#: The shipped rules, which allow so many tasks for this depth, and rules of an operator.
QUEUES = {"queues": 16, "patience": 3600.0}
RULES = {RULE: QUEUES, 2: {"rules": entry_points.TWO, **QUEUES}}

WAYS: dict[str, Callable[[], list[float]]] = {
    "push, under the local host": by_push,
    "a worker that polls once a second": by_polling,
    "the host's trigger at its default (once a minute when idle)": by_trigger,
}


def main(_arguments: Sequence[str] = ()) -> int:
    """Measure, write the tables, and say which promise is broken."""
    late = {name: sorted(way()) for name, way in WAYS.items()}
    bursts = {"push": burst_by_push(), "pull": by_pull()}
    entries = {
        (way, rule): entry_points.burst(way, MESSAGES, **options)
        for way in entry_points.ENTRIES
        for rule, options in RULES.items()
    }
    tables = f"{_latency(late)}\n\n{_bursts(bursts)}\n\n{_entries(entries)}\n\n{_decisions(bursts['push'])}"
    sys.stdout.write(f"{tables}\n")
    document.write(DOCUMENT, "dequeue", tables)
    problems = [problem for name, burst in bursts.items() for problem in broken(name, burst)]
    problems += [problem for (way, rule), found in entries.items() for problem in exceeded(way, rule, found)]
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return bool(problems)


def exceeded(way: str, rule: int, found: entry_points.Burst) -> list[str]:
    """Return every promise that a burst through an entry point broke."""
    wrong = {
        f"{found.done} of {MESSAGES} messages were handled": found.done < MESSAGES,
        f"{found.peak} in work at a time, and the rule is {rule}": found.peak > rule,
        f"{found.held_before} slots held before, {found.held_after} after": (found.held_before, found.held_after)
        != (0, 0),
    }
    return [f"{way}, {rule} tasks: {what}" for what, is_wrong in wrong.items() if is_wrong]


def broken(name: str, burst: Burst) -> list[str]:
    """Return every promise that a burst broke."""
    rest, most = (0 if name == "push" else 1), MESSAGES / 32 + 2 * RULE
    wrong = {
        f"{burst.handled} of {MESSAGES} messages were handled": burst.handled < MESSAGES,
        f"{burst.before}, {burst.peak}, {burst.after} tasks": (burst.before, burst.after) != (rest, rest),
        f"{burst.peak} tasks at the most, and {RULE} are the rule": burst.peak != RULE,
        f"{burst.receives} receives, and {most:.0f} may be": name == "push" and burst.receives > most,
        "no decision was written": not burst.decisions,
    }
    return [f"{name}: {what}" for what, is_wrong in wrong.items() if is_wrong]


def _latency(late: dict[str, list[float]]) -> str:
    lines = [
        "From the put of one message on an idle queue to the begin of its work:",
        "",
        "| how it is found | messages | p50 | p99 | worst |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, found in late.items():
        figures = (percentile(found, 50), percentile(found, 99), found[-1])
        lines.append(f"| {name} | {len(found)} | {' | '.join(f'{figure:.3f} s' for figure in figures)} |")
    return "\n".join(lines)


def _bursts(bursts: dict[str, Burst]) -> str:
    what = (
        f"A burst of {MESSAGES:,} messages of {WORK:g} s each on idle queues, {RULE} tasks by the built-in rule; push by "
        "instances that are threads of one process, over the local bus:"
    )
    lines = [
        what,
        "",
        "| | tasks before, at the most, after | receives (empty) | permits | worked off in |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, burst in bursts.items():
        tasks = f"{burst.before}, {burst.peak}, {burst.after}"
        receives = f"{burst.receives:,} ({burst.empties:,})" if name == "push" else f"{burst.receives:,}"
        lines.append(f"| {name} | {tasks} | {receives} | {burst.permits or ''} | {burst.seconds:.1f} s |")
    bound = MESSAGES / 32 + 2 * RULE
    return "\n".join([*lines, "", f"By push at most depth / 32 + 2 x tasks = {bound:.0f} receives may be made."])


def _entries(entries: dict[tuple[str, int], entry_points.Burst]) -> str:
    what = (
        f"A burst of {MESSAGES:,} chunks through the app's own entry points, two instances or two worker processes, which knew "
        "of nothing before. The workload writes down when each chunk began and ended; from that is counted how many were in "
        "work at a time:"
    )
    lines = [
        what,
        "",
        "| way | tasks of the rule | most in work | slots held before, after | done in |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (way, rule), found in entries.items():
        held = f"{found.held_before}, {found.held_after}"
        lines.append(f"| {way} | {rule} | {found.peak} | {held} | {found.seconds:.0f} s |")
    return "\n".join(lines)


def _decisions(burst: Burst) -> str:
    lines = ["The decisions of the burst by push, as `sluice tune explain` tells them:", "", "| tasks | why |"]
    steps = [f"| {decision.tasks} | {decision.reason} |" for decision in reversed(burst.decisions)]
    return "\n".join([*lines, "| --- | --- |", *steps])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
