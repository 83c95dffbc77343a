"""Configuration as .NET sees it: every file flattened to text values under case-insensitive paths, later sources win."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from functions_local_host.time_span import parse_time_span

T = TypeVar("T")

#: Application settings with this prefix override host.json; `__` and `:` both separate path elements.
OVERRIDE_PREFIX = "azurefunctionsjobhost:"


def flatten(document: Mapping[str, Any]) -> dict[str, str]:
    """Return `{"extensions:queues:batchsize": "8"}` for the nested form. Array elements get their index as name."""
    return {path.lower(): text for path, text in _leaves(document, "")}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}:{name}" if path else name)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}:{index}")
    elif value is not None:
        yield path, str(value)


def overrides(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the values of host.json that application settings replace."""
    paths = {name.replace("__", ":").lower(): value for name, value in settings.items()}
    return {
        path.removeprefix(OVERRIDE_PREFIX): value for path, value in paths.items() if path.startswith(OVERRIDE_PREFIX)
    }


class Section:
    """The values below one path. Every problem found while reading is kept, so that all are reported together."""

    def __init__(self, values: Mapping[str, str], path: str, problems: list[str]) -> None:
        self._path, self._problems = path, problems
        prefix = f"{path}:".lower() if path else ""
        self._values = {name.removeprefix(prefix): v for name, v in values.items() if name.startswith(prefix)}
        self._asked: set[str] = set()

    def section(self, name: str) -> "Section":
        """Return the values below `name`."""
        self._asked.add(name.lower())
        inner = {f"{self._path}:{n}".lower() if self._path else n: v for n, v in self._values.items()}
        return Section(inner, f"{self._path}:{name}" if self._path else name, self._problems)

    def text(self, name: str, default: str = "") -> str:
        """Return the value as it stands."""
        self._asked.add(name.lower())
        return self._values.get(name.lower(), default)

    def integer(self, name: str, default: int, least: int, most: int | None = None) -> int:
        """Return a number within the range that the host takes."""
        text = self.text(name, str(default))
        try:
            number = int(text)
        except ValueError:
            return self._refuse(name, text, "a whole number", default)
        if number < least or (most is not None and number > most):
            return self._refuse(name, text, f"{least} or more" if most is None else f"{least} to {most}", default)
        return number

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a truth value."""
        text = self.text(name, str(default))
        if text.lower() not in {"true", "false"}:
            return self._refuse(name, text, "true or false", default)
        return text.lower() == "true"

    def choice(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """Return one of the allowed words, in the spelling of `allowed`."""
        text = self.text(name, default)
        for word in allowed:
            if word.lower() == text.lower():
                return word
        return self._refuse(name, text, " or ".join(allowed), default)

    def span(
        self, name: str, default: timedelta, least: timedelta = timedelta(0), most: timedelta | None = None
    ) -> timedelta:
        """Return a duration within the range that the host takes."""
        text = self.text(name)
        try:
            span = parse_time_span(text) if text else default
        except ValueError as error:
            return self._refuse(name, text, f"a time span as hh:mm:ss ({error})", default)
        if span < least or (most is not None and span > most):
            return self._refuse(name, text, f"{least} or more" if most is None else f"{least} to {most}", default)
        return span

    def unknown(self) -> list[str]:
        """Return the paths that no reader used."""
        extra = {n for n in self._values if n not in self._asked and n.split(":", 1)[0] not in self._asked}
        return [f"{self._path}:{name}" for name in sorted(extra)]

    def refuse(self, problem: str) -> None:
        """Keep a problem that concerns several values."""
        self._problems.append(f"{self._path.replace(':', '.')}: {problem}" if self._path else problem)

    def _refuse(self, name: str, text: str, expected: str, default: T) -> T:
        self.refuse(f"{name} is {text!r}, the host takes {expected}")
        return default
