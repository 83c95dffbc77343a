"""Shows an order to its customer, by its id or its number, and waits for news of it."""

import azure.functions as func

from shared.app import RegistrationPart
from shared.registration import ACCESS_CODE_HEADER
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `show_order`."""
    functions = func.Blueprint()

    @functions.route(route="orders/{order}", methods=["GET"], auth_level=func.AuthLevel.FUNCTION)
    async def show_order(req: func.HttpRequest) -> func.HttpResponse:
        name, code = req.route_params["order"], req.headers.get(ACCESS_CODE_HEADER, "")
        with discreet():
            answer = await part.desk.show(name, code, req.headers.get("If-None-Match"), req.params)
        return func.HttpResponse(answer.body, status_code=answer.status, headers=answer.headers)

    return functions
