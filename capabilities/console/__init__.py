"""The console as a function of the app: the pages of the package `console`, behind Azure's login."""

from typing import Final

from shared.capability import Capability, http
from shared.values import SettingReader

#: Set by Azure where its login (Easy Auth) guards the app.
AUTH_ENABLED: Final = "WEBSITE_AUTH_ENABLED"


def _check_login(read: SettingReader) -> None:
    # Azure sets it to `True` or `true` where its login is on.
    if read.environ.get(AUTH_ENABLED, "").strip().lower() != "true":
        read.report(f"{AUTH_ENABLED} is not true: without Azure's login a visitor could claim any name")


CAPABILITY: Final = Capability(
    name="console",
    read=_check_login,
    # Open for the host: the pages require Azure's login by themselves, and no key is needed.
    triggers=lambda _: (http("console", "console/{*path}", "GET HEAD POST", "answer", is_open=True),),
    build=".flows:ConsolePages",
    # A login page must not stop the work.
    may_fail=True,
)
