"""Billing in processes that can be stopped in front of a stage, while they have something of it in hand.

It is loaded into the app's own processes by SLUICE_WORKLOADS, so nothing of the app knows of it.
"""

import os
import time
from functools import wraps
from pathlib import Path
from zlib import crc32

from capabilities.registration.seat_flows import SeatFlows
from capabilities.registration.verbs import Registration
from shared.gate import Batches, outflow
from shared.pipeline import Arrivals, Finisher, Processor, Settler
from shared.pipeline.feeding.feed import _Feeding
from shared.processes import Outgoing
from shared.readmodels import Projector
from tests.chaos.unsteady import NOTES, Notes, Unsteady

#: The setting that names the folder of traps.
TRAPS = "RECOVERY_TRAPS"
#: Held jobs of a gate from which on slices share them: a bench has few jobs.
MOST_ALONE = 3


class Trapped(Unsteady):
    """The workload `billing`, in a process whose stages are noted and may be held."""

    @classmethod
    def configured(cls, settings):
        """Return it, after every stage of this process has its trap."""
        made = super().configured(settings)
        _set_traps(Notes(settings[NOTES]), Path(settings[TRAPS]))
        return made


class Traps:
    """The traps as the killer sees them: armed by a file, which one process takes."""

    def __init__(self, folder):
        self._folder = Path(folder)

    def arm(self, stage):
        """Hold the next process that has something of this stage in hand."""
        (self._folder / stage).touch()


def _set_traps(notes, folder):
    def watch(kind, method, name):
        """Have a method note each call, and hold its process where the trap of its stage is armed."""
        inner = getattr(kind, method)

        @wraps(inner)
        def watched(self, *arguments, **options):
            found = name(*arguments, **options)
            if found:
                stage, what = found
                _hold(notes, folder, stage, what)
            return inner(self, *arguments, **options)

        setattr(kind, method, watched)

    outflow.MOST_ALONE = MOST_ALONE
    watch(Arrivals, "handle", _accepted)
    watch(Processor, "_do", lambda work, **_: ("work", f"{work.job}/{getattr(work, 'chunk', 'finish')}"))
    watch(Settler, "settle", lambda messages: ("settle", messages[0].id))
    watch(Finisher, "finish", lambda message: ("finish", message.job))
    watch(_Feeding, "_put_of", lambda row, *_: ("feed", row.job))
    watch(Outgoing, "send", _ordered)
    watch(SeatFlows, "sell", lambda bodies: ("sell", _name(bodies[0])))
    watch(Registration, "hear", lambda bodies: ("hear", _name(bodies[0])))
    watch(Projector, "project", lambda ranges: ("project", ranges[0].home))
    watch(Batches, "start", lambda due, *_: ("release", due[0].entry.id) if due else None)


def _accepted(delivery, until=None):
    return ("trigger" if until is None else "hint"), delivery.message_id


def _ordered(unsent):
    """Return the home of an order that is stored, whose command is about to be sent."""
    return next((("order", one.home) for one in unsent if one.commands), None)


def _name(body):
    return crc32(body)


def _hold(notes, folder, stage, what):
    try:
        (folder / stage).unlink()
    except FileNotFoundError:
        notes.write("went", stage, what, os.getpid(), time.time())
        return
    notes.write("caught", stage, what, os.getpid(), time.time())
    # Until it is killed. Its other threads go on, and renew what it has.
    while True:
        time.sleep(60)
