"""Whoever upgrades reads of each change of what they set, deploy, import or have stored."""

import json
import re

import pytest

from shared import __version__
from tests.release import surface
from tools.local.paths import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_each_change_since_the_last_release_has_an_entry():
    """Of settings, entities, public names, and of what is stored and sent. An entry begins with their names in backticks."""
    assert surface.untold(CHANGELOG) == [], "CHANGELOG.md, above the last release"


def test_the_version_is_said_once():
    """The newest section, the library and the template of azd are of one version, not older than the last release."""
    assert surface.newest(CHANGELOG) == __version__
    assert f"template: sluice@{__version__}\n" in (ROOT / "azure.yaml").read_text()
    assert surface.number(__version__) >= surface.number(surface.releases()[-1])


def test_every_release_has_its_section():
    """Newest first."""
    found = re.findall(r"^## (\S+)", CHANGELOG, re.MULTILINE)
    assert found == sorted(found, key=surface.number, reverse=True)
    assert set(surface.releases()) <= set(found)


def changed(**kinds):
    """Return documents whose surface has these settings, entities and public names, and one golden document."""
    empty = {"settings": {}, "entities": {}, "public": {}}
    return {"surface": json.dumps(empty | kinds), "jobs": "[]"}


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (changed(), changed(), set()),
        (changed(), changed() | {"jobs": "[1]"}, {"jobs"}),
        (changed(), changed() | {"nights": "[]"}, {"nights"}),
        (changed() | {"nights": "[]"}, changed(), {"nights"}),
        (changed(settings={"A": "1"}), changed(settings={"A": "2", "B": None}), {"A", "B"}),
        (changed(settings={"A": None}), changed(), {"A"}),
        (changed(entities={"jobs": {"lock": 1}}), changed(entities={"jobs": {"lock": 2}}), {"jobs"}),
        (changed(public={"sluice.a.B": "shared.a"}), changed(public={"sluice.a.B": "shared.b"}), set()),
        (changed(public={"sluice.a.B": "shared.a"}), changed(public={"sluice.a.C": "shared.a"}), {"sluice.a.B", "sluice.a.C"}),
    ],
)  # fmt: skip
def test_a_change_is_found(before, after, found):
    """What came, what went, and what has another value."""
    assert surface.changes(before, after) == found


TEXT = """# Changelog

## 0.3.0

- `A`: new.
- `B`, `c/d`,
  `sluice.e.F`: `G` is mentioned in passing.

Text about `H`.

## 0.2.0 (2026-11-25)

- `I`: older.
"""


@pytest.mark.parametrize(
    ("last", "told"),
    [("0.2.0", {"A", "B", "c/d", "sluice.e.F"}), ("0.1.0", {"A", "B", "c/d", "sluice.e.F", "I"}), ("0.3.0", set())],
)
def test_an_entry_is_about_the_names_at_its_head(last, told):
    """In the sections above the last release's: a name in passing tells nobody what changed."""
    assert surface.told(TEXT, last) == told
    assert surface.newest(TEXT) == "0.3.0"
