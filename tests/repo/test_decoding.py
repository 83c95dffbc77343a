"""Types are worked out one at a time: otherwise two threads that use a new type at once end the process."""

import ast
import re
import subprocess
import sys

from tests.waiting import LIMIT
from tools.local.paths import ROOT

_RACE = """
import sys, threading, msgspec
from shared.versions import convert
sys.setswitchinterval(1e-6)
document = {f"f{number}": {"x": {"a": 1}} for number in range(30)}
for round in range(200):
    inner = msgspec.defstruct("Inner", [("a", int)])
    kind = msgspec.defstruct("Outer", [(name, dict[str, inner] | None, None) for name in document])
    barrier = threading.Barrier(4)
    def use():
        barrier.wait()
        assert convert(document, kind).f29["x"].a == 1
    threads = [threading.Thread(target=use) for _ in range(4)]
    [each.start() for each in threads]
    [each.join() for each in threads]
"""


def test_threads_that_use_a_new_type_at_once_end_no_process():
    """With `from msgspec import convert` instead, version 0.22 dies here of a segmentation fault, most times."""
    done = subprocess.run([sys.executable, "-c", _RACE], cwd=ROOT, capture_output=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stderr.decode()[-2000:]) == (0, "")


def test_nobody_else_has_a_type_worked_out():
    """Neither with a type for `decode`, nor by `convert`, nor by a decoder of a type."""
    found = []
    for path in sorted(ROOT.glob("shared/**/*.py")):
        if path.name == "versions.py" or not re.search("msgspec", path.read_text()):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("msgspec."):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                is_typed = bool(node.args) if name == "Decoder" else any(one.arg == "type" for one in node.keywords)
                found += [f"{path.name}:{node.lineno}"] * (
                    name == "convert" or (is_typed and name in {"decode", "Decoder"})
                )
    assert not found, "use shared/versions.py"
