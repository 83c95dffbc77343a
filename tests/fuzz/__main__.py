"""`make fuzz`: tries a million hostile inputs at every door, and writes down what came of them."""

import argparse
import platform
import random
import sys

from tests.benchmarks import document
from tests.fuzz import campaign, corpus
from tools.local.docs import markdown
from tools.local.paths import ROOT

DOCUMENT = ROOT / "docs" / "appendix" / "security.md"
#: Seconds between two lines of progress.
TOLD_EVERY = 10
#: Of what is refused, the reasons that the table names; the others are counted.
NAMED = 6
LEAST_ACCEPTED = 0.1


def main(arguments=None):
    """Try them; the status says whether one of them was answered by something that no page knows."""
    options = _parser().parse_args(arguments)
    campaign.quiet()
    if options.replay:
        return _replay(options)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    print(f"seed {seed}", flush=True)  # noqa: T201 - a command prints
    tallies = campaign.run(options.cases, seed, options.targets, options.seconds, _Progress(options.cases))
    problems = [*_kept(tallies, is_kept=not options.dry), *_shallow(tallies)]
    if not options.dry and not options.targets:
        document.write(DOCUMENT, "fuzz", _table(tallies, seed, options.cases), maker="make fuzz")
    for problem in problems:
        print(problem)  # noqa: T201 - a command prints
    return 1 if problems else 0


def _parser():
    parser = argparse.ArgumentParser(prog="make fuzz ARGS=", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*campaign.TARGETS, []], help="what to try; all if none is named")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, help="of chance; the same one makes the same cases")
    parser.add_argument("--seconds", type=float, default=3600, help="at most; what is not tried by then is left out")
    parser.add_argument("--dry", action="store_true", help="leave docs/appendix/security.md and the corpus as they are")
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "NUMBER"), help="one case of --seed, told in full")
    return parser


class _Progress:
    def __init__(self, cases):
        self._cases, self._next = cases, 0.0

    def __call__(self, tallies, seconds):
        if seconds < self._next:
            return
        self._next = seconds + TOLD_EVERY
        tried = sum(tally.cases for tally in tallies.values())
        failed = sum(tally.outcomes["failed"] for tally in tallies.values())
        print(f"{tried:,} of {self._cases:,} cases after {seconds:.0f} s, {failed} failed", flush=True)  # noqa: T201 - a command prints


def _kept(tallies, *, is_kept):
    """Make what failed smaller, keep it, and say it."""
    found = {}
    for name, tally in tallies.items():
        for kind, message, number, parts in tally.failures:
            found.setdefault((name, kind), (message, number, parts))
    for (name, kind), (message, number, parts) in found.items():
        parts = campaign.smaller(campaign.TARGETS[name], parts, kind)  # noqa: PLW2901 - the smaller one is the case
        if is_kept:
            corpus.keep([(name, kind, parts)])
        yield f"{name}, case {number}: {kind}: {message}; at least {list(parts)}"


def _shallow(tallies):
    for name, tally in tallies.items():
        if tally.accepted < LEAST_ACCEPTED:
            yield f"only {tally.accepted:.0%} of the cases of {name!r} are accepted: the others say little"


def _table(tallies, seed, cases):
    header = (
        "target",
        "cases",
        "accepted",
        "reasons",
        "the rest was refused as",
        "exceptions",
        "slowest to median",
        "CPU s",
    )
    whole = campaign.Tally()
    for tally in tallies.values():
        whole.add(tally)
    rows = [_row(name, tally) for name, tally in tallies.items()]
    said = f"Seed {seed}, Python {platform.python_version()}; of each refusal the most frequent reasons are named."
    if whole.cases < cases * 0.99:
        said += f" Its time was up before {cases:,} cases: run it again where nothing else runs."
    return f"{markdown(header, [*rows, _row('**all**', whole, are_named=False)])}\n\n{said}"


def _row(name, tally, *, are_named=True):
    refused = {
        reason: number for reason, number in tally.outcomes.items() if reason not in {campaign.ACCEPTED, "failed"}
    }
    often = sorted(refused, key=lambda reason: (-refused[reason], reason))[:NAMED] if are_named else []
    return (
        name,
        f"{tally.cases:,}",
        f"{tally.accepted:.0%}",
        str(len(refused)),
        ", ".join(f"`{reason}` {refused[reason]:,}" for reason in often),
        f"{tally.outcomes['failed']:,}",
        f"{tally.slowest / tally.median:,.0f}" if tally.median and are_named else "",
        f"{tally.seconds:,.0f}",
    )


def _replay(options):
    name, number = options.replay
    target = campaign.TARGETS[name]
    parts = campaign.made(target, options.seed or 0, int(number))
    print(*parts, sep="\n")  # noqa: T201 - a command prints
    print(target.outcome(parts))  # noqa: T201 - a command prints
    return 0


if __name__ == "__main__":
    sys.exit(main())
