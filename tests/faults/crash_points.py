"""One run: prepare, act under a fault, come to rest without faults, look for breaches."""

import os
import tempfile
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from shared.errors import SluiceError
from tests.faults.journal import FileJournal, Journal
from tests.faults.plan import KilledError, Plan
from tests.faults.sightings import REPEATED, sighted

KILLED = 137


@dataclass
class Outcome:
    """What came of one run."""

    #: (stage, site) of each request of the act, in order.
    sites: list = field(default_factory=list)
    #: (stage, site, mode) of the faults that happened.
    fired: list = field(default_factory=list)
    breaches: list = field(default_factory=list)
    #: The states that it passed through.
    seen: set = field(default_factory=set)


def run(scenario, storages, faults=(), *, recovers=True):
    """Run a scenario with these faults in a namespace of its own, to its end or to that of its act."""
    storage = storages.fresh(scenario.world.settings.entities)
    path = Path(tempfile.mkstemp(prefix="sluice-faults-")[1]) if storage.is_real else None
    world = scenario.world(storage, FileJournal(path) if path else Journal())
    try:
        _prepare(scenario, world, storages)
        before = len(world.journal.entries())
        outcome = _acted(scenario, world, faults, before)
        if recovers:
            outcome.breaches = _recovered(scenario, world)
            outcome.seen = sighted(world.journal.entries()[before:])
        return outcome
    finally:
        world.close()
        if path:
            path.unlink()


def _acted(scenario, world, faults, before):
    if world.storage.is_real:
        _in_child(scenario, world, faults)
    else:
        _in_turns(scenario, world, Plan(faults, note=world.journal.note))
    acted = [entry[1:] for entry in world.journal.entries()[before:] if entry[0] == "request"]
    outcome = Outcome([(stage, site) for stage, site, _ in acted])
    outcome.fired = [(stage, site, details["fault"]) for stage, site, details in acted if "fault" in details]
    return outcome


def _prepare(scenario, world, storages):
    if world.storage.is_real:
        with world.app() as app:
            scenario.prepare(world, app)
        return
    if scenario.name not in storages.prepared:
        with world.app() as app:
            scenario.prepare(world, app)
        storages.prepared[scenario.name] = world.save()
    else:
        world.restore(storages.prepared[scenario.name])


def _act(scenario, world, plan):
    # What a fault does to whoever asked is theirs to repeat; the checks say whether that was enough.
    with suppress(KilledError, SluiceError), world.app(plan) as app:
        scenario.act(world, app)


def _in_turns(scenario, world, plan):
    """Act; where the process ends and faults are left, let another process go on under them."""
    _act(scenario, world, plan)
    while plan.is_dead and len(plan.fired) < len(plan.faults):
        plan.revive()
        with suppress(KilledError, SluiceError, AssertionError), world.app(plan) as app:
            scenario.then(world, app)
            scenario.rest(world, app)


def _in_child(scenario, world, faults):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _act(scenario, world, Plan(faults, note=world.journal.note, die=lambda: os._exit(KILLED)))
            status = 0
        except Exception as error:  # noqa: BLE001 - told by the parent, as a breach
            world.journal.note("crashed", "".join(traceback.format_exception(error)[-3:]))
        finally:
            os._exit(status)
    os.waitpid(child, 0)


def _recovered(scenario, world):
    found = [f"the process ended with {told}" for (told,) in world.journal.entries("crashed")]
    try:
        if scenario.forgets:
            world.lose_messages(but_submissions=not scenario.loses_submissions)
        world.clock.advance(minutes=scenario.pause)
        with world.app() as app:
            scenario.then(world, app)
            scenario.rest(world, app)
            # A bus may deliver again what was completed long ago.
            world.journal.note(REPEATED)
            world.bus.repeat()
            scenario.rest(world, app)
    except (AssertionError, SluiceError) as error:
        found.append(f"stuck: {type(error).__name__}: {error}")
    return found + list(scenario.check(world, scenario))
