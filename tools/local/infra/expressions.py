"""Works out Bicep expressions, as far as possible before a deployment. A value that only Azure knows stays a placeholder."""

import hashlib
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from tree_sitter import Node

from tools.local.infra.bicep import BicepError, Template, named


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only a deployment knows. `text` says where it comes from and makes two of them comparable."""

    text: str

    def __str__(self) -> str:
        """Return its placeholder within a text."""
        return f"<{self.text}>"


class Names(Protocol):
    """Where an expression stands: the file, and what names mean there."""

    @property
    def template(self) -> Template:
        """The file."""
        ...

    def value_of(self, name: str) -> Any:
        """Return the value of a parameter, a variable, a loop's variable, a resource or a module."""
        ...

    def member(self, value: Any, name: str) -> Any:
        """Return a property of a resource, or the outputs of a module."""
        ...

    def inside(self, names: Mapping[str, Any]) -> "Names":
        """Return the same place with a loop's variables."""
        ...

    def content(self, file: Path) -> str:
        """Return the text of a file that the template loads."""
        ...


def evaluate(node: Node, names: Names) -> Any:
    """Return the value of an expression."""
    known = _KINDS.get(node.type)
    if known is None:
        raise BicepError(f"{names.template.at(node)}: the checks do not know {node.type}")
    return known(node, names)


def repeated(node: Node, names: Names) -> list[tuple[Node, Names]]:
    """Return the body of a loop once for each item, with the loop's variables."""
    loop, body = node.child_by_field_name("initializer"), node.child_by_field_name("body")
    parts = [part for part in named(node) if part.type != "for_loop_parameters" and part not in (loop, body)]
    if body is None or not parts:
        raise BicepError(f"{names.template.at(node)}: the checks do not know this loop")
    items = evaluate(parts[0], names)
    variables = _loop_variables(node, names)
    return [(body, names.inside(dict(zip(variables, (item, place), strict=False)))) for place, item in enumerate(items)]


def _loop_variables(node: Node, names: Names) -> list[str]:
    loop = node.child_by_field_name("initializer")
    if loop is not None:
        return [names.template.text(loop)]
    pair = next(part for part in named(node) if part.type == "for_loop_parameters")
    return [names.template.text(part) for part in named(pair)]


def _string(node: Node, names: Names) -> str:
    return "".join(_piece(part, names) for part in named(node))


def _piece(part: Node, names: Names) -> str:
    if part.type == "interpolation":
        return _text(evaluate(next(named(part)), names))
    text = names.template.text(part)
    return {"\\n": "\n", "\\t": "\t", "\\r": "\r"}.get(text, text[1:]) if part.type == "escape_sequence" else text


def _text(value: Any) -> str:
    # Bicep writes booleans, objects and arrays as JSON.
    return json.dumps(value) if isinstance(value, bool | Mapping | list) else str(value)


def _object(node: Node, names: Names) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for part in named(node):
        key, value = list(named(part))
        name = _string(key, names) if key.type == "string" else names.template.text(key)
        made[name] = evaluate(value, names)
    return made


def _loop(node: Node, names: Names) -> list[Any]:
    return [evaluate(body, inner) for body, inner in repeated(node, names)]


def _member(node: Node, names: Names) -> Any:
    value, name = list(named(node))
    return names.member(evaluate(value, names), names.template.text(name))


def _subscript(node: Node, names: Names) -> Any:
    value, index = (evaluate(part, names) for part in named(node))
    if isinstance(value, list) and isinstance(index, int):
        return value[index]
    return names.member(value, str(index))


def _ternary(node: Node, names: Names) -> Any:
    condition, yes, no = list(named(node))
    return evaluate(yes if evaluate(condition, names) else no, names)


def _binary(node: Node, names: Names) -> Any:
    left, sign, right = node.children[0], node.children[1].type, node.children[2]
    if sign in ("&&", "||"):
        first = bool(evaluate(left, names))
        return bool(evaluate(right, names)) if first is (sign == "&&") else first
    if sign not in _SIGNS:
        raise BicepError(f"{names.template.at(node)}: the checks do not know {sign}")
    return _SIGNS[sign](evaluate(left, names), evaluate(right, names))


def _unary(node: Node, names: Names) -> Any:
    value = evaluate(list(named(node))[-1], names)
    return not value if names.template.text(node).startswith("!") else -value


def _call(node: Node, names: Names) -> Any:
    function, arguments = list(named(node))
    name = names.template.text(function)
    values = [evaluate(part, names) for part in named(arguments)]
    if name == "loadJsonContent":
        return _load(node, names, values[0])
    if name not in FUNCTIONS:
        raise BicepError(f"{names.template.at(node)}: the checks do not know the function {name}")
    return FUNCTIONS[name](*values)


def _load(node: Node, names: Names, file: str) -> Any:
    try:
        return json.loads(names.content((names.template.path.parent / file).resolve()))
    except (OSError, ValueError) as error:
        raise BicepError(f"{names.template.at(node)}: {file} cannot be read: {error}") from error


def _number(node: Node, names: Names) -> int:
    return int(names.template.text(node))


_SIGNS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
}
_KINDS: Final[Mapping[str, Callable[[Node, Names], Any]]] = {
    "string": _string,
    "number": _number,
    "boolean": lambda node, names: names.template.text(node) == "true",
    "null": lambda _node, _names: None,
    "identifier": lambda node, names: names.value_of(names.template.text(node)),
    "object": _object,
    "array": lambda node, names: [evaluate(part, names) for part in named(node)],
    "for_statement": _loop,
    "member_expression": _member,
    "subscript_expression": _subscript,
    "ternary_expression": _ternary,
    "binary_expression": _binary,
    "unary_expression": _unary,
    "parenthesized_expression": lambda node, names: evaluate(next(named(node)), names),
    "call_expression": _call,
}


def _hash(*parts: Any) -> str:
    # Not Azure's own hash: of it only the length and the letters matter, and that the same parts give the same.
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:13]


def _union(*parts: Any) -> Any:
    if isinstance(parts[0], Mapping):
        made: dict[str, Any] = {}
        for name, value in (one for part in parts for one in part.items()):
            both = isinstance(value, Mapping) and isinstance(made.get(name), Mapping)
            made[name] = _union(made[name], value) if both else value
        return made
    return list({json.dumps(item, default=str): item for part in parts for item in part}.values())


def _items(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": item} for key, item in sorted(value.items())]


def _concat(*parts: Sequence[Any]) -> Any:
    return "".join(map(str, parts)) if isinstance(parts[0], str) else [item for part in parts for item in part]


def _place(value: Sequence[Any], wanted: Any) -> int:
    return value.index(wanted) if wanted in value else -1


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "any": lambda value: value,
    "concat": _concat,
    "contains": lambda value, wanted: wanted in value,
    "flatten": lambda value: [one for part in value for one in part],
    "indexOf": _place,
    "split": lambda text, between: text.split(between),
    "empty": lambda value: value is None or len(value) == 0,
    "guid": lambda *parts: f"guid-{_hash(*parts)}",
    "items": _items,
    "int": int,
    "join": lambda parts, between: between.join(map(_text, parts)),
    "length": len,
    "range": lambda start, count: [*range(start, start + count)],
    "resourceGroup": lambda: {"id": Unknown("resourceGroup().id"), "location": Unknown("resourceGroup().location")},
    "string": _text,
    "subscription": lambda: {"id": Unknown("subscription().id")},
    "subscriptionResourceId": lambda kind, name: f"/subscriptions/…/{kind}/{name}",
    "take": lambda value, count: value[:count],
    "tenant": lambda: {"tenantId": Unknown("tenant().tenantId")},
    "environment": lambda: {
        "authentication": {"loginEndpoint": "https://login.microsoftonline.com/"},
        "suffixes": {"storage": "core.windows.net"},
    },
    "trim": lambda text: str(text).strip(),
    "toLower": lambda text: str(text).lower(),
    "union": _union,
    "uniqueString": _hash,
}
