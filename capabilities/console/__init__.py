"""The pages that show what Sluice does, as one WSGI application. `sluice web` serves them on this machine,
and the function `console` in Azure, behind Azure's login.

Reading order:

- `app`: the application, from a request to a reply
- `guard`, `session`, `azure_login`: what is refused, and who a person is
- `flows`, `function`: the application as a function of the app
- `render`: templates, and the text of others made harmless
- `snapshot`: what all tabs share, each part read once
- `pages`: one module for each page

The app imports this module at its start, and none of the others before the first visit.
"""

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
