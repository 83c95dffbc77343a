"""A customers' process of the registration benchmark: it places orders, all at once or at a rate, and looks at them.

At a rate, an order's time begins when it was to be placed. So an answer that is late because the process was late is late.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from tests.benchmarks.registration_contender import Contender
from tests.benchmarks.registration_worker import used_by

#: Seconds after which a customer gives up.
PATIENCE: Final = 60.0
#: Orders that one process places at the same time when all come at once.
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What a customers' process is to do. Its numbers are those that leave the rest `share` by `shares`."""

    prefix: str
    orders: int
    share: int
    shares: int
    #: Orders a second of all processes. None: as fast as possible, and nobody looks.
    rate: float | None = None
    #: In monotonic seconds.
    begin: float = 0.0
    gate: str | None = None

    def numbers(self) -> range:
        """Return the numbers of its orders."""
        return range(self.share, self.orders, self.shares)


class Experience(NamedTuple):
    """The seconds of one customer from the order until it was readable with its price, and until it was answered."""

    priced: float
    answered: float


def serve_customers(kind: type[Contender], settings: dict[str, str], orders: Connection) -> None:
    """Be a customers' process: run errands, and say what was used, whenever asked."""
    with kind(settings) as contender, asyncio.Runner() as runner:
        orders.send(None)
        while (errand := orders.recv()) is not None:
            if isinstance(errand, Errand):
                orders.send(runner.run(_run(contender, errand)))
            else:
                orders.send(used_by(contender.connections))


async def _run(contender: Contender, errand: Errand) -> list[Experience]:
    if errand.rate is None:
        await _place_all(contender, errand)
        return []
    tasks = []
    for number in errand.numbers():
        due = errand.begin + number / errand.rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        tasks.append(asyncio.create_task(_wait_for(contender, f"{errand.prefix}-{number}", due)))
    return await asyncio.gather(*tasks)


async def _place_all(contender: Contender, errand: Errand) -> None:
    left: Iterator[int] = iter(errand.numbers())

    async def place() -> None:
        for number in left:
            await contender.place(f"{errand.prefix}-{number}", errand.gate)

    await asyncio.gather(*(place() for _ in range(_AT_ONCE)))


async def _wait_for(contender: Contender, order: str, due: float) -> Experience:
    await contender.place(order)
    seen = await contender.look(order)
    priced = time.monotonic() - due if seen.is_priced else PATIENCE
    if not seen.is_answered:
        seen = await contender.wait(order, due + PATIENCE)
    answered = time.monotonic() - due
    # Whoever shows the answer before the price is looked at until it has both.
    while not seen.is_priced and time.monotonic() - due < PATIENCE:
        await asyncio.sleep(0.1)
        seen = await contender.look(order)
        answered = time.monotonic() - due
    if seen.is_priced:
        priced = min(priced, answered)
    return Experience(priced, answered if seen.is_answered else PATIENCE)


def slowest(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    return sorted(values)[max(0, round(share * len(values)) - 1)]
