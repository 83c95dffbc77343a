"""Random mixtures of two instances that both know the acts, with a person who acts, and kills of their processes."""

import logging
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import shared
from tests.benchmarks.acts_row import Row
from tests.versions.acts import STALLED, ActedOn
from tests.versions.driver import Driver
from tests.versions.loading import find_today, load_folder


def measure(mixtures: int) -> Iterator[Row]:
    """Run so many, and judge each as a run with faults is judged."""
    acts, killed, stalls, wrong = Counter[str](), 0, 0, list[str]()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, patch("shared.azure.connections.PAUSE", 0.001):
        other = load_folder(Path(shared.__file__).parent, "sluice_acted", folder)
        for seed in range(mixtures):
            world = ActedOn({"other": (other, Driver), "today": (find_today, Driver)}, seed)
            try:
                wrong += [f"seed {seed}: {one}" for one in world.run()]
            finally:
                world.close()
            acts.update(act for act, _ in world.acts)
            killed, stalls = killed + world.killed, max(stalls, world.stalls)
    logging.disable(logging.NOTSET)
    said = ", ".join(f"{number} {act}" for act, number in sorted(acts.items()))
    found = f"{len(wrong)} wrong or parked ({said}, {killed} kills); {stalls} ticks at most without news"
    yield Row(f"{mixtures} mixtures of two instances", found, f"0, {STALLED} ticks", not wrong and stalls <= STALLED)
