"""A forked child would hand out the ids of its parent, so every generator is disowned there."""

import os
import weakref
from typing import Final, Protocol


class Disownable(Protocol):
    """Something that belongs to the process that made it."""

    def disown(self) -> None:
        """Refuse every later use, without touching storage."""
        ...


_owned: Final[weakref.WeakSet[Disownable]] = weakref.WeakSet()


def disown_in_children(generator: Disownable) -> None:
    """Have the generator disowned in every child that is forked while it lives."""
    _owned.add(generator)


def _disown_all() -> None:
    for generator in tuple(_owned):
        generator.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
