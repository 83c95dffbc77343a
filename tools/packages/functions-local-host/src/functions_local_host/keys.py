"""Access keys of HTTP functions: made at random on the first start, kept in one local file."""

import hmac
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: The header and the query parameter in which a caller gives a key.
HEADER, PARAMETER = "x-functions-key", "code"


class KeysError(ValueError):
    """Raised when the key file cannot be used."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The master key opens everything, the host key every function, a function key its own."""

    master: str
    host: str
    functions: dict[str, str] = field(default_factory=dict)

    def allows(self, level: str, function: str, given: str) -> bool:
        """Return true if the key suffices for a function of this level."""
        if level == "anonymous":
            return True
        accepted = [self.master]
        if level == "function":
            accepted += [self.host, *([self.functions[function]] if function in self.functions else [])]
        return any(hmac.compare_digest(given.encode(), key.encode()) for key in accepted)


def load_keys(path: Path, functions: Iterable[str]) -> Keys:
    """Return the keys of the file. Those that are missing are made and written, readable by the owner only."""
    stored = _read(path)
    own = stored.get("functions", {})
    keys = Keys(
        master=stored.get("master") or secrets.token_urlsafe(32),
        host=stored.get("host") or secrets.token_urlsafe(32),
        functions=own | {name: secrets.token_urlsafe(32) for name in functions if name not in own},
    )
    document = {"master": keys.master, "host": keys.host, "functions": keys.functions}
    if document != stored:
        _write(path, document)
    return keys


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise KeysError(f"the key file {path} is not JSON: {error}; delete it to have new keys made") from error
    if not isinstance(document, dict):
        raise KeysError(f"the key file {path} holds no object; delete it to have new keys made")
    return document


def _write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(document, file, indent=2)
    scratch.replace(path)
