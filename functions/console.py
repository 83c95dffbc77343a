"""Shows the console to a person whom Azure's login let in. A process without visitors loads nothing of it."""

import azure.functions as func

from shared.app import App
from shared.telemetry import discreet


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `console`."""
    functions = func.Blueprint()

    # Anonymous for the host: the pages require Azure's login by themselves, and no key is needed.
    @functions.route(route="console/{*path}", methods=["GET", "HEAD", "POST"], auth_level=func.AuthLevel.ANONYMOUS)
    def console(req: func.HttpRequest) -> func.HttpResponse:
        from console.function import answer  # noqa: PLC0415 - templates are loaded at the first visit

        with discreet():
            return answer(app, req)

    return functions
