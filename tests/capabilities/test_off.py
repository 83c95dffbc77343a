"""A capability that is off: the app imports nothing of it, and few files know of it."""

import ast
import json
import os
import re
import subprocess
import sys

from shared.capability import find
from shared.names import RETIRED_OF_AZD, SWITCHES
from shared.telemetry import OF_PROCESSES
from tools.local.infra.capabilities import chosen
from tools.local.infra.checks.app_settings import parameter_of
from tools.local.infra.checks.parameters import environment_of
from tools.local.infra.project import Project
from tools.local.paths import ROOT
from tools.local.stack import sample_values

FOLDER = ROOT / "capabilities" / "registration"
#: The files outside that know registration: the refused switch, and the parameters of its senders and lanes.
KNOW = {"shared/names.py", "infra/main.bicep", "infra/main.parameters.json"}
#: The folder itself, and what is no code.
NO_CODE = ("capabilities/registration/", "tests/", "docs/", ".sluice.json", "tools/packages/servicebus-local/tests/")
#: Made from the list of capabilities, by `make docs` or by the broker's command.
MADE = (
    "infra/capabilities.json",
    "infra/workbook.json",
    "tools/packages/servicebus-local/src/servicebus_local/Config.json",
)
#: Of the folder, and only used by it; the app is started without them.
OWN_MODULES = ("capabilities", "shared.processes", "shared.readmodels", "shared.scaling", "jinja2")


def loaded(line):
    """Return the modules of the engine that a start of the app imports."""
    script = "import json, sys, function_app; print(json.dumps(sorted(sys.modules)))"
    environ = {**os.environ, **sample_values(), "SLUICE_CAPABILITIES": line, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environ, capture_output=True, check=True)
    return json.loads(done.stdout)


def test_an_app_without_capabilities_imports_nothing_of_one():
    """Each cold start would pay for it."""
    assert [name for name in loaded("") if name.startswith(OWN_MODULES)] == []
    assert {"capabilities.warming.flows", "shared.scaling.warmer"} <= set(loaded("warming"))
    on = set(loaded("registration"))
    assert {"capabilities.registration.flows", "shared.processes", "shared.readmodels"} <= on
    assert {name for name in on if name.startswith(("capabilities.registration.commands", "typer", "jinja2"))} == set()


def names_of(tree):
    """Return the names that a module defines at its top, but for those that begin with an underscore."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    # Words of English, such as `start`, are free.
    return {name for name in found if not name.startswith("_") and re.search(r"._.|[a-z][A-Z]", name)}


def bound_in(nodes):
    """Return every name that a module gives to something of its own."""
    found = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return found | {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def words_of_the_folder(outside):
    """Return what only registration has: its public names, and the texts that name it, its entities, settings, events, reasons."""
    theirs = {name for nodes in outside.values() for name in bound_in(nodes)}
    names = {name for file in FOLDER.rglob("*.py") for name in names_of(ast.parse(file.read_text()))} - theirs
    one = chosen("registration")
    entities = {name for part in one.entities for name in (*part.queues, *part.containers, *part.tables)}
    bus = [part.bus for part in one.entities]
    entities |= {entity.name for each in bus for entity in (*each.queues, *each.topics)}
    capability = find("registration").capability
    # Words of English, such as `homes`, are free.
    texts = {name for name in entities if "-" in name} | {setting.name for setting in capability.settings}
    texts |= {str(reason) for kind in capability.reasons for reason in kind}
    texts |= {event.name for event in capability.events if event not in OF_PROCESSES}
    variables = environment_of(Project())
    texts |= {name for name, variable in variables.items() if variable in RETIRED_OF_AZD} | RETIRED_OF_AZD.keys()
    texts |= {right.parameter for right in capability.senders} | {parameter_of(capability.counted.setting)}
    return names, texts | {switch for switch, name in SWITCHES.items() if name == "registration"}


def test_few_files_outside_of_its_folder_know_registration():
    """A second process would have to edit each of them. The word list is the folder's own: a new name is in it at once."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = [name for name in tracked if not name.startswith(NO_CODE) and not name.endswith(".md") and name not in MADE]
    # Each module is walked once.
    code = {name: [*ast.walk(ast.parse((ROOT / name).read_text()))] for name in files if name.endswith(".py")}
    names, texts = words_of_the_folder(code)
    assert {"RegistrationPart", "OrderProcess", "seat_lane_names"} <= names
    assert {"seats-events", "SLUICE_SEAT_LANES", "sluice.seats.uneven", "sold_out", "orderSenders"} <= texts
    knowing = {
        name: found for name, nodes in code.items() if (found := known_in(nodes, names, {*texts, "registration"}))
    }
    # Its own name is a word of English too: there it stands in quotes, or behind the folder of all.
    said = re.compile(r"""(['"])registration\1|capabilities[./]registration""")
    word = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, sorted(texts)))})(?![\w.-])")
    for name in set(files) - code.keys():
        text = (ROOT / name).read_text(errors="replace")
        if found := {one[0] for pattern in (said, word) for one in pattern.finditer(text)}:
            knowing[name] = found
    assert set(knowing) == KNOW, json.dumps({name: sorted(found) for name, found in knowing.items()}, indent=1)
    assert len(KNOW) <= 3


def known_in(nodes, names, texts):
    """Return the words of the folder that a module has as names, or as whole texts."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in names:
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("capabilities.registration"):
            found.add(node.module)
        elif isinstance(node, ast.Constant) and node.value in texts:
            found.add(node.value)
    return found
