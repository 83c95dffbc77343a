"""A command: what one stream asks of another. Commands to one receiver travel together, in bundles.

A command has no reply of its own: the receiver's events are the reply, and name its sender and its generation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

from msgspec import Struct

from shared.decoding import make_decoder
from shared.messages import read_inside

#: Commands in one bundle. Their receiver saves what they change in one transaction of a table, of 98 events at most.
MOST_COMMANDS: Final = 98
_IDS: Final = UUID("5b0f2c8e-0a5e-5b43-9d51-1f2f6a0f4c11")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to the aggregate `to`, such as `seats-conf1`. A second time is harmless: its generation tells."""

    kind: str
    to: str
    body: Mapping[str, Any]
    #: The sender's count of what it asked about the same thing. The receiver keeps the highest and skips the others.
    generation: int = 0
    #: After this time the receiver refuses the command and counts it. None: it is obeyed however late it comes.
    not_after: datetime | None = None
    #: The commit of its sender's home that stored it. The runtime gives it, and by it the id: see `command_id`.
    version: int = 0
    id: str = ""
    #: 1 for the first sending. A receiver that fails sends a copy with the next number, for later.
    attempt: int = 1


def command_id(home: str, version: int, position: int) -> str:
    """Return the id of a command by the commit that stored it. However often it is sent, it is the same."""
    return str(uuid5(_IDS, f"{home} {version} {position}"))


def bundle_id(ids: list[str]) -> str:
    """Return the id of a message by those of its parts. One part alone gives the message its own."""
    return ids[0] if len(ids) == 1 else str(uuid5(_IDS, " ".join(ids)))


class _Commands(Struct, frozen=True, tag_field="kind", tag="commands"):
    commands: list[Command]


class _Wrapper(Struct, frozen=True):
    sluice: _Commands


_decoder: Final = make_decoder(_Wrapper)


def decode_commands(body: bytes) -> list[Command]:
    """Return the commands of a bundle. Raises only msgspec.DecodeError."""
    return read_inside(_decoder.decode, body).commands
