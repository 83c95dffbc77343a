"""The CPU that a start of the app takes for its own modules: `python -m tests.benchmarks.import_cpu [LINE]`.

CPU and not time, because another process may run meanwhile. Libraries are left out: each is counted where nothing of ours is.
"""

import json
import os
import subprocess
import sys

from tools.local.paths import ROOT
from tools.local.stack import sample_values

RUNS = 7
OWN = ("function_app", "functions", "shared", "capabilities", "own")
_MEASURE = f"""
import json, time
from importlib.machinery import SourceFileLoader

run, spent, inside = SourceFileLoader.exec_module, {{}}, [0.0]

def exec_module(self, module):
    inside.append(0.0)
    began = time.process_time()
    try:
        run(self, module)
    finally:
        took = time.process_time() - began
        nested = inside.pop()
        inside[-1] += took
        spent[module.__name__] = took - nested

SourceFileLoader.exec_module = exec_module
import function_app
own = {{name: took for name, took in spent.items() if name.split(".")[0] in {OWN!r}}}
print(json.dumps({{"seconds": sum(own.values()), "modules": len(own)}}))
"""


def measure(line, root=ROOT):
    """Return the least CPU of some starts with this line of capabilities, and the number of own modules."""
    environ = {**os.environ, **sample_values(), "SLUICE_CAPABILITIES": line, "PYTHONPATH": str(root)}
    # The first run writes the bytecode that the others have, as a deployed app has it.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    found = []
    for _ in range(RUNS):
        done = subprocess.run([sys.executable, "-c", _MEASURE], cwd=root, env=environ, capture_output=True, check=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return min(one["seconds"] for one in found), found[0]["modules"]


def main():
    """Print one line for each line of capabilities."""
    for line in sys.argv[1:] or ("", "registration"):
        seconds, modules = measure(line)
        sys.stdout.write(f"SLUICE_CAPABILITIES={line}: {seconds:.3f} s of CPU for {modules} modules of ours\n")


if __name__ == "__main__":
    main()
