"""The shape of `shared`: no mistake of the layout, and no longer walk for a person who follows the work."""

import re
from functools import cache

import pytest

from tests.repo import measures
from tests.repo.happy_path import entered, happy_path, seat_order_path
from tests.repo.layers import UNITS, unit_of
from tests.repo.measures import FIGURES, HAPPY_PATH, SEAT_ORDER, House, is_participle

#: Files that a person enters who follows one of them. A walk gets no longer; a commit that makes it so says what a person gains.
#: Since 0.4.0 permits start the work in both modes, so `dequeue/permits.py` is on each way: one mode to know instead of two.
#: Since 0.5.0 a call of `map` passes `isolate.py`, which knows when the service that it calls rests.
WALKS = {HAPPY_PATH: 50, SEAT_ORDER: 48}


@cache
def house():
    """Return the house as it stands, read once."""
    return House()


@pytest.mark.parametrize("name", FIGURES)
def test_no_mistake_of_the_layout_is_made(name):
    """The failure lists the places; `python -m tests.repo.measures -v` lists all."""
    number, places = FIGURES[name](house())
    assert number == 0, places


def test_a_job_enters_no_more_files_than_before():
    """On its way through the whole app, read by a person who follows it."""
    everywhere, _ = happy_path()
    assert len(everywhere) <= WALKS[HAPPY_PATH], everywhere


def test_a_seat_order_enters_no_more_files_than_before():
    """From its placing until customers are shown it."""
    files = seat_order_path()
    assert len(files) <= WALKS[SEAT_ORDER], files


def written(root, files):
    """Return the house of these files."""
    for name, text in files.items():
        path = root / "shared" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return House(root)


def test_imports_are_counted_by_statement(tmp_path):
    """Those of doors and functions too, once each; those of other packages not."""
    house = written(
        tmp_path,
        {
            "ledger/__init__": "",
            "ledger/records": "import json\nimport shared.clock\nfrom sharedness import x\n" + "\n" * 17,
            "clock": "def now():\n    from shared.ledger.records import a, b\n    from shared import ledger\n"
            + "\n" * 27,
        },
    )
    assert house.imports_per_100_lines() == 6.0
    assert house.imported(house.modules["shared.clock"]) == {"shared.ledger.records", "shared.ledger"}
    assert house.widest_module() == (2, "shared.clock")


def test_an_import_against_the_layers_is_an_arrow_up(tmp_path):
    """By the package that a module is in; within a package there is none."""
    house = written(
        tmp_path,
        {
            "payload/frames": "import shared.errors\nfrom shared.payload.payload_store import a",
            "payload/payload_store": "from shared.payload.frames import b",
            "ledger/records": "from shared.operating.gate_acts import c",
            "operating/gate_acts": "from shared.ledger.records import d",
        },
    )
    assert house.arrows_up() == ["shared.ledger.records -> shared.operating.gate_acts"]
    assert house.circles() == [
        ["shared.ledger.records", "shared.operating.gate_acts"],
        ["shared.payload.frames", "shared.payload.payload_store"],
    ]


def test_imports_for_annotations_make_no_circle(tmp_path):
    """They do not run."""
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shared.clock import a"
    assert written(tmp_path, {"clock": "from shared.errors import b", "errors": guarded}).circles() == []


def test_every_module_has_a_layer():
    """One that has none would be held by nothing."""
    assert {unit_of(name) for name in house().modules} <= {None, *UNITS}
    with pytest.raises(KeyError, match=r"shared\.attic\.box is in no layer"):
        unit_of("shared.attic.box")


def test_names_that_stand_twice_are_found(tmp_path):
    """Classes and aliases of two modules, and files; private ones and imported ones are no second meaning."""
    house = written(
        tmp_path,
        {
            "clock": "class Kind: ...\nclass _Own: ...\nclass Alone:\n    class Inner: ...",
            "errors": "from typing import TypeAlias\nfrom shared.clock import Alone\nKind: TypeAlias = int\nclass _Own: ...",
            "ids/clock": "class Inner: ...",
            "ids/__init__": "",
            "gate/__init__": "",
        },
    )
    assert house.doubled_classes() == {"Kind": ["shared.clock", "shared.errors"]}
    assert list(house.doubled_modules()) == ["clock"]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("written", True),
        ("_sent_stored", True),
        ("opened_when_due", True),
        ("__held", True),
        ("unsettled", True),
        ("write", False),
        ("report_stored", False),
        ("is_closed", False),
        ("need", False),
        ("feed_all", False),
        ("failed_message", False),
        ("_tampered_error", False),
    ],
)
def test_a_participle_is_no_name_of_a_function(name, is_one):
    """A function does something; what it returns is a name of a value."""
    assert is_participle(name) is is_one


def test_functions_and_methods_are_looked_at_and_properties_are_not(tmp_path):
    """Inner ones too."""
    text = (
        "class A:\n    @property\n    def read_known(self): ...\n    def made(self):\n        async def sent(): ...\n"
    )
    assert written(tmp_path, {"clock": text}).participles() == ["shared.clock:made", "shared.clock:sent"]


def test_modules_are_sorted_by_their_lines(tmp_path):
    """A list may be as long as it is, and a door is none."""
    house = written(
        tmp_path, {"telemetry/events": "\n" * 900, "clock": "\n" * 7, "retry": "", "ids/__init__": "\n" * 9}
    )
    assert house.by_lines() == [(0, "shared.retry"), (7, "shared.clock")]


def test_only_files_whose_functions_run_are_entered(tmp_path):
    """What an import runs is no part of the way."""
    path = tmp_path / "shared" / "work.py"
    path.parent.mkdir()
    code = compile("def work():\n    return 1\n", str(path), "exec")
    scope = {}
    with entered(tmp_path) as files:
        exec(code, scope)
    assert files == set()
    with entered(tmp_path) as files:
        scope["work"]()
    assert {name for name, _ in files} == {"shared/work.py"}


def test_the_page_for_contributors_states_the_walks():
    """Its table has each, as the command names it."""
    page = (measures.ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    section = page.partition("## The shape in figures")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| (\d+) \|$", section, re.MULTILINE))
    assert rows == {name: str(most) for name, most in (dict.fromkeys(FIGURES, 0) | WALKS).items()}


def test_every_exception_has_its_reason():
    """A name that stays says why."""
    assert measures.EXEMPT.keys() == {name for name, why in measures.EXEMPT.items() if len(why) > 10}
