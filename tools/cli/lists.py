"""Lists in a terminal: the columns that the console draws too, as text."""

import inspect
import io
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime
from functools import wraps
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from shared.operating import Aside, HowFar, ListColumn, StateMark, Tone, Trend, describe_duration, tone_of
from tools.cli.screen import clean, show_moment

_STYLES: Final = {Tone.GOOD: "green", Tone.BUSY: "blue", Tone.WARN: "yellow", Tone.BAD: "bold red", Tone.CALM: ""}
_LEVELS: Final = "\N{LOWER ONE EIGHTH BLOCK}▂▃▄▅▆▇\N{FULL BLOCK}"


def make_list(title: str, columns: Sequence[ListColumn[Any]], rows: Iterable[object], now: datetime) -> Table:
    """Return the rows as a table."""
    table = Table(title=title)
    for column in columns:
        head = f"{column.head} (UTC)" if column.is_time else column.head
        table.add_column(head, justify="right" if column.is_number else "left")
    for row in rows:
        table.add_row(*(_show(column, row, now) for column in columns))
    return table


def _show(column: ListColumn[Any], row: object, now: datetime) -> Text:
    parts = [_say(one, now) for one in (column.read(row, now), *column.notes(row, now))]
    return Text(", ").join(part for part in parts if part)


def _say(value: object, now: datetime) -> Text:
    if isinstance(value, StateMark):
        return Text(clean(value.words).plain, _STYLES[tone_of(value.words)])
    return clean(_write(value, now))


def _write(value: object, now: datetime) -> str:
    match value:
        case Aside(words, at):
            return f"{words} {_show_near(at, now)}" if at else words
        case HowFar(ended, parked, whole):
            return f"{ended}/{whole}" + (f", {parked} parked" if parked else "")
        case Trend(counts):
            return _draw(counts)
        case datetime():
            return show_moment(value)
        case int() | float():
            return f"{value:,}"
    return str(value or "")


def _show_near(at: datetime, now: datetime) -> str:
    if at <= now:
        return f"{describe_duration((now - at).total_seconds())} ago"
    known = at.astimezone(UTC)
    return f"{known:%H:%M:%S}" if known.date() == now.astimezone(UTC).date() else show_moment(at)


def _draw(counts: Sequence[int]) -> str:
    most, last = max(counts, default=0), len(_LEVELS) - 1
    return "".join(_LEVELS[-(-count * last // most)] for count in counts) if most else ""


#: Seconds between two readings of a list that is watched.
_AGAIN: Final = 5.0
#: Goes to the first line, and removes what is below it.
_IN_PLACE: Final = "\x1b[H\x1b[J"
_WATCH: Final = inspect.Parameter(
    "watch",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--watch", help=f"Show it again each {_AGAIN:.0f} seconds, until Ctrl-C. Each time it reads again."
        ),
    ],
)


class _Kept(io.StringIO):
    """Keeps what is printed, for a terminal if that is one."""

    def __init__(self, is_terminal: bool) -> None:  # noqa: FBT001 - what it is
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Return whether a person reads it."""
        return self._is_terminal


def watchable(show: Callable[..., None]) -> Callable[..., None]:
    """Return the command with `--watch`: in a terminal one list in place, in a pipe one below the other."""

    @wraps(show)
    def command(*, watch: bool, **options: Any) -> None:
        if not watch:
            show(**options)
            return
        with suppress(KeyboardInterrupt):
            while True:
                kept = _Kept(sys.stdout.isatty())
                # A status of the list is for a script, which does not watch.
                with redirect_stdout(kept), suppress(typer.Exit):
                    show(**options)
                sys.stdout.write((_IN_PLACE if kept.isatty() else "") + kept.getvalue())
                sys.stdout.flush()
                time.sleep(_AGAIN)

    known = inspect.signature(show)
    command.__signature__ = known.replace(parameters=[*known.parameters.values(), _WATCH])  # type: ignore[attr-defined]
    command.__annotations__ = {**show.__annotations__, _WATCH.name: _WATCH.annotation}
    return command
