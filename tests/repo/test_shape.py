"""The figures of a tree, on one that a person counts by hand."""

from tests.benchmarks import document
from tests.repo import shape

FILES = {
    ".funcignore": ".ci/\ntests/\ntools/\n",
    ".ci/run.py": "pass\n",
    "README.md": "# One\n\nTwo words.\n",
    "docs/page.md": "Three more words.\n\n```sh\nnot counted\n```\n\n| four | five |\n| --- | --- |\n",
    "docs/appendix/more.md": "Not counted.\n",
    "function_app.py": "from functions import tick\n",
    "functions/tick.py": "from shared.gate import look\n",
    "capabilities/extra.py": "def run():\n    import shared.clock\n",
    "tools/up.py": "import shared.clock\nimport shared.lost\n",
    "shared/__init__.py": "",
    "shared/gate/__init__.py": "from shared.gate.room import look\n",
    "shared/gate/room.py": "import shared.errors\n\n\ndef look():\n    '''One.\n\n    Two.\n    '''\n    return 1\n",
    "shared/errors.py": "import shared.gate\nclass Wrong(Exception): ...\n" + "\n" * 500,
    "shared/clock.py": "def made():\n    def now(): return 1\n    return now\n" + "\n" * 57,
    "shared/lost.py": "class Wrong: ...\n",
    "tests/test_gate.py": "def test_a(): ...\nclass TestB:\n    async def test_b(self): ...\ndef help_it(): ...\n",
    "tools/tests/test_up.py": "def test_c(): ...\n",
}
LAYERS = "UNITS = ['errors', 'gate', 'clock', 'lost']\ndef unit_of(name): return [*name.split('.'), None][1]\n"


def measured(root, files):
    """Return the figures of a tree of these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return shape.measure(root)


def test_a_tree_is_measured(tmp_path):
    """A list, such as `errors`, may have more than 500 lines, and is no module here."""
    assert measured(tmp_path, FILES) == {
        "`shared`: files / lines": "6 / 573",
        "the app: files / lines": "9 / 577",
        "all code but tests: files / lines": "10 / 579",
        "tests: files / lines": "2 / 5",
        "functions that are tests": "3",
        "lines of a function: median / 90 of 100 / longest": "2 / 3 / 3",
        "lines of a module: median / 90 of 100 / longest": "9 / 60 / 60",
        "modules of more than 500 lines": "0",
        "modules of fewer than 60 lines": "2",
        "imports per 100 lines": "0.52",
        "arrows up": "",
        "circles": "1",
        "classes that stand twice": "1",
        "modules that stand twice": "0",
        "participles": "1",
        "files of `shared` that `function_app.py` does not import": "2",
        "of these, not imported by `capabilities` or `own` either": "1",
        "files of `shared` with one importer or none": "3",
        "lines of README": "3",
        "words of README and pages, appendix apart": "8",
        "top-level folders": "6",
    }


def test_a_tree_is_judged_by_its_own_layers(tmp_path):
    """Another one's would not know its packages."""
    assert measured(tmp_path, {**FILES, "tests/repo/layers.py": LAYERS})["arrows up"] == "1"


def test_the_page_has_each_figure(tmp_path):
    """It has them for each commit. Their values are not compared, because each change moves the last column."""
    rows = document.read(shape.DOCUMENT, shape.PLACE, maker=shape.MAKER).strip().splitlines()[2:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(measured(tmp_path, FILES))
    assert {row.count("|") for row in rows} == {len(shape.COMMITS) + 2}
