"""Where the command finds the app's settings, so that it works beside `make up`.

They are those of the environment, else of a settings file, else of own/settings.json.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from shared.azure import BUS_CONNECTION, HOST_STORAGE, STORAGE_CONNECTION, in_azure
from shared.capability import Chosen, find_known, line_of, names_of_settings
from shared.errors import SettingsError
from shared.names import RETIRED, find_switched, misspelt, unread
from shared.own import Laid, lay, read_own
from shared.settings import NAMES

#: Looked for in this order, below the current folder. The first is written by `make up`, and counts while that runs.
RUNNING_FILE = Path(".stack") / "up" / "local.settings.json"
OWN_FILE = Path("local.settings.json")
_APP: Final = "function_app.py"
#: Folders above a settings file: the app's own file lies beside _APP, and that of a running stack two folders below.
_ABOVE: Final = 3
#: Each is one connection, in one name or in several that begin with it and two underscores.
_CONNECTIONS = {STORAGE_CONNECTION, BUS_CONNECTION, HOST_STORAGE}


class NoSettingsError(SettingsError):
    """Raised when there is no settings file where one was named, it is not one, or nothing says where storage is."""


def load(named: Path | None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings of own/settings.json, overridden by the file, overridden by the environment, as in the app.

    A connection is overridden as a whole: an account from the environment is not opened with the key of a local stack.
    """
    return dict(load_laid(named, environ).settings)


def load_laid(named: Path | None, environ: Mapping[str, str] = os.environ) -> Laid:
    """Return the settings, and those of own/settings.json that they override."""
    file = named or _find_file()
    overridden = {_connection_of(name) for name in environ} & _CONNECTIONS
    kept = {n: value for n, value in (_values(file) if file else {}).items() if _connection_of(n) not in overridden}
    settings = {**kept, **environ}
    add_app_to_path(named)
    own = next((read_own(folder, settings) for folder in _app_folders(file)), {})
    laid = lay(own, settings, is_deployed=in_azure(settings))
    check_names(laid.settings, find_known(laid.settings))
    return laid


def _connection_of(name: str) -> str:
    return name.partition("__")[0]


def check_names(settings: Mapping[str, str], capabilities: Iterable[Chosen] = ()) -> None:
    """Raise SettingsError if a name begins like a setting and is not one, or is a switch of before that is on. Warn once of each that a release retired.

    The app itself runs with an unknown name that is not misspelt: a newer release may have been there before it.
    A person can correct it at once.
    """
    known = NAMES | names_of_settings(capabilities)
    strange = unread(settings, known)
    unknown = [f"{name} is no setting: {remedy}" for name, remedy in strange.items() if name not in RETIRED]
    if problems := [*misspelt(settings, known), *unknown, *find_switched(settings, line_of(settings)).values()]:
        raise SettingsError("; ".join(problems))
    for name in strange:
        _tell_of(name)


@cache
def _tell_of(name: str) -> None:
    print(f"sluice: {name} is retired, and nothing reads it: {RETIRED[name]}", file=sys.stderr)


def load_connected(named: Path | None) -> dict[str, str]:
    """Return the settings of a command that needs an installation. Without one, say how to come by it."""
    settings = load(named)
    if named is None and _find_file() is None and not any(name.startswith(STORAGE_CONNECTION) for name in settings):
        raise NoSettingsError(
            "no stack runs in this folder: type `make up` in another terminal; for an installation in Azure, name its "
            "settings by --settings FILE or set SluiceStorage__accountName"
        )
    return settings


def running_publisher() -> dict[str, Any]:
    """Return the door of publishers of the stack that runs in this folder, or nothing where none runs."""
    if not (RUNNING_FILE.exists() and is_running(RUNNING_FILE)):
        return {}
    found: dict[str, Any] = json.loads(RUNNING_FILE.read_text()).get("Publisher", {})
    return found


def add_app_to_path(named: Path | None) -> None:
    """Have workloads imported as the app does it: they lie beside function_app.py, or in the current folder.

    An installed command looks into neither by itself.
    """
    app = find_app(named)
    sys.path[:0] = [str(folder) for folder in dict.fromkeys([*([app] if app else []), Path.cwd()])]


def find_app(named: Path | None) -> Path | None:
    """Return the folder of the app that this command works for, or None where none is near."""
    # The last is the clone that this command was installed from. Its own/settings.json is for who types there alone.
    return next(iter([*_app_folders(named or _find_file()), *_with_app(Path(__file__).resolve().parents[2])]), None)


def _app_folders(file: Path | None) -> list[Path]:
    """Return the folders of the app that a settings file belongs to, or that the command was typed in, nearest first."""
    near = [*file.resolve().parents][:_ABOVE] if file else []
    return _with_app(*near, Path.cwd())


def _with_app(*folders: Path) -> list[Path]:
    return [folder for folder in folders if (folder / _APP).exists()]


def settings_here() -> dict[str, str]:
    """Return the settings of a command in this folder that names no file, and have its own capabilities found."""
    add_app_to_path(None)
    file = _find_file()
    return {**(_values(file) if file else {}), **os.environ}


def is_running(file: Path) -> bool:
    """Return whether the stack that wrote the file still runs."""
    try:
        process = int(json.loads(file.read_text())["Process"])
        os.kill(process, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def _find_file() -> Path | None:
    if RUNNING_FILE.exists() and is_running(RUNNING_FILE):
        return RUNNING_FILE
    return OWN_FILE if OWN_FILE.exists() else None


def _values(file: Path) -> dict[str, str]:
    try:
        document = json.loads(file.read_text())
        if isinstance(document, list):
            # As `az functionapp config appsettings list` prints those of an app.
            return {str(one["name"]): str(one["value"]) for one in document}
        values = document["Values"]
        return {str(name): str(value) for name, value in values.items()}
    except OSError as error:
        raise NoSettingsError(f"cannot read the settings file {file}: {error.strerror}") from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise NoSettingsError(f"{file} is not a settings file: expected JSON with an object `Values`") from error
