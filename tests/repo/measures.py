"""What the shape of `shared` is measured by: `python -m tests.repo.measures` prints the figures.

- *imports per 100 lines*: statements that import a module of `shared`, in all files of `shared`, those of the doors
  (`__init__`) and inside functions included; one statement counts once, however many names it brings. *Outside of
  doors*: without the statements that only list a package's names.
- *arrows up*: pairs of modules of which one imports the other against `tests/repo/layers.py`.
- *circles*: groups of modules that import each other; imports for annotations alone are left out.
- *classes that stand twice*: public names of classes and of type aliases that two modules define.
- *modules that stand twice*: names of files; `__init__` is left out.
- *participles*: functions and methods whose name begins with one, as `written` does; a property may.
- *files on the happy path*: files of `shared` in which a function runs while one job is accepted, processed, settled and
  finished, on Azurite; in all threads, and in the one that has the deliveries.
- *files of a seat order*: the same from the placing of an order for a seat until customers are shown it.
- *lines of a module*, lists apart, and *modules that one module imports*, doors and what builds the app apart.
"""

import ast
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.repo import layers
from tests.repo.layers import unit_of

ROOT = Path(__file__).resolve().parents[2]
#: Lists: one entry after the other, however many there are.
CATALOGUES = {"shared.errors", "shared.refusals", "shared.telemetry.events"}
_REGULAR = re.compile(r"\w+ed")
_IRREGULAR = frozenset(
    [
        "begun",
        "bound",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "come",
        "done",
        "drawn",
        "driven",
        "fallen",
        "felt",
        "found",
        "forgotten",
        "forsaken",
        "given",
        "gone",
        "grown",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "rung",
        "said",
        "seen",
        "sent",
        "shown",
        "sold",
        "spent",
        "spoken",
        "stood",
        "stolen",
        "sworn",
        "taken",
        "thrown",
        "told",
        "torn",
        "understood",
        "woken",
        "won",
        "worn",
        "written",
    ]
)
#: Verbs and nouns that only end like participles.
_NONE = frozenset(["bed", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed"])
#: Names that stay, each with its reason.
EXEMPT = {
    "configured": "public: a class method of a user's own workload",
    "killed_its_worker": "a predicate",
    "unused_data": "the attribute of a library's object",
    "completed_message": "the participle describes the noun that is returned",
    "ended_counts": "the participle describes the noun that is returned",
    "expired_error": "the participle describes the noun that is returned",
    "failed_message": "the participle describes the noun that is returned",
    "stored_bytes": "the participle describes the noun that is returned",
    "tampered_error": "the participle describes the noun that is returned",
}


@dataclass
class Module:
    """One file of `shared`, or of another folder that is measured."""

    name: str
    path: Path
    text: str
    #: The top-level folders whose imports count.
    ours: frozenset

    @cached_property
    def tree(self):
        """Its syntax tree."""
        return ast.parse(self.text)

    @property
    def lines(self):
        """How many lines it has."""
        return len(self.text.splitlines())

    def statements(self, *, for_annotations=True):
        """Yield the statements that import our own code."""
        left_out = set() if for_annotations else self._for_annotations()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node not in left_out and self.owns(node.module or ""):
                yield node
            if isinstance(node, ast.Import) and node not in left_out and any(self.owns(one.name) for one in node.names):
                yield node

    def owns(self, name):
        """Return True if a name that is imported is our own."""
        return name.partition(".")[0] in self.ours

    def _for_annotations(self):
        tests = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ]
        return {inner for test in tests for inner in ast.walk(test)}


class House:
    """All files of `shared` below a root, or others.

    `layers` is a module such as `tests/repo/layers.py`.
    """

    def __init__(self, root=ROOT, files=None, layers=layers):
        self.layers, self.modules = layers, {}
        paths = sorted((root / "shared").rglob("*.py")) if files is None else files
        ours = frozenset(path.relative_to(root).with_suffix("").parts[0] for path in paths)
        for path in paths:
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            self.modules[name] = Module(name, path, path.read_text(encoding="utf-8"), ours)

    def imported(self, module, *, for_annotations=True):
        """Return the modules of these that one of them imports."""
        found = set()
        for node in module.statements(for_annotations=for_annotations):
            if isinstance(node, ast.Import):
                found |= {one.name for one in node.names if module.owns(one.name)}
            else:
                inner = {one.name: f"{node.module}.{one.name}" for one in node.names}
                found |= {name if name in self.modules else node.module for name in inner.values()}
        return found - {module.name}

    def imports_per_100_lines(self, *, doors=True):
        """Return the density of imports of our own; without doors, those of their lists are left out."""
        importing = [module for module in self.modules.values() if doors or module.path.stem != "__init__"]
        statements = sum(len(list(module.statements())) for module in importing)
        return round(100 * statements / sum(module.lines for module in self.modules.values()), 2)

    def arrows_up(self):
        """Return the imports against the layers."""
        pairs = [(one, other) for one in self.modules.values() for other in sorted(self.imported(one))]
        return [f"{one.name} -> {other}" for one, other in pairs if self._is_up(one.name, other)]

    def _is_up(self, one, other):
        unit, target = self.layers.unit_of(one), self.layers.unit_of(other)
        # The package itself holds nothing but its version.
        return None not in {unit, target} and self.layers.UNITS.index(target) > self.layers.UNITS.index(unit)

    def circles(self):
        """Return the groups of modules that import each other."""
        edges = {name: self.imported(module, for_annotations=False) for name, module in self.modules.items()}
        return [sorted(group) for group in _groups(edges) if len(group) > 1]

    def doubled_classes(self):
        """Return the public names of classes and aliases that stand for two things."""
        return _doubled((name, module.name) for module in self.modules.values() for name in _types(module.tree))

    def doubled_modules(self):
        """Return the names of files that stand twice."""
        paths = [module.path for module in self.modules.values() if module.path.stem != "__init__"]
        return _doubled((path.stem, "/".join(path.parts[-2:])) for path in paths)

    def participles(self):
        """Return the functions and methods that are named by a participle."""
        return [
            f"{module.name}:{function.name}"
            for module in self.modules.values()
            for function in ast.walk(module.tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            and is_participle(function.name)
            and not _is_property(function)
        ]

    def by_lines(self):
        """Return each module's lines and name, the shortest first; doors and lists apart."""
        return sorted(
            (module.lines, name)
            for name, module in self.modules.items()
            if name not in CATALOGUES and module.path.stem != "__init__"
        )

    def widest_module(self):
        """Return how many modules of ours one imports at most, and its name; doors and what builds the app apart."""
        apart = {
            name for name, module in self.modules.items() if module.path.stem == "__init__" or unit_of(name) == "app"
        }
        return max((len(self.imported(module)), name) for name, module in self.modules.items() if name not in apart)


def _types(tree):
    """Yield the names of public classes and type aliases of a module."""
    for node in tree.body:
        name = ""
        if isinstance(node, ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation):
            name = ast.unparse(node.target)
        elif isinstance(node, getattr(ast, "TypeAlias", ())):
            name = node.name.id
        if name and not name.startswith("_"):
            yield name


def _doubled(pairs):
    places = defaultdict(set)
    for name, place in pairs:
        places[name].add(place)
    return {name: sorted(found) for name, found in sorted(places.items()) if len(found) > 1}


def is_participle(name):
    """Whether a function's name begins with a participle and has no reason for it."""
    bare = name.strip("_")
    word = bare.partition("_")[0]
    is_one = bool(_REGULAR.fullmatch(word) or word in _IRREGULAR) and word not in _NONE
    return is_one and bare not in EXEMPT


def _is_property(function):
    return any(
        "property" in ast.unparse(decorator) or ".setter" in ast.unparse(decorator)
        for decorator in function.decorator_list
    )


def _groups(edges):
    """Yield the strongly connected groups of a graph, by what each node reaches."""
    reached = {name: reach(edges, [name]) for name in edges}
    left = set(edges)
    while left:
        one = min(left)
        group = {other for other in reached[one] if one in reached.get(other, ())} | {one}
        left -= group
        yield group


def reach(edges, starts):
    """Return the nodes of a graph that its arrows lead to from these."""
    found, waiting = set(), [*starts]
    while waiting:
        for name in edges.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


#: What each figure is called, and how it is found with the places that make it up. Each of these is a mistake.
FIGURES = {
    "arrows up": lambda house: _counted(house.arrows_up()),
    "circles": lambda house: _counted(house.circles()),
    "classes that stand twice": lambda house: _counted(house.doubled_classes()),
    "modules that stand twice": lambda house: _counted(house.doubled_modules()),
    "participles": lambda house: _counted(house.participles()),
}
#: What tells a person how the house is built. A limit of these would make files, or exceptions.
PRINTED = {
    "modules": lambda house: (len(house.modules), []),
    "lines": lambda house: (sum(module.lines for module in house.modules.values()), []),
    "lines of a module, median": lambda house: house.by_lines()[len(house.by_lines()) // 2],
    "lines of nine modules of ten, at most": lambda house: house.by_lines()[len(house.by_lines()) * 9 // 10],
    "lines of the longest module": lambda house: house.by_lines()[-1],
    "imports per 100 lines": lambda house: (house.imports_per_100_lines(), []),
    "of these, outside of doors": lambda house: (house.imports_per_100_lines(doors=False), []),
    "modules that one module imports": lambda house: house.widest_module(),
}
HAPPY_PATH = "files on the happy path"
DELIVERIES = "of these, in the deliveries' thread"
SEAT_ORDER = "files of a seat order"


def _counted(found):
    return len(found), [f"{name}: {', '.join(found[name])}" for name in found] if isinstance(found, dict) else found


def main(arguments):
    """Print the figures; with `-v` the places as well."""
    # It loads the whole app, which reading the code does not need.
    from tests.repo.happy_path import happy_path, seat_order_path  # noqa: PLC0415

    house = House()
    found = {name: figure(house) for name, figure in (PRINTED | FIGURES).items()}
    found |= zip((HAPPY_PATH, DELIVERIES), map(_counted, happy_path()), strict=True)
    found[SEAT_ORDER] = _counted(seat_order_path())
    for name, (number, places) in found.items():
        print(f"{name:38} {number:>6}")  # noqa: T201 - a command prints
        if "-v" in arguments:
            print(*(f"    {place}" for place in ([places] if isinstance(places, str) else places)), sep="\n")  # noqa: T201 - a command prints


if __name__ == "__main__":
    main(sys.argv[1:])
