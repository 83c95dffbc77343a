"""Lists in a terminal: the columns that the console draws too, as text."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from shared.operating import Aside, HowFar, ListColumn, StateMark, Tone, Trend, describe_duration, tone_of
from tools.cli.moments import show_moment
from tools.cli.screen import clean

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
