"""The row of a process: its format, its state, and the commands that are not yet known to be sent."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from shared.decoding import convert
from shared.errors import LaterFormatError
from shared.eventsourcing import Home
from shared.messaging import Command
from shared.processes.decisions import Process

S = TypeVar("S")
_COMMANDS: Final = "commands"


def restore_process(process: Process[S], home: Home | None) -> tuple[S, tuple[Command, ...]]:
    """Return the state of a home's process, and its unsent commands. Raises LaterFormatError: a newer app wrote the row."""
    if home is None or home.process is None:
        return process.restore(None, home), ()
    stored = home.process
    format_ = int(stored["format"])
    if format_ > process.format:
        raise LaterFormatError(
            f"could not read the process of home {home.key!r}: its row has format {format_}, this program knows "
            f"{process.format}; update the app. The row is unchanged"
        )
    state = stored["state"] if format_ == process.format else process.upgrade(stored["state"], format_)
    return process.restore(state, home), commands_in(home)


def commands_in(home: Home) -> tuple[Command, ...]:
    """Return the commands in the row of a home's process, if it has one. They may be sent already."""
    return () if home.process is None else convert(home.process[_COMMANDS], tuple[Command, ...])


def store_process(process: Process[S], state: S, unsent: Sequence[Command]) -> Mapping[str, Any]:
    """Return the row, in the format of today: a row of an earlier one is rewritten with the next write."""
    commands = [msgspec.to_builtins(command) for command in unsent]
    return {"format": process.format, "state": process.store(state), _COMMANDS: commands}
