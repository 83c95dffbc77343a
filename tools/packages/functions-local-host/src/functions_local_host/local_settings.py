"""The application settings: `Values` of local.settings.json below the environment, and what is looked up in them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from functions_local_host.contract import ConnectionMissingError

#: The connection setting that a binding without one means.
HOST_STORAGE = "AzureWebJobsStorage"
#: What starts one identity-based connection; the suffixes of all that Azure knows.
_IDENTITY_PARTS = (
    "accountName",
    "blobServiceUri",
    "queueServiceUri",
    "tableServiceUri",
    "fullyQualifiedNamespace",
    "credential",
    "endpoint",
)
_REFERENCE = re.compile(r"%([^%]+)%")


class SettingsError(ValueError):
    """Raised when local.settings.json cannot be read as settings."""


class UnresolvedSettingError(LookupError):
    """Raised when a %SETTING% names no setting."""


def load_settings(path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the app. The environment wins, a missing file is an empty one."""
    return _values(path) | dict(environment)


def _values(path: Path) -> dict[str, str]:
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise SettingsError(f"{path.name} is not JSON: {error}") from error
    values = document.get("Values", {}) if isinstance(document, dict) else None
    if not isinstance(values, dict):
        raise SettingsError(f'{path.name} holds no object "Values": write {{"IsEncrypted": false, "Values": {{}}}}')
    if document.get("IsEncrypted"):
        raise SettingsError(f"{path.name} is encrypted: run `func settings decrypt` first")
    if nested := [name for name, value in values.items() if isinstance(value, dict | list)]:
        raise SettingsError(f"{path.name}: {nested[0]} is not plain text: settings are flat, write a string")
    return {name: _text(value) for name, value in values.items() if value is not None}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def expand(text: str, settings: Mapping[str, str]) -> str:
    """Replace every %SETTING%. Names are case-insensitive, as the host's are."""

    def value(match: re.Match[str]) -> str:
        found = lookup(match[1], settings)
        if not found:
            raise UnresolvedSettingError(f"'{match[0]}' does not resolve to a value: add the setting {match[1]}")
        return found

    return _REFERENCE.sub(value, text)


def lookup(name: str, settings: Mapping[str, str]) -> str:
    """Return the setting, in any case and with `:` or `__` between its parts. The value is empty without one."""
    if name in settings:
        return settings[name]
    wanted = _key(name)
    return next((value for key, value in settings.items() if _key(key) == wanted), "")


def _key(name: str) -> str:
    return name.replace("__", ":").lower()


def connection_string(setting: str, settings: Mapping[str, str]) -> str:
    """Return the setting that a binding's `connection` names: the setting itself, or the one with the prefix AzureWebJobs."""
    setting = setting or HOST_STORAGE
    names = (setting, f"AzureWebJobs{setting}")
    for name in names:
        if found := lookup(name, settings):
            return found
    for name in names:
        if any(lookup(f"{name}__{part}", settings) for part in _IDENTITY_PARTS):
            raise ConnectionMissingError(
                f"connection {setting!r} is set as {name}__…, which is an identity: "
                f"the local stand-ins take connection strings, set {setting} to one"
            )
    raise ConnectionMissingError(f"connection {setting!r} is missing or empty: set {names[0]} or {names[1]}")


def is_disabled(function: str, settings: Mapping[str, str]) -> bool:
    """Return true if one of the three spellings of the disabling setting is on."""
    names = (
        f"AzureWebJobs.{function}.Disabled",
        f"AzureWebJobs_{function}_Disabled",
        f"AzureWebJobs__{function}__Disabled",
    )
    return any(lookup(name, settings).strip().lower() in {"true", "1"} for name in names)
