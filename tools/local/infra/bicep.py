"""Reads Bicep files into plain data: declarations by name, with expressions left as the grammar's nodes.

The grammar is tree-sitter's. It does not know spread and `.bicepparam`, which infra/ therefore does not use.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import tree_sitter_bicep
from tree_sitter import Language, Node, Parser

#: What may stand around the body of a resource or a module.
_BODIES = ("object", "if_statement", "for_statement", "array")


class BicepError(ValueError):
    """Raised when a Bicep file cannot be read or worked out. The text says where."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter and its decorators: name and arguments."""

    name: str
    type: str
    default: Node | None
    decorators: dict[str, Any]
    line: int


@dataclass(frozen=True, slots=True)
class Declared:
    """A resource or a module: what it is, and its body, which may be repeated or conditional."""

    name: str
    target: str
    body: Node
    is_existing: bool
    line: int


@dataclass(slots=True)
class Template:
    """The declarations of one file."""

    path: Path
    source: bytes
    scope: str = "resourceGroup"
    parameters: dict[str, Parameter] = field(default_factory=dict)
    variables: dict[str, Node] = field(default_factory=dict)
    resources: dict[str, Declared] = field(default_factory=dict)
    modules: dict[str, Declared] = field(default_factory=dict)
    outputs: dict[str, Node] = field(default_factory=dict)

    def text(self, node: Node) -> str:
        """Return the source of a node."""
        return self.source[node.start_byte : node.end_byte].decode()

    def at(self, node: Node) -> str:
        """Return where a node is, for a person."""
        return f"{self.path.name}:{node.start_point[0] + 1}"


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bicep.language()))


def read(path: Path) -> Template:
    """Return the declarations of the file. A file that does not parse is refused with the line where it stops."""
    return _read(path, path.read_bytes())


@lru_cache(maxsize=256)
def _read(path: Path, source: bytes) -> Template:
    # A check works out dozens of deployments of the same files, and changes no declaration.
    root = _parser().parse(source).root_node
    template = Template(path, source)
    if root.has_error:
        raise BicepError(f"{template.at(_first_error(root))}: does not parse")
    decorators: dict[str, Any] = {}
    for node in named(root):
        if node.type == "decorators":
            decorators = dict(_decorators(template, node))
            continue
        _declare(template, node, decorators)
        decorators = {}
    return template


def named(node: Node) -> Iterator[Node]:
    """Yield the parts of a node that mean something."""
    return (child for child in node.named_children if child.type not in ("comment", "diagnostic_comment"))


def _first_error(node: Node) -> Node:
    broken = next((child for child in node.children if child.has_error or child.is_missing), None)
    return _first_error(broken) if broken else node


def _decorators(template: Template, node: Node) -> Iterator[tuple[str, Any]]:
    for decorator in named(node):
        call = next(named(decorator))
        function, arguments = list(named(call))
        first = next(named(arguments), None)
        yield template.text(function), None if first is None else template.text(first).strip("'")


def _declare(template: Template, node: Node, decorators: dict[str, Any]) -> None:
    parts = list(named(node))
    kind = node.type.removesuffix("_declaration")
    name = template.text(parts[0])
    if kind == "target_scope_assignment":
        template.scope = template.text(parts[0]).strip("'")
    elif kind == "parameter":
        default = parts[2] if len(parts) > 2 else None
        line = node.start_point[0] + 1
        template.parameters[name] = Parameter(name, template.text(parts[1]), default, decorators, line)
    elif kind == "variable":
        template.variables[name] = parts[-1]
    elif kind == "output":
        template.outputs[name] = parts[-1]
    elif kind in ("resource", "module"):
        place = template.resources if kind == "resource" else template.modules
        place[name] = _declared(template, node, parts)
    else:
        raise BicepError(f"{template.at(node)}: the checks do not know {node.type}")


def _declared(template: Template, node: Node, parts: list[Node]) -> Declared:
    return Declared(
        name=template.text(parts[0]),
        target=template.text(parts[1]).strip("'"),
        body=next(part for part in parts if part.type in _BODIES),
        is_existing=any(part.type == "existing" for part in node.children),
        line=node.start_point[0] + 1,
    )
