"""`sluice publisher-env`: what a publisher's program needs, as exports of a shell or as JSON."""

import json
import shlex
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from shared.azure import BUS_CONNECTION, STORAGE_CONNECTION, find_connection
from shared.errors import SettingsError
from shared.topology import payload_container, submission_queue
from tools.cli.options import JsonOption, SettingsOption, room_name
from tools.cli.settings_file import load_connected, running_publisher

#: Where the library finds storage and the bus. A secret of an application is not printed.
_CONNECTIONS: Final = (STORAGE_CONNECTION, BUS_CONNECTION)
_HIDDEN: Final = "__clientsecret"


def publisher_env(
    settings: SettingsOption = None,
    *,
    room: Annotated[
        str, typer.Option(help="The room of the publisher; without it the common one.", callback=room_name)
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Print what the examples for publishers need: eval "$(sluice publisher-env)".

    Of the stack that runs in this folder it also prints a login, which works there alone. In Azure you log in yourself.
    """
    environ = load_connected(settings)
    running = {} if settings else running_publisher()
    addresses = running.get("addresses") or _addresses(environ)
    found = {
        "PAYLOADS": f"{addresses['blob']}/{payload_container(room)}",
        "QUEUE": f"{addresses['queue']}/{submission_queue(room)}",
        "BUS": addresses["bus"],
        **{name: value for name, value in environ.items() if _is_connection(name)},
        **running.get("environment", {}),
    }
    folder = running.get("path", "")
    if as_json:
        typer.echo(json.dumps({"environment": found, "path": folder}))
        return
    for name, value in found.items():
        typer.echo(f"export {name}={shlex.quote(value)}")
    if folder:
        # Its `az` prints the token of this stack, and does everything else by your own.
        typer.echo(f'export PATH={shlex.quote(folder)}:"$PATH"')


def _addresses(environ: Mapping[str, str]) -> dict[str, str]:
    storage, bus = (find_connection(name, environ, is_person=True).connection for name in _CONNECTIONS)
    if isinstance(storage, str) or storage is None:
        raise SettingsError(
            f"{STORAGE_CONNECTION} holds a key, and a publisher logs in: run `make up` in this folder, which has a login of its "
            f"own, or name the settings of an installation in Azure, with {STORAGE_CONNECTION}__accountName, by --settings FILE"
        )
    namespace = "" if isinstance(bus, str) or bus is None else f"https://{bus.addresses['bus']}"
    return {**storage.addresses, "bus": namespace}


def _is_connection(name: str) -> bool:
    return name.partition("__")[0] in _CONNECTIONS and not name.lower().endswith(_HIDDEN)
