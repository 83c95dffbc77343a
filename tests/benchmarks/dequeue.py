"""How soon idle work is begun, and what a burst takes: `python -m tests.benchmarks.dequeue`; tables in docs/dequeue.md.

The host's triggers at their default interval need five minutes by themselves: they must be idle first.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from shared.gate.lateness import percentile
from tests.benchmarks import document
from tests.benchmarks.dequeue_burst import MESSAGES, WORK, Burst, by_pull
from tests.benchmarks.dequeue_burst import by_push as burst_by_push
from tests.benchmarks.dequeue_latency import by_polling, by_push, by_trigger

DOCUMENT = Path("docs/dequeue.md")
RULE = 100

WAYS: dict[str, Callable[[], list[float]]] = {
    "push, under the local host": by_push,
    "a worker that polls once a second": by_polling,
    "the host's trigger at its default (once a minute when idle)": by_trigger,
}


def main(_arguments: Sequence[str] = ()) -> int:
    """Measure, write the tables, and say which promise is broken."""
    late = {name: sorted(way()) for name, way in WAYS.items()}
    bursts = {"push": burst_by_push(), "pull": by_pull()}
    tables = f"{_latency(late)}\n\n{_bursts(bursts)}\n\n{_decisions(bursts['push'])}"
    sys.stdout.write(f"{tables}\n")
    document.write(DOCUMENT, "dequeue", tables)
    problems = [problem for name, burst in bursts.items() for problem in broken(name, burst)]
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return bool(problems)


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


def _decisions(burst: Burst) -> str:
    lines = ["The decisions of the burst by push, as `sluice tune explain` tells them:", "", "| tasks | why |"]
    steps = [f"| {decision.tasks} | {decision.reason} |" for decision in reversed(burst.decisions)]
    return "\n".join([*lines, "| --- | --- |", *steps])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
