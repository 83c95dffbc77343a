"""The deployment of main.bicep with given parameters: every resource, its loops and modules worked out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tree_sitter import Node

from tools.local.infra.bicep import BicepError, Declared, Template, named, read
from tools.local.infra.expressions import Names, Unknown, evaluate, repeated
from tools.local.infra.resource import AtRunTime, Resource, member_of

#: The module of a person's own resources, as main.bicep names it.
OWN_MODULE: Final = "../own/infra/main.bicep"


@dataclass(slots=True)
class Deployment:
    """Everything of one deployment. Problems are the parts that could not be worked out."""

    resources: list[Resource] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    templates: dict[Path, Template] = field(default_factory=dict)
    #: Files that a template loads, and that another text stands in for.
    texts: Mapping[Path, str] = field(default_factory=dict)

    def of_type(self, kind: str) -> list[Resource]:
        """Return the resources of a type."""
        return [one for one in self.resources if one.type == kind]


@dataclass(slots=True, eq=False)
class Module:
    """A module that is deployed, or would be if its condition held."""

    place: "Place | None"
    name: str

    def output(self, name: str) -> Any:
        """Return one of its outputs."""
        if self.place is None:
            return Unknown(f"{self.name}.outputs.{name}")
        if name not in self.place.template.outputs:
            raise BicepError(f"{self.place.template.path.name}: there is no output {name}")
        return evaluate(self.place.template.outputs[name], self.place)


class Place:
    """One file with its parameters set. Resources and modules are worked out at their first use."""

    def __init__(self, template: Template, parameters: Mapping[str, Any], deployment: Deployment) -> None:
        self.template, self._given, self._deployment = template, parameters, deployment
        self._known: dict[str, Any] = {}
        deployment.templates.setdefault(template.path, template)

    def value_of(self, name: str) -> Any:
        """Return the value of a name. Each is worked out once."""
        if name not in self._known:
            self._known[name] = self._work_out(name)
        return self._known[name]

    def _work_out(self, name: str) -> Any:
        template = self.template
        if name in template.parameters:
            return self._parameter(name)
        if name in template.variables:
            return evaluate(template.variables[name], self)
        if name in template.resources:
            return self._resources(template.resources[name])
        if name in template.modules:
            return self._modules(template.modules[name])
        raise BicepError(f"{template.path.name}: nothing is called {name}")

    def _parameter(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        default = self.template.parameters[name].default
        if default is None:
            raise BicepError(f"{self.template.path.name}: parameter {name} has neither value nor default")
        return evaluate(default, self)

    def member(self, value: Any, name: str) -> Any:
        """Return a property. That of a deployed resource may be unknown."""
        if isinstance(value, Module):
            return value if name == "outputs" else value.output(name)
        if isinstance(value, Unknown):
            return Unknown(f"{value.text}.{name}")
        if isinstance(value, Resource):
            return member_of(value, name)
        if isinstance(value, AtRunTime):
            return value.get(name, Unknown(f"{value.text}.{name}"))
        if not isinstance(value, Mapping) or name not in value:
            raise BicepError(f"{self.template.path.name}: there is no {name!r} in {str(value)[:60]}")
        return value[name]

    def inside(self, names: Mapping[str, Any]) -> "Loop":
        """Return this place with a loop's variables."""
        return Loop(self, names)

    def _resources(self, declared: Declared) -> Any:
        made = [self._resource(declared, body, names) for body, names in bodies(declared.body, self)]
        if not declared.is_existing:
            self._deployment.resources += made
        if declared.body.type == "for_statement":
            return made
        return made[0] if made else Unknown(declared.name)

    def _resource(self, declared: Declared, node: Node, names: Names) -> Resource:
        body = evaluate(node, names)
        kind, _, version = declared.target.partition("@")
        parent = body.pop("parent", None)
        where = f"{self.template.path.name}:{declared.line}"
        if "name" not in body:
            raise BicepError(f"{where}: {declared.name} has no name")
        name = str(body["name"])
        full = f"{parent.name}/{name}" if isinstance(parent, Resource) else name
        if full.count("/") != kind.count("/") - 1:
            raise BicepError(f"{where}: {full!r} is no name of a {kind}: is its parent missing?")
        scope = body.pop("scope", None)
        return Resource(
            type=kind,
            name=full,
            body=body,
            where=where,
            is_existing=declared.is_existing,
            version=version,
            scope=scope.id if isinstance(scope, Resource) else "",
        )

    def content(self, file: Path) -> str:
        """Return the text of a file that the template loads."""
        return self._deployment.texts.get(file) or file.read_text()

    def _modules(self, declared: Declared) -> Any:
        made = [self._module(declared, evaluate(node, names)) for node, names in bodies(declared.body, self)]
        if declared.body.type == "for_statement":
            return made
        return made[0] if made else Module(None, declared.name)

    def _module(self, declared: Declared, body: Mapping[str, Any]) -> Module:
        if self.template.scope == "subscription" and "scope" not in body:
            raise BicepError(f"{self.template.path.name}:{declared.line}: module {declared.name} has no scope")
        template = read((self.template.path.parent / declared.target).resolve())
        self._check_parameters(declared, template, body.get("params", {}))
        if declared.target == OWN_MODULE:
            # A person's resources may use all that Bicep has. The compiler judges them.
            return Module(None, declared.name)
        inner = Place(template, body.get("params", {}), self._deployment)
        inner.work_out_everything()
        return Module(inner, declared.name)

    def _check_parameters(self, declared: Declared, template: Template, given: Mapping[str, Any]) -> None:
        where = f"{self.template.path.name}:{declared.line}: module {declared.name}"
        if unknown := sorted(set(given) - set(template.parameters)):
            raise BicepError(f"{where}: {template.path.name} has no parameter {', '.join(unknown)}")
        wanted = {name for name, one in template.parameters.items() if one.default is None}
        if missing := sorted(wanted - set(given)):
            raise BicepError(f"{where}: parameter {', '.join(missing)} of {template.path.name} is missing")

    def work_out_everything(self) -> None:
        """Work out every declaration, used or not."""
        for name in (*self.template.parameters, *self.template.variables):
            self.value_of(name)
        for name in (*self.template.resources, *self.template.modules):
            self.value_of(name)


@dataclass(frozen=True, slots=True)
class Loop:
    """A place within a loop."""

    outer: Names
    variables: Mapping[str, Any]

    @property
    def template(self) -> Template:
        """The file."""
        return self.outer.template

    def value_of(self, name: str) -> Any:
        """Return the loop's variable, or what the name means around it."""
        return self.variables[name] if name in self.variables else self.outer.value_of(name)

    def member(self, value: Any, name: str) -> Any:
        """Return a property, as around the loop."""
        return self.outer.member(value, name)

    def inside(self, names: Mapping[str, Any]) -> "Loop":
        """Return a loop within this one."""
        return Loop(self, names)

    def content(self, file: Path) -> str:
        """Return the text of a file, as around the loop."""
        return self.outer.content(file)


def bodies(node: Node, names: Names) -> Iterator[tuple[Node, Names]]:
    """Yield the body of a declaration once per deployed copy: for each item of its loop, if its condition holds."""
    if node.type == "for_statement":
        for body, inner in repeated(node, names):
            yield from bodies(body, inner)
    elif node.type == "if_statement":
        condition, body = named(node)
        if evaluate(condition, names):
            yield body, names
    else:
        yield node, names


def deployed(main: Path, parameters: Mapping[str, Any], texts: Mapping[Path, str]) -> Deployment:
    """Return the deployment of the file with these parameters, or raise one BicepError."""
    deployment = Deployment(texts=texts)
    place = Place(read(main), parameters, deployment)
    place.work_out_everything()
    deployment.outputs = {name: evaluate(node, place) for name, node in place.template.outputs.items()}
    return deployment
