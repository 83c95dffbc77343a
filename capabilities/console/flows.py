"""The verb of the console. A process without visitors loads nothing of its pages."""

from shared.app import BuildSite
from shared.capability import HttpAnswer, HttpCall


class ConsolePages:
    """The console over the stores of one installation."""

    def __init__(self, site: BuildSite[None]) -> None:
        self._stores, self._settings = site.stores, site.settings

    def answer(self, call: HttpCall) -> HttpAnswer:
        """Show a page to a person whom Azure's login let in."""
        from console.function import answer  # noqa: PLC0415 - templates are loaded at the first visit

        return answer(self._stores, self._settings, call)
