"""Route templates of HTTP functions: `orders/{id:int}/{*rest}` against a path."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import unquote

_T = TypeVar("_T")

_PARAMETER = re.compile(r"\{(?P<all>\*{0,2})(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<rules>(?::[a-z]+)*)(?P<optional>\??)\}")
_CONSTRAINTS: Mapping[str, Callable[[str], bool]] = {
    "int": lambda text: re.fullmatch(r"-?\d+", text) is not None and -(2**31) <= int(text) < 2**31,
    "long": lambda text: re.fullmatch(r"-?\d+", text) is not None and -(2**63) <= int(text) < 2**63,
    "bool": lambda text: text.lower() in {"true", "false"},
    "alpha": lambda text: re.fullmatch(r"[A-Za-z]+", text) is not None,
    "guid": lambda text: (
        re.fullmatch(r"\{?[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\}?", text) is not None
    ),
}


class RouteError(ValueError):
    """Raised when a route template is beyond what this host matches."""


@dataclass(frozen=True, slots=True)
class _Segment:
    literal: str = ""
    name: str = ""
    rules: tuple[str, ...] = ()
    is_optional: bool = False
    takes_rest: bool = False

    @property
    def rank(self) -> int:
        """Literals match before constrained parameters, those before free ones, catch-all comes last."""
        if self.literal:
            return 0
        return 3 if self.takes_rest else 2 - bool(self.rules)

    def accepts(self, text: str) -> bool:
        if self.literal:
            return text.lower() == self.literal.lower()
        return bool(text) and all(_CONSTRAINTS[rule](text) for rule in self.rules)


@dataclass(frozen=True, slots=True)
class Route:
    """One template, matched segment by segment and without regard to case."""

    segments: tuple[_Segment, ...]

    @classmethod
    def parse(cls, template: str) -> "Route":
        """Return the route, or raise with the part that this host does not match."""
        parts = [part for part in template.strip("/").split("/") if part]
        segments = tuple(_segment(part, template) for part in parts)
        if any(segment.takes_rest or segment.is_optional for segment in segments[:-1]):
            raise RouteError(f"route {template!r}: only the last segment can be optional or take the rest")
        return cls(segments)

    @property
    def rank(self) -> tuple[int, ...]:
        """Sorts the more specific route first."""
        return tuple(segment.rank for segment in self.segments)

    def match(self, path: str) -> dict[str, str] | None:
        """Return the parameters found in a raw path, None when it is another route's."""
        parts = [unquote(part) for part in path.strip("/").split("/") if part]
        found: dict[str, str] = {}
        for index, segment in enumerate(self.segments):
            if segment.takes_rest:
                return found | ({segment.name: "/".join(parts[index:])} if parts[index:] else {})
            if index >= len(parts):
                return found if segment.is_optional else None
            if not segment.accepts(parts[index]):
                return None
            if segment.name:
                found[segment.name] = parts[index]
        return found if len(parts) <= len(self.segments) else None


def _segment(part: str, template: str) -> _Segment:
    match = _PARAMETER.fullmatch(part)
    if match is None:
        if "{" in part or "}" in part:
            raise RouteError(
                f"route {template!r}: segment {part!r} is beyond this host, write {{name}}, {{name?}}, {{*rest}} or a constraint"
                f" of {', '.join(_CONSTRAINTS)}"
            )
        return _Segment(literal=part)
    rules = tuple(rule for rule in match["rules"].split(":") if rule)
    if unknown := [rule for rule in rules if rule not in _CONSTRAINTS]:
        raise RouteError(
            f"route {template!r}: constraint {unknown[0]!r} is beyond this host: {', '.join(_CONSTRAINTS)}"
        )
    return _Segment("", match["name"], rules, bool(match["optional"]), bool(match["all"]))


@dataclass(frozen=True, slots=True)
class Entry(Generic[_T]):
    """A route with the methods it answers (none: all) and what it leads to."""

    route: Route
    methods: frozenset[str]
    target: _T


def find(entries: Iterable[Entry[_T]], method: str, path: str) -> tuple[_T, dict[str, str]] | None:
    """Return the most specific match. A path known under another method only is not found, as in Azure."""
    for entry in sorted(entries, key=lambda entry: entry.route.rank):
        if entry.methods and method.upper() not in entry.methods:
            continue
        parameters = entry.route.match(path)
        if parameters is not None:
            return entry.target, parameters
    return None
