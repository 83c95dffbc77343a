"""The logs of the stack's parts: each start has its own, removed at a good end and kept at a bad one."""

import tempfile
from pathlib import Path

from tools.local.paths import LOGS


def new_log(part: str) -> Path:
    """Return an empty log of this part, without another writer."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix=f"{part}-", suffix=".log", dir=LOGS, delete=False) as log:
        return Path(log.name)
