"""The stores of an installation, for the commands of a capability."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from shared.app import Stores
from shared.settings import Settings
from tools.cli.capabilities import chosen
from tools.cli.options import connected
from tools.cli.settings_file import load_connected


class Opened(NamedTuple):
    """The stores and settings of an installation, and the choice of one of its capabilities."""

    stores: Stores
    settings: Settings
    choice: Any


@contextmanager
def opened(capability: str, settings: Path | None) -> Iterator[Opened]:
    """Yield the stores of an installation that has this capability, or end."""
    parsed = Settings.parse(load_connected(settings))
    choice = chosen(parsed.capabilities, capability).choice
    with connected(settings) as connections:
        yield Opened(Stores(connections), parsed, choice)
