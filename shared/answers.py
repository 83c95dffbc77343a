"""What becomes of a storage service that does not answer: one error that says what was tried."""

from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import AzureError

from shared.errors import StorageUnavailableError


@contextmanager
def expecting_an_answer(tried: str) -> Iterator[None]:
    """Turn the library's failures into StorageUnavailableError; handle expected refusals inside the block."""
    try:
        yield
    except AzureError as error:
        code = getattr(error, "error_code", None)
        reason = getattr(code, "value", code) or type(error).__name__
        raise StorageUnavailableError(
            f"could not {tried}: {reason}; check the storage account, then try again"
        ) from error
