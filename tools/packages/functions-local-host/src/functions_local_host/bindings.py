"""Bindings as the host reads them: a function whose bindings it refuses is skipped, the others run."""

import re
from collections.abc import Mapping
from typing import Any

from functions_local_host.contract import Binding, IndexedFunction
from functions_local_host.local_settings import expand

_BINDING_NAME = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9]{0,127}|\$return)")
_FUNCTION_NAME = re.compile(r"[a-z][a-z0-9_\-]{0,127}", re.IGNORECASE)
TRIGGER_TYPES = ("httpTrigger", "queueTrigger", "serviceBusTrigger", "timerTrigger")
OUTPUT_TYPES = ("http", "queue", "serviceBus")
_SHAPE_KEYS = frozenset({"type", "name", "direction"})


class FunctionRefusedError(ValueError):
    """Raised when the host refuses one function. The app goes on without it."""


def index_bindings(name: str, raw: list[dict[str, Any]], settings: Mapping[str, str]) -> IndexedFunction:
    """Return the function with every %SETTING% replaced, or raise with the host's reason."""
    if not _FUNCTION_NAME.fullmatch(name) or name.lower() == "host":
        raise FunctionRefusedError(
            f"{name!r} is not a valid function name: a letter, then letters, digits, - and _, at most 128, not 'host'"
        )
    _check_names(raw)
    triggers = [entry for entry in raw if entry["type"].lower().endswith("trigger")]
    if len(triggers) != 1:
        raise FunctionRefusedError(f"{len(triggers)} triggers found, a function has exactly one")
    trigger = _binding(triggers[0], TRIGGER_TYPES, settings)
    outputs = tuple(_binding(entry, OUTPUT_TYPES, settings) for entry in raw if entry is not triggers[0])
    return IndexedFunction(name, trigger, outputs)


def _check_names(raw: list[dict[str, Any]]) -> None:
    names = [entry["name"] for entry in raw]
    for name in names:
        if not _BINDING_NAME.fullmatch(name):
            raise FunctionRefusedError(
                f"the binding name {name} is invalid: a letter, then letters and digits, at most 128, no underscore"
            )
    if len({name.lower() for name in names}) != len(names):
        raise FunctionRefusedError(f"multiple bindings share a name, binding names are unique: {', '.join(names)}")


def _binding(entry: Mapping[str, Any], known: tuple[str, ...], settings: Mapping[str, str]) -> Binding:
    spelling = {kind.lower(): kind for kind in known}
    kind = spelling.get(entry["type"].lower())
    if kind is None:
        raise FunctionRefusedError(
            f"binding {entry['name']!r} is of type {entry['type']!r}, this host has {', '.join(known)}"
        )
    rest = {key: value for key, value in entry.items() if key not in _SHAPE_KEYS}
    try:
        expanded = {key: expand(v, settings) if isinstance(v, str) else v for key, v in rest.items()}
    except LookupError as error:
        raise FunctionRefusedError(f"binding {entry['name']!r}: {error}") from error
    return Binding(kind, entry["name"], expanded)
