"""The app as it is deployed, for `tests.benchmarks.work`: its host with the locks, leases and intervals of `host.json` and infra.

Beside it: who kills instances, and who watches their memory.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from functions_local_host.launcher import Host
from servicebus_local.launcher import Broker

from shared.settings import Settings
from shared.topology import topology
from tests.benchmarks.large_job import AS_DEPLOYED
from tests.benchmarks.totals_service import TotalsService
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import bus_entities, sample_values, settings_for


@dataclass(frozen=True, slots=True)
class Deployed:
    """What is running."""

    #: The connection string for those who check: without what stands before the tables.
    storage: str
    settings: dict[str, str]
    host: Host
    totals: TotalsService | None


@contextmanager
def deployed(more: Mapping[str, str], *, instances: int, accounts: int = 0) -> Iterator[Deployed]:
    """Start everything, yield it, and stop everything. With accounts the table of totals is simulated."""
    with ExitStack() as parts:
        azurite = parts.enter_context(Azurite.start())
        totals = parts.enter_context(TotalsService(azurite.ports["table"], accounts)) if accounts else None
        ports = azurite.ports | ({"table": totals.port} if totals else {})
        parsed = Settings.parse(sample_values() | dict(more))
        broker = parts.enter_context(Broker.start(bus_entities(parsed)))
        settings = settings_for(azurite.account.connection_string(ports), broker.connection_string) | dict(more)
        settings["MALLOC_ARENA_MAX"] = AS_DEPLOYED["MALLOC_ARENA_MAX"]
        provision(azurite.connection_string, topology(parsed.work_queues, parsed.entities))
        host = Host.start(ROOT, settings, instances=instances)
        parts.callback(host.stop)
        yield Deployed(azurite.connection_string, settings, host, totals)


@dataclass(slots=True)
class Watched:
    """What the processes of the instances took, those that are gone included."""

    peaks: dict[int, int] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)

    @property
    def peak(self) -> int:
        """The most memory of one process, in bytes."""
        return max(self.peaks.values(), default=0)

    @property
    def cpu(self) -> float:
        """The CPU of all, in seconds; of one that was killed what it had at the last sight of it."""
        return sum(self.seconds.values())


class Beside:
    """A thread that does something again and again; a context manager that ends it."""

    def __init__(self, every: float) -> None:
        self._every, self._over = every, threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every):
            self.act()

    def act(self) -> None:
        """Do it once."""
        raise NotImplementedError


class Killing(Beside):
    """Ends an instance by SIGKILL, again and again."""

    def __init__(self, host: Host, every: float) -> None:
        super().__init__(every)
        self._host, self._dice, self.kills = host, random.Random(1), 0

    def act(self) -> None:
        """Kill one of those that run."""
        with suppress(ProcessLookupError, IndexError):
            os.kill(self._dice.choice(sorted(self._host.instance_pids().values())), signal.SIGKILL)
            self.kills += 1


class Watching(Beside):
    """Reads what each instance and its children take."""

    def __init__(self, host: Host) -> None:
        super().__init__(0.5)
        self._host, self.found = host, Watched()

    def act(self) -> None:
        """Read it once."""
        for pid in self._host.instance_pids().values():
            with suppress(OSError, ValueError, IndexError):
                status = Path(f"/proc/{pid}/status").read_text()
                (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
                self.found.peaks[pid] = int(line.split()[1]) * 1024
                times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                self.found.seconds[pid] = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def wait(condition, seconds: float, said: str, every: float = 1.0) -> None:  # type: ignore[no-untyped-def]
    """Wait until it holds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"after {seconds:.0f} s: {said}")
        time.sleep(every)
