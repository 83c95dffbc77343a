"""Which functions listen in which process, and the orders of one instance at its start."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

#: The group that takes HTTP requests; without `--flex` it holds every function.
HTTP = "http"


#: Whose worker runs user code: this host's own, Microsoft's library in its process, or that in a process of its own.
WORKERS = ("local", "microsoft", "grpc")


class Exit(IntEnum):
    """Why an instance ended."""

    DRAINED = 0
    START_REFUSED = 2
    TIMED_OUT = 3
    LISTENER_FAILED = 4
    DRAIN_LIMIT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HostArguments:
    """The command line of a host, the same for all its instances."""

    app: str
    run_folder: str
    is_flex: bool = False
    #: None: HTTP keys are not required, as with `func`
    keys: str | None = None
    message_lease: float = 600.0
    #: None: what host.json says
    timer_lease: float | None = None
    timer_retry: float | None = None
    drain_seconds: float = 30.0
    longest_pause: float = 30.0
    is_verbose: bool = False
    #: One of `WORKERS`.
    worker: str = "local"
    #: What the worker `grpc` starts; None: Microsoft's library, by `functions_local_host.worker_process`.
    worker_process: str | None = None
    #: Where an editor attaches to the first instance; None: nowhere.
    debug_port: int | None = None


@dataclass(frozen=True, slots=True)
class InstanceArguments:
    """The orders of one instance."""

    name: str
    group: str
    socket: int
    host: HostArguments

    def to_json(self) -> str:
        """Return the form that travels on the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "InstanceArguments":
        """Return the orders that `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        return cls(fields["name"], fields["group"], fields["socket"], HostArguments(**fields["host"]))


def group_of(function: str, trigger: str, *, is_flex: bool) -> str:
    """Return the group that listens for a function: on Flex every function but HTTP ones scales alone."""
    return f"function:{function}" if is_flex and trigger != "httpTrigger" else HTTP


def groups(triggers: Iterable[tuple[str, str]], *, is_flex: bool) -> list[str]:
    """Return every group for these (function, trigger) pairs, the HTTP group first."""
    found = {group_of(name, trigger, is_flex=is_flex) for name, trigger in triggers}
    return [HTTP, *sorted(found - {HTTP})]


def instance_name(group: str, number: int) -> str:
    """Return the name under which an instance appears in logs and status."""
    return f"{group.removeprefix('function:')}-{number}"
