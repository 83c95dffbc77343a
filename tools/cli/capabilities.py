"""The capabilities as the command knows them: those that come with Sluice, on or off, and those that the line names."""

from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from shared.capability import Chosen, CommandGroup, find_known
from shared.errors import SettingsError
from tools.cli.options import WRONG_CALL
from tools.cli.settings_file import settings_here


def chosen(capabilities: tuple[Chosen, ...], name: str) -> Chosen:
    """Return a capability that is on, or end."""
    found = next((one for one in capabilities if one.name == name), None)
    if found is None:
        typer.echo(f"sluice: {name} is off: SLUICE_CAPABILITIES of this installation does not name it", err=True)
        raise typer.Exit(WRONG_CALL)
    return found


class Groups(TyperGroup):
    """The command's groups. Those of capabilities are imported when one is called, or listed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all groups and commands."""
        return [*super().list_commands(ctx), *self._found()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a group or a command by its name."""
        if own := super().get_command(ctx, cmd_name):
            return own
        if cmd_name not in (found := self._found()):
            return None
        capability, group = found[cmd_name]
        made = get_group(capability.load(group.app))
        made.name = cmd_name
        return made

    def _found(self) -> dict[str, tuple[Chosen, CommandGroup]]:
        # An option that names a file comes behind the group.
        try:
            capabilities = find_known(settings_here())
        except SettingsError as error:
            typer.echo(f"sluice: {error}", err=True)
            raise typer.Exit(WRONG_CALL) from error
        return {group.name: (one, group) for one in capabilities for group in one.capability.commands}
