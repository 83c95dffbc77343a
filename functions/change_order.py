"""Changes the seats of a customer's order."""

import azure.functions as func

from shared.app import RegistrationPart
from shared.registration import ACCESS_CODE_HEADER
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `change_order`."""
    functions = func.Blueprint()

    @functions.route(route="orders/{order}", methods=["PATCH"], auth_level=func.AuthLevel.FUNCTION)
    async def change_order(req: func.HttpRequest) -> func.HttpResponse:
        name, code = req.route_params["order"], req.headers.get(ACCESS_CODE_HEADER, "")
        with discreet():
            answer = await part.desk.change(name, code, req.headers.get("If-Match"), req.get_body())
        return func.HttpResponse(answer.body, status_code=answer.status, headers=answer.headers)

    return functions
