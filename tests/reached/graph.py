"""Who calls whom, by reading: what of `shared`, `planning` and `conformance` is reached from the triggers, the commands and the documented names.

A name is followed through the imports of its module. A call of a method is followed to every reached class that has one
of that name: too many rather than too few, so that what is left over is called by nobody but tests.
"""

import ast
import re
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

#: What somebody starts: the app, the command and the local stack; all that is in them counts.
ROOTS = ("function_app.py", "functions", "capabilities", "tools/cli", "tools/local")
#: The public names: whoever installed the wheel uses them.
PUBLIC = "sluice"
#: Packages of which every definition has a caller.
WATCHED = ("shared", "tools/planning", "tools/conformance")
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
#: A file that a page sends its reader to: all of it is there to be read and used.
_FILES = re.compile(r"`(shared/[\w/]+)\.py`")
_NAMED = re.compile(r"shared(?:\.\w+)*(?::\w+)?")


@dataclass
class Definition:
    """A function, a method or a class, with everything that its code names."""

    module: str
    name: str
    line: int
    #: The lines of its code, its head and its words apart.
    body: tuple
    #: The class that a method belongs to.
    owner: str = ""
    is_class: bool = False
    #: Declared for others to fill in: a method of a protocol.
    is_declared: bool = False
    nodes: list = field(default_factory=list)

    @property
    def key(self):
        """How it is called in lists."""
        return f"{self.module.replace('.', '/')}.py:{f'{self.owner}.' if self.owner else ''}{self.name}"


@dataclass
class Module:
    """One file."""

    name: str
    #: Local name: what it stands for, a module or "module:name".
    imports: dict = field(default_factory=dict)
    definitions: dict = field(default_factory=dict)
    #: Statements that run when it is imported, by the name that they bind.
    assigned: dict = field(default_factory=dict)
    loose: list = field(default_factory=list)


class Program:
    """Every file of the project but its tests."""

    def __init__(self, root):
        self._root, self.modules, self.methods = root, {}, {}
        for top in (PUBLIC, *ROOTS, *WATCHED):
            for path in [root / top] if top.endswith(".py") else sorted((root / top).rglob("*.py")):
                self._read(path)
        self.reached, self._attributes, self._waiting = set(), set(), []

    def unreached(self):
        """Return the definitions of the watched packages that nothing leads to."""
        for module in self.modules.values():
            if not _is_watched(module):
                self._follow_all(module)
            if module.name.split(".")[0] == PUBLIC:
                for name in module.imports:
                    self._resolve(module, name)
        self._follow_documents()
        while self._waiting:
            self._waiting.pop()()
        return [one for one in self.every() if one.key not in self.reached and not one.is_declared]

    def every(self):
        """Return the definitions of the watched packages."""
        return [one for module in self.modules.values() if _is_watched(module) for one in self._all(module)]

    def _all(self, module):
        for one in module.definitions.values():
            yield one
            yield from self.methods.get((module.name, one.name), {}).values()

    def _read(self, path):
        parts = path.relative_to(self._root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        module = self.modules[name] = Module(name)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            self._take(module, node)

    def _take(self, module, node):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module.imports |= _imported(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            module.definitions[node.name] = _definition(module, node, [node])
        elif isinstance(node, ast.ClassDef):
            self._take_class(module, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                module.assigned.setdefault(getattr(target, "id", ""), []).append(node)
        else:
            module.loose.append(node)

    def _take_class(self, module, node):
        is_protocol = any("Protocol" in ast.unparse(base) for base in node.bases)
        own = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        rest = [*node.bases, *node.keywords, *node.decorator_list, *(one for one in node.body if one not in own)]
        made = module.definitions[node.name] = _definition(module, node, rest)
        made.is_class = True
        methods = self.methods[module.name, node.name] = {}
        for one in own:
            methods[one.name] = _definition(module, one, [one], node.name)
            methods[one.name].is_declared = is_protocol

    def _follow_all(self, module):
        for one in self._all(module):
            self._reach(one)
        for node in [*module.loose, *chain.from_iterable(module.assigned.values())]:
            self._names(module, node)

    def _reach(self, one):
        if one.key in self.reached:
            return
        self.reached.add(one.key)
        module = self.modules[one.module]
        self._waiting.append(lambda: [self._names(module, node) for node in one.nodes])
        for node in module.loose:
            self._once(module, node)
        if one.is_class:
            for name, method in self.methods[one.module, one.name].items():
                # What Python itself calls, what a decorator hands to somebody, and what was called already.
                if name.startswith("__") or name in self._attributes:
                    self._reach(method)

    def _once(self, module, node):
        if id(node) not in self.reached:
            self.reached.add(id(node))
            self._names(module, node)

    def _names(self, module, node):
        for one in ast.walk(node):
            if isinstance(one, ast.Import | ast.ImportFrom):
                module.imports |= _imported(one)
        for one in ast.walk(node):
            if isinstance(one, ast.Name):
                self._resolve(module, one.id)
            elif isinstance(one, ast.Attribute):
                self._attribute(module, one)
            elif isinstance(one, ast.Constant) and isinstance(one.value, str):
                self._text(one.value)

    def _attribute(self, module, node):
        target = module.imports.get(getattr(node.value, "id", ""), "")
        if target in self.modules:
            self._resolve(self.modules[target], node.attr)
        elif f"{target.replace(':', '.')}" in self.modules:
            self._resolve(self.modules[target.replace(":", ".")], node.attr)
        self._called(node.attr)

    def _called(self, name):
        if name in self._attributes:
            return
        self._attributes.add(name)
        for (module, owner), methods in self.methods.items():
            if name in methods and self.modules[module].definitions[owner].key in self.reached:
                self._reach(methods[name])

    def _text(self, text):
        """Follow what is looked up by its name: `shared.workloads.billing:Billing`, getattr(workload, "map_many")."""
        if len(text) < 60 and text.isidentifier():
            self._called(text)
        for found in _NAMED.findall(text):
            name, _, attribute = found.partition(":")
            if name in self.modules and attribute:
                self._resolve(self.modules[name], attribute)

    def _resolve(self, module, name, seen=()):
        if name in module.definitions:
            self._reach(module.definitions[name])
        elif name in module.assigned:
            for node in module.assigned[name]:
                self._once(module, node)
        elif name in module.imports and (module.name, name) not in seen:
            target, _, attribute = module.imports[name].partition(":")
            if target in self.modules and attribute:
                self._resolve(self.modules[target], attribute, (*seen, (module.name, name)))

    def _follow_documents(self):
        """Follow what the pages show as code: their readers may call it."""
        for page in [self._root / "README.md", *sorted((self._root / "docs").rglob("*.md"))]:
            words = {word for code in _QUOTED.findall(page.read_text(encoding="utf-8")) for word in _WORD.findall(code)}
            for named in _FILES.findall(page.read_text(encoding="utf-8")):
                module = self.modules.get(named.replace("/", "."))
                for one in module.definitions.values() if module else ():
                    self._reach(one)
            for module in self.modules.values():
                for name in words & module.definitions.keys():
                    self._reach(module.definitions[name])
            for word in words:
                self._called(word)


def _is_watched(module):
    return module.name.replace(".", "/").startswith(tuple(f"{top}/" for top in WATCHED))


def _definition(module, node, nodes, owner=""):
    return Definition(module.name, node.name, node.lineno, _body(node), owner, nodes=nodes)


def _body(node):
    is_documented = ast.get_docstring(node) is not None
    return tuple(line for one in node.body[is_documented:] for line in range(one.lineno, one.end_lineno + 1))


def _imported(node):
    if isinstance(node, ast.Import):
        return {alias.asname or alias.name: alias.name for alias in node.names}
    return {alias.asname or alias.name: f"{node.module}:{alias.name}" for alias in node.names}


def repository():
    """Return the folder of the project."""
    return Path(__file__).resolve().parents[2]
