"""Where the command finds the app's settings: the environment, else a settings file, so that it works beside `make up`."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

#: Looked for in this order, below the current folder; the second is written by `make up`.
SETTINGS_FILES = (Path("local.settings.json"), Path(".stack") / "up" / "local.settings.json")


class NoSettingsError(Exception):
    """Raised when there is no settings file where one was named, or it is not one."""


def load(named: Path | None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings of the file, overridden by the environment, as the Functions host does it."""
    file = named or next((file for file in SETTINGS_FILES if file.exists()), None)
    return {**(_values(file) if file else {}), **environ}


def _values(file: Path) -> dict[str, str]:
    try:
        values = json.loads(file.read_text())["Values"]
        return {str(name): str(value) for name, value in values.items()}
    except OSError as error:
        raise NoSettingsError(f"cannot read the settings file {file}: {error.strerror}") from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise NoSettingsError(f"{file} is not a settings file: expected JSON with an object `Values`") from error
