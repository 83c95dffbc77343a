"""Values as the host encodes them for a Python worker: text unchanged, everything else as JSON, null not at all."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from azure.functions.meta import Datum


@dataclass(frozen=True, slots=True)
class StringCollection:
    """The shape in which a worker finds an array of strings."""

    string: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BytesCollection:
    """The shape in which a worker finds an array of byte strings."""

    bytes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class IntegerCollection:
    """The shape in which a worker finds an array of 64-bit integers."""

    sint64: tuple[int, ...]


def datum_of(value: Any) -> Datum | None:
    """Return one metadata value as the host encodes it. Null is left out."""
    if value is None:
        return None
    if isinstance(value, str):
        return Datum(value, "string")
    if isinstance(value, datetime):
        return Datum(json.dumps(iso(value)), "json")
    return Datum(json.dumps(value, separators=(",", ":"), ensure_ascii=False), "json")


def iso(moment: datetime) -> str:
    """Return an instant with as many digits of the second as it has. A zone only when it is aware."""
    zone = "" if moment.tzinfo is None else "+00:00"
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}{zone}"
