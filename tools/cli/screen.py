"""The output of a terminal, and that of a pipe. No value of a table is cut: people type it into the next command.

- In a terminal, columns of ids and states stay whole and other columns fold. Where there is no room for all columns, some
  are left out by name: the last ones first, progress and causes last. Where there is no room even for the rest,
  everything folds.
- In a pipe, a table is one line for each row, its values separated by tabs. What is said about it begins with `# `.
"""

from collections.abc import Sequence
from typing import IO, Any, Final

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

#: Columns whose values people type, or compare with others: never folded where there is room.
WHOLE: Final = frozenset(
    {"job", "state", "key", "fingerprint", "gate", "order", "of", "sequence", "name", "home", "process", "event"}
)
#: How far a job is, and the words of a cause: they stay beside the id and the state, and fold.
_KEPT: Final = frozenset({"chunks", "cause", "reason", "kind"})
#: Characters of the longest word that a column gets before columns are left out.
_WORD: Final = 20
#: Characters beside each value, and before the first one.
_BORDER: Final = 3


def clean(text: str) -> Text:
    """Return text from a message, a row or a library as text: neither markup nor control sequences of a terminal."""
    return Text("".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text))


class Screen(Console):
    """The standard output of a command."""

    def __init__(
        self, *, file: IO[str] | None = None, width: int | None = None, is_terminal: bool | None = None
    ) -> None:
        super().__init__(file=file, width=width, force_terminal=is_terminal)
        # In a pipe, a line ends where the text does.
        self.soft_wrap = not self.is_terminal

    def show(self, table: Table) -> None:
        """Print a table."""
        if self.is_terminal:
            self.print(_fit(table, self.width))
            return
        rows = zip(*(map(_plain, column.cells) for column in table.columns), strict=True)
        heads = [tuple(_plain(column.header) for column in table.columns)] if table.show_header else []
        if table.title:
            self.file.write(f"# {_plain(table.title)}\n")
        for row in [*heads, *rows]:
            self.file.write("\t".join(row) + "\n")
        if table.caption:
            self.file.write(f"# {_plain(table.caption)}\n")


def _plain(cell: Any) -> str:
    return clean(cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain).plain


def _fit(table: Table, width: int) -> Table:
    kept = _choose(table.columns, width) if table.show_header else table.columns
    is_roomy = _need_all(kept) <= width
    fitted = Table(title=table.title, show_header=table.show_header, box=table.box)
    for column in kept:
        is_whole = is_roomy and _is_whole(column)
        fitted.add_column(column.header, justify=column.justify, no_wrap=is_whole, overflow="fold")
    cells = [list(column.cells) for column in kept]
    for number, row in enumerate(table.rows):
        fitted.add_row(*(column[number] for column in cells), end_section=row.end_section)
    left_out = ", ".join(_plain(column.header) for column in table.columns if column not in kept)
    notes = [table.caption, left_out and f"left out for lack of room: {left_out} (a pipe gets all)"]
    fitted.caption = "\n".join(str(note) for note in notes if note) or None
    return fitted


def _choose(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that there is room for. The first id and the state are always among them."""
    kept = list(columns)
    while _need_all(kept) > width:
        # What says least goes first: columns without a value, facts, then ids of other things, then progress and causes.
        least = min(map(_rank, kept))
        if least == _STAYS:
            break
        kept.remove(next(column for column in reversed(kept) if _rank(column) == least))
    return kept


#: Of the first column and the state.
_STAYS: Final = 3


def _rank(column: Column) -> int:
    name = _plain(column.header)
    if name == "state" or (name in WHOLE and not column._index):  # noqa: SLF001 - where it stands in its table
        return _STAYS
    if not any(map(_plain, column.cells)):
        return -1
    return 2 if name in _KEPT else 1 if name in WHOLE else 0


def _need_all(columns: Sequence[Column]) -> int:
    return 1 + sum(_need(column) + _BORDER for column in columns)


def _need(column: Column) -> int:
    texts = [_plain(cell) for cell in (column.header, *column.cells)]
    if _is_whole(column):
        return max(map(len, texts))
    return min(_WORD, max(len(word) for text in texts for word in text.split() or [""]))


def _is_whole(column: Column) -> bool:
    return _plain(column.header) in WHOLE
