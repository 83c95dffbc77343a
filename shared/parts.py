"""The choice of the console, a part that an installation may have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Set by Azure where its login (Easy Auth) guards the app.
AUTH_ENABLED: Final = "WEBSITE_AUTH_ENABLED"


@dataclass(frozen=True, slots=True)
class ConsoleChoice:
    """The choice of the console as a function of the app."""

    is_on: bool
    #: Why it is left out although somebody wants it. Empty: it is not wanted, or it is there.
    refusal: str = ""


def choose_console(environ: Mapping[str, str]) -> ConsoleChoice:
    """Return the choice. A fault in it leaves out the console and is no error: a login page must not stop the work."""
    wanted = environ.get("SLUICE_CONSOLE", "").strip().lower() or "off"
    if wanted not in {"off", "on"}:
        return ConsoleChoice(is_on=False, refusal=f"SLUICE_CONSOLE is {wanted!r}, expected off or on")
    # Azure sets it to `True` or `true` where its login is on.
    if wanted == "on" and environ.get(AUTH_ENABLED, "").strip().lower() != "true":
        refusal = f"SLUICE_CONSOLE is on and {AUTH_ENABLED} is not true: without Azure's login anybody could be anybody"
        return ConsoleChoice(is_on=False, refusal=refusal)
    return ConsoleChoice(is_on=wanted == "on")
