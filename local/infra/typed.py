"""Holds the bodies that would be deployed against Azure's own type data, where that lies beside the project.

A reader of the files sees what they say; this sees what comes out, from loops, parameters and JSON too.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from local.infra.expressions import Unknown
from local.infra.finding import Finding
from local.infra.resource import Resource
from local.paths import ROOT

DATA: Final = ROOT.parent / "shared" / "bicep-types"
#: Bits of a property's flags.
REQUIRED, READ_ONLY = 1, 2
_NOT_IN_A_BODY: Final = frozenset({"name", "type", "apiVersion", "id"})
_PLAIN: Final[Mapping[str, tuple[type, ...]]] = {
    "StringType": (str,),
    "IntegerType": (int,),
    "BooleanType": (bool,),
    "ArrayType": (list,),
    "ObjectType": (dict,),
}
Types: TypeAlias = tuple[dict[str, Any], ...]


def misfits(resource: Resource) -> Iterator[Finding]:
    """Yield what Azure does not know of this resource, and what it wants and is not there."""
    types, body = _find(resource.type, resource.version)
    if body is None:
        yield Finding(resource.where, f"{resource.type}@{resource.version}: not in the type data")
        return
    for problem in _compare(types, body, resource.body, resource.type.rsplit("/", 1)[-1]):
        yield Finding(resource.where, problem)


@cache
def _read(file: Path) -> Types:
    return tuple(json.loads(file.read_text()))


def _find(name: str, version: str) -> tuple[Types, dict[str, Any] | None]:
    wanted = f"{name}@{version}".lower()
    for file in sorted((DATA / name.split("/", maxsplit=1)[0].lower() / version).glob("*.json")):
        types = _read(file)
        for entry in types:
            if entry["$type"] == "ResourceType" and entry["name"].lower() == wanted:
                return types, _at(types, entry["body"])
    return (), None


def _at(types: Types, reference: Mapping[str, str]) -> dict[str, Any]:
    return types[int(reference["$ref"].rsplit("/", 1)[-1])]


def _compare(types: Types, kind: dict[str, Any], value: Any, path: str) -> Iterator[str]:
    name = kind["$type"]
    if isinstance(value, Unknown):
        return
    wanted = _PLAIN.get(name)
    if wanted and (not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted)):
        yield f"{path}: expected {name.removesuffix('Type').lower()}, found {value!r}"
    elif name == "ObjectType":
        yield from _object(types, kind, value, path)
    elif name == "ArrayType":
        for item in value:
            yield from _compare(types, _at(types, kind["itemType"]), item, f"{path}[]")
    elif name == "UnionType":
        options = [_at(types, one) for one in kind["elements"]]
        values = [one.get("value") for one in options if one["$type"] == "StringLiteralType"]
        if len(values) == len(options) and value not in values:
            yield f"{path}: {value!r} is not one of {values}"


def _object(types: Types, kind: dict[str, Any], value: dict[str, Any], path: str) -> Iterator[str]:
    known, others = kind["properties"], kind.get("additionalProperties")
    for name, inner in value.items():
        if name in known:
            if known[name]["flags"] & READ_ONLY and not known[name]["flags"] & REQUIRED:
                yield f"{path}.{name}: read-only"
            yield from _compare(types, _at(types, known[name]["type"]), inner, f"{path}.{name}")
        elif others is not None:
            yield from _compare(types, _at(types, others), inner, f"{path}.{name}")
        elif name != "dependsOn":
            yield f"{path}.{name}: unknown property"
    for name, one in known.items():
        is_required = one["flags"] & REQUIRED and not one["flags"] & READ_ONLY
        if is_required and name not in value and name not in _NOT_IN_A_BODY:
            yield f"{path}.{name}: required property is missing"
