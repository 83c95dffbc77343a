"""The shape of the repository, then and now: `python -m tests.repo.shape` writes it into docs/appendix/design.md.

Each column is a commit, and the same code measures all of them.

- *files, lines*: of Python, empty lines included. The *app* is the files that `.funcignore` leaves for a deployment.
- *tests*: files below a folder `tests`, those of the two packages and the benchmarks included.
- *lines of a function*: from its `def` to its end, without its docstring; functions inside of others count too.
- *lines of a module*: doors (`__init__`) and lists apart. These and the mistakes are those of `tests/repo/measures.py`.
- *arrows up*: by the tree's own `tests/repo/layers.py`. A tree without that file has an empty cell.
- *not imported*: by no chain of imports from there. An import by a string, as of a capability, does not count.
- *one importer or none*: of all code but tests; a door counts as one, and is left out itself.
- *words*: of sentences and cells that a person wrote. Blocks of code and generated tables are left out.
"""

import ast
import io
import runpy
import subprocess
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from tests.benchmarks import document
from tests.repo.measures import FIGURES, House, reach
from tests.repo.words import markdown as prose
from tools.local.docs import markdown
from tools.local.infra import package
from tools.local.paths import ROOT

#: The commits that two reviews read, and the present one.
COMMITS = ("9d89e6a", "339221b", "HEAD")
DOCUMENT, PLACE, MAKER = ROOT / "docs" / "appendix" / "design.md", "shape", "python -m tests.repo.shape"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def measure(root):
    """Return the figures of a tree by their names."""
    every = [path for path in sorted(root.rglob("*.py")) if not path.relative_to(root).parts[0].startswith(".")]
    tests = [path for path in every if "tests" in path.relative_to(root).parts]
    code = House(root, [path for path in every if path not in set(tests)])
    app = House(root, [root / file for file in package.files(root) if file.suffix == ".py"])
    shared, written = House(root, layers=_layers(root)), House(root, tests)
    entered = [name for name in app.modules if name.partition(".")[0] in {"function_app", "capabilities", "own"}]
    lengths = [length for length, _ in shared.by_lines()]
    return {
        "`shared`: files / lines": _size(shared),
        "the app: files / lines": _size(app),
        "all code but tests: files / lines": _size(code),
        "tests: files / lines": _size(written),
        "functions that are tests": f"{sum(one.name.startswith('test_') for one in _functions(written)):,}",
        "lines of a function: median / 90 of 100 / longest": _spread(map(_length, _functions(shared))),
        "lines of a module: median / 90 of 100 / longest": _spread(lengths),
        "modules of more than 500 lines": str(sum(length > 500 for length in lengths)),
        "modules of fewer than 60 lines": str(sum(length < 60 for length in lengths)),
        "imports per 100 lines": str(shared.imports_per_100_lines()),
        **{name: str(figure(shared)[0]) if _fits(name, shared) else "" for name, figure in FIGURES.items()},
        "files of `shared` that `function_app.py` does not import": _left(shared, app, ["function_app"]),
        "of these, not imported by `capabilities` or `own` either": _left(shared, app, entered),
        "files of `shared` with one importer or none": _seldom_imported(shared, code),
        "lines of README": str(len((root / "README.md").read_text(encoding="utf-8").splitlines())),
        "words of README and pages, appendix apart": f"{_words(root):,}",
        "top-level folders": str(sum(path.is_dir() and path.name[0] not in "._" for path in root.iterdir())),
    }


def _layers(root):
    path = root / "tests" / "repo" / "layers.py"
    return SimpleNamespace(**runpy.run_path(str(path))) if path.exists() else None


def _fits(name, shared):
    return shared.layers is not None or name != "arrows up"


def _size(house):
    return f"{len(house.modules):,} / {sum(module.lines for module in house.modules.values()):,}"


def _functions(house):
    trees = (module.tree for module in house.modules.values())
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, Function)]


def _length(function):
    first = function.body[0]
    docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(function) is not None else 0
    return function.end_lineno - function.lineno + 1 - docstring


def _spread(numbers):
    ordered = sorted(numbers)
    return f"{ordered[len(ordered) // 2]} / {ordered[len(ordered) * 9 // 10]} / {ordered[-1]}"


def _left(shared, app, starts):
    edges = {name: app.imported(module, for_annotations=False) for name, module in app.modules.items()}
    # Python runs the door of a package before any of its modules.
    edges = {name: found | {one.rpartition(".")[0] for one in found} for name, found in edges.items()}
    return str(len(shared.modules.keys() - reach(edges, starts) - {"shared"}))


def _seldom_imported(shared, code):
    importers = Counter(name for module in code.modules.values() for name in code.imported(module))
    return str(sum(importers[name] <= 1 for name, one in shared.modules.items() if one.path.stem != "__init__"))


def _words(root):
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    pieces = [piece.text for page in pages for piece in prose(page.read_text(encoding="utf-8"))]
    return sum(any(map(str.isalnum, word)) for piece in pieces for word in piece.split())


def _git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


def _column(commit):
    """Return the heading and the figures of a commit, taken out of git into a folder that goes."""
    heading = _git("show", "--no-patch", "--abbrev=7", "--format=`%h`, %cs", commit).decode().strip()
    with tempfile.TemporaryDirectory(prefix="sluice-shape-") as name:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as archive:
            archive.extractall(name, filter="data")
        return heading, measure(Path(name).resolve())


def main():
    """Measure the commits, and write the table into the page."""
    headings, columns = zip(*map(_column, COMMITS), strict=True)
    rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
    document.write(DOCUMENT, PLACE, markdown(("", *headings), rows), maker=MAKER)


if __name__ == "__main__":
    main()
