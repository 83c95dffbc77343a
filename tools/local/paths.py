"""Where the project's own parts are on this machine. Standard library only: it is read before anything is installed."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The two packages of the local stack that stand on their own: they know nothing of Sluice.
PACKAGES = tuple(ROOT / "tools" / "packages" / name for name in ("functions-local-host", "servicebus-local"))
#: Everything that `make` installs or writes, beside the virtual environment; `make clean` removes both.
STACK = ROOT / ".stack"
VENV = ROOT / ".venv"
#: What a person types once in a terminal, so that it finds the `sluice` command; the pages say the same.
ACTIVATE = ". .venv/bin/activate"
LOGS = STACK / "logs"
AZURITE = STACK / "azurite"
AZURITE_SCRIPT = AZURITE / "node_modules" / "azurite" / "dist" / "src" / "azurite.js"
#: The JavaScript SDKs of tests/others, only where `make others` ran.
OTHERS = STACK / "others"
#: Go and Microsoft's storage clients for it, only where `make others` ran on a Debian.
GO = STACK / "go"
#: Microsoft's AMQP library for C, only where `make others` ran with Python 3.12 or earlier.
C_LIBRARY = STACK / "c"
#: An environment with other people's Python libraries for the bus, only where `make others` ran.
LIBRARIES = STACK / "libraries"
#: An environment with Microsoft's worker library, only where `make up WORKER=microsoft` or `make others` ran.
WORKER = STACK / "worker"
#: An environment with the packages that are deployed, only where `make deploy` ran.
APP = STACK / "app"
#: What checks the pages of the console in a browser, only where `make setup ARGS=--browser` ran.
BROWSER = STACK / "browser"
#: Written last by each step of an installation: what is without it is not installed.
STAMP = ".sluice-stamp"


def venv_python(venv: Path = VENV) -> Path:
    """Return the interpreter of a virtual environment."""
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
