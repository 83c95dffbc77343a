"""Checkov in an environment of its own below .stack: its hundred packages have no place among the project's."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tools.local.errors import SetupError
from tools.local.paths import STACK, venv_python

LOCK: Final = Path(__file__).with_name("requirements.txt")
_HOME: Final = STACK / "checkov"
_STAMP: Final = _HOME / ".sluice-stamp"
#: What passed: nothing that is the same has to be looked at again, for that takes ten seconds.
_PASSED: Final = _HOME / "passed.json"


def is_installed() -> bool:
    """Return true if the version of the lock is installed."""
    return _STAMP.exists() and _STAMP.read_text() == _wanted()


def ensure() -> Path:
    """Install it as the lock says if it is not there, and return its command."""
    if not is_installed():
        print("sluice: installing checkov …", file=sys.stderr, flush=True)
        uv = [sys.executable, "-m", "uv"]
        _run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(_HOME)])
        _run([*uv, "pip", "install", "--quiet", "--no-deps", "--python", str(venv_python(_HOME)), "-r", str(LOCK)])
        _STAMP.write_text(_wanted())
    return venv_python(_HOME).with_name("checkov")


def look(folder: Path) -> dict[str, Any]:
    """Return checkov's report on a folder's Bicep, with its configuration: `summary` and `results`."""
    digest = _digest(LOCK, *sorted(folder.rglob("*.bicep")), folder / ".checkov.yaml")
    if _PASSED.exists() and (kept := json.loads(_PASSED.read_text())).get("digest") == digest:
        said: dict[str, Any] = kept["said"]
        return said
    command = [str(ensure()), "--directory", str(folder), "--config-file", str(folder / ".checkov.yaml")]
    done = _run([*command, "--output", "json", "--compact", "--skip-download", "--soft-fail"])
    said = json.loads(done)
    if not said["results"]["failed_checks"] and not said["summary"]["parsing_errors"]:
        _PASSED.write_text(json.dumps({"digest": digest, "said": said}))
    return said


def _wanted() -> str:
    return f"{sys.version} {_digest(LOCK)}"


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _run(command: list[str]) -> str:
    # Telemetry of the tool's own stays off.
    environment = {**os.environ, "BC_SKIP_MAPPING": "TRUE", "LOG_LEVEL": "ERROR"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        last = " ".join((done.stderr or done.stdout).split())[-300:]
        raise SetupError(f"`{Path(command[0]).name}` failed with exit status {done.returncode}: {last}")
    return done.stdout
