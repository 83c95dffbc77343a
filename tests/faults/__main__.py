"""`make faults`: breaks every storage request of every stage in every way, and writes down what came of it."""

import argparse
import platform
import sys
import time

from tests.faults import campaign, mutants, pairs, report
from tests.faults.azurite_storage import start
from tests.faults.plan import MODES, Fault


def main(arguments=None):
    """Run what was asked for; the status says whether anything was found that should not be."""
    options = _parser().parse_args(arguments)
    if options.replay:
        return _replay(options.replay)
    parts = options.parts or ["crash-points", "single-faults", "two-faults", "mutants"]
    tables, bad = {}, 0
    for part in parts:
        made, breaches = PARTS[part](options)
        tables |= made
        bad += breaches
    if not options.dry:
        report.write(**tables)
    return 1 if bad else 0


def _parser():
    parser = argparse.ArgumentParser(prog="make faults ARGS=", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to run; all of it if nothing is named")
    parser.add_argument("--seconds", type=float, default=600, help="for crash points on Azurite, at most")
    parser.add_argument("--histories", type=int, default=10_000, help="with two faults")
    parser.add_argument("--dry", action="store_true", help="leave docs/faults.md as it is")
    parser.add_argument("--replay", nargs="+", metavar=("SCENARIO", "MODE@K"), help="one run, in memory")
    return parser


def _crash_points(options):
    with start() as azurite:
        where = campaign.Shared(azurite.ports)
        sites = campaign.recorded(list(campaign.BY_NAME), where)
        tasks = campaign.points(sites, MODES)
        tallies, took = _ran(sites, campaign.outcomes(tasks, where, options.seconds), "Azurite")
    return {"crash_points": f"{report.crash_points(tallies)}\n\n{_said(took, tallies)}"}, _breaches(tallies)


def _single_faults(options):
    sites = campaign.recorded(list(campaign.BY_NAME))
    tallies, took = _ran(sites, campaign.outcomes(campaign.points(sites, MODES)), "memory")
    return {"single_faults": f"{report.crash_points(tallies)}\n\n{_said(took, tallies)}"}, _breaches(tallies)


def _ran(sites, found, where):
    began = time.monotonic()
    tallies = campaign.collect(_shown(found), sites)
    took = time.monotonic() - began
    print(f"{where}: {sum(tally.runs for tally in tallies.values()):,} runs in {took:.0f} s")  # noqa: T201 - a command prints
    return tallies, took


def _shown(found):
    for number, (task, outcome) in enumerate(found, 1):
        if outcome.breaches:
            print(f"--replay {task[0]!r} {' '.join(map(str, task[1]))}: {'; '.join(outcome.breaches)}", flush=True)  # noqa: T201 - a command prints
        if number % 200 == 0:
            print(f"{number:,} runs", flush=True)  # noqa: T201 - a command prints
        yield task, outcome


def _said(took, tallies):
    missed = sum(tally.missed for tally in tallies.values())
    return (
        f"{took:.0f} s, Python {platform.python_version()}. "
        f"{missed} runs are not counted: their fault did not happen, or met another request than the recorded one."
    )


def _breaches(tallies):
    return sum(len(tally.breaches) for tally in tallies.values())


def _two_faults(options):
    rows, breaches = pairs.campaign_of(options.histories, _shown)
    return {"two_faults": report.pairs(rows)}, breaches


def _mutants(_options):
    found = mutants.hunt()
    return {"mutants": report.mutants(found)}, sum(row[1] == "nothing" for row in found)


def _replay(words):
    name, *faults = words
    campaign.quick()
    made = [Fault(int(at), mode) for mode, at in (fault.split("@") for fault in faults)]
    outcome = campaign.run(campaign.BY_NAME[name], campaign.MemoryStorages(), made)
    for number, site in enumerate(outcome.sites, 1):
        print(f"{number:4} {site[0]:8} {site[1]}")  # noqa: T201 - a command prints
    print("fired:", outcome.fired)  # noqa: T201 - a command prints
    print("breaches:", outcome.breaches or "none")  # noqa: T201 - a command prints
    return 1 if outcome.breaches else 0


PARTS = {
    "crash-points": _crash_points,
    "single-faults": _single_faults,
    "two-faults": _two_faults,
    "mutants": _mutants,
}

if __name__ == "__main__":
    sys.exit(main())
