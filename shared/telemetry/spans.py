"""The catalogue of spans: the pieces of work that one trace of a job is made of."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Piece(StrEnum):
    """The name of a span."""

    PUBLISH = "sluice.publish"
    ACCEPT = "sluice.accept"
    DISPATCH = "sluice.dispatch"
    PROCESS = "sluice.process"
    SETTLE = "sluice.settle"
    FINISH = "sluice.finish"


#: What each is, and under which other it stands.
PIECES: Final[Mapping[Piece, tuple[str, str]]] = MappingProxyType(
    {
        Piece.PUBLISH: ("framing, storing and sending a submission", "whatever the publisher is doing"),
        Piece.ACCEPT: ("job row, plan, ids; then held or sent on", "publish, where the submission names it"),
        Piece.DISPATCH: ("putting chunks on the work queues, at first or again", "accept"),
        Piece.PROCESS: ("reading, running and storing one chunk", "its dispatch"),
        Piece.SETTLE: ("crediting up to 99 results of one job", "accept; linked to the chunks that it credits"),
        Piece.FINISH: ("merging the partials and writing outputs and totals", "accept"),
    }
)
