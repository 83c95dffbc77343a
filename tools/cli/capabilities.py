"""The command's groups and commands: each is imported when it is called. Those of capabilities are among them."""

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as make_command, get_group

from shared.errors import SettingsError
from tools.cli.options import FORMER_NAMES, WRONG_CALL, end

if TYPE_CHECKING:
    from shared.capability import Chosen, CommandGroup

#: Azure's libraries import it wherever it is installed, and the command makes no request by it. It takes 0.2 s.
_UNUSED = "aiohttp"


class Named(NamedTuple):
    """A command, or a group of commands, that is not imported yet."""

    #: Module of this package, and its name there: a Typer app, or a function.
    module: str
    attribute: str
    #: The panel of the help that it stands in.
    panel: str
    help: str


def chosen(capabilities: "tuple[Chosen, ...]", name: str) -> "Chosen":
    """Return a capability that is on, or end."""
    found = next((one for one in capabilities if one.name == name), None)
    if found is None:
        end(f"{name} is off: SLUICE_CAPABILITIES of this installation does not name it", WRONG_CALL)
    return found


class Groups(TyperGroup):
    """The groups and commands. One is imported when it is called. The help reads their lines."""

    #: By name, in the order of the help.
    named: Mapping[str, Named] = {}
    _is_listed = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the library's signature
        """Return the names of all groups and commands."""
        return [*self.named, *self._found()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the library's signature
        """Return a group or a command by its name."""
        own = self.named.get(cmd_name)
        if own and self._is_listed:
            return TyperCommand(cmd_name, help=own.help, rich_help_panel=own.panel)
        if own:
            with without_unused():
                return _made(cmd_name, getattr(import_module(f".{own.module}", __package__), own.attribute))
        if cmd_name not in (found := self._found()):
            return None
        capability, group = found[cmd_name]
        if self._is_listed:
            line = f"{group.meaning[:1].upper()}{group.meaning[1:]}."
            return TyperCommand(cmd_name, help=line, rich_help_panel=f"Capability {capability.name}")
        return _made(cmd_name, capability.load(group.app))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the words name. From here on it does its own work, and makes garbage."""
        try:
            return super().resolve_command(ctx, args)
        finally:
            gc.enable()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help. It imports no command."""
        with self._listed():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the names that begin like this, for the shell."""
        with self._listed():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listed(self) -> Iterator[None]:
        self._is_listed = True
        try:
            yield
        finally:
            self._is_listed = False

    def _found(self) -> "dict[str, tuple[Chosen, CommandGroup]]":
        # A command that is called by its name needs no settings for that.
        with without_unused():
            from shared.capability import find_known  # noqa: PLC0415
            from tools.cli.settings_file import settings_here  # noqa: PLC0415

        # An option that names a file comes behind the group.
        try:
            capabilities = find_known(settings_here())
        except SettingsError as error:
            end(str(error), WRONG_CALL)
        return {group.name: (one, group) for one in capabilities for group in one.capability.commands}


def _made(name: str, found: Any) -> Any:
    if isinstance(found, typer.Typer):
        made = get_group(found)
        made.name = name
        return made
    app = typer.Typer(add_completion=False)
    app.command(name, context_settings=FORMER_NAMES)(found)
    return make_command(app)


@contextmanager
def without_unused() -> Iterator[None]:
    """Hide it while a command is imported, and no longer: `sluice worker` runs workloads that may use it."""
    if _UNUSED in sys.modules:
        yield
        return
    # An import of it fails then, as where it is not installed.
    sys.modules[_UNUSED] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_UNUSED]
