"""Messages between the parts of the host: an indexed function, an invocation's outcome, a listener.

Listeners know how messages arrive and are settled; the invoker knows how a function is called. They meet only here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from azure.functions.meta import Datum


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding as `function.json` would hold it, with every %SETTING% replaced."""

    type: str
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexedFunction:
    """A function of the app that the host accepted."""

    name: str
    trigger: Binding
    outputs: tuple[Binding, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one invocation ended. `error` is what the host would log, `returned` is for HTTP only."""

    ok: bool
    error: str = ""
    returned: Datum | None = None


class Invoke(Protocol):
    """Run one function to its end. Never raises because of user code. A timeout is an outcome too."""

    async def __call__(self, function: str, trigger: Datum, metadata: Mapping[str, Datum]) -> Outcome:
        """Return when the function has returned, failed or timed out."""
        ...


class WriteOutputs(Protocol):
    """Write what a function gave to its output bindings, before its trigger is settled.

    It raises when any write failed: that fails the invocation, and writes that went before it are not taken back.
    """

    async def __call__(self, function: IndexedFunction, values: Mapping[str, Datum]) -> None:
        """Write every value. The key is the binding's name, `$return` included, absent means nothing was set."""
        ...


class ConnectionMissingError(LookupError):
    """Raised when no setting holds the connection string that a binding names."""


class Connect(Protocol):
    """Find the connection string that a binding's `connection` names. Empty means the host's own storage."""

    def __call__(self, setting: str) -> str:
        """Return it, or raise `ConnectionMissingError` saying which settings were looked for."""
        ...


class Listener(Protocol):
    """Turns arriving messages, times or requests into invocations for one function."""

    async def run(self) -> None:
        """Listen until `stop` is called and what was in flight has ended."""
        ...

    def stop(self) -> None:
        """Take nothing new. What is in flight may end."""
        ...
