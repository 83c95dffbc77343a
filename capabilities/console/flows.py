"""The verb of the console. A process without visitors loads nothing of its pages."""

from threading import Lock
from typing import Any

from shared.app import BuildSite
from shared.capability import HttpAnswer, HttpCall


class ConsolePages:
    """The console over the stores of one installation."""

    def __init__(self, site: BuildSite[None]) -> None:
        self._stores, self._settings = site.stores, site.settings
        # Made at the first visit, once for all threads of the host.
        self._application: Any = None
        self._building = Lock()

    def answer(self, call: HttpCall) -> HttpAnswer:
        """Show a page to a person whom Azure's login let in."""
        from capabilities.console.function import build_application, send  # noqa: PLC0415 - templates are loaded at the first visit

        with self._building:
            if self._application is None:
                self._application = build_application(self._stores, self._settings)
        return send(self._application, call)
