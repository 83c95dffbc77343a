"""A contender on emulators of its own, with two worker processes and two of customers."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from servicebus_local.launcher import Broker

from tests.benchmarks.pipeline_measure import cpu_of
from tests.benchmarks.registration_contender import Contender
from tests.benchmarks.registration_goals import say
from tests.benchmarks.registration_load import Errand, Experience, serve_customers
from tests.benchmarks.registration_worker import Used, work
from tools.local.azurite.launcher import Azurite
from tools.local.stack import settings_for

WORKERS, CUSTOMERS = 2, 2
#: Orders of the warm-up.
_WARM_UP = 40
#: Seconds without progress after which a run has failed.
_PATIENCE = 120.0
#: Seconds after the last answer in which rows that are done go.
_REMOVED_WITHIN = 4.0
_SPAWNED = multiprocessing.get_context("spawn")


class Cost(NamedTuple):
    """Requests and CPU of a stretch."""

    storage: Counter[str]
    bus: Counter[str]
    #: Seconds, by who took them.
    cpu: Mapping[str, float]
    failures: int

    def since(self, before: "Cost") -> "Cost":
        """Return what was used since."""
        cpu = {who: seconds - before.cpu[who] for who, seconds in self.cpu.items()}
        return Cost(self.storage - before.storage, self.bus - before.bus, cpu, self.failures - before.failures)


@dataclass
class Stage:
    """A running contender."""

    kind: type[Contender]
    own: Contender
    workers: Sequence[Connection]
    customers: Sequence[Connection]
    servers: Mapping[str, int]
    #: When the answer of each order was shown.
    answered: dict[str, float] = field(default_factory=dict)
    _errands: int = 0

    def cost(self) -> Cost:
        """Return what was used so far."""
        workers, customers = self._ask(self.workers), self._ask(self.customers)
        for one in workers:
            for order, at in one.answered.items():
                self.answered[order] = min(at, self.answered.get(order, at))
        every = [*workers, *customers]
        return Cost(
            sum((one.storage for one in every), Counter()),
            sum((one.bus for one in every), Counter()),
            {
                "workers": sum(one.cpu for one in workers),
                "customers": sum(one.cpu for one in customers),
                **{who: cpu_of([pid]) for who, pid in self.servers.items()},
            },
            sum(one.failures for one in every),
        )

    def place(self, orders: int, *, rate: float | None = None, gate: str | None = None) -> "Placed":
        """Have customers place orders. At a rate, return when each customer has seen the answer."""
        self._errands += 1
        prefix, begin = f"o{self._errands}", time.monotonic() + 0.2
        for share, each in enumerate(self.customers):
            shares = len(self.customers)
            errand = Errand(prefix=prefix, orders=orders, share=share, shares=shares, rate=rate, begin=begin, gate=gate)
            each.send(errand)
        experiences = [one for each in self.customers for one in each.recv()]
        return Placed([f"{prefix}-{number}" for number in range(orders)], begin, experiences)

    def await_answers(self, orders: Sequence[str]) -> None:
        """Return when the view shows an answer to all of them."""
        left, moved = set(orders), time.monotonic()
        while left:
            self.cost()
            if found := left & self.answered.keys():
                left -= found
                moved = time.monotonic()
            if time.monotonic() - moved > _PATIENCE:
                raise TimeoutError(f"{self.kind.who}: {len(left)} of {len(orders)} orders have no answer")
            time.sleep(0.25)

    def settle(self) -> Cost:
        """Return what was used, once what follows the last answer is done too."""
        time.sleep(_REMOVED_WITHIN)
        return self.cost()

    @staticmethod
    def _ask(pipes: Sequence[Connection]) -> list[Used]:
        for pipe in pipes:
            pipe.send("used")
        return [pipe.recv() for pipe in pipes]


class Placed(NamedTuple):
    """Orders that were placed."""

    orders: Sequence[str]
    #: When the first was to be placed, in monotonic seconds.
    begin: float
    #: At a rate only.
    experiences: Sequence[Experience]


@contextmanager
def staged(kind: type[Contender]) -> Iterator[Stage]:
    """Run a contender, warmed up."""
    with ExitStack() as parts:
        azurite = parts.enter_context(Azurite.start())
        broker = parts.enter_context(Broker.start(kind.entities()))
        settings = settings_for(azurite.connection_string, broker.connection_string) | dict(kind.settings)
        kind.prepare(azurite.connection_string)
        own = parts.enter_context(kind(settings))
        own.open_conference()
        workers = [_start(parts, work, kind, settings) for _ in range(WORKERS)]
        customers = [_start(parts, serve_customers, kind, settings) for _ in range(CUSTOMERS)]
        for pipe in (*workers, *customers):
            pipe.recv()
        servers = {"Azurite": azurite.process.pid, "broker": broker.process.pid}
        stage = Stage(kind, own, workers, customers, servers)
        stage.await_answers(stage.place(_WARM_UP).orders)
        say(f"{kind.who} is warm")
        yield stage


def _start(
    parts: ExitStack, target: Callable[..., None], kind: type[Contender], settings: dict[str, str]
) -> "Connection[Any, Any]":
    mine, its = _SPAWNED.Pipe()
    process = _SPAWNED.Process(target=target, args=(kind, settings, its), daemon=True)
    process.start()

    def end() -> None:
        # One that failed is gone.
        with suppress(OSError):
            mine.send(None)
        process.join(30)
        if process.is_alive():
            process.kill()

    parts.callback(end)
    return mine
