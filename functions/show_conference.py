"""Shows which seats a conference has left."""

import azure.functions as func

from shared.app import RegistrationPart
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `show_conference`."""
    functions = func.Blueprint()

    @functions.route(route="conferences/{conference}", methods=["GET"], auth_level=func.AuthLevel.FUNCTION)
    async def show_conference(req: func.HttpRequest) -> func.HttpResponse:
        with discreet():
            answer = await part.desk.show_conference(req.route_params["conference"], req.headers.get("If-None-Match"))
        return func.HttpResponse(answer.body, status_code=answer.status, headers=answer.headers)

    return functions
