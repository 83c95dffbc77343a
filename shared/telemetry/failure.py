"""Errors as a log may show them: what kind and where, and their words only where nobody else's are in them."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Final

from shared.errors import AttemptFailedError, SluiceError

#: Frames that are shown, from where it was raised outwards.
_FRAMES: Final = 5


def told(error: BaseException) -> str:
    """Return what the error says, or its kind alone where a payload could be in its words.

    Whatever a workload or a library raises may quote what it was given: `invalid literal for int(): '…'`.
    """
    kind = type(error).__name__
    return f"{kind}: {error}" if isinstance(error, SluiceError) and error.quotes_nobody else kind


def place(error: BaseException) -> str:
    """Return the functions that an error came through, the innermost first, without any value."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return " < ".join(f"{PurePath(one.filename).name}:{one.lineno} {one.name}" for one in reversed(frames))


@contextmanager
def discreet() -> Iterator[None]:
    """Let the host see a failure in words that it may log; it logs all that it is given."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, a host would log its words
        raise AttemptFailedError(f"{told(error)} at {place(error)}; it is tried again") from None
