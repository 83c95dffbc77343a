"""Automation elsewhere runs the same commands: workflows, the dev container, the editor's tasks."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from tools.local.infra.finding import Finding
from tools.local.infra.project import Project

#: Commands beside make that a workflow may run; the first words decide.
CLOUD: Final = ("az bicep build", "az bicep lint", "azd auth login", "azd provision --preview", "azd up")
#: Scripts of the repository that need what only a workflow has: its login, or Docker.
SCRIPTS: Final = ("sh .ci/", "bash .ci/")
PREVIEW: Final = "azd provision --preview"
_PINNED: Final = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}")
_TARGET: Final = re.compile(r'make ([a-z-]+)(?: ARGS=(?:--[a-z]+|"[-a-zA-Z $]+"))?')


def check(project: Project) -> Iterator[Finding]:
    """Yield what a machine elsewhere would do differently."""
    files = sorted((project.root / ".github" / "workflows").glob("*.yml"))
    documents = {file.name: yaml.safe_load(file.read_text()) for file in files}
    commands = {name: list(_commands(document)) for name, document in documents.items()}
    everything = [command for group in commands.values() for command in group]
    for line in project.text(".ci", "run").splitlines():
        if line.startswith("make ") and line not in everything:
            yield Finding(".github/workflows", f"no workflow runs `{line}`, which .ci/run does")
    if not any(command.startswith(PREVIEW) for command in everything):
        yield Finding(".github/workflows", f"no workflow runs `{PREVIEW}`")
    for name, group in commands.items():
        for command in group:
            yield from _known(project, name, command)
    for name, document in documents.items():
        yield from _safe(name, document)
    yield from _editors(project)


def _steps(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in document["jobs"].values():
        yield from job["steps"]


def _commands(document: dict[str, Any]) -> Iterator[str]:
    for step in _steps(document):
        yield from str(step.get("run", "")).strip().splitlines()


def _known(project: Project, where: str, command: str) -> Iterator[Finding]:
    target = _TARGET.fullmatch(command)
    phony = re.search(r"^\.PHONY: (.+)$", project.text("Makefile"), re.MULTILINE)
    if target and phony and target[1] in phony[1].split():
        return
    if command.startswith(SCRIPTS) and project.root.joinpath(command.split()[1]).is_file():
        return
    if not command.startswith(CLOUD):
        yield Finding(where, f"`{command}` is no command of the README or docs/deploy.md")


def _safe(where: str, document: dict[str, Any]) -> Iterator[Finding]:
    for step in _steps(document):
        if "uses" in step and not _PINNED.fullmatch(step["uses"]):
            yield Finding(where, f"{step['uses']} is not pinned to a commit: a tag can be moved")
    if "contents" not in document.get("permissions", {}):
        yield Finding(where, "says no permissions, so it has all of them")
    if "${{ secrets." in json.dumps(document, default=str):
        yield Finding(where, "uses a stored secret: the federated login needs none")


def _editors(project: Project) -> Iterator[Finding]:
    for name in (
        ".devcontainer/devcontainer.json",
        *(f".vscode/{one}.json" for one in ("tasks", "launch", "settings")),
    ):
        try:
            document = json.loads(project.text(name))
        except ValueError as error:
            yield Finding(name, f"is not JSON: {error}")
            continue
        commands = [document.get("postCreateCommand"), *(one.get("command") for one in document.get("tasks", []))]
        for command in filter(None, commands):
            yield from _known(project, name, command)
