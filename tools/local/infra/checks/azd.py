"""azure.yaml as azd takes it, in agreement with the deployed resources."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator

from tools.local.infra import package
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project


def _hook(*, goes_on: bool) -> dict[str, Any]:
    """Return the form of a hook. Without a command for its system azd ends (azure-dev, hooks_manager.go, read 2026-11-27)."""
    command = {
        "type": "object",
        "additionalProperties": False,
        "required": ["shell", "run", "continueOnError"],
        "properties": {
            "shell": {"enum": ["sh", "pwsh"]},
            "run": {"type": "string", "minLength": 1},
            "interactive": {"type": "boolean"},
            "continueOnError": {"const": goes_on},
        },
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["posix", "windows"],
        "properties": {"posix": command, "windows": command},
    }


#: The command that builds the package.
BUILD: Final = "make deploy ARGS=--check"
#: The part of azd's format that this project uses: any other key was not read in its documentation.
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "infra", "hooks", "services"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "minLength": 2},
        "metadata": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"template": {"type": "string"}},
        },
        "requiredVersions": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"azd": {"type": "string", "pattern": r"^>= \d+\.\d+\.\d+$"}},
        },
        "infra": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "provider": {"const": "bicep"},
                "path": {"type": "string"},
                "module": {"type": "string"},
            },
        },
        "hooks": {
            "type": "object",
            "additionalProperties": False,
            "required": ["postprovision", "postdeploy"],
            # An examination that fails would stop `azd up` between the resources and the code.
            "properties": dict.fromkeys(("postprovision", "postdeploy"), _hook(goes_on=True)),
        },
        "services": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["project", "language", "host", "dist", "remoteBuild", "hooks"],
                "properties": {
                    "project": {"type": "string"},
                    "language": {"enum": ["python", "py"]},
                    "host": {"const": "function"},
                    "dist": {"const": package.UPLOAD},
                    # A remote build of Flex Consumption took another Python (Azure/azure-dev #8538, 2026-06-05).
                    "remoteBuild": {"const": False},
                    "hooks": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["prepackage"],
                        # Without a package there is nothing to upload.
                        "properties": {"prepackage": _hook(goes_on=False)},
                    },
                },
            },
        },
    },
}


def check(project: Project) -> Iterator[Finding]:
    """Yield what azd would refuse, or would not find."""
    document = yaml.safe_load(project.text("azure.yaml"))
    for error in Draft202012Validator(SCHEMA).iter_errors(document):
        yield Finding("azure.yaml", f"{'.'.join(map(str, error.path)) or 'the file'}: {error.message}")
        return
    module = project.root / document["infra"].get("path", "infra") / f"{document['infra'].get('module', 'main')}.bicep"
    if module != project.main:
        yield Finding("azure.yaml", f"infra names {module.relative_to(project.root)}, expected infra/main.bicep")
    for name, hook in document["hooks"].items():
        # By its shell, for a project from the wheel has no files that may be executed.
        shell, _, script = hook["posix"]["run"].partition(" ")
        if shell != hook["posix"]["shell"] or not (project.root / script).is_file():
            yield Finding("azure.yaml", f"hook {name}: {hook['posix']['run']!r} runs no script that is there")
    sites = project.deployed().of_type("Microsoft.Web/sites")
    tags = [one.body.get("tags", {}).get("azd-service-name") for one in sites]
    if sorted(map(str, tags)) != sorted(document["services"]):
        yield Finding("azure.yaml", f"services {sorted(document['services'])} are not those that Bicep tags: {tags}")
    for name, service in document["services"].items():
        yield from _service(project, name, service)


def _service(project: Project, name: str, service: Mapping[str, Any]) -> Iterator[Finding]:
    if (said := service["hooks"]["prepackage"]["posix"]["run"]) != BUILD:
        yield Finding(
            "azure.yaml", f"service {name}: prepackage runs {said!r}, expected {BUILD!r}: it builds the package"
        )
    if not (project.root / service["project"] / "host.json").exists():
        yield Finding("azure.yaml", f"service {name}: there is no host.json in {service['project']}")
