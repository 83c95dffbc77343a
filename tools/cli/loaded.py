"""Loads the workloads of a command: user code, which may raise anything."""

from collections.abc import Mapping

from shared.errors import SluiceError
from shared.workloads import Workloads
from tools.cli.options import WRONG_CALL, end


def load_workloads(named: str, settings: Mapping[str, str]) -> Workloads:
    """Return the workloads that a text names, as the app loads them, or end the command."""
    try:
        return Workloads.load(named, settings)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code, which may raise anything
        said = str(error) if isinstance(error, SluiceError) else f"{type(error).__name__}: {error}"
        end(said if isinstance(error, SluiceError) else f"{named} cannot be loaded: {said}", WRONG_CALL)
