"""What becomes of a storage service that does not answer: one error that says what was tried."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Final, Self

from azure.core.exceptions import AzureError, ClientAuthenticationError, IncompleteReadError, ServiceResponseError
from azure.core.pipeline.transport import HttpTransport

from shared.errors import StorageUnavailableError

#: Answers of a service that wants another login, or a role that this one does not have.
_NOT_YOU: Final = frozenset({401, 403})


class WholeReplies(HttpTransport[Any, Any]):
    """Passes on to a transport; a reply that ends in its middle is one that did not come.

    The table library takes such an error for a refusal, looks for the reply that it has not, and fails with an
    AttributeError, which nobody who handles its errors expects. And it reads the reply to a transaction only after
    the transport has returned, where the end in the middle is an error of the connection's library; so only blobs,
    whose library expects that, are left to be read in pieces.
    """

    def __init__(
        self, transport: HttpTransport[Any, Any], look: Callable[[Any], object] | None = None, *, in_pieces: bool = True
    ) -> None:
        """Pass on to the transport; `look` sees every reply, also those that the library's retry policy takes."""
        self._transport, self._look, self._in_pieces = transport, look or _look_away, in_pieces

    def send(self, request: Any, **options: Any) -> Any:
        """Send, and return a reply that is whole, or a blob's that is still to be read."""
        if not self._in_pieces:
            options["stream"] = False
        try:
            reply = self._transport.send(request, **options)
        except IncompleteReadError as error:
            raise ServiceResponseError(f"the reply to {request.method} ended in its middle", error=error) from error
        self._look(reply)
        return reply

    def open(self) -> None:
        """Open the connections."""
        self._transport.open()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(kind, error, trace)


def told_at(reply: Any) -> datetime | None:
    """Return the time at which a service says that it made this reply, in whole seconds; None where it does not say."""
    said = reply.http_response.headers.get("Date")
    try:
        moment = parsedate_to_datetime(said) if said else None
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment else None


def _look_away(_reply: Any) -> None:
    """See nothing."""


@contextmanager
def expecting_an_answer(tried: str) -> Iterator[None]:
    """Turn the library's failures into StorageUnavailableError; handle expected refusals inside the block."""
    try:
        yield
    except AzureError as error:
        code = getattr(error, "error_code", None)
        reason = getattr(code, "value", code) or type(error).__name__
        check = "whether you are logged in and have the role" if is_refused(error) else "the storage account"
        raise StorageUnavailableError(f"could not {tried}: {reason}; check {check}, then try again") from error


def is_refused(error: AzureError) -> bool:
    """Whether the service answered, but not to this login."""
    return isinstance(error, ClientAuthenticationError) or getattr(error, "status_code", None) in _NOT_YOU
