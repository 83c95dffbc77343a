"""Templates, and the text of others made harmless: escaped, and without characters that control or turn text."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from shared.operating import Aside, HowFar, StateMark, Trend, describe_duration, tone_of

#: Shown in place of nothing.
NOTHING: Final = "\N{EN DASH}"


def clean(text: str) -> str:
    """Return the text with each character that is not printable as its code: escaping alone lets U+202E turn a line."""
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)


def finalize(value: Any) -> Any:
    """Make one value of a template harmless. Markup was made by the console itself."""
    if isinstance(value, Markup):
        return value
    return NOTHING if value is None or value == "" else clean(str(value))


def show_lines(text: str) -> Markup:
    """Return text of several lines, each line harmless."""
    return Markup("\n").join(escape(clean(line)) for line in text.split("\n"))


def show_moment(at: datetime | str | None) -> Markup | str:
    """Return a time in UTC, also one that a document has as text. The script writes the reader's own time before it."""
    if at is None:
        return NOTHING
    known = (datetime.fromisoformat(at) if isinstance(at, str) else at).astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        known.isoformat(timespec="seconds"), f"{known:%Y-%m-%d %H:%M:%S}"
    )


def show_number(value: float | None) -> str:
    """Return a number as people read it."""
    return NOTHING if value is None else f"{value:,}"


def show_share(value: float) -> str:
    """Return a share in percent. All and nothing are said only of all and nothing."""
    percent = 100 * value
    if 0 < percent < 1:
        return "< 1 %"
    return "> 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def show_duration(seconds: float | timedelta | None) -> str:
    """Return a duration in its two largest units."""
    if seconds is None:
        return NOTHING
    return describe_duration(seconds.total_seconds() if isinstance(seconds, timedelta) else seconds)


def show_words(value: Any) -> str:
    """Return the name of a state or a risk as words."""
    return str(getattr(value, "value", value)).replace("_", " ")


def show_json(value: Any) -> str:
    """Return a value of an event as JSON."""
    return json.dumps(value, ensure_ascii=False)


def _load(template: str) -> str:
    """Return a template of the console, or of the package before the colon."""
    package, _, name = template.rpartition(":")
    return PackageLoader(package or __name__.rpartition(".")[0]).get_source(Environment(autoescape=True), name)[0]


def _check(*kinds: type) -> Callable[..., bool]:
    return lambda value: isinstance(value, kinds)


@cache
def templates() -> Environment:
    """Return the templates. Each is compiled at its first use."""
    made = Environment(
        loader=FunctionLoader(_load),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "moment": show_moment,
        "number": show_number,
        "share": show_share,
        "duration": show_duration,
        "words": show_words,
        "lines": show_lines,
        "json": show_json,
        "tone": tone_of,
    }
    made.tests["state"], made.tests["note"] = _check(StateMark), _check(Aside)
    made.tests["how_far"], made.tests["trend"] = _check(HowFar), _check(Trend)
    made.tests["moment"], made.tests["number"] = _check(datetime), _check(int, float)
    return made


def render(template: str, values: Mapping[str, Any]) -> Markup:
    """Return a template with these values."""
    text: str = templates().get_template(template).render(values)
    # Made by a template that escapes.
    return Markup(text)  # noqa: S704
