"""`make faults`: breaks every storage request of every stage in every way, and writes down what came of it."""

import argparse
import signal
import sys
import time
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from tests.faults import campaign, mutants, pairs, report
from tests.faults.azurite_storage import AzuriteAccounts, start
from tests.faults.orders.scenarios import ORDER_SCENARIOS
from tests.faults.plan import MODES, Fault
from tests.faults.scenarios import ACT_SCENARIOS, GROWTH_SCENARIOS, SCENARIOS, TURN_SCENARIOS, WORK_SCENARIOS
from tests.faults.sightings import ACT_STATES, OF_TWO, ORDER_STATES, STATES

#: Histories tried for each that is wanted: in some the second fault comes after the end.
SPARE = 1.5


def main(arguments=None):
    """Run what was asked for; the status says whether anything was found that should not be."""
    options = _parser().parse_args(arguments)
    if options.replay:
        return _replay(options)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: campaign.stopping.set())
    problems = []
    for part in options.parts or PARTS:
        if campaign.stopping.is_set():
            break
        tables, found = {**PARTS, **NAMED}[part](options)
        if not options.dry and not options.only:
            report.write(tables)
        problems += found
    for problem in problems:
        print(problem)  # noqa: T201 - a command prints
    return 1 if problems else 0


def _parser():
    parser = argparse.ArgumentParser(prog="make faults ARGS=", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        choices=[*PARTS, *NAMED, []],
        help="what to run; all that are not of single features, if nothing is named",
    )
    parser.add_argument("--seconds", type=float, default=3600, help="for each part, at most")
    parser.add_argument("--histories", type=int, default=10_000, help="in which both of two faults happen")
    parser.add_argument("--dry", action="store_true", help="leave docs/appendix/faults.md as it is")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="SCENARIO", help="these alone; their tables stay as they are"
    )
    parser.add_argument("--replay", nargs="+", metavar=("SCENARIO", "MODE@K"), help="one run, in memory")
    parser.add_argument("--azurite", action="store_true", help="the run that is replayed, on Azurite")
    return parser


@dataclass(frozen=True)
class Family:
    """Scenarios whose runs make tables of their own."""

    #: The beginning of the names of its parts.
    prefix: str
    scenarios: tuple
    #: The states that its runs are meant to reach.
    states: dict

    @property
    def parts(self):
        """Its campaigns, by the names of their parts."""
        campaigns = (self.crash_points, self.single_faults, self.two_faults)
        return {f"{self.prefix}{one.__name__.replace('_', '-')}": one for one in campaigns}

    def _names(self, options):
        return [scenario.name for scenario in self.scenarios if not options.only or scenario.name in options.only]

    def _states(self, options, more=MappingProxyType({})):
        """Return the states that the runs must reach: chosen scenarios need not."""
        return {} if options.only else {**self.states, **more}

    def crash_points(self, options):
        """Break the requests on Azurite."""
        with start() as azurite:
            sites = campaign.recorded(self._names(options), campaign.Shared(azurite.ports))
        found = campaign.on_azurite(campaign.points(sites, MODES, Random(1)), options.seconds)
        return self._single("crash_points", sites, found, options)

    def single_faults(self, options):
        """Break the requests in memory."""
        sites = campaign.recorded(self._names(options))
        found = campaign.outcomes(campaign.points(sites, MODES, Random(1)), None, options.seconds)
        return self._single("single_faults", sites, found, options)

    def two_faults(self, options):
        """Break two requests of a history."""
        sites = campaign.recorded(self._names(options))
        tasks = pairs.histories(sites, round(options.histories * SPARE))
        found = _until(campaign.outcomes(tasks, None, options.seconds), options.histories)
        tallies, took = _ran(sites, found, f"{self.prefix}two-faults")
        tables = {f"{self.prefix}two-faults": report.two_faults(tallies, took)}
        return tables, _problems(tallies, self._states(options, OF_TWO))

    def _single(self, name, sites, found, options):
        name = f"{self.prefix}{name.replace('_', '-')}"
        tallies, took = _ran(sites, found, name)
        return {name: report.single_faults(tallies, took, self.states)}, _problems(tallies, self._states(options))


def _until(found, number):
    """Pass on runs until both faults happened in so many."""
    happened = 0
    for task, outcome in found:
        yield task, outcome
        happened += len(outcome.fired) == len(task[1])
        if happened >= number:
            return


def _ran(sites, found, name):
    began = time.monotonic()
    tallies = campaign.collect(_shown(found), sites)
    took = time.monotonic() - began
    print(f"{name}: {sum(tally.runs for tally in tallies.values()):,} runs in {took:.0f} s")  # noqa: T201 - a command prints
    return tallies, took


def _shown(found):
    for number, (task, outcome) in enumerate(found, 1):
        if outcome.breaches:
            print(campaign.again(task), "says:", "; ".join(outcome.breaches), flush=True)  # noqa: T201 - a command prints
        if number % 200 == 0:
            print(f"{number:,} runs", flush=True)  # noqa: T201 - a command prints
        yield task, outcome


def _problems(tallies, states):
    breaches = [breach for tally in tallies.values() for breach in tally.breaches]
    return breaches + [f"no run reached the state: {state}" for state in report.unreached(tallies, states)]


def _mutants(_options):
    found = mutants.hunt()
    return {"mutants": report.mutants(found)}, [f"not found: {row[0]}" for row in found if row[1] == "nothing"]


def _replay(options):
    name, *words = options.replay
    campaign.quick()
    faults = [Fault(int(at), mode) for mode, at in (word.split("@") for word in words)]
    if not options.azurite:
        return _told(campaign.run(campaign.BY_NAME[name], campaign.MemoryStorages(), faults))
    with start() as azurite:
        return _told(campaign.run(campaign.BY_NAME[name], AzuriteAccounts(azurite.ports), faults))


def _told(outcome):
    for number, (stage, site) in enumerate(outcome.sites, 1):
        print(f"{number:4} {stage:8} {site}")  # noqa: T201 - a command prints
    print("fired:", outcome.fired)  # noqa: T201 - a command prints
    print("passed through:", "; ".join(sorted(outcome.seen)))  # noqa: T201 - a command prints
    print("breaches:", outcome.breaches or "none")  # noqa: T201 - a command prints
    return 1 if outcome.breaches else 0


PARTS = {
    **Family("", SCENARIOS, STATES).parts,
    **Family("acts-", ACT_SCENARIOS, ACT_STATES).parts,
    **Family("orders-", ORDER_SCENARIOS, ORDER_STATES).parts,
    "mutants": _mutants,
}

#: Those of single features. `PARTS` have their scenarios, too.
NAMED = {
    "work-single-faults": Family("work-", WORK_SCENARIOS, {}).single_faults,
    "turns-single-faults": Family("turns-", TURN_SCENARIOS, {}).single_faults,
    "growth-single-faults": Family("growth-", GROWTH_SCENARIOS, {}).single_faults,
}

if __name__ == "__main__":
    sys.exit(main())
