"""A list that a person watches: it is shown again each few seconds. It imports nothing that draws."""

import inspect
import io
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from functools import wraps
from typing import Annotated, Any, Final

import typer

#: Seconds between two readings of a list that is watched.
_AGAIN: Final = 5.0
#: Goes to the first line, and removes what is below it.
_IN_PLACE: Final = "\x1b[H\x1b[J"
_WATCH: Final = inspect.Parameter(
    "watch",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--watch", help=f"Show it again each {_AGAIN:.0f} seconds, until Ctrl-C. Each time it reads again."
        ),
    ],
)


class _Kept(io.StringIO):
    """Keeps what is printed, for a terminal if that is one."""

    def __init__(self, is_terminal: bool) -> None:  # noqa: FBT001 - what it is
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Return whether a person reads it."""
        return self._is_terminal


def watchable(show: Callable[..., None]) -> Callable[..., None]:
    """Return the command with `--watch`: in a terminal one list in place, in a pipe one below the other."""

    @wraps(show)
    def command(*, watch: bool, **options: Any) -> None:
        if not watch:
            show(**options)
            return
        with suppress(KeyboardInterrupt):
            while True:
                kept = _Kept(sys.stdout.isatty())
                # A status of the list is for a script, which does not watch.
                with redirect_stdout(kept), suppress(typer.Exit):
                    show(**options)
                sys.stdout.write((_IN_PLACE if kept.isatty() else "") + kept.getvalue())
                sys.stdout.flush()
                time.sleep(_AGAIN)

    known = inspect.signature(show)
    command.__signature__ = known.replace(parameters=[*known.parameters.values(), _WATCH])  # type: ignore[attr-defined]
    command.__annotations__ = {**show.__annotations__, _WATCH.name: _WATCH.annotation}
    return command
