"""The wheel: what a publisher installs beside packages of their own, without this folder."""

import ast
import json
import re
import sys
import uuid
import zipfile

import pytest

from tests.outside import checker
from tests.release.wheel import Bare, build, copy_sources
from tools.local.paths import ROOT
from tools.local.wheel import INSIDE, NotMovableError, rewrite

#: Loaded only where SLUICE_TELEMETRY asks for them, by an operator who has added their library.
OPTIONAL = {
    "sluice._shared.payload.parquet_rows",
    "sluice._shared.telemetry.otel",
    "sluice._shared.telemetry.printing",
}
IMPORT_EVERYTHING = f"""
import importlib, pkgutil, sluice, sys
names = [one.name for one in pkgutil.walk_packages(sluice.__path__, "sluice.", onerror=print)]
for name in sorted(set(names) - {OPTIONAL}):
    importlib.import_module(name)
assert not set(sys.modules) & {set(INSIDE)}, "a stranger's"
print(len(names))
"""
PUBLIC = ("workloads", "publish", "waiting", "ids", "errors", "testing")
PUBLISH = """
import os
from sluice.publish import Connections, Publisher, read_file

with (
    Connections.parse(os.environ) as connections,
    Publisher.connect(connections) as publisher,
    open("usage.ndjson", "rb") as file,
):
    sent = publisher.submit_lines(job=os.environ["JOB"], lines=read_file(file), sums=["quantity"])
    assert (sent.items, sent.is_hinted) == (500, True), sent
"""
CLIENT = """
from sluice.errors import RefusedError
from sluice.publish import Publisher, Sent
from sluice.testing import run_lines
from sluice.workloads import Line, Rejected

def drop(publisher: Publisher) -> int:
    try:
        sent = publisher.submit(job="a", transactions=[{"units": 1}])
    except RefusedError as error:
        return len(error.reason)
    reveal_type(sent)
    return sent.items

wrong: int = Line({"a": "b"})
"""
TEST_OF_A_WORKLOAD = """
from functools import reduce
from sluice.testing import check_workload, run_lines
from sluice.workloads import Line
from sales import Sales

def test_sales():
    parts = [run_lines(Sales(), [b'{"units":2}', b'{"units":"x"}'], 0), run_lines(Sales(), [b'{"units":4}'], 2)]
    assert [one.reason for one in parts[0].rejections] == ["bad_amount"]
    assert list(Sales().finish(reduce(Sales().merge, [one.partial for one in parts]))) == [Line({"units": 6})]
    tried = {one.promise: one.state for one in check_workload(Sales(), [b'{"units":2}', b'{"units":4}']).trials}
    assert [name for name, state in tried.items() if state != "kept"] == ["whole", "shard"], tried

test_sales()
"""
LINES = [
    json.dumps({"account": f"a-{number % 7}", "plan": "basic", "quantity": f"{number % 40 + 1}.05"}).encode()
    for number in range(500)
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the tree, built where an earlier build left a module that is gone."""
    sources = copy_sources(tmp_path_factory.mktemp("sources"))
    (sources / "build" / "lib" / "sluice").mkdir(parents=True)
    (sources / "build" / "lib" / "sluice" / "gone.py").touch()
    return build(sources, tmp_path_factory.mktemp("wheel"))


def bare(tmp_path_factory, wheel, *extras):
    """Return an environment in which packages of somebody else have the names of ours, and raise."""
    made = Bare(tmp_path_factory.mktemp("environment"), wheel, *extras)
    for name in INSIDE:
        (made.site / name).mkdir()
        (made.site / name / "__init__.py").write_text(f"raise RuntimeError('the {name} of somebody else')\n")
    return made


@pytest.fixture(scope="module")
def publisher(tmp_path_factory, wheel):
    """The environment of a publisher."""
    return bare(tmp_path_factory, wheel)


@pytest.fixture(scope="module")
def operator(tmp_path_factory, wheel):
    """The environment of an operator."""
    return bare(tmp_path_factory, wheel, "cli")


def test_the_wheel_has_one_package_and_its_data(wheel):
    """Nothing else meets what is installed beside it."""
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
        (info,) = {name.split("/")[0] for name in names} - {"sluice"}
        assert content.read(f"{info}/top_level.txt") == b"sluice\n"
        inside = {name for name in names if name.endswith(".py")}
    files = {"py.typed", "host.json", "_shared/usage/prices.json", "_tools/planning/measured.json"}
    files |= {f"_{path.relative_to(ROOT)}" for path in ROOT.glob("capabilities/console/[st]*/*.*")}
    assert {f"sluice/{name}" for name in files} <= names
    apart = ("tools/local", "tools/packages")
    whole = {path.relative_to(ROOT).as_posix() for name in INSIDE for path in (ROOT / name).rglob("*.py")}
    own = {name for name in whole if not name.startswith(apart)}
    public = {path.relative_to(ROOT).as_posix() for path in (ROOT / "sluice").glob("*.py")}
    assert inside == public | {f"sluice/_{name}" for name in own}


def test_every_module_of_it_can_be_imported_beside_strangers(operator, tmp_path):
    """No import of it and no name in a text leads to another's package."""
    assert int(operator.check(operator.python, "-c", IMPORT_EVERYTHING, folder=tmp_path)) > 240


def test_a_publisher_needs_none_of_the_apps_packages(publisher, tmp_path):
    """The public modules import with what the wheel itself asks for; the command says what it lacks."""
    publisher.check(publisher.python, "-c", f"import {', '.join(f'sluice.{name}' for name in PUBLIC)}", folder=tmp_path)
    done = publisher.run(publisher.sluice, "--help", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "sluice: the command needs typer: pip install 'sluice[cli]'\n")


def test_a_workload_is_tested_without_a_stack(publisher, tmp_path):
    """The workload of the README, and a test of it."""
    (tmp_path / "sales.py").write_text(
        re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    )
    publisher.check(publisher.python, "-c", TEST_OF_A_WORKLOAD, folder=tmp_path)


def test_a_client_is_checked_by_its_types(publisher, tmp_path):
    """The names are typed as they are, from the installed package."""
    (tmp_path / "client.py").write_text(CLIENT)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", publisher.python, "client.py"]
    done = publisher.run(*mypy, folder=tmp_path)
    assert re.findall(r"client\.py:\d+: (\w+: .*)", done.stdout) == [
        'note: Revealed type is "sluice._shared.publish.Sent"',
        'error: Incompatible types in assignment (expression has type "Line", variable has type "int")  [assignment]',
    ], done.stdout + done.stderr


def test_a_publisher_drops_a_job_and_an_operator_finds_it_complete(
    publisher, operator, stack_settings, one_instance, tmp_path
):
    """From environments that know nothing of this folder; the sums are added up by somebody else."""
    job = f"wheel-{uuid.uuid4().hex[:8]}"
    (tmp_path / "usage.ndjson").write_bytes(b"".join(line + b"\n" for line in LINES))
    publisher.check(publisher.python, "-c", PUBLISH, folder=tmp_path, JOB=job, **stack_settings)

    def type_in(*words):
        return json.loads(operator.check(operator.sluice, *words, "--json", folder=tmp_path, **stack_settings))

    found = type_in("jobs", "watch", job, "--timeout", "120")
    assert (found["state"], found["accepted"]["items"]) == ("complete", len(LINES))
    assert checker.check(stack_settings["SluiceStorage"], job, LINES, first_id=found["first_id"]) == []
    assert type_in("ids", "explain", "transactions", str(found["first_id"]))


def test_the_command_runs_from_the_wheel(operator, tmp_path):
    """Also what reads files of the wheel: settings of the host, prices, measured constants, templates."""
    assert "parked" in operator.check(operator.sluice, "--help", folder=tmp_path)
    assert operator.check(operator.sluice, "--version", folder=tmp_path) == operator.check(
        operator.python, "-m", "sluice", "--version", folder=tmp_path
    )
    idle = json.loads(operator.check(operator.sluice, "cost", "idle", "--json", folder=tmp_path))
    assert idle["polling_seconds"]
    render = (
        "from sluice._capabilities.console.render import templates; print(templates().get_template('now.html').name)"
    )
    assert operator.check(operator.python, "-c", render, folder=tmp_path) == "now.html\n"


def test_billing_is_found_by_both_of_its_names(publisher, tmp_path):
    """The long one is what settings of apps have; here its module is called otherwise."""
    load = (
        "from sluice._shared.workloads import Workloads\n"
        "for name in ('billing', 'shared.workloads.billing:Billing'):\n"
        "    print(type(Workloads.load(name, {}).find('billing')).__module__)\n"
    )
    assert (
        publisher.check(publisher.python, "-c", load, folder=tmp_path).split()
        == ["sluice._shared.workloads.billing"] * 2
    )


FINGERPRINTS = """
import importlib, sys
root = sys.argv[1]
cause, billing = (importlib.import_module(f"{root}.{name}") for name in ("parked.poison_policy", "workloads.billing"))
def fail(call):
    try:
        call()
    except Exception as error:
        return cause.fingerprint_of(error, "process")
workload = billing.Billing()
print(fail(lambda: workload.map(None, 0)), fail(lambda: importlib.import_module(f"{root}.messages").decode(b"{}")))
"""


def test_a_cause_has_the_same_fingerprint_in_the_app_and_in_the_wheel(publisher, tmp_path):
    """Of the example's code and of ours: an entry that one parked is grouped with those of the other."""
    inside = publisher.check(publisher.python, "-c", FINGERPRINTS, "sluice._shared", folder=tmp_path)
    outside = publisher.check(sys.executable, "-c", FINGERPRINTS, "shared", folder=tmp_path, PYTHONPATH=str(ROOT))
    assert inside == outside
    assert len(set(inside.split())) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from shared.ids import a\n", "from sluice._shared.ids import a\n"),
        ("from shared import __version__ as b\n", "from sluice._shared import __version__ as b\n"),
        ("import json, shared.ids as c, tools.cli.main as d\n", "import json, sluice._shared.ids as c, sluice._tools.cli.main as d\n"),
        ("x = 'ü'; from shared.ids import a\n", "x = 'ü'; from sluice._shared.ids import a\n"),
        ("def f():\n    from capabilities.console.app import (\n        a,\n    )\n", "def f():\n    from sluice._capabilities.console.app import (\n        a,\n    )\n"),
        ("from sharedness import a\nfrom .shared import b\nfrom sluice.errors import c\n", None),
        ("'''See from shared.ids import a'''\nx = 'from shared.ids import a'\n", None),
        ("x = ['shared', 'shared.', 'a shared.ids', 'shared.workloads.billing:Billing']\n", None),
    ],
)  # fmt: skip
def test_an_import_is_rewritten_by_its_place(before, after):
    """Not by its letters: texts, comments and other packages stay."""
    made = rewrite(before.encode(), "a.py").decode()
    assert made == (after or before)
    ast.parse(made)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import shared.ids\n", "a.py:1: `import shared.ids` binds a name"),
        ("\nimport json, shared\n", "a.py:2: `import shared` binds a name"),
        ("from \\\n shared.ids import a\n", "a.py:1: the module of an import is on another line"),
        ("x = f('shared.ids.explain')\n", "a.py:1: the text 'shared.ids.explain' looks like a module"),
        ("x = 'tools.cli.main:main'\n", "a.py:1: the text 'tools.cli.main:main' looks like a module"),
    ],
)
def test_what_cannot_be_followed_fails_the_build(source, said):
    """With its place, and what to write instead."""
    with pytest.raises(NotMovableError, match=re.escape(said)):
        rewrite(source.encode(), "a.py")
