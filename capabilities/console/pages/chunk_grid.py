"""The chunks of a job as a grid of at most four hundred cells. A cell shows the worst of its range. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from shared.ledger import ChunkState

MOST_CELLS: Final = 400
_COLUMNS: Final = 50
#: Steps between two cells, in units of the drawing.
_STEP: Final = 10
#: From the worst to the best, by the names of the style.
_KINDS: Final = ("stopped", "again", "rest", "done")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its place, its kind and its words."""

    x: int
    y: int
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Grid:
    """All cells."""

    cells: Sequence[Cell]
    #: Chunks of one cell.
    per_cell: int
    columns: int
    rows: int
    counts: Mapping[str, int]


def draw_grid(chunks: int, ended: Mapping[int, ChunkState], retried: Mapping[int, str]) -> Grid:
    """Return the grid of this many chunks. `retried`: the words about each that is tried again, or waits."""
    per_cell = max(1, ceil(chunks / MOST_CELLS))
    number = ceil(chunks / per_cell)
    cells = [
        _draw_cell(place, range(place * per_cell, min(chunks, (place + 1) * per_cell)), ended, retried)
        for place in range(number)
    ]
    kinds = Counter(cell.kind for cell in cells)
    counts = {"done": kinds["done"], "parked": kinds["stopped"], "open": kinds["rest"] + kinds["again"]}
    return Grid(cells, per_cell, min(_COLUMNS, number), ceil(number / _COLUMNS), counts)


def _draw_cell(place: int, chunks: range, ended: Mapping[int, ChunkState], retried: Mapping[int, str]) -> Cell:
    kinds = {_kind_of(chunk, ended, retried) for chunk in chunks}
    worst = next(kind for kind in _KINDS if kind in kinds)
    named = f"chunk {chunks.start}" if len(chunks) == 1 else f"chunks {chunks.start} to {chunks.stop - 1}"
    words = {"stopped": "parked", "again": "tried again", "rest": "open", "done": "done"}[worst]
    if worst == "again" and len(chunks) == 1:
        words = retried[chunks.start]
    return Cell(place % _COLUMNS * _STEP, place // _COLUMNS * _STEP, worst, f"{named}: {words}")


def _kind_of(chunk: int, ended: Mapping[int, ChunkState], retried: Mapping[int, str]) -> str:
    if chunk in ended:
        return "stopped" if ended[chunk] is ChunkState.PARKED else "done"
    return "again" if chunk in retried else "rest"
