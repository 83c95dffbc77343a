"""Random mixtures of two instances that both know the acts, with a person who acts, and kills of their processes."""

import logging
import multiprocessing
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final

import shared
import shared.azure.connections
from tests.benchmarks.acts_row import Row
from tests.versions.acts import STALLED, ActedOn
from tests.versions.driver import Driver
from tests.versions.loading import find_today, load_folder

#: Mixtures side by side.
PROCESSES: Final = 4


def measure(mixtures: int) -> Iterator[Row]:
    """Run so many, and judge each as a run with faults is judged."""
    acts, killed, stalls, wrong = Counter[str](), 0, 0, list[str]()
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn"), _begin) as pool:
        for seed, (found, some, kills, ticks) in enumerate(pool.map(judge, range(mixtures))):
            sys.stdout.write(f"mixture {seed}: {'; '.join(found) or 'right'}\n")
            sys.stdout.flush()
            wrong += found
            acts.update(some)
            killed, stalls = killed + kills, max(stalls, ticks)
    said = ", ".join(f"{number} {act}" for act, number in sorted(acts.items()))
    found = f"{len(wrong)} wrong or parked ({said}, {killed} kills); {stalls} ticks at most without news"
    yield Row(f"{mixtures} mixtures of two instances", found, f"0, {STALLED} ticks", not wrong and stalls <= STALLED)


def judge(seed: int) -> tuple[list[str], list[str], int, int]:
    """Run one, and return what is wrong, the acts, the kills, and the ticks without news."""
    world = ActedOn(_versions(), seed)
    try:
        return world.run(), [act for act, _ in world.acts], world.killed, world.stalls
    finally:
        world.close()


def _begin() -> None:
    logging.disable(logging.CRITICAL)
    # The library's retries wait for nobody here.
    shared.azure.connections.PAUSE = 0.001


@cache
def _versions() -> dict[str, Any]:
    folder = tempfile.mkdtemp(prefix="sluice-acted-")
    other = load_folder(Path(shared.__file__).parent, "sluice_acted", folder)
    return {"other": (other, Driver), "today": (find_today, Driver)}
