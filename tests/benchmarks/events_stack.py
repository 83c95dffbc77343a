"""A stack of the app at the values that are deployed, and the events that reach it while it is idle."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from functions_local_host.launcher import Host
from servicebus_local.launcher import Broker

from shared.app import Stores
from shared.azure import Connections
from shared.ledger import FINISHED, JobState
from shared.publish import Publisher
from shared.topology import topology
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import settings_for

#: Not Development, where the host makes two seconds of exactly one minute, and not Production, which takes no keys.
ENVIRONMENT = {"AZURE_FUNCTIONS_ENVIRONMENT": "Staging"}
#: What would override host.json.
_OVERRIDES = "AzureFunctionsJobHost__"
#: Seconds after which an event counts as lost: three polls at a minute's interval, and some more.
PATIENCE = 240.0
#: One host starts at a time: side by side they would measure each other.
_starting = Lock()


@dataclass(frozen=True, slots=True)
class Took:
    """The seconds from one event to the begin of the first chunk, and to the end of the job."""

    begin: float
    end: float
    #: From the opening to the begin, by the app's own record. None for an event that is no opening.
    told: float | None = None
    #: The time of the command itself.
    command: float = 0.0


@dataclass
class DeployedStack:
    """A running stack. Its events follow each other; each has a job of one transaction."""

    settings: Mapping[str, str]
    stores: Stores
    #: One that stays, with its connection for hints.
    publisher: Publisher
    stamps: Path
    host: Host
    #: Seconds that the host took to start.
    started: float
    _dropped: int = field(default=0, init=False)

    def intervals(self) -> set[float]:
        """Return the interval at which each instance polls an idle queue, as it says itself."""
        return {said["longestPoll"] for said in self.host.status()["instances"].values()}

    def hold(self, jobs: int) -> list[int]:
        """Drop jobs behind gates of their own, and return their numbers once all are held."""
        numbers = [self._drop(gated=True) for _ in range(jobs)]
        for number in numbers:
            self._await(number, {JobState.HELD})
        return numbers

    def open(self, number: int) -> Took:
        """Open the gate of a job, as `sluice gate open` does: over connections of its own."""
        began = time.time()
        with Connections.parse(self.settings) as own:
            opened = Stores(own).gate_operator.open(_gate(number), by="benchmark").after.at
            command = time.time() - began
            assert opened is not None, "an open gate says when it was opened"
            return self._took(number, opened.timestamp(), is_opening=True, command=command)

    def plan(self, number: int, at: float) -> None:
        """Plan the opening of a job's gate for a whole second, as `sluice gate open --at` does."""
        self.stores.gate_operator.schedule(_gate(number), datetime.fromtimestamp(at, UTC), by="benchmark")

    def follow(self, number: int, at: float) -> Took:
        """Wait for a planned opening."""
        time.sleep(max(0.0, at - time.time()))
        return self._took(number, at, is_opening=True)

    def drop(self) -> Took:
        """Drop a job without a gate and send a hint, as `sluice submit` does."""
        began = time.time()
        number = self._drop(hints=True)
        return self._took(number, began, command=time.time() - began)

    def drop_again(self) -> Took:
        """Drop a job with a hint, as a publisher's program does that has dropped something before."""
        began = time.time()
        number = self._submit(self.publisher)
        return self._took(number, began, command=time.time() - began)

    def _drop(self, *, gated: bool = False, hints: bool = False) -> int:
        # Its own connections, as another process has them.
        with Connections.parse(self.settings) as own, Publisher.connect(own, hints=hints) as publisher:
            return self._submit(publisher, gated=gated)

    def _submit(self, publisher: Publisher, *, gated: bool = False) -> int:
        self._dropped += 1
        number = self._dropped
        publisher.submit(
            job=_job(number),
            transactions=[{"number": number}],
            workload="stamp",
            gate=_gate(number) if gated else None,
        )
        return number

    def _took(self, number: int, since: float, *, is_opening: bool = False, command: float = 0.0) -> Took:
        ended = self._await(number, FINISHED)
        told = [one.delay / timedelta(seconds=1) for one in self.stores.first_chunks.history(_gate(number))]
        return Took(self._stamp(number) - since, ended - since, told[0] if is_opening and told else None, command)

    def _await(self, number: int, states: frozenset[JobState] | set[JobState]) -> float:
        """Return when the job was seen in one of these states."""
        end = time.monotonic() + PATIENCE
        look, longest = 0.02, 0.25
        while True:
            job = self.stores.ledger.read(_job(number))
            if job is not None and job.state in states:
                return time.time()
            if time.monotonic() > end:
                raise TimeoutError(f"job {number} is {job.state if job else 'not there'} after {PATIENCE:g} s")
            # By a hundredth of what it waited already: exact where it is soon, without a load where it takes a minute.
            time.sleep(look)
            look = min(longest, look * 1.01)

    def _stamp(self, number: int) -> float:
        lines = map(str.split, self.stamps.read_text().splitlines())
        return min(float(at) for of, at in lines if int(of) == number)


def _job(number: int) -> str:
    return f"job-{number}"


def _gate(number: int) -> str:
    return f"gate-{number}"


@contextmanager
def deployed(changed: Mapping[str, str], *, instances: int = 1) -> Iterator[DeployedStack]:
    """Run a stack with host.json as it is, and with these settings as they are deployed."""
    with ExitStack() as parts:
        stamps = Path(parts.enter_context(TemporaryDirectory())) / "stamps"
        own = {"SLUICE_WORKLOADS": "tests.benchmarks.dequeue_workload:Stamp", "DEQUEUE_STAMPS": str(stamps)}
        azurite = parts.enter_context(Azurite.start())
        broker = parts.enter_context(Broker.start())
        sample = settings_for(azurite.connection_string, broker.connection_string)
        plain = {name: said for name, said in sample.items() if not name.startswith(_OVERRIDES)}
        settings = {**plain, **ENVIRONMENT, **own, **changed}
        provision(azurite.connection_string, topology())
        with _starting:
            began = time.monotonic()
            host = Host.start(ROOT, settings=settings, instances=instances)
            started = time.monotonic() - began
        parts.callback(host.stop)
        connections = parts.enter_context(Connections.parse(settings))
        publisher = parts.enter_context(Publisher.connect(connections))
        yield DeployedStack(settings, Stores(connections), publisher, stamps, host, started)
