"""Messages between the processes of one host, as small files in one folder.

Files and not sockets: what a killed instance last said can still be read.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Requests = Counter[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one running host."""

    path: Path

    @property
    def address(self) -> Path:
        """Where the supervisor writes the port it listens on."""
        return self.path / "address.json"

    @property
    def plan(self) -> Path:
        """Where the supervisor writes which instances there should be, and their groups."""
        return self.path / "plan.json"

    @property
    def index(self) -> Path:
        """Where the first instance writes the names of the app's functions by trigger."""
        return self.path / "functions.json"

    def clear(self) -> None:
        """Forget an earlier host that ran in the same folder, and make the places for this one's files."""
        for part in ("instances", "requests"):
            (self.path / part).mkdir(parents=True, exist_ok=True)
        for path in (self.address, self.plan, self.index, *self.path.glob("*.sock"), *self.path.glob("*/*.json")):
            path.unlink(missing_ok=True)

    def socket(self, group: str) -> Path:
        """Return where the instances of a group take administrative requests."""
        return self.path / f"{group.replace(':', '-')}.sock"

    def instance(self, name: str) -> Path:
        """Return where an instance says how it is."""
        return self.path / "instances" / f"{name}.json"

    def instances(self) -> dict[str, dict[str, Any]]:
        """Return the last report of every instance, by name. The supervisor removes the files of a dead one."""
        return {path.stem: read(path) for path in sorted((self.path / "instances").glob("*.json"))}

    def write_requests(self, requests: Requests) -> None:
        """Save this process's own count. It outlives the process."""
        rows = [[*key, count] for key, count in sorted(requests.items())]
        write(self.path / "requests" / f"{os.getpid()}.json", rows)

    def requests(self) -> Requests:
        """Return the sum over every process that ever ran in this folder."""
        total: Requests = Counter()
        for path in (self.path / "requests").glob("*.json"):
            for requester, service, method, count in read(path) or ():
                total[requester, service, method] += count
        return total


def read(path: Path) -> Any:
    """Return the file's content, None when it is gone."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def write(path: Path, content: Mapping[str, Any] | list[Any]) -> None:
    """Replace the file as a whole, so that no reader sees half of it.

    Where the folder is gone there is no reader any more: an instance that outlives its host for a moment must not bring it back.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        scratch.write_text(json.dumps(content), encoding="utf-8")
        scratch.replace(path)
