"""Answers that this instance runs, for a load balancer or a person. Makes no storage request, so it costs nothing."""

import json

import azure.functions as func

from shared import __version__
from shared.app import App
from shared.telemetry import events


def blueprint(app: App | None) -> func.Blueprint:
    """Return the blueprint that registers `health`. Without an app it answers that the start was refused."""
    functions = func.Blueprint()

    @functions.route(route="health", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    def health(req: func.HttpRequest) -> func.HttpResponse:  # noqa: ARG001 - the host binds it by this name
        if app is None:
            # The request needs no key: the reason, which may quote settings, is in the log alone.
            refused = {"status": "refused", "version": __version__, "log": events.START_REFUSED.name}
            return func.HttpResponse(json.dumps(refused), status_code=503, mimetype="application/json")
        state = {"status": "ok", "version": __version__, "workQueues": app.settings.work_queues}
        return func.HttpResponse(json.dumps(state), mimetype="application/json")

    return functions
