"""Reads YAML or JSON into values that know their line, for messages that point at it.

It reads only the parts that rules need: mappings, lists and plain values. It refuses tags and anchors. A few lines of
anchors can expand to more than a machine holds.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

#: The limit of a text in bytes: an operator writes it by hand.
MOST_BYTES: Final = 16 * 1024
_ANCHORS: Final = {"AnchorToken": "an anchor", "AliasToken": "an alias", "TagToken": "a tag"}


@dataclass(frozen=True, slots=True)
class Place:
    """A value and its line, counted from 1."""

    value: "Value"
    line: int


Value: TypeAlias = "str | list[Place] | dict[str, Place]"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A mistake and its line. Line 0 is the text as a whole."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}" if self.line else self.what


def read(text: str) -> tuple[Place | None, list[Problem]]:
    """Read a document with the lines of its parts, and find the mistakes in its form."""
    if len(text.encode()) > MOST_BYTES:
        return None, [Problem(0, f"the text is {len(text.encode())} bytes, the limit is {MOST_BYTES}")]
    # Imported here: only an operator's command, and a tick that finds new rules, read such a text.
    import yaml  # noqa: PLC0415

    # JSON may be indented by tabs, which YAML takes for a mistake.
    text = text.expandtabs() if text.lstrip().startswith("{") else text
    try:
        refused = [
            Problem(token.start_mark.line + 1, f"{_ANCHORS[kind]} is not allowed in rules: write the value out")
            for token in yaml.scan(text, Loader=yaml.SafeLoader)
            if (kind := type(token).__name__) in _ANCHORS
        ]
        root = None if refused else yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        return None, [_unreadable(error)]
    if refused:
        return None, refused
    problems: list[Problem] = []
    return (_place(root, problems) if root is not None else None), problems


def _unreadable(error: Exception) -> Problem:
    mark = getattr(error, "problem_mark", None)
    mistake = getattr(error, "problem", None) or "it is nested too deeply"
    return Problem(mark.line + 1 if mark else 0, f"neither YAML nor JSON: {mistake}")


def _place(node: Any, problems: list[Problem]) -> Place:
    line = node.start_mark.line + 1
    if node.id == "sequence":
        return Place([_place(item, problems) for item in node.value], line)
    if node.id == "mapping":
        return Place(_mapping(node, problems), line)
    return Place(str(node.value), line)


def _mapping(node: Any, problems: list[Problem]) -> dict[str, Place]:
    found: dict[str, Place] = {}
    for key, value in node.value:
        name, line = str(key.value) if key.id == "scalar" else "?", key.start_mark.line + 1
        if name in found:
            problems.append(Problem(line, f"{name!r} occurs twice; the first is on line {found[name].line}"))
            continue
        placed = _place(value, problems)
        found[name] = Place(placed.value, line)
    return found
