"""The promises of a release beside its golden documents: settings, entities, public names; and changes since one.

A release freezes both in `tests/golden/releases/<version>`. They are read by code, and never written again.
"""

import ast
import json
import re

from shared.capability import builtin_names, find
from shared.settings import SETTINGS
from shared.topology import topology
from tests.golden import __main__ as golden
from tools.local.infra.capabilities import chosen
from tools.local.infra.entities import delivery_properties, queue_properties, rules, topic_properties
from tools.local.paths import ROOT

RELEASES = golden.HERE / "releases"
#: The file of a release that is no golden document.
SURFACE = "surface"
#: The head of an entry of the changelog: the names that it is about.
_HEAD = re.compile(r"^- ((?:`[^`\n]+`(?:,\s+)?)+)", re.MULTILINE)
_SECTION = re.compile(r"^## (\d+\.\d+\.\d+)\b.*$", re.MULTILINE)


def surface():
    """Return what the tree promises."""
    return {
        "settings": {one.name: one.default for one in (*SETTINGS, *_own_settings())},
        "entities": _entities(topology(entities=[part for said in builtin_names() for part in chosen(said).entities])),
        "public": public(ROOT / "sluice"),
    }


def _own_settings():
    return [setting for said in builtin_names() for setting in find(said).capability.settings]


def _entities(whole):
    named = {name: {"kind": kind} for kind in ("queue", "container", "table") for name in getattr(whole, f"{kind}s")}
    # Storage and bus have names in common.
    for queue in whole.bus.queues:
        named[f"bus:{queue.name}"] = {"kind": "bus queue", **queue_properties(queue)}
    for topic in whole.bus.topics:
        named[f"bus:{topic.name}"] = {"kind": "topic", **topic_properties(topic)}
        for one in topic.subscriptions:
            named[f"bus:{topic.name}/{one.name}"] = {
                "kind": "subscription",
                **delivery_properties(one.delivery),
                "rules": rules(one),
            }
    return named


def public(folder):
    """Return the public names, each with where the engine has it."""
    return {
        f"sluice.{module.stem}.{alias.name}": node.module
        for module in sorted(folder.glob("[!_]*.py"))
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def documents():
    """Return the text of each document that a release freezes, by its name."""
    made = {name: golden.text_of(document) for name, document in golden.made().items()}
    return made | {SURFACE: golden.text_of(surface())}


def releases():
    """Return the versions that were released, the last one at the end."""
    return sorted((folder.name for folder in RELEASES.glob("*.*.*")), key=number)


def number(version):
    """Return a version as numbers."""
    return tuple(map(int, version.split(".")))


def frozen(version):
    """Return the documents of a release."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted((RELEASES / version).glob("*.json"))}


def changes(before, after):
    """Return the names of what differs between two releases' documents."""
    old, new = (json.loads(one[SURFACE]) for one in (before, after))
    found = {name for name in before.keys() | after.keys() if name != SURFACE and before.get(name) != after.get(name)}
    for kind in ("settings", "entities"):
        was, is_now = old[kind], new[kind]
        found |= {name for name in was.keys() | is_now.keys() if (name, was.get(name)) != (name, is_now.get(name))}
        found |= was.keys() ^ is_now.keys()
    # Where the engine has a public name is nobody's business.
    return found | (old["public"].keys() ^ new["public"].keys())


def told(changelog, last):
    """Return the names that the sections above a release's own have entries about."""
    places = [(found[1], found.start()) for found in _SECTION.finditer(changelog)]
    end = next((start for version, start in places if version == last), len(changelog))
    return {name for found in _HEAD.finditer(changelog[:end]) for name in re.findall(r"`([^`]+)`", found[1])}


def newest(changelog):
    """Return the version that the changelog begins with."""
    found = _SECTION.search(changelog)
    return found[1] if found else ""


def untold(changelog):
    """Return the changes since the last release that the changelog has no entry about."""
    last = releases()[-1]
    return sorted(changes(frozen(last), documents()) - told(changelog, last))
