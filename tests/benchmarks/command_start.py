"""CPU of a call of the `sluice` command, from its start to its end, by turns with what Azure's libraries take alone.

    python -m tests.benchmarks.command_start   (part of `make bench`; writes its table into docs/appendix/console.md)

Azurite and the broker run beside it. Each opening is of another gate, so each sends its signal over the bus.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from statistics import median

from servicebus_local.launcher import Broker

from shared.topology import topology
from tests.benchmarks import document
from tests.benchmarks.console import DOCUMENT
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import settings_for

TURNS = 9
#: The goal: CPU seconds of `gate open`.
MOST_SECONDS = 0.4
PYTHON, SLUICE = str(ROOT / ".venv" / "bin" / "python"), str(ROOT / ".venv" / "bin" / "sluice")
LIBRARIES = "import azure.data.tables, azure.servicebus, azure.storage.blob, azure.storage.queue"
OPEN = "sluice gate open"
HEAD = ("| call | CPU | imports of Azure's libraries alone |", "| --- | --- | --- |")


def main(_arguments: Sequence[str] = ()) -> int:
    """Measure each call by turns, write the table; 1 when the goal was missed."""
    with Azurite.start() as azurite, Broker.start() as broker, tempfile.TemporaryDirectory() as folder:
        provision(azurite.connection_string, topology())
        environ = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            # As an installed command has it: its modules are compiled once.
            "PYTHONPYCACHEPREFIX": str(Path(folder)),
            **settings_for(azurite.connection_string, broker.connection_string),
        }
        number = count()
        calls = {
            "libraries": lambda: [PYTHON, "-c", LIBRARIES],
            "sluice --version": lambda: [SLUICE, "--version"],
            "sluice gate list": lambda: [SLUICE, "gate", "list"],
            "sluice parked list": lambda: [SLUICE, "parked", "list"],
            OPEN: lambda: [SLUICE, "gate", "open", f"night-{next(number)}", "--yes", "--by", "bench"],
        }
        taken = {name: [] for name in calls}
        for turn in range(TURNS + 1):
            for name, words in calls.items():
                took = run(words(), environ)
                # The first turn compiles.
                taken[name] += [took] if turn else []
    seconds = {name: median(each) for name, each in taken.items()}
    base = seconds.pop("libraries")
    rows = [f"| `{name}` | {took:.2f} s | {took / base:.1f}x |" for name, took in seconds.items()]
    document.write(DOCUMENT, "command", "\n".join([*HEAD, *rows]))
    print("\n".join([*rows, f"libraries {base:.2f} s"]))  # noqa: T201 - a command prints
    return int(seconds[OPEN] > MOST_SECONDS)


def run(words, environ):
    """Return the CPU seconds of a process, of user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, cwd=ROOT, env=environ, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
