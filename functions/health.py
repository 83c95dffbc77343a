"""Answers that this instance runs, for a load balancer or a person. Makes no storage request, so it costs nothing."""

import json

import azure.functions as func

from shared import __version__
from shared.app import App


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `health`."""
    functions = func.Blueprint()

    @functions.route(route="health", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    def health(req: func.HttpRequest) -> func.HttpResponse:  # noqa: ARG001 - the host binds it by this name
        state = {"status": "ok", "version": __version__, "workQueues": app.settings.work_queues}
        return func.HttpResponse(json.dumps(state), mimetype="application/json")

    return functions
