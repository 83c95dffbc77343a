"""Takes a customer's new order: it is stored before the answer says so."""

import azure.functions as func

from shared.app import RegistrationPart
from shared.registration import IDEMPOTENCY_KEY_HEADER
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `place_order`."""
    functions = func.Blueprint()

    @functions.route(route="orders", methods=["POST"], auth_level=func.AuthLevel.FUNCTION)
    async def place_order(req: func.HttpRequest) -> func.HttpResponse:
        with discreet():
            answer = await part.desk.place(req.get_body(), req.headers.get(IDEMPOTENCY_KEY_HEADER))
        return func.HttpResponse(answer.body, status_code=answer.status, headers=answer.headers)

    return functions
