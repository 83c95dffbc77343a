"""Registers the functions of a capability: one branch for each kind of trigger. Their names are in its `triggers`."""

from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any, List

import azure.functions as func

from shared.app import Takeovers
from shared.capability import DeadLetter, HttpAnswer, HttpCall, Trigger, TriggerKind
from shared.messages import Delivery
from shared.telemetry import discreet


def blueprint(triggers: Sequence[Trigger], verbs: Any, takeovers: Takeovers) -> func.Blueprint:
    """Return the blueprint that registers a function for each trigger."""
    functions = func.Blueprint()
    for trigger in triggers:
        verb = getattr(verbs, trigger.verb)
        if trigger.kind is TriggerKind.QUEUE:
            _of_queue(functions, trigger, verb, takeovers)
        else:
            _BRANCHES[trigger.kind](functions, trigger, verb)
    return functions


def _of_queue(
    functions: func.Blueprint, trigger: Trigger, verb: Callable[[Delivery], object], takeovers: Takeovers
) -> None:
    @functions.function_name(trigger.name)
    @functions.queue_trigger(
        arg_name="message",
        queue_name=trigger.source,
        connection="SluiceStorage",
        data_type=func.DataType.BINARY,  # so that the host passes the sender's body on unchanged
    )
    def of_queue(message: func.QueueMessage) -> None:
        count, body = message.dequeue_count or 1, message.get_body()
        name, receipt = message.id or "", message.pop_receipt or ""
        with discreet():
            takeovers.handle(
                Delivery(queue=trigger.source, message_id=name, body=body, count=count, receipt=receipt), verb
            )


def _of_bus(functions: func.Blueprint, trigger: Trigger, verb: Callable[[list[bytes]], object]) -> None:
    def of_bus(messages: List[func.ServiceBusMessage]) -> None:
        with discreet():
            verb([message.get_body() for message in messages])

    _listen(functions, trigger, of_bus)


def _of_dead_letters(functions: func.Blueprint, trigger: Trigger, verb: Callable[[list[DeadLetter]], object]) -> None:
    def of_dead_letters(messages: List[func.ServiceBusMessage]) -> None:
        with discreet():
            verb([_letter(one) for one in messages])

    _listen(functions, trigger, of_dead_letters)


def _listen(functions: func.Blueprint, trigger: Trigger, function: Callable[..., None]) -> None:
    batches: dict[str, Any] = {
        "arg_name": "messages",
        "connection": "SluiceBus",
        "cardinality": func.Cardinality.MANY,
        # A batch is then of one session, in its order.
        "is_sessions_enabled": trigger.sessions or None,
        "data_type": func.DataType.BINARY,  # with MANY the host would parse and rewrite bodies of any other type
    }
    if trigger.subscription:
        register = functions.service_bus_topic_trigger(
            topic_name=trigger.source, subscription_name=trigger.subscription, **batches
        )
    else:
        register = functions.service_bus_queue_trigger(queue_name=trigger.source, **batches)
    functions.function_name(trigger.name)(register(function))


def _letter(one: func.ServiceBusMessage) -> DeadLetter:
    why = one.dead_letter_reason or one.application_properties.get("DeadLetterReason") or "no reason is given"
    return DeadLetter(one.dead_letter_source or "", one.message_id or "", one.get_body(), str(why))


def _of_bus_delivery(functions: func.Blueprint, trigger: Trigger, verb: Callable[[Delivery], object]) -> None:
    @functions.function_name(trigger.name)
    @functions.service_bus_queue_trigger(
        arg_name="message",
        connection="SluiceBus",
        queue_name=trigger.source,
        data_type=func.DataType.BINARY,  # so that the host passes the sender's body on unchanged
    )
    def of_bus_delivery(message: func.ServiceBusMessage) -> None:
        count, name, body = message.delivery_count or 1, message.message_id or "", message.get_body()
        with discreet():
            # As a destination of the bus names it: storage may have a queue of this name, too.
            verb(Delivery(queue=f"bus:{trigger.source}", message_id=name, body=body, count=count))


def _of_http(functions: func.Blueprint, trigger: Trigger, verb: Callable[[HttpCall], Any]) -> None:
    level = func.AuthLevel.ANONYMOUS if trigger.is_open else func.AuthLevel.FUNCTION
    register = functions.route(route=trigger.source, methods=list(trigger.methods), auth_level=level)

    async def of_http_async(req: func.HttpRequest) -> func.HttpResponse:
        with discreet():
            return make_reply(await verb(read_call(req)))

    def of_http(req: func.HttpRequest) -> func.HttpResponse:
        with discreet():
            return make_reply(verb(read_call(req)))

    function = of_http_async if iscoroutinefunction(verb) else of_http
    functions.function_name(trigger.name)(register(function))


def read_call(req: func.HttpRequest) -> HttpCall:
    """Return a request as verbs take it."""
    return HttpCall(
        method=req.method,
        url=req.url,
        headers=req.headers,
        places=req.route_params,
        query=req.params,
        body=req.get_body(),
    )


def make_reply(answer: HttpAnswer) -> func.HttpResponse:
    """Return an answer as the host wants it."""
    reply = func.HttpResponse(answer.body, status_code=answer.status)
    for name, value in answer.headers.items() if isinstance(answer.headers, Mapping) else answer.headers:
        reply.headers.add(name, value)
    return reply


_BRANCHES = {
    TriggerKind.BUS: _of_bus,
    TriggerKind.BUS_DELIVERY: _of_bus_delivery,
    TriggerKind.DEAD_LETTERS: _of_dead_letters,
    TriggerKind.HTTP: _of_http,
}
