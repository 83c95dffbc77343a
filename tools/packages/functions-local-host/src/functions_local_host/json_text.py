"""JSON as the host's own .NET serializer reads and writes it, where that differs from Python's."""

import json
import re
from datetime import UTC, datetime
from typing import Any

_INSTANT = re.compile(
    r"(?P<clock>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,7}))?(?P<zone>Z|[+-]\d\d:\d\d)?"
)
#: The three line separators that the serializer escapes and Python does not.
_SEPARATORS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def looks_like_json(text: str) -> bool:
    """Return true if the host tries to read this text as JSON: it goes by the first and the last character alone."""
    text = text.strip()
    return text[:1] + text[-1:] in ("{}", "[]")


def compact(value: Any) -> str:
    """Return one line of JSON without spaces, instants rewritten."""
    return _escaped(json.dumps(_with_instants(value), separators=(",", ":"), ensure_ascii=False))


def indented(value: Any) -> str:
    """Return JSON with two spaces a level, instants rewritten: what a re-serialised object looks like."""
    return _escaped(json.dumps(_with_instants(value), indent=2, ensure_ascii=False))


def cast_to_text(value: Any) -> str | None:
    """Return a scalar as the host's cast to string gives it: `True`, `1`, an instant as month/day/year, None for null."""
    if value is None or isinstance(value, bool):
        return None if value is None else str(value)
    if isinstance(value, float):
        return repr(value).removesuffix(".0").upper()
    instant = _instant(value) if isinstance(value, str) else None
    return str(value) if instant is None else instant[0].strftime("%m/%d/%Y %H:%M:%S")


def _escaped(text: str) -> str:
    return text.translate(_SEPARATORS)


def _with_instants(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_instants(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_instants(item) for item in value]
    instant = _instant(value) if isinstance(value, str) else None
    return value if instant is None else _rewritten(*instant)


def _instant(text: str) -> tuple[datetime, str] | None:
    """Return the moment and its zone mark, or None for text that is no instant to the serializer."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    zone = match["zone"] or ""
    fraction = (match["fraction"] or "").ljust(6, "0")[:6]
    try:
        moment = datetime.fromisoformat(f"{match['clock']}.{fraction}{zone}")
        if zone in ("", "Z"):
            return moment.replace(tzinfo=None), zone
        # An offset is turned into the machine's own time, which is UTC in Azure.
        return moment.astimezone(UTC).replace(tzinfo=None), "+00:00"
    except (ValueError, OverflowError):
        return None


def _rewritten(moment: datetime, zone: str) -> str:
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}{zone}"
